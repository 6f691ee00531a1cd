"""The topics of a run, and their creation through CreateTopics like any client."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from yak.sim.clients import Sender
from yak.sim.request_fields import Fields

CREATE_TOPICS = 19
MADE = (ErrorCode.none, ErrorCode.topic_already_exists)


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


def create_topics(channel: Sender, topics: list[Fields], retry_us: int, then: Callable[[], None]) -> None:
    """Retry until every topic exists; `then` is called once."""

    def answered(answer: Any | None) -> None:
        if answer is None or any(topic.error_code not in MADE for topic in answer.topics):
            channel.world.after(retry_us, lambda: create_topics(channel, topics, retry_us, then))
        else:
            then()

    fields = {"topics": topics, "timeout": dt.timedelta(seconds=5), "validate_only": False}
    channel.send(CREATE_TOPICS, 5, fields, answered)
