"""Finding records by timestamp for ListOffsets: jobs that read the disk and look inside one batch.

Kafka's LogSegment.findOffsetByTimestamp and FileRecords.searchForTimestamp: the result is the first *record* at or
after the timestamp, with its own timestamp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from yak.errors import LogDirectoryFailure
from yak.ids import FilePosition, LeaderEpoch, Offset
from yak.protocol.record_batch import BatchHeader
from yak.protocol.record_walk import walk_records
from yak.storage import offset_index, time_index
from yak.storage.names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from yak.storage.scan import scan_headers
from yak.storage.segment import Segment

if TYPE_CHECKING:
    from yak.storage.log import Log


class TimestampOffset(NamedTuple):
    """A record found by time: its offset, its own timestamp in ms, and the leader epoch of its batch."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


def offset_for_timestamp(log: Log, timestamp_ms: int) -> Callable[[], TimestampOffset | None]:
    """See `Log.offset_for_timestamp`."""
    candidates = [(segment, segment.size) for segment in log.segments if segment.max_timestamp >= timestamp_ms]
    directory, log_start_offset = log.directory, log.log_start_offset

    def run() -> TimestampOffset | None:
        for segment, size in candidates:
            try:
                found = _find_in_segment(segment, size, timestamp_ms, log_start_offset)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise LogDirectoryFailure(directory, error) from error
            if found is not None:
                return found
        return None

    return run


def offset_of_max_timestamp(log: Log) -> Callable[[], TimestampOffset | None]:
    """See `Log.offset_of_max_timestamp`."""
    segments = [(segment, segment.size) for segment in log.segments if segment.size and segment.max_timestamp >= 0]
    directory, log_start_offset = log.directory, log.log_start_offset

    def run() -> TimestampOffset | None:
        best: TimestampOffset | None = None
        # a segment's largest timestamp is an upper bound: its record may be below the log start
        for segment, size in sorted(segments, key=lambda item: (-item[0].max_timestamp, item[0].base_offset)):
            if best is not None and segment.max_timestamp <= best.timestamp:
                break
            try:
                found = _find_max_in_segment(segment, size, log_start_offset)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise LogDirectoryFailure(directory, error) from error
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
        return best

    return run


def _find_in_segment(
    segment: Segment, size: FilePosition, timestamp_ms: int, log_start_offset: Offset
) -> TimestampOffset | None:
    position = _start_position(segment, timestamp_ms, log_start_offset)
    file = segment.open()
    for at, header in scan_headers(file, position, size):
        if header.max_timestamp < timestamp_ms or header.last_offset < log_start_offset:
            continue
        batch = file.read(header.size_bytes, at)
        if len(batch) < header.size_bytes:
            return None
        for record in walk_records(batch):
            if record.timestamp >= timestamp_ms and record.offset >= log_start_offset:
                return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def _find_max_in_segment(segment: Segment, size: FilePosition, log_start_offset: Offset) -> TimestampOffset | None:
    file = segment.open()
    best: tuple[FilePosition, BatchHeader] | None = None
    position = 0
    if segment.max_timestamp_offset >= log_start_offset:
        position = _position_before(segment, segment.max_timestamp_offset)
    for at, header in scan_headers(file, position, size):
        if header.last_offset < log_start_offset or not header.records_count:
            continue
        if header.max_timestamp >= 0 and (best is None or header.max_timestamp > best[1].max_timestamp):
            best = (at, header)
            if header.max_timestamp == segment.max_timestamp:
                break
    if best is None:
        return None
    at, header = best
    batch = file.read(header.size_bytes, at)
    if len(batch) < header.size_bytes:
        return None
    for record in walk_records(batch):
        if record.timestamp == header.max_timestamp and record.offset >= log_start_offset:
            return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return TimestampOffset(header.last_offset, header.max_timestamp, header.partition_leader_epoch)


def _start_position(segment: Segment, timestamp_ms: int, log_start_offset: Offset) -> FilePosition:
    """Where the scan starts; the segment's start if an index is unusable, as indexes are only a shortcut."""
    entries: bytes | bytearray | None = segment.time_index.entries
    if entries is None:
        try:
            entries = segment.read_index(TIME_INDEX_SUFFIX)
        except FileNotFoundError:
            return 0
        if len(entries) % time_index.ENTRY_BYTES:
            return 0
    offset = segment.base_offset + time_index.lookup(entries, timestamp_ms)
    return _position_before(segment, max(offset, log_start_offset))


def _position_before(segment: Segment, offset: Offset) -> FilePosition:
    entries: bytes | bytearray | None = segment.offset_index.entries
    if entries is None:
        try:
            entries = segment.read_index(OFFSET_INDEX_SUFFIX)
        except FileNotFoundError:
            return 0
        if not offset_index.is_plausible(entries):
            return 0
    return offset_index.lookup(entries, offset - segment.base_offset)
