"""The delivery history of a cluster's clients, and the guarantees of each kind of topic."""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from yak.ids import LeaderEpoch, NodeId, Offset, TopicPartition
from yak.sim.deliveries import Deliveries, PartitionDeliveries, Violation
from yak.sim.history import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yak.sim.history import History
    from yak.sim.recorder import Recorder
    from yak.sim.seeded_random import SeededRandom

_NEWEST: Final = 100
"""Acknowledged records that a search by time is compared with: all of them would take too long."""


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


class ClusterDeliveries(Deliveries):
    """Every partition guarantees everything, until it lost more than its topic guarantees to survive."""

    def __init__(self, history: History, topic_id: Callable[[str], object], recorder: Recorder) -> None:
        super().__init__()
        self._history = history
        self._topic_id = topic_id
        self.recorder = recorder

    def _key(self, topic: str, partition: int) -> Key:
        return Key(self._topic_id(topic), partition)  # type: ignore[arg-type]

    def promises(self, topic: str, partition: int) -> bool:
        """Whether the partition is not forfeited."""
        forfeited = self._history.forfeited
        return not forfeited or self._key(topic, partition) not in forfeited

    def must_serve(self, topic: str, partition: int) -> bool:
        """Whether the partition must take writes after the faults."""
        return not self._history.is_given_up(self._key(topic, partition))

    def lost_sequence(self, topic: str, partition: int) -> None:
        """A leader with a damaged log may not recognise a repeated batch: it refuses the batch, and no record is lost.

        The same holds for a leader that restarted after retention or DeleteRecords removed the repeated records: a
        snapshot has only the last batch of a producer.
        """
        key = self._key(topic, partition)
        if key in self._history.rotten:
            self.count("sequence lost by damage")
        elif any(copy.sequences_lost_below for copy in self._history.copies.get(key, {}).values()):
            self.count("sequence lost with deleted records")
        else:
            super().lost_sequence(topic, partition)

    def forgotten(self, topic: str, partition: int) -> int:
        """A leader that copied the log after records were deleted knows nothing of the producers of these records."""
        copies = self._history.copies.get(self._key(topic, partition), {})
        return max((copy.sequences_lost_below for copy in copies.values()), default=0)

    def partitions(self) -> list[tuple[TopicPartition, PartitionDeliveries]]:
        """The history of all partitions that are not forfeited."""
        found = [(each, held) for each, held in super().partitions() if self.promises(*each)]
        for each, held in found:
            held.taken = self.taken(*each)
        return found

    def taken(self, topic: str, partition: int) -> Mapping[int, int]:
        """Offsets that compaction removed from some replica, and when first, in simulated microseconds."""
        originals = self._history.originals.get(self._key(topic, partition))
        return {} if originals is None else originals.taken

    def sent(self, topic: str, partition: int, values: list[bytes]) -> None:
        super().sent(topic, partition, values)
        self.recorder.sent((topic, partition), values)

    def refused_for_good(self, values: list[bytes]) -> None:
        """The values were certainly not appended, and their producer does not send them again."""
        self.recorder.refused(values)
        self.count("refused for good", len(values))

    def acknowledged(self, topic: str, partition: int, base_offset: int, values: list[bytes]) -> None:
        """Only committed records may be acknowledged (I9)."""
        self.recorder.acknowledged(base_offset, values)
        if not self.promises(topic, partition):
            self.count("acknowledged in forfeited partitions", len(values))
            return
        super().acknowledged(topic, partition, base_offset, values)
        self._is_committed(topic, partition, base_offset + len(values) - 1, "acknowledged")

    def read(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        """Only committed records may be served (I9)."""
        if self.promises(topic, partition):
            super().read(topic, partition, offset, value, high_watermark)
            self._is_committed(topic, partition, offset, "read")

    def read_by_another(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        """A group member read this record. The partition's own consumer shows that every record is read."""
        if not self.promises(topic, partition):
            return
        if offset >= high_watermark:
            raise Violation(
                f"I9: {topic}-{partition}@{offset} was read at or above the high watermark {high_watermark}"
            )
        if value not in self.of(topic, partition).sent:
            raise Violation(f"I10: {topic}-{partition}@{offset} holds {value!r}, which no producer sent")
        self.count("read by members")
        self._is_committed(topic, partition, offset, "read")

    def damaged(self, topic: str, partition: int, offset: int) -> None:
        """A damaged batch is allowed only after a bit flipped or was read wrong; the consumer must detect it."""
        if not self._history.may_be_damaged:
            super().damaged(topic, partition, offset)
        self.count("damage noticed by consumers")

    def log_begins(self, topic: str, partition: int, log_start_offset: int) -> None:
        """Only committed records may be deleted (I18)."""
        if self.promises(topic, partition):
            super().log_begins(topic, partition, log_start_offset)
            if log_start_offset:
                self._is_committed(topic, partition, log_start_offset - 1, "given up")

    def draw_deletion(self, topic: str, partition: int, rng: SeededRandom) -> int:
        """The end of a batch, or the high watermark."""
        committed, held = self._history.committed.get(self._key(topic, partition)), self.of(topic, partition)
        if committed is None or not committed.ends or rng.chance(20):
            held.delete_before = inf
            return -1
        offset = rng.choice(committed.ends)
        held.delete_before = max(held.delete_before, offset)
        return offset

    def position_lost(self, topic: str, partition: int, position: int, log_start_offset: int) -> int:
        """The record at a consumer's position was deleted."""
        self.count("positions given up")
        return super().position_lost(topic, partition, position, log_start_offset)

    def first_since(self, topic: str, partition: int, timestamp_ms: int) -> Offset | None:
        """The first of the newest acknowledged records that certainly has this timestamp or a later one; None for none."""
        newest = islice(reversed(self.of(topic, partition).acked.items()), _NEWEST)
        return min(
            (
                offset
                for offset, value in newest
                if self.stays(topic, partition, offset) and self.recorder.sent_ms(value) >= timestamp_ms
            ),
            default=None,
        )

    def stays(self, topic: str, partition: int, offset: Offset) -> bool:
        """Whether a record is certainly in the log, as it was written: not expired, compacted, deleted or damaged."""
        may_go = topic.endswith("short") or topic in self._history.keyed or self._history.may_be_damaged
        return not may_go and offset >= self.of(topic, partition).delete_before

    def certain_epoch(self, topic: str, partition: int, node_id: NodeId | None) -> LeaderEpoch | None:
        """The epoch in which this broker leads the partition; None if it does not, or another leader has committed since."""
        key = self._key(topic, partition)
        copy = None if node_id is None else self._history.copies.get(key, {}).get(node_id)
        if copy is None or not copy.is_leader or self._history.committed_epoch.get(key, -1) > copy.leader_epoch:
            return None
        return copy.leader_epoch

    def committed_end(self, topic: str, partition: int) -> Offset:
        committed = self._history.committed.get(self._key(topic, partition))
        return 0 if committed is None else committed.end

    def _is_committed(self, topic: str, partition: int, offset: int, verb: str) -> None:
        end = self.committed_end(topic, partition)
        if offset >= end:
            raise Violation(f"I9: {topic}-{partition}@{offset} was {verb}, but only what is below {end} is committed")
