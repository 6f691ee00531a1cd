"""What a consumer holds between librdkafka and its caller, and where the caller stands in each partition.

Messages are taken from librdkafka many at a time and given to the caller as he asks. A position is the offset that is
given next; `commit()` writes positions. So a message that was fetched and not given is never committed, whatever happens
to the call that fetched it: a cancelled one leaves it here. The lock is held for single steps only, since an event loop
takes while a thread puts.
"""

import threading
from collections import deque
from collections.abc import Iterable

from yak.client.api.message import Message
from yak.ids import LeaderEpoch, Offset, TopicPartition


class Inbox:
    """Fetched messages in their order, the partitions that are paused, and the caller's positions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Message] = deque()
        self._paused: dict[TopicPartition, None] = {}
        self._positions: dict[TopicPartition, tuple[Offset, LeaderEpoch | None]] = {}
        self._committed: dict[TopicPartition, Offset] = {}

    def put(self, message: Message) -> None:
        """A message came."""
        with self._lock:
            self._waiting.append(message)

    def take(self, count: int) -> list[Message]:
        """At most `count` messages of partitions that are not paused; the positions go behind them."""
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
        """Whether `take` would give something."""
        with self._lock:
            return any(each.topic_partition not in self._paused for each in self._waiting)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give nothing of these partitions until `resume`; what was fetched is kept."""
        with self._lock:
            self._paused.update(dict.fromkeys(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Give messages of these partitions again."""
        with self._lock:
            for each in partitions:
                self._paused.pop(each, None)

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        with self._lock:
            return list(self._paused)

    def seek(self, partition: TopicPartition, offset: Offset | None) -> None:
        """The caller goes on at an offset; None where that is a name such as "latest". What was fetched is dropped."""
        with self._lock:
            self._drop([partition])
            if offset is None:
                self._positions.pop(partition, None)
            else:
                self._positions[partition] = (offset, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are no longer ours: their messages belong to somebody else, and so do their offsets."""
        with self._lock:
            gone = list(partitions)
            self._drop(gone)
            for each in gone:
                for table in (self._positions, self._committed, self._paused):
                    table.pop(each, None)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        self._waiting = deque(each for each in self._waiting if each.topic_partition not in partitions)

    def position(self, partition: TopicPartition) -> Offset | None:
        """The offset that is given next; None when nothing was given or sought yet."""
        with self._lock:
            found = self._positions.get(partition)
            return None if found is None else found[0]

    def epoch_before(self, partition: TopicPartition, offset: Offset) -> LeaderEpoch | None:
        """The leader epoch of the record before an offset, where it was the last one given."""
        with self._lock:
            found = self._positions.get(partition)
            return found[1] if found is not None and found[0] == offset else None

    def uncommitted(self) -> dict[TopicPartition, Offset]:
        """The positions that differ from what was committed last."""
        with self._lock:
            return {
                partition: offset
                for partition, (offset, _) in self._positions.items()
                if self._committed.get(partition) != offset
            }

    def committed(self, offsets: dict[TopicPartition, Offset]) -> None:
        """These offsets are committed."""
        with self._lock:
            self._committed.update(offsets)
