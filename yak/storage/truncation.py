"""Finding where a segment can be truncated, for a follower that diverged. Kafka's LocalLog.truncateTo.

`Log.truncate_to` and `Log.truncate_fully_and_start_at` change the log.
"""

from collections.abc import Sequence

from yak.ids import FilePosition, Offset
from yak.protocol.record_batch import HEADER_BYTES, BatchHeader, compute_crc, read_header
from yak.storage.reader import DamagedBatch, NotCached, position_of, scan_headers
from yak.storage.recovery import DamagedLog
from yak.storage.segment import Segment


def find_truncation_point(
    segment: Segment, offset: Offset, log_end_offset: Offset, *, has_gaps: bool
) -> tuple[FilePosition, Offset]:
    """(position to truncate to, resulting log end offset); no batch is split.

    Raises OSError, and DamagedLog when the bytes there do not show where the batch begins.
    """
    end_offset = offset
    try:
        position = position_of(segment, offset, segment.size, cached=False, has_gaps=has_gaps)
        if position == segment.size and offset < log_end_offset and not has_gaps:
            raise DamagedBatch(segment.path(".log"), position, f"the segment ends below offset {offset}")
        if position < segment.size:
            base_offset = _whole_or_next(segment, position, offset).base_offset
            end_offset = min(offset, max(base_offset, segment.base_offset))
    except (NotCached, DamagedBatch) as error:
        raise cannot_truncate(segment, offset, error) from error
    return position, end_offset


def find_batch_end_before(segments: Sequence[Segment], offset: Offset, log_end_offset: Offset) -> Offset:
    """Where the last batch below `offset` ends in a compacted log: below `offset`, where there is a gap.

    Raises OSError, and DamagedLog as `find_truncation_point`.
    """
    segment = next(segment for segment in reversed(segments) if segment.base_offset <= offset)
    position, _end_offset = find_truncation_point(segment, offset, log_end_offset, has_gaps=True)
    end_offset = segment.base_offset
    if position:
        segment.load_indexes_or_forget()
        start = segment.offset_index.lookup(offset - 1)
        for _, header in scan_headers(segment.open(), start, position):
            end_offset = header.next_offset
    return min(end_offset, offset)


def _whole_or_next(segment: Segment, position: FilePosition, offset: Offset) -> BatchHeader:
    """The header at `position`. Raises DamagedBatch when the batch does not begin with `offset` and is corrupt as well.

    A corrupt header may wrongly claim to hold `offset`, which would truncate valid records below it, or claim a
    compaction gap.
    """
    file = segment.open()
    data = file.read(HEADER_BYTES, position)
    if len(data) < HEADER_BYTES:
        raise DamagedBatch(file.path, position, "the file ends inside its header")
    header = read_header(data)
    if header.base_offset != offset:
        size_bytes = min(header.size_bytes, segment.size - position)
        if compute_crc(file.read(size_bytes, position)) != header.crc:
            raise DamagedBatch(file.path, position)
    return header


def cannot_truncate(segment: Segment, offset: Offset, error: Exception) -> DamagedLog:
    """The error of a truncation that could not find its position."""
    position = error.position if isinstance(error, DamagedBatch) else 0
    return DamagedLog(segment.path(".log"), position, offset, f"it cannot be truncated there: {error}")


def find_max_timestamp_after_truncation(segment: Segment) -> Offset:
    """Search after the last time index entry for a larger timestamp; returns the end offset of the last batch."""
    assert segment.offset_index.entries is not None
    end_offset = segment.base_offset
    start = segment.offset_index.lookup(segment.max_timestamp_offset)
    for _, header in scan_headers(segment.open(), start, segment.size):
        segment.note_timestamp(header.max_timestamp, header.last_offset)
        end_offset = header.next_offset
    return end_offset
