"""The `.index` file of a segment: sparse pairs of (last offset of a batch, file position where the batch starts).

8-byte big-endian entries: i32 offset minus base offset, i32 file position (Kafka's OffsetIndex.java). A batch gets an
entry when more than `index.interval.bytes` were written since the last indexed batch.
"""

import struct

from yak.ids import FilePosition, Offset

_ENTRY = struct.Struct(">ii")
_pack = _ENTRY.pack
_unpack_from = _ENTRY.unpack_from
ENTRY_BYTES = 8


class OffsetIndex:
    """One segment's entries, in memory after `load` or while they are being built.

    `count` is known without loading. `saved_count` entries are in the file; -1 when the file must be rewritten.
    """

    __slots__ = ("base_offset", "count", "entries", "saved_count")

    def __init__(self, base_offset: Offset, count: int = 0) -> None:
        self.base_offset = base_offset
        self.count = count
        self.saved_count = count
        self.entries: bytearray | None = None if count else bytearray()

    def load(self, data: bytes) -> bool:
        """Take the file's content; False when it cannot be an index of this segment (then `reset` and rebuild)."""
        if len(data) != self.count * ENTRY_BYTES or not is_plausible(data):
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

    def append(self, offset: Offset, position: FilePosition) -> None:
        """Add an entry. The caller has loaded the index and keeps offset and position ascending."""
        assert self.entries is not None
        self.entries += _pack(offset - self.base_offset, position)
        self.count += 1

    def lookup(self, offset: Offset) -> FilePosition:
        """Start of the last indexed batch whose last offset is at or below `offset`; 0 when there is none."""
        assert self.entries is not None
        return lookup(self.entries, offset - self.base_offset)

    def floor_position(self, position: FilePosition) -> FilePosition:
        """The last indexed batch start at or below `position`; 0 when there is none."""
        assert self.entries is not None
        return floor_position(self.entries, position)

    def truncate_to(self, offset: Offset) -> None:
        """Drop entries at or above `offset`."""
        assert self.entries is not None
        keep = _count_below(self.entries, offset - self.base_offset)
        if keep != self.count:
            del self.entries[keep * ENTRY_BYTES :]
            self.count = keep
            self.saved_count = -1


def is_plausible(data: bytes | bytearray) -> bool:
    """Whether the first and last entries ascend: the check of Kafka's `sanityCheck`, and one more."""
    if len(data) % ENTRY_BYTES:
        return False
    if not data:
        return True
    first_offset, first_position = _unpack_from(data, 0)
    last_offset, last_position = _unpack_from(data, len(data) - ENTRY_BYTES)
    return bool(0 <= first_offset <= last_offset and 0 < first_position <= last_position)


def lookup(entries: bytes | bytearray, relative_offset: int) -> FilePosition:
    """Position of the last entry whose relative offset is at or below the given one; 0 when there is none."""
    return floor_entry(entries, relative_offset)[1]


def floor_entry(entries: bytes | bytearray, relative_offset: int) -> tuple[int, FilePosition]:
    """The last entry whose relative offset is at or below the given one; (0, 0) when there is none."""
    low, high = 0, len(entries) // ENTRY_BYTES
    found = position = 0
    while low < high:
        middle = (low + high) >> 1
        entry_offset, entry_position = _unpack_from(entries, middle * ENTRY_BYTES)
        if entry_offset <= relative_offset:
            found, position = entry_offset, entry_position
            low = middle + 1
        else:
            high = middle
    return int(found), int(position)


def floor_position(entries: bytes | bytearray, position: FilePosition) -> FilePosition:
    """The last entry's position at or below the given one; 0 when there is none."""
    return floor_entry_at(entries, position)[1]


def floor_entry_at(entries: bytes | bytearray, position: FilePosition) -> tuple[int, FilePosition]:
    """The last entry whose position is at or below the given one; (0, 0) when there is none."""
    low, high = 0, len(entries) // ENTRY_BYTES
    offset = found = 0
    while low < high:
        middle = (low + high) >> 1
        entry_offset, entry_position = _unpack_from(entries, middle * ENTRY_BYTES)
        if entry_position <= position:
            offset, found = entry_offset, entry_position
            low = middle + 1
        else:
            high = middle
    return int(offset), int(found)


def _count_below(entries: bytearray, relative_offset: int) -> int:
    low, high = 0, len(entries) // ENTRY_BYTES
    while low < high:
        middle = (low + high) >> 1
        if _unpack_from(entries, middle * ENTRY_BYTES)[0] < relative_offset:
            low = middle + 1
        else:
            high = middle
    return low
