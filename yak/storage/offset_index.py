"""The `.index` file of a segment: sparse pairs of (last offset of a batch, where that batch starts).

8-byte big-endian entries: i32 offset minus base offset, i32 file position (Kafka's OffsetIndex.java). An entry is
made for a batch when more than `index.interval.bytes` were written since the batch of the entry before.
"""

import struct

from yak.ids import FilePosition, Offset

_ENTRY = struct.Struct(">ii")
_pack = _ENTRY.pack
_unpack_from = _ENTRY.unpack_from
ENTRY_BYTES = 8


class OffsetIndex:
    """One segment's entries, in memory once `load` was called or while they are being made.

    `count` is known without loading. `saved_count` entries are in the file; -1 when the file must be written anew.
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
        """Forget the entries of a segment that is closed and saved; they are read again at need."""
        if self.count and self.saved_count == self.count:
            self.entries = None

    def reset(self) -> None:
        """Start from nothing: a rebuild follows."""
        self.entries = bytearray()
        self.count = 0
        self.saved_count = -1

    def append(self, offset: Offset, position: FilePosition) -> None:
        """Add an entry; the caller keeps both rising and has loaded the index."""
        assert self.entries is not None
        self.entries += _pack(offset - self.base_offset, position)
        self.count += 1

    def lookup(self, offset: Offset) -> FilePosition:
        """Start of the batch of the last entry at or below `offset`; 0 when there is none."""
        assert self.entries is not None
        return lookup(self.entries, offset - self.base_offset)

    def floor_position(self, position: FilePosition) -> FilePosition:
        """The last batch start at or below `position` that is in the index; 0 when there is none."""
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
    """Whether the first and last entries rise: the check that Kafka's `sanityCheck` makes, and one more."""
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
