"""A consumer's buffered records between librdkafka and the caller, and the caller's position in each partition.

Records come from librdkafka in batches and go to the caller on request. A position is the offset of the next record for
the caller; `commit()` writes positions. So a fetched record that the caller did not get is never committed: a cancelled
call leaves it here. The lock is held only for single steps, since an event loop takes records while a thread adds them.
"""

import threading
from collections import deque
from collections.abc import Iterable

from yak.client.api.message import Message
from yak.ids import LeaderEpoch, Offset, TopicPartition


class Inbox:
    """Buffered records in order, the paused partitions, and the caller's positions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Message] = deque()
        self._paused: dict[TopicPartition, None] = {}
        self._positions: dict[TopicPartition, tuple[Offset, LeaderEpoch | None]] = {}
        self._committed: dict[TopicPartition, Offset] = {}

    def put(self, message: Message) -> None:
        """Add a fetched record."""
        with self._lock:
            self._waiting.append(message)

    def take(self, count: int) -> list[Message]:
        """At most `count` records of partitions that are not paused; advances the positions past them."""
        with self._lock:
            if self._paused:
                taken = self._unpaused(count)
            else:
                taken = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
            for message in taken:
                self._positions[message.topic_partition] = (message.offset + 1, message.leader_epoch)
            return taken

    def _unpaused(self, count: int) -> list[Message]:
        taken: list[Message] = []
        kept: deque[Message] = deque()
        for message in self._waiting:
            if len(taken) < count and message.topic_partition not in self._paused:
                taken.append(message)
            else:
                kept.append(message)
        self._waiting = kept
        return taken

    def has_some(self) -> bool:
        """Whether `take` would return a record."""
        with self._lock:
            return any(each.topic_partition not in self._paused for each in self._waiting)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; buffered ones are kept."""
        with self._lock:
            self._paused.update(dict.fromkeys(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        with self._lock:
            for each in partitions:
                self._paused.pop(each, None)

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        with self._lock:
            return list(self._paused)

    def seek(self, partition: TopicPartition, offset: Offset | None) -> None:
        """Set the position; None for a name such as "latest". Drops the partition's buffered records."""
        with self._lock:
            self._drop([partition])
            if offset is None:
                self._positions.pop(partition, None)
            else:
                self._positions[partition] = (offset, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop records, positions and committed offsets of partitions that are no longer assigned."""
        with self._lock:
            gone = list(partitions)
            self._drop(gone)
            for each in gone:
                for table in (self._positions, self._committed, self._paused):
                    table.pop(each, None)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        self._waiting = deque(each for each in self._waiting if each.topic_partition not in partitions)

    def position(self, partition: TopicPartition) -> Offset | None:
        """The offset of the next record for the caller; None before the first record or seek."""
        with self._lock:
            found = self._positions.get(partition)
            return None if found is None else found[0]

    def epoch_before(self, partition: TopicPartition, offset: Offset) -> LeaderEpoch | None:
        """The leader epoch of the record before an offset, if that record was the last one returned."""
        with self._lock:
            found = self._positions.get(partition)
            return found[1] if found is not None and found[0] == offset else None

    def uncommitted(self) -> dict[TopicPartition, Offset]:
        """The positions that differ from the last commit."""
        with self._lock:
            return {
                partition: offset
                for partition, (offset, _) in self._positions.items()
                if self._committed.get(partition) != offset
            }

    def committed(self, offsets: dict[TopicPartition, Offset]) -> None:
        """Note committed offsets."""
        with self._lock:
            self._committed.update(offsets)
