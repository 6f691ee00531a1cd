"""The index files of a segment, all ascending: Kafka's AbstractIndex, OffsetIndex, TimeIndex and TransactionIndex.

`.index` has 8-byte big-endian entries: i32 last offset of a batch minus base offset, i32 file position of that batch. A
batch gets an entry when more than `index.interval.bytes` were written since the last indexed batch. `.timeindex` has
12-byte entries: i64 largest timestamp so far in ms, i32 last offset of its batch minus base offset. It gets an entry
with each entry of the offset index, and once more when the segment is closed. Both are sparse.

`.txnindex` has an entry of 34 bytes for each aborted transaction whose marker is in the segment: i16 version 0, i64 producer
id, i64 first offset, i64 offset of the marker, i64 last stable offset at that time. A segment without one has no such file,
or an empty one in place of that which compaction replaced.
"""

import struct
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from yak.ids import FilePosition, Offset, ProducerId
from yak.protocol.record_batch import NO_TIMESTAMP

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
_ABORTED_VERSION = 0


class AbstractIndex:
    """One segment's entries, in memory after `load` or while they are being built.

    `count` is known without loading. `saved_count` entries are in the file; -1 when the file must be rewritten.
    """

    __slots__ = ("base_offset", "count", "entries", "saved_count")
    ENTRY_BYTES: ClassVar[int]

    def __init__(self, base_offset: Offset, count: int = 0) -> None:
        self.base_offset = base_offset
        self.count = count
        self.saved_count = count
        self.entries: bytearray | None = None if count else bytearray()

    def load(self, data: bytes) -> bool:
        """Take the file's content; False when it cannot be an index of this segment (then `reset` and rebuild)."""
        if len(data) != self.count * self.ENTRY_BYTES or not self._may_be(data):
            return False
        self.entries = bytearray(data)
        return True

    def _may_be(self, data: bytes) -> bool:
        raise NotImplementedError

    def unload(self) -> None:
        """Free the entries of a segment that is closed and saved; they are read again on demand."""
        if self.count and self.saved_count == self.count:
            self.entries = None

    def reset(self) -> None:
        """Drop all entries before a rebuild."""
        self.entries = bytearray()
        self.count = 0
        self.saved_count = -1

    def _truncate(self, count: int) -> None:
        if count != self.count:
            assert self.entries is not None
            del self.entries[count * self.ENTRY_BYTES :]
            self.count = count
            self.saved_count = -1


class OffsetIndex(AbstractIndex):
    """The `.index` file: (last offset of a batch, position where the batch starts)."""

    __slots__ = ()
    ENTRY_BYTES = _OFFSET_ENTRY.size

    def _may_be(self, data: bytes) -> bool:
        return is_offset_index(data)

    def append(self, offset: Offset, position: FilePosition) -> None:
        """Add an entry. The caller has loaded the index and keeps offset and position ascending."""
        assert self.entries is not None
        self.entries += _OFFSET_ENTRY.pack(offset - self.base_offset, position)
        self.count += 1

    def lookup(self, offset: Offset) -> FilePosition:
        """Start of the last indexed batch whose last offset is at or below `offset`; 0 when there is none."""
        assert self.entries is not None
        return floor_by_offset(self.entries, offset - self.base_offset)[1]

    def truncate_to(self, offset: Offset) -> None:
        """Drop entries at or above `offset`."""
        assert self.entries is not None
        self._truncate(_count_up_to(_OFFSET_ENTRY, self.entries, 0, offset - self.base_offset - 1))


class TimeIndex(AbstractIndex):
    """The `.timeindex` file: (largest timestamp so far, last offset of its batch).

    `last_timestamp` is known without loading.
    """

    __slots__ = ("last_timestamp",)
    ENTRY_BYTES = _TIME_ENTRY.size

    def __init__(self, base_offset: Offset, count: int = 0, last_timestamp: int = NO_TIMESTAMP) -> None:
        super().__init__(base_offset, count)
        self.last_timestamp = last_timestamp

    def _may_be(self, data: bytes) -> bool:
        return not data or last_time_entry(data)[0] == self.last_timestamp

    def reset(self) -> None:
        """Drop all entries before a rebuild."""
        super().reset()
        self.last_timestamp = NO_TIMESTAMP

    def maybe_append(self, timestamp_ms: int, offset: Offset) -> bool:
        """Add an entry when the timestamp is above the last one's; returns whether it did."""
        if timestamp_ms <= self.last_timestamp:
            return False
        assert self.entries is not None
        self.entries += _TIME_ENTRY.pack(timestamp_ms, offset - self.base_offset)
        self.count += 1
        self.last_timestamp = timestamp_ms
        return True

    def truncate_to(self, offset: Offset) -> None:
        """Drop entries at or above `offset`."""
        assert self.entries is not None
        self._truncate(_count_up_to(_TIME_ENTRY, self.entries, 1, offset - self.base_offset - 1))
        self.last_timestamp = last_time_entry(self.entries)[0]

    def last(self) -> tuple[int, Offset]:
        """(timestamp, offset) of the last entry; (-1, base offset) when there is none."""
        assert self.entries is not None
        timestamp, relative_offset = last_time_entry(self.entries)
        return timestamp, self.base_offset + relative_offset


