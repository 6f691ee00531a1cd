"""Writing the segment that replaces others: its files have the suffix `.cleaned` until they are complete.

The indexes are built as in appends. The next start removes `.cleaned` files that a stop left.
"""

from __future__ import annotations

from collections.abc import Iterable

from yak.config.log_config import LogConfig
from yak.ids import Offset
from yak.protocol.record_batch import BatchHeader
from yak.seams.disk import Buffer, Disk
from yak.storage.names import CLEANED_SUFFIX, LOG_SUFFIX, OFFSET_INDEX_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX
from yak.storage.segment import FILE_BYTES_MAX, Segment


class Overgrown(Exception):
    """The batches do not fit in one file: recompression and new tombstone times may need more bytes."""


class CleanedSegment:
    """A segment under construction. One thread uses it at a time; every method raises OSError."""

    def __init__(self, disk: Disk, folder: str, base_offset: Offset, config: LogConfig, created_ms: int) -> None:
        self._disk = disk
        self._interval_bytes = config.index_interval_bytes
        self.segment = Segment(disk, folder, base_offset, created_ms)
        self.segment.aside = CLEANED_SUFFIX
        self.discard()
        self.segment.file = disk.open(self.segment.path(LOG_SUFFIX), create=True)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            disk.open(self.segment.path(suffix), create=True).close()
        self.segment.index_due_position = self._interval_bytes

    def append(self, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
        """Append these batches in one write. Raises Overgrown."""
        segment = self.segment
        buffers = []
        for header, batch in batches:
            position = segment.size
            if position + len(batch) > FILE_BYTES_MAX:
                raise Overgrown(segment.path(LOG_SUFFIX))
            if not position:
                segment.first_timestamp = header.max_timestamp
            segment.note_timestamp(header.max_timestamp, header.last_offset)
            if position > segment.index_due_position:
                segment.add_index_entry(header.last_offset, position, self._interval_bytes)
            segment.size = position + len(batch)
            buffers.append(batch)
        if buffers:
            segment.open().append([b"".join(buffers)])

    def finish(self) -> Segment:
        """Complete the indexes and sync all files; blocks on the device."""
        segment = self.segment
        segment.close_for_appends()
        for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._disk.open(segment.path(suffix)).sync()
        self._disk.sync_directory(segment.folder)
        segment.offset_index.unload()
        segment.time_index.unload()
        return segment

    def discard(self) -> None:
        """Remove the files, if they exist."""
        for suffix in SEGMENT_SUFFIXES:
            self._disk.remove(self.segment.path(suffix))
