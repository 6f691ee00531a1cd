"""The check of an endless load: acknowledged records against read ones, counted while it runs. Pure.

A writer numbers the records of each partition 0, 1, 2, ... A reader sees each partition in offset order. A record that
is both acknowledged and read is counted and forgotten, so memory is bounded by the records in flight. For the same
history the counts equal those of `delivery.deliveries` once everything has been read.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from yak.ids import Offset, TopicPartition

_UNCONFIRMED_MAX: Final = 100_000
"""Limit of a partition's unacknowledged read records; later acknowledgements of older ones are not matched."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A partition, such as `orders-0`, without acknowledgements for a while. Times are `time.time()` in ms."""

    partition: str
    from_ms: float
    until_ms: float

    @property
    def length_ms(self) -> float:
        return self.until_ms - self.from_ms


@dataclass(slots=True)
class Counts:
    """Sums over all partitions.

    `waiting`: acknowledged and not read yet. `lost`: acknowledged, and the reader is past its position. `unconfirmed`:
    read without an acknowledgement to the writer. `read_again`: read a second time at the same offset, as after a
    rebalance. `strange`: not of this load.
    """

    acknowledged: int = 0
    read: int = 0
    waiting: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    moved: int = 0
    unconfirmed: int = 0
    read_again: int = 0
    strange: int = 0
    failed: int = 0
    oldest_waiting_ms: float = 0.0

    @property
    def wrong(self) -> int:
        """The number of records that are lost, duplicated, reordered or moved."""
        return self.lost + self.duplicated + self.reordered + self.moved

    def at_the_end(self) -> "Counts":
        """The final counts, once everything stored has been read: records that were not read are lost."""
        return replace(self, lost=self.lost + self.waiting, waiting=0, oldest_waiting_ms=0.0)


@dataclass(slots=True)
class _Partition:
    """One partition. Numbers are the writer's."""

    next_number: int = 0
    """One above the highest number that was read."""
    next_offset: Offset = 0
    """Offsets below this one were read before."""
    holes: set[int] = field(default_factory=set)
    """Numbers below `next_number` that were not read."""
    waiting: dict[int, tuple[Offset | None, float]] = field(default_factory=dict)
    """Acknowledged, and not read: the offset, and the time of the acknowledgement."""
    unconfirmed: dict[int, Offset] = field(default_factory=dict)
    """Read, and not acknowledged."""

    @property
    def lost(self) -> int:
        """How many acknowledged records the reader has passed; such a record may still arrive."""
        return len(self.holes & self.waiting.keys())

    @property
    def waiting_since(self) -> float | None:
        """When the oldest record that is not lost was acknowledged: a partition's acknowledgements come in order."""
        return next((since for number, (_, since) in self.waiting.items() if number not in self.holes), None)


class DeliveryStatistics:
    """Collects the writers' acknowledgements and the readers' records. Not thread-safe."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._counts = Counts()

    def note_acknowledged(self, partition: TopicPartition, number: int, offset: Offset | None, now_ms: float) -> None:
        """The writer's record `number` is acknowledged, at an offset if that is known."""
        known, counts = self._of(partition), self._counts
        counts.acknowledged += 1
        if number in known.unconfirmed:
            self._compare_offsets(offset, known.unconfirmed.pop(number))
        else:
            known.waiting[number] = (offset, now_ms)

    def note_failed(self) -> None:
        self._counts.failed += 1

    def note_strange(self) -> None:
        """A record was read that this load did not write."""
        self._counts.strange += 1

    def note_read(self, partition: TopicPartition, number: int, offset: Offset) -> None:
        known, counts = self._of(partition), self._counts
        if offset < known.next_offset:
            counts.read_again += 1
            return
        known.next_offset = offset + 1
        counts.read += 1
        if number >= known.next_number:
            known.holes.update(range(known.next_number, number))
            known.next_number = number + 1
        elif number in known.holes:
            counts.reordered += 1
            known.holes.discard(number)
        else:
            counts.duplicated += 1
            return
        acknowledged = known.waiting.pop(number, None)
        if acknowledged is not None:
            self._compare_offsets(acknowledged[0], offset)
        else:
            known.unconfirmed[number] = offset
            if len(known.unconfirmed) > _UNCONFIRMED_MAX:
                del known.unconfirmed[next(iter(known.unconfirmed))]
                counts.unconfirmed += 1

    def counts(self, now_ms: float) -> Counts:
        partitions = self._partitions.values()
        lost = sum(each.lost for each in partitions)
        since = (found for each in partitions if (found := each.waiting_since) is not None)
        return replace(
            self._counts,
            lost=lost,
            waiting=sum(len(each.waiting) for each in partitions) - lost,
            unconfirmed=self._counts.unconfirmed + sum(len(each.unconfirmed) for each in partitions),
            oldest_waiting_ms=max(now_ms - min(since, default=now_ms), 0.0),
        )

    def _of(self, partition: TopicPartition) -> _Partition:
        return self._partitions.setdefault(partition, _Partition())

    def _compare_offsets(self, acknowledged: Offset | None, found: Offset) -> None:
        if acknowledged is not None and acknowledged != found:
            self._counts.moved += 1
