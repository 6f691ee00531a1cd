"""The plan of a topic: its replicas, its guarantees and its configs."""

from __future__ import annotations

from typing import NamedTuple


class TopicPlan(NamedTuple):
    """A topic of a run. `min_isr` is the lowest value that it ever has."""

    name: str
    partitions: int
    replication: int
    min_isr: int
    is_flushed: bool
    retention: tuple[tuple[str, str], ...] | None = None
    """Configs that make it delete old records; None if it keeps them. Its name then ends with `short`."""
    compaction: tuple[tuple[str, str], ...] | None = None
    """Configs of its compaction; None if it is not compacted."""
    allows_unclean: bool = False
    """Whether a replica outside of the ISR may be elected: then it keeps nothing, but must be written again."""
    compression: str | None = None
    """`compression.type`, by which the broker compresses again; None for what the producers send."""

    def on(self, brokers: int) -> TopicPlan:
        """The plan with as many replicas as so many brokers can have."""
        replication = min(self.replication, brokers)
        return self._replace(replication=replication, min_isr=min(self.min_isr, replication))

    def configs(self) -> dict[str, str]:
        configs = {"min.insync.replicas": str(self.min_isr), "segment.bytes": "4096"}
        configs |= dict(self.retention or ())
        if self.compaction is not None:
            policy = "compact" if self.retention is None else "compact,delete"
            configs |= {"cleanup.policy": policy, **dict(self.compaction)}
        if self.allows_unclean:
            configs["unclean.leader.election.enable"] = "true"
        if self.compression is not None:
            configs["compression.type"] = self.compression
        return configs | {"flush.messages": "1"} if self.is_flushed else configs

    @property
    def may_be_lost(self) -> bool:
        """Whether the loss of one disk may lose acknowledged records."""
        return self.min_isr < 2
