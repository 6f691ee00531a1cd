"""The `.timeindex` file of a segment: (largest timestamp so far, last offset of its batch), both ascending.

12-byte big-endian entries: i64 timestamp in ms, i32 offset minus base offset (Kafka's TimeIndex.java). An entry is
added with each entry of the offset index, and once more when the segment is closed.
"""

import struct

from yak.ids import Offset
from yak.protocol.record_batch import NO_TIMESTAMP

_ENTRY = struct.Struct(">qi")
_pack = _ENTRY.pack
_unpack_from = _ENTRY.unpack_from
ENTRY_BYTES = 12


class TimeIndex:
    """One segment's entries, in memory after `load` or while they are being built.

    `count` and `last_timestamp` are known without loading. `saved_count` entries are in the file; -1 when the file must
    be rewritten.
    """

    __slots__ = ("base_offset", "count", "entries", "last_timestamp", "saved_count")

    def __init__(self, base_offset: Offset, count: int = 0, last_timestamp: int = NO_TIMESTAMP) -> None:
        self.base_offset = base_offset
        self.count = count
        self.saved_count = count
        self.last_timestamp = last_timestamp
        self.entries: bytearray | None = None if count else bytearray()

    def load(self, data: bytes) -> bool:
        """Take the file's content; False when it does not match `count` and `last_timestamp`."""
        if len(data) != self.count * ENTRY_BYTES:
            return False
        if data and _unpack_from(data, len(data) - ENTRY_BYTES)[0] != self.last_timestamp:
            return False
        self.entries = bytearray(data)
        return True

    def unload(self) -> None:
        """Free the entries of a segment that is closed and saved; they are read again on demand."""
        if self.count and self.saved_count == self.count:
            self.entries = None

    def reset(self) -> None:
        """Drop all entries before a rebuild."""
        self.entries = bytearray()
        self.count = 0
        self.saved_count = -1
        self.last_timestamp = NO_TIMESTAMP

    def maybe_append(self, timestamp_ms: int, offset: Offset) -> bool:
        """Add an entry when the timestamp is above the last one's; returns whether it did."""
        if timestamp_ms <= self.last_timestamp:
            return False
        assert self.entries is not None
        self.entries += _pack(timestamp_ms, offset - self.base_offset)
        self.count += 1
        self.last_timestamp = timestamp_ms
        return True

    def lookup(self, timestamp_ms: int) -> Offset:
        """Offset of the last entry whose timestamp is at or below the given one; the base offset when none is."""
        assert self.entries is not None
        return self.base_offset + lookup(self.entries, timestamp_ms)

    def truncate_to(self, offset: Offset) -> None:
        """Drop entries at or above `offset`."""
        assert self.entries is not None
        keep = self.count
        while keep and _unpack_from(self.entries, (keep - 1) * ENTRY_BYTES)[1] >= offset - self.base_offset:
            keep -= 1
        if keep != self.count:
            del self.entries[keep * ENTRY_BYTES :]
            self.count = keep
            self.saved_count = -1
            self.last_timestamp = last_entry(self.entries)[0]

    def last(self) -> tuple[int, Offset]:
        """(timestamp, offset) of the last entry; (-1, base offset) when there is none."""
        assert self.entries is not None
        timestamp, relative_offset = last_entry(self.entries)
        return timestamp, self.base_offset + relative_offset


def last_entry(entries: bytes | bytearray) -> tuple[int, int]:
    """(timestamp, relative offset) of the last entry; (-1, 0) when there is none."""
    if len(entries) < ENTRY_BYTES:
        return NO_TIMESTAMP, 0
    timestamp, relative_offset = _unpack_from(entries, len(entries) - ENTRY_BYTES)
    return int(timestamp), int(relative_offset)


def lookup(entries: bytes | bytearray, timestamp_ms: int) -> int:
    """Relative offset of the last entry with a timestamp at or below the given one; 0 when there is none."""
    low, high = 0, len(entries) // ENTRY_BYTES
    found = 0
    while low < high:
        middle = (low + high) >> 1
        entry_timestamp, relative_offset = _unpack_from(entries, middle * ENTRY_BYTES)
        if entry_timestamp <= timestamp_ms:
            found = relative_offset
            low = middle + 1
        else:
            high = middle
    return int(found)
