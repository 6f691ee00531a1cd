"""Truncating the end of a log: a follower diverged, or resyncs fully. Kafka's LocalLog.truncateTo.

Two things wait for the device, and jobs do both outside the step (`yak.broker.truncation`). Before the truncation, the
lowered recovery point must be durable: after a crash it must not cover truncated bytes. After it, the truncation must
be durable before the next append: a power loss must not bring old records back behind new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.errors import LogDirectoryFailure
from yak.ids import FilePosition, Offset
from yak.protocol.record_batch import HEADER_BYTES, BatchHeader, compute_crc, read_header
from yak.storage.cleanable import may_have_gaps
from yak.storage.flush import FlushPlan
from yak.storage.names import SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, offset_name
from yak.storage.reader import DamagedBatch, NotCached, position_of, scan_headers
from yak.storage.recovery import DamagedLog
from yak.storage.segment import IndexUnreadable, Segment

if TYPE_CHECKING:
    from yak.storage.log import Log


def lowest_kept(log: Log, offset: Offset) -> Offset:
    """The recovery point that a truncation to `offset` needs. Raises LogDirectoryFailure, DamagedLog."""
    if offset < log.segments[0].base_offset:
        return min(offset, log.log_start_offset)
    return max(log.log_start_offset, _find(log, offset)[2])


def lower_recovery_point(log: Log, offset: Offset) -> None:
    """Count only offsets below `offset` as flushed; a flush in progress is void."""
    log.generation += 1
    log.recovery_point = min(offset, log.recovery_point)


def truncate_to(log: Log, offset: Offset) -> Offset:
    """See `Log.truncate_to`."""
    if offset >= log.log_end_offset:
        return log.log_end_offset
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset, log.last_flush_ms)
        return offset
    segment, position, end_offset = _find(log, offset)
    if end_offset < log.log_start_offset:
        # only deleted records remain
        truncate_fully_and_start_at(log, log.log_start_offset, log.last_flush_ms)
        return log.log_end_offset
    try:
        _truncate(log, segment, position, end_offset)
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error
    except (IndexUnreadable, DamagedBatch) as error:
        raise _damaged(segment, offset, error) from error
    return end_offset


def _find(log: Log, offset: Offset) -> tuple[Segment, FilePosition, Offset]:
    """(segment to truncate, position in it, resulting log end offset); no batch is split.

    Raises LogDirectoryFailure, and DamagedLog when the bytes there do not show where the batch begins.
    """
    segment = next(segment for segment in reversed(log.segments) if segment.base_offset <= offset)
    end_offset = offset
    try:
        has_gaps = may_have_gaps(log)
        position = position_of(segment, offset, segment.size, cached=False, has_gaps=has_gaps)
        if position == segment.size and offset < log.log_end_offset and not has_gaps:
            raise DamagedBatch(segment.path(".log"), position, "it ends below")
        if position < segment.size:
            base_offset = _whole_or_next(segment, position, offset).base_offset
            end_offset = min(offset, max(base_offset, segment.base_offset))
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error
    except (IndexUnreadable, NotCached, DamagedBatch) as error:
        raise _damaged(segment, offset, error) from error
    return segment, position, end_offset


def _whole_or_next(segment: Segment, position: FilePosition, offset: Offset) -> BatchHeader:
    """The header at `position`. Raises DamagedBatch when the batch does not begin with `offset` and is corrupt as well.

    A corrupt header may wrongly claim to hold `offset`, which would truncate valid records below it, or claim a
    compaction gap.
    """
    file = segment.open()
    header = read_header(file.read(HEADER_BYTES, position))
    if header.base_offset != offset:
        size_bytes = min(header.size_bytes, segment.size - position)
        if compute_crc(file.read(size_bytes, position)) != header.crc:
            raise DamagedBatch(file.path, position)
    return header


def _damaged(segment: Segment, offset: Offset, error: Exception) -> DamagedLog:
    position = error.position if isinstance(error, DamagedBatch) else 0
    return DamagedLog(segment.path(".log"), position, offset, f"it cannot be cut there: {error}")


def _truncate(log: Log, segment: Segment, position: FilePosition, end_offset: Offset) -> None:
    _begin(log, end_offset)
    kept = log.segments.index(segment) + 1
    removed, log.segments = log.segments[kept:], log.segments[:kept]
    log.active = segment
    _remove(log, removed)
    segment.truncate(end_offset, position, log.config)
    last_end = _find_max_timestamp(segment)
    _settle(log, end_offset)
    if not log.producers.truncate_to(end_offset):
        log.producers.restore(
            log.disk,
            log.path,
            log.segments,
            log.snapshot_offsets,
            end_offset,
            log.last_flush_ms,
            looks_back=False,
        )
    if last_end < end_offset:
        # truncated inside a compaction gap: after a crash a segment's name gives the log end, because no batch does
        try:
            log.roll(log.last_flush_ms)
        except LogDirectoryFailure as failure:
            # not DiskFull: the log is truncated already, and a retry would not roll
            error = failure.error
            raise OSError(error.errno, error.strerror, error.filename) from failure


def truncate_fully_and_start_at(log: Log, offset: Offset, now_ms: int) -> None:
    """See `Log.truncate_fully_and_start_at`. DiskFull leaves the log unchanged."""
    try:
        _begin(log, min(offset, log.log_start_offset))
        removed = log.segments
        segment = Segment.create(log.disk, log.path, offset, log.config, now_ms)
        if segment.base_offset in {old.base_offset for old in removed}:
            removed = [old for old in removed if old.base_offset != offset]
            for suffix in SEGMENT_SUFFIXES:
                if log.disk.exists(segment.path(suffix)):
                    log.disk.open(segment.path(suffix)).truncate(0)
        log.segments = [segment]
        log.active = segment
        _remove(log, removed)
        log.epochs.clear()
        log.producers.clear()
        log.log_start_offset = offset
        _settle(log, offset)
        _remove_snapshots(log, -1)
        log.recovery_point = offset
        log.has_rolled = False
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error


def cut_plan(log: Log) -> FlushPlan:
    """The files to sync before the next append to a truncated log."""
    return FlushPlan(log, log.log_end_offset, [], log.unsynced_cut, None, [], sync_names=True)


def cut_synced(log: Log, plan: FlushPlan) -> None:
    """Allow appends after a plan's `run` returned, unless the log was truncated again."""
    if plan.generation == log.generation:
        log.unsynced_cut = None
        log.set_roll_limits()


