"""The delivery history per partition: the ground truth that the checks compare with the broker."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final

from yak.ids import LeaderEpoch, NodeId, Offset, TopicPartition
from yak.sim.history import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yak.sim.history import History
    from yak.sim.recorder import Recorder
    from yak.sim.seeded_random import SeededRandom

_NEWEST: Final = 100
"""Acknowledged records that a search by time is compared with: all of them would take too long."""
Values = dict[int, bytes]


class Violation(AssertionError):
    """An invariant is violated; the text says which one and where."""


class PartitionDeliveries:
    """One partition: the records sent, acknowledged and read, by offset."""

    def __init__(self) -> None:
        self.sent: dict[bytes, None] = {}
        self.acked: Values = {}
        self.seen: Values = {}
        self.floor = 0
        """Retention or DeleteRecords removed the records below it."""
        self.delete_before: float = 0
        """A DeleteRecords request named the records below it; infinity once one named the high watermark."""
        self.taken: Mapping[int, int] = {}
        """Offsets that compaction removed from some replica."""

    def is_due(self, offset: int) -> bool:
        """Whether a consumer that reads everything must find a record at the offset."""
        return offset >= self.floor and offset not in self.taken

    def unseen(self) -> list[int]:
        """Offsets that were acknowledged, not read yet, and are still due, in the order of their acknowledgements."""
        unread = self.acked.keys() - self.seen.keys()
        return [offset for offset in self.acked if offset in unread and self.is_due(offset)] if unread else []


class Deliveries:
    """The delivery history of all partitions.

    Every partition guarantees everything, until it lost more than its topic guarantees to survive. Only topics named
    `*short` delete old records; no other log may start above 0.
    """

    def __init__(self, history: History, topic_id: Callable[[str], object], recorder: Recorder) -> None:
        self._partitions: dict[TopicPartition, PartitionDeliveries] = {}
        self._producer_ids: dict[int, None] = {}
        self.counts: Counter[str] = Counter()
        self._history = history
        self._topic_id = topic_id
        self.recorder = recorder

    def _key(self, topic: str, partition: int) -> Key:
        return Key(self._topic_id(topic), partition)  # type: ignore[arg-type]

    def of(self, topic: str, partition: int) -> PartitionDeliveries:
        return self._partitions.setdefault(TopicPartition(topic, partition), PartitionDeliveries())

    def partitions(self) -> list[tuple[TopicPartition, PartitionDeliveries]]:
        """The history of all partitions that are not forfeited."""
        found = [(each, held) for each, held in self._partitions.items() if self.promises(*each)]
        for each, held in found:
            held.taken = self.taken(*each)
        return found

    def count(self, what: str, number: int = 1) -> None:
        """Add to a counter of the run's report."""
        self.counts[what] += number

    # ------------------------------------------------------------------------------------------------- guarantees

    def promises(self, topic: str, partition: int) -> bool:
        """Whether the partition is not forfeited."""
        forfeited = self._history.forfeited
        return not forfeited or self._key(topic, partition) not in forfeited

    def must_serve(self, topic: str, partition: int) -> bool:
        """Whether the partition must take writes after the faults."""
        return not self._history.is_given_up(self._key(topic, partition))

    def forgotten(self, topic: str, partition: int) -> int:
        """The offset below which a leader may not know the batches that a producer repeats.

        A leader that copied the log after records were deleted knows nothing of the producers of these records.
        """
        copies = self._history.copies.get(self._key(topic, partition), {})
        return max((copy.sequences_lost_below for copy in copies.values()), default=0)

    def taken(self, topic: str, partition: int) -> Mapping[int, int]:
        """Offsets that compaction removed from some replica, and when first, in simulated microseconds."""
        originals = self._history.originals.get(self._key(topic, partition))
        return {} if originals is None else originals.taken

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

    # ------------------------------------------------------------------------------------------------- producers

    def producer_id_given(self, producer_id: int) -> None:
        """The broker assigned this producer id, which it must never assign twice."""
        if producer_id in self._producer_ids:
            raise Violation(f"producer id {producer_id} was given twice")
        self._producer_ids[producer_id] = None

    def sent(self, topic: str, partition: int, values: list[bytes]) -> None:
        self.of(topic, partition).sent.update(dict.fromkeys(values))
        self.count("sent", len(values))
        self.recorder.sent((topic, partition), values)

    def acknowledged(self, topic: str, partition: int, base_offset: int, values: list[bytes]) -> None:
        """The broker acknowledged the values, from `base_offset` on. Only committed records may be acknowledged (I9)."""
        self.recorder.acknowledged(base_offset, values)
        if not self.promises(topic, partition):
            self.count("acknowledged in forfeited partitions", len(values))
            return
        acked = self.of(topic, partition).acked
        for offset, value in enumerate(values, base_offset):
            if acked.get(offset, value) != value:
                raise Violation(f"{topic}-{partition}@{offset} was acknowledged as {acked[offset]!r}, now as {value!r}")
            acked[offset] = value
        self.count("acknowledged", len(values))
        self._is_committed(topic, partition, base_offset + len(values) - 1, "acknowledged")

    def refused_for_good(self, values: list[bytes]) -> None:
        """The values were certainly not appended, and their producer does not send them again."""
        self.recorder.refused(values)
        self.count("refused for good", len(values))

    def lost_sequence(self, topic: str, partition: int) -> None:
        """The broker no longer knows the producer's last batch.

        A leader with a damaged log may not recognise a repeated batch: it refuses the batch, and no record is lost.
        The same holds for a leader that restarted after retention or DeleteRecords removed the repeated records: a
        snapshot has only the last batch of a producer.
        """
        if self._key(topic, partition) in self._history.rotten:
            self.count("sequence lost by damage")
        elif self.forgotten(topic, partition):
            self.count("sequence lost with deleted records")
        elif self.promises(topic, partition):
            raise Violation(f"{topic}-{partition}: a producer's acknowledged sequence is lost")
        else:
            self.count("sequence lost")

    # ------------------------------------------------------------------------------------------------- consumers

    def read(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        """The partition's own consumer read this record. Only committed records may be served (I9)."""
        if not self.promises(topic, partition):
            return
        held = self.of(topic, partition)
        where = f"{topic}-{partition}@{offset}"
        if offset >= high_watermark:
            raise Violation(f"{where} was read at or above the high watermark {high_watermark}")
        if value not in held.sent:
            raise Violation(f"{where} holds {value!r}, which no producer sent")
        if held.seen.get(offset, value) != value:
            raise Violation(f"{where} was read as {held.seen[offset]!r}, now as {value!r}")
        if held.acked.get(offset, value) != value:
            raise Violation(f"{where} was acknowledged as {held.acked[offset]!r}, but reads {value!r}")
        held.seen[offset] = value
        self.count("read")
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
        """A consumer got a batch with a wrong checksum, or not the next one.

        That is allowed only after a bit flipped or was read wrong; the consumer must detect it.
        """
        if not self._history.may_be_damaged:
            raise Violation(f"{topic}-{partition}@{offset}: the CRC does not hold, or it is not the next batch")
        self.count("damage noticed by consumers")

    def log_begins(self, topic: str, partition: int, log_start_offset: int) -> None:
        """The broker reported this log start offset. Only committed records may be deleted (I18)."""
        if not self.promises(topic, partition) or not log_start_offset:
            return
        held = self.of(topic, partition)
        if log_start_offset > held.floor:
            if not topic.endswith("short"):
                raise Violation(f"{topic}-{partition}: the records below {log_start_offset} were given up")
            held.floor = log_start_offset
            self.count("log starts moved")
        self._is_committed(topic, partition, log_start_offset - 1, "given up")

    def position_lost(self, topic: str, partition: int, position: int, log_start_offset: int) -> int:
        """A consumer's position is out of range, and the log starts at `log_start_offset`. Returns its new position."""
        self.count("positions given up")
        self.log_begins(topic, partition, log_start_offset)
        if position >= log_start_offset:
            if self.promises(topic, partition):
                raise Violation(f"{topic}-{partition}: position {position}, once readable, is out of range")
            self.count("positions lost")
        return log_start_offset

    # -------------------------------------------------------------------------------- requests about the delivered

    def draw_deletion(self, topic: str, partition: int, rng: SeededRandom) -> int:
        """The offset for a DeleteRecords request: the end of a batch, or -1 for the high watermark."""
        committed, held = self._history.committed.get(self._key(topic, partition)), self.of(topic, partition)
        if committed is None or not committed.ends or rng.chance(20):
            held.delete_before = inf
            return -1
        offset = rng.choice(committed.ends)
        held.delete_before = max(held.delete_before, offset)
        return offset

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
