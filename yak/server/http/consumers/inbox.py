"""The records an instance buffers between librdkafka and its client, and the client's position in each partition.

A position moves after a record when an answer delivered the record to the client, not when it was fetched. Records of
an answer that the client did not wait for go to its next read. Used by one thread at a time.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from yak.ids import LeaderEpoch, Offset, TopicPartition


class Fetched(NamedTuple):
    """A record as fetched."""

    partition: TopicPartition
    offset: Offset
    key: bytes | None
    value: bytes | None
    leader_epoch: LeaderEpoch | None

    @property
    def size_bytes(self) -> int:
        """The size that `max_bytes` and `fetch.min.bytes` count, like in the proxy."""
        return len(self.key or b"") + len(self.value or b"")


class Position(NamedTuple):
    """The next offset, and the leader epoch of the delivered record before it (KIP-320), if there is one."""

    offset: Offset
    leader_epoch: LeaderEpoch | None


class Inbox:
    """Buffered records in order, and positions."""

    def __init__(self) -> None:
        self.bytes_held = 0
        self._waiting: deque[Fetched] = deque()
        self._positions: dict[TopicPartition, Position] = {}
        self._committed: dict[TopicPartition, Offset] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, record: Fetched) -> None:
        """Add a fetched record."""
        self._waiting.append(record)
        self.bytes_held += record.size_bytes

    def take(self, bytes_max: int, count_max: int) -> list[Fetched]:
        """Remove records within these limits. The first one may exceed them, or it could never be read (KIP-74)."""
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
        """Return records that were taken last and not delivered."""
        self._waiting.extendleft(reversed(records))
        self.bytes_held += sum(record.size_bytes for record in records)

    def given(self, records: Iterable[Fetched]) -> None:
        """The client received these records: move its positions."""
        for record in records:
            self._positions[record.partition] = Position(record.offset + 1, record.leader_epoch)

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        """Continue at an offset; buffered records of the partition are dropped."""
        self._drop([partition])
        self._positions[partition] = Position(offset, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the records and offsets of revoked partitions."""
        gone = dict.fromkeys(partitions)
        self._drop(gone)
        for partition in gone:
            self._positions.pop(partition, None)
            self._committed.pop(partition, None)

    def forget_all(self) -> None:
        """Like `forget`, for all partitions."""
        self._waiting.clear()
        self.bytes_held = 0
        self._positions.clear()
        self._committed.clear()

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = dict.fromkeys(partitions)
        self._waiting = deque(record for record in self._waiting if record.partition not in gone)
        self.bytes_held = sum(record.size_bytes for record in self._waiting)

    def uncommitted(self) -> dict[TopicPartition, Position]:
        """The positions that differ from the last commit."""
        return {
            partition: position
            for partition, position in self._positions.items()
            if self._committed.get(partition) != position.offset
        }

    def committed(self, offsets: dict[TopicPartition, Offset]) -> None:
        """These offsets are committed, or a commit of them is under way."""
        self._committed.update(offsets)
