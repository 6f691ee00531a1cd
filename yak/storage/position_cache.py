"""The file positions that a log knows without its index, and the bytes of its last small batch.

A read that begins at a known position needs no index lookup and no scan. Each kind of position has its own bound, so
many readers do not evict the last appends, and appends do not evict the positions of slow readers.
"""

from yak.ids import FilePosition, Offset
from yak.storage.reader import Read
from yak.storage.segment import Segment

NEWEST_BYTES_MAX = 2048
"""Larger batches are not buffered in memory, because a broker may append to thousands of partitions."""
RECENT_MAX, _RECENT_RETAINED = 256, 128
CURSORS_MAX = 16
_NO_BATCH = (-1, -1, b"")


class PositionCache:
    """Where the last appends to one log and the last reads of it ended.

    An append adds to `recent` and, as the leader with at most `NEWEST_BYTES_MAX`, sets `newest`: it does so itself,
    because a call costs more than the change. A roll calls `rolled`, a read `note_read`. A truncation, retention, a
    swap of compaction and a move to another directory call `clear`.
    """

    __slots__ = ("_cursors", "newest", "read_end", "recent")

    def __init__(self) -> None:
        self.read_end: Offset = -1
        """The offset after the result of the last read."""
        self.clear()

    def clear(self) -> None:
        """Forget all positions: bytes moved, or are gone, or belong to another segment."""
        self.newest: tuple[Offset, Offset, bytes] = _NO_BATCH
        """The last batch appended as the leader, if it is small: (base offset, next offset, bytes).

        Followers and consumers that keep up fetch exactly this batch."""
        self.recent: dict[Offset, FilePosition] = {}
        """Offset -> where its batch begins, or will begin, in the active segment: the last appends."""
        self._cursors: dict[Offset, tuple[Segment, FilePosition]] = {}
        """Offset -> where a read ended. Damaged bytes can make it wrong, so no read ends at it."""

    def rolled(self, base_offset: Offset) -> None:
        """Begin an active segment at this offset. The readers' positions stay: the closed segment keeps its bytes."""
        self.recent = {base_offset: 0}

    def trim(self) -> None:
        """Forget the older half of the recent appends, when there are more than `RECENT_MAX`."""
        self.recent = dict(list(self.recent.items())[-_RECENT_RETAINED:])

    def newest_batch(self, offset: Offset, up_to: Offset, max_bytes: int) -> bytes | None:
        """The batch that spans exactly `offset` to `up_to`, if it is the last appended one and still in memory."""
        first, end, batch = self.newest
        return batch if first == offset and end == up_to and len(batch) <= max_bytes else None

    def find(
        self, offset: Offset, up_to: Offset, segment: Segment, *, is_active: bool
    ) -> tuple[FilePosition, FilePosition]:
        """The positions of both offsets in the segment, -1 for one that is not known.

        The start may be wrong when it is where a read of damaged bytes ended; the end is right.
        """
        start = end = -1
        if is_active:
            recent = self.recent
            start, end = recent.get(offset, -1), recent.get(up_to, -1)
        if start < 0:
            cursor = self._cursors.get(offset)
            if cursor is not None and cursor[0] is segment:
                start = cursor[1]
        return start, end

    def note_read(self, read: Read, next_offset: Offset, position: FilePosition, segment: Segment | None) -> None:
        """Note where a read ended, as `Read.perform` returned it: a sequential reader continues there."""
        self.read_end = read.segment_end if next_offset < 0 else next_offset
        if segment is not None:
            cursors = self._cursors
            cursors.pop(read.offset, None)
            cursors[next_offset] = (segment, position)
            if len(cursors) > CURSORS_MAX:
                del cursors[next(iter(cursors))]