def sync_cut(log: Log) -> None:
    """Sync the truncation now, for an append before the job's sync or for a clean stop. Raises LogDirectoryFailure."""
    plan = cut_plan(log)
    plan.run()
    cut_synced(log, plan)


def _begin(log: Log, offset: Offset) -> None:
    assert offset >= log.recovery_point, "the recovery point is lowered before a cut, on the device too"
    log.generation += 1
    log.forget_positions()
    if log.cleaned_offset is not None:
        log.cleaned_offset = min(offset, log.cleaned_offset)


def _settle(log: Log, end_offset: Offset) -> None:
    """Adjust everything but the files to the new end."""
    log.unsynced_cut = log.active
    log.log_end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.size_bytes = sum(segment.size for segment in log.segments)
    log.epochs.truncate_from_end(end_offset)
    log.names_changed = True
    _remove_snapshots(log, end_offset)
    log.set_roll_limits()


def _remove_snapshots(log: Log, above: Offset) -> None:
    for offset in [offset for offset in log.snapshot_offsets if offset > above]:
        log.disk.remove(f"{log.path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}")
        log.snapshot_offsets.remove(offset)


def _remove(log: Log, segments: list[Segment]) -> None:
    for segment in reversed(segments):
        for suffix in SEGMENT_SUFFIXES:
            log.disk.remove(segment.path(suffix))


def _find_max_timestamp(segment: Segment) -> Offset:
    """Search after the last time index entry for a larger timestamp; returns the end offset of the last batch."""
    assert segment.offset_index.entries is not None
    end_offset = segment.base_offset
    start = segment.offset_index.lookup(segment.max_timestamp_offset)
    for _, header in scan_headers(segment.open(), start, segment.size):
        segment.note_timestamp(header.max_timestamp, header.last_offset)
        end_offset = header.next_offset
    return end_offset
