"""The delivery history per partition: the ground truth that the checks compare with the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from yak.ids import TopicPartition
from yak.sim.seeded_random import SeededRandom

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

    def next_wanted(self) -> int:
        """The offset from which a consumer that lost its position misses nothing."""
        return min([max(self.seen, default=-1) + 1, *self.unseen()])


class Deliveries:
    """The delivery history of all partitions.

    Topics named `t-durable*` flush every record: no acknowledged one may be lost. In other topics a power loss may take
    unflushed records; `after_restart` gets the remaining log end. Only topics named `*short` delete old records; no
    other log may start above 0.
    """

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionDeliveries] = {}
        self._producer_ids: dict[int, None] = {}
        self.counts: Counter[str] = Counter()

    def of(self, topic: str, partition: int) -> PartitionDeliveries:
        return self._partitions.setdefault(TopicPartition(topic, partition), PartitionDeliveries())

    def count(self, what: str, number: int = 1) -> None:
        """Add to a counter of the run's report."""
        self.counts[what] += number

    def producer_id_given(self, producer_id: int) -> None:
        """The broker assigned this producer id, which it must never assign twice."""
        if producer_id in self._producer_ids:
            raise Violation(f"producer id {producer_id} was given twice")
        self._producer_ids[producer_id] = None

    def sent(self, topic: str, partition: int, values: list[bytes]) -> None:
        self.of(topic, partition).sent.update(dict.fromkeys(values))
        self.count("sent", len(values))

    def acknowledged(self, topic: str, partition: int, base_offset: int, values: list[bytes]) -> None:
        """The broker acknowledged the values, from `base_offset` on."""
        acked = self.of(topic, partition).acked
        for offset, value in enumerate(values, base_offset):
            if acked.get(offset, value) != value:
                raise Violation(f"{topic}-{partition}@{offset} was acknowledged as {acked[offset]!r}, now as {value!r}")
            acked[offset] = value
        self.count("acknowledged", len(values))

    def refused(self, error: str) -> None:
        """The broker refused a batch with a retriable error."""
        self.count(f"refused {error}")

    def promises(self, topic: str, partition: int) -> bool:  # noqa: ARG002
        """Whether no acknowledged record of this partition may ever be lost."""
        return topic.startswith("t-durable")

    def forgotten(self, topic: str, partition: int) -> int:  # noqa: ARG002
        """The offset below which a leader may not know the batches that a producer repeats."""
        return 0

    def lost_sequence(self, topic: str, partition: int) -> None:
        """The broker no longer knows the producer's last batch."""
        if self.promises(topic, partition):
            raise Violation(f"{topic}-{partition}: a producer's acknowledged sequence is lost")
        self.count("sequence lost")

    def read(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
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

    def damaged(self, topic: str, partition: int, offset: int) -> None:
        """A consumer got a batch with a wrong checksum, or not the next one."""
        raise Violation(f"{topic}-{partition}@{offset}: the CRC does not hold, or it is not the next batch")

    def log_begins(self, topic: str, partition: int, log_start_offset: int) -> None:
        held = self.of(topic, partition)
        if log_start_offset > held.floor:
            if not topic.endswith("short"):
                raise Violation(f"{topic}-{partition}: the records below {log_start_offset} were given up")
            held.floor = log_start_offset
            self.count("log starts moved")

    def draw_deletion(self, topic: str, partition: int, rng: SeededRandom) -> int:
        """The offset for a DeleteRecords request: -1 stands for the high watermark."""
        return -1 if rng.chance(30) else rng.between(0, max(self.of(topic, partition).acked, default=0))

    def position_lost(self, topic: str, partition: int, position: int, log_start_offset: int) -> int:
        """A consumer's position is out of range, and the log starts at `log_start_offset`. Returns its new position."""
        self.log_begins(topic, partition, log_start_offset)
        if position < log_start_offset:
            return log_start_offset
        if self.promises(topic, partition):
            raise Violation(f"{topic}-{partition}: position {position}, once readable, is out of range")
        self.count("positions lost")
        return log_start_offset

    def after_restart(self, topic_partition: TopicPartition, log_end_offset: int) -> None:
        """A broker has restarted with this log end: flushed topics must be complete, others are overwritten from there."""
        held = self._partitions.get(topic_partition)
        if held is None:
            return
        if topic_partition.topic.startswith("t-durable"):
            for values, verb in ((held.acked, "acknowledged"), (held.seen, "read")):
                gone = [offset for offset in values if offset >= log_end_offset]
                if gone:
                    raise Violation(f"{topic_partition}@{gone[0]} was {verb}, and is gone after a restart")
            return
        for values in (held.acked, held.seen):
            for offset in [offset for offset in values if offset >= log_end_offset]:
                del values[offset]
                self.count("unflushed, lost with the power")

    def partitions(self) -> list[tuple[TopicPartition, PartitionDeliveries]]:
        return list(self._partitions.items())
