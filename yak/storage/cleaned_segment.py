"""Writing the segment that takes the place of others: files with `.cleaned` behind their names, until they are whole.

The indexes are made as appends make them. A `.cleaned` file that a stop left behind is removed at the next start.
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
    """What was to fit in one file does not: recompressed batches and new tombstone times may take more room."""


class CleanedSegment:
    """A segment in the making. Used by one thread at a time; every method but `discard` raises OSError."""

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
        """Write these batches, in one go. Raises Overgrown."""
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
        """Put all of it on the device; waits for that."""
        segment = self.segment
        segment.close_for_appends()
        for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._disk.open(segment.path(suffix)).sync()
        self._disk.sync_directory(segment.folder)
        segment.offset_index.unload()
        segment.time_index.unload()
        return segment

    def discard(self) -> None:
        """Remove the files, if they are there."""
        for suffix in SEGMENT_SUFFIXES:
            self._disk.remove(self.segment.path(suffix))