class AbortedTxn(NamedTuple):
    """An aborted transaction: its producer, its first offset, the offset of its marker, and the last stable offset when the
    marker was written."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex(AbstractIndex):
    """The `.txnindex` file, always in memory: aborted transactions by the offset of their marker."""

    __slots__ = ()
    ENTRY_BYTES = _ABORTED_ENTRY.size

    def _may_be(self, data: bytes) -> bool:
        before = self.base_offset - 1
        for version, _producer_id, first_offset, last_offset, _stable in _ABORTED_ENTRY.iter_unpack(data):
            if version != _ABORTED_VERSION or last_offset <= before or first_offset >= last_offset:
                return False
            before = last_offset
        return True

    def append(self, aborted: AbortedTxn) -> None:
        """Add an entry; markers come in the order of their offsets."""
        assert self.entries is not None
        self.entries += _ABORTED_ENTRY.pack(_ABORTED_VERSION, *aborted)
        self.count += 1

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries whose marker is at or above `offset`."""
        assert self.entries is not None
        self._truncate(_count_up_to(_ABORTED_ENTRY, self.entries, _MARKER_FIELD, offset - 1))

    def since(self, offset: Offset) -> Iterator[AbortedTxn]:
        """The transactions whose marker is at or above `offset`; a fetch reads the first few of them."""
        entries, unpack_from = self.entries, _ABORTED_ENTRY.unpack_from
        assert entries is not None
        first = _count_up_to(_ABORTED_ENTRY, entries, _MARKER_FIELD, offset - 1)
        for position in range(first * self.ENTRY_BYTES, len(entries), self.ENTRY_BYTES):
            yield AbortedTxn(*unpack_from(entries, position)[1:])


_MARKER_FIELD = 3


# A thread reads the files itself and searches their bytes, so that it leaves the segment unchanged.


def is_offset_index(data: bytes | bytearray) -> bool:
    """Whether the first and last entries ascend: the check of Kafka's `sanityCheck`, and one more."""
    if len(data) % OffsetIndex.ENTRY_BYTES:
        return False
    if not data:
        return True
    first_offset, first_position = _OFFSET_ENTRY.unpack_from(data)
    last_offset, last_position = _OFFSET_ENTRY.unpack_from(data, len(data) - OffsetIndex.ENTRY_BYTES)
    return bool(0 <= first_offset <= last_offset and 0 < first_position <= last_position)


def floor_by_offset(entries: bytes | bytearray, relative_offset: int) -> tuple[int, FilePosition]:
    """The last entry whose relative offset is at or below the given one; (0, 0) when there is none."""
    count = _count_up_to(_OFFSET_ENTRY, entries, 0, relative_offset)
    return _OFFSET_ENTRY.unpack_from(entries, (count - 1) * OffsetIndex.ENTRY_BYTES) if count else (0, 0)


def floor_by_position(entries: bytes | bytearray, position: FilePosition) -> tuple[int, FilePosition]:
    """The last entry whose position is at or below the given one; (0, 0) when there is none."""
    count = _count_up_to(_OFFSET_ENTRY, entries, 1, position)
    return _OFFSET_ENTRY.unpack_from(entries, (count - 1) * OffsetIndex.ENTRY_BYTES) if count else (0, 0)


def floor_by_timestamp(entries: bytes | bytearray, timestamp_ms: int) -> int:
    """Relative offset of the last entry with a timestamp at or below the given one; 0 when there is none."""
    count = _count_up_to(_TIME_ENTRY, entries, 0, timestamp_ms)
    return int(_TIME_ENTRY.unpack_from(entries, (count - 1) * TimeIndex.ENTRY_BYTES)[1]) if count else 0


def last_time_entry(entries: bytes | bytearray) -> tuple[int, int]:
    """(timestamp, relative offset) of the last entry; (-1, 0) when there is none."""
    if len(entries) < TimeIndex.ENTRY_BYTES:
        return NO_TIMESTAMP, 0
    return _TIME_ENTRY.unpack_from(entries, len(entries) - TimeIndex.ENTRY_BYTES)


def _count_up_to(entry: struct.Struct, entries: bytes | bytearray, field: int, limit: int) -> int:
    """How many entries have this field at or below `limit`."""
    unpack_from, size = entry.unpack_from, entry.size
    low, high = 0, len(entries) // size
    while low < high:
        middle = (low + high) >> 1
        if unpack_from(entries, middle * size)[field] <= limit:
            low = middle + 1
        else:
            high = middle
    return low
