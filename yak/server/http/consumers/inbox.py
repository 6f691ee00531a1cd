"""What an instance holds between librdkafka and its client, and where the client stands in each partition.

A position goes behind a record when an answer with it was given to the client, not when it was fetched: what a client did
not stay to hear is given to its next read. Used by one thread at a time.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from yak.ids import LeaderEpoch, Offset, TopicPartition


class Fetched(NamedTuple):
    """A record as it came."""

    partition: TopicPartition
    offset: Offset
    key: bytes | None
    value: bytes | None
    leader_epoch: LeaderEpoch | None

    @property
    def size_bytes(self) -> int:
        """What `max_bytes` and `fetch.min.bytes` count, as the proxy does."""
        return len(self.key or b"") + len(self.value or b"")


class Position(NamedTuple):
    """The offset that is given next, and the leader epoch of the record before it (KIP-320), where that was given."""

    offset: Offset
    leader_epoch: LeaderEpoch | None


class Inbox:
    """Records in their order, and positions."""

    def __init__(self) -> None:
        self.bytes_held = 0
        self._waiting: deque[Fetched] = deque()
        self._positions: dict[TopicPartition, Position] = {}
        self._committed: dict[TopicPartition, Offset] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, record: Fetched) -> None:
        """A record came."""
        self._waiting.append(record)
        self.bytes_held += record.size_bytes

    def take(self, bytes_max: int, count_max: int) -> list[Fetched]:
        """Records within these bounds; the first one also when it alone is larger, or it could never be read (KIP-74)."""
        taken: list[Fetched] = []
        taken_bytes = 0
        while self._waiting and len(taken) < count_max:
            size_bytes = self._waiting[0].size_bytes
            if taken and taken_bytes + size_bytes > bytes_max:
                break
            taken_bytes += size_bytes
            taken.append(self._waiting.popleft())
        self.bytes_held -= taken_bytes
        return taken

    def put_back(self, records: list[Fetched]) -> None:
        """Records that were taken last and not given."""
        self._waiting.extendleft(reversed(records))
        self.bytes_held += sum(record.size_bytes for record in records)

    def given(self, records: Iterable[Fetched]) -> None:
        """The client has these."""
        for record in records:
            self._positions[record.partition] = Position(record.offset + 1, record.leader_epoch)

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        """Go on at an offset; what was fetched is dropped."""
        self._drop([partition])
        self._positions[partition] = Position(offset, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are no longer ours: their records belong to somebody else, and so do their offsets."""
        gone = dict.fromkeys(partitions)
        self._drop(gone)
        for partition in gone:
            self._positions.pop(partition, None)
            self._committed.pop(partition, None)

    def forget_all(self) -> None:
        """As `forget`, of all partitions."""
        self._waiting.clear()
        self.bytes_held = 0
        self._positions.clear()
        self._committed.clear()

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = dict.fromkeys(partitions)
        self._waiting = deque(record for record in self._waiting if record.partition not in gone)
        self.bytes_held = sum(record.size_bytes for record in self._waiting)

    def uncommitted(self) -> dict[TopicPartition, Position]:
        """The positions that differ from what was committed last."""
        return {
            partition: position
            for partition, position in self._positions.items()
            if self._committed.get(partition) != position.offset
        }

    def committed(self, offsets: dict[TopicPartition, Offset]) -> None:
        """These offsets are committed, or will be."""
        self._committed.update(offsets)
