"""Cutting the end of a log: a follower that diverged, or starts anew. Kafka's LocalLog.truncateTo.

The lowered recovery point is written first: after a crash it must not promise bytes that were cut and written anew. A cut
is synced before anything is appended: a power loss must not bring old records back behind new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.errors import LogDirectoryFailure
from yak.ids import Offset
from yak.protocol.record_batch import HEADER_BYTES, read_header
from yak.storage.names import SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, offset_name
from yak.storage.producers_restore import restore_producers
from yak.storage.reader import DamagedBatch, NotCached, position_of
from yak.storage.scan import scan_headers
from yak.storage.segment import IndexUnreadable, Segment

if TYPE_CHECKING:
    from yak.storage.log import Log


def truncate_to(log: Log, offset: Offset) -> Offset:
    """See `Log.truncate_to`."""
    if offset >= log.log_end_offset:
        return log.log_end_offset
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset, log.last_flush_ms)
        return offset
    try:
        return _truncate(log, offset)
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error
    except (IndexUnreadable, NotCached, DamagedBatch) as error:
        raise LogDirectoryFailure(log.directory, OSError(0, f"cannot find offset {offset}: {error}")) from error


def _truncate(log: Log, offset: Offset) -> Offset:
    kept = [segment for segment in log.segments if segment.base_offset <= offset]
    segment = kept[-1]
    position = position_of(segment, offset, segment.size, cached=False)
    end_offset = offset
    if position < segment.size:
        end_offset = min(offset, read_header(segment.open().read(HEADER_BYTES, position)).base_offset)
    if end_offset < log.log_start_offset:
        # only deleted records are left
        truncate_fully_and_start_at(log, log.log_start_offset, log.last_flush_ms)
        return log.log_end_offset
    _lower_recovery_point(log, end_offset)
    removed = log.segments[len(kept) :]
    log.segments = kept
    log.active = segment
    _remove(log, removed)
    segment.truncate(end_offset, position, log.config)
    _sync_cut(log)
    last_end = _find_max_timestamp(segment)
    _settle(log, end_offset)
    if not log.producers.truncate_to(end_offset):
        restore_producers(log.producers, log.disk, log.path, kept, log.snapshot_offsets, end_offset, log.last_flush_ms)
    if last_end < end_offset:
        # cut where compaction left nothing: the name of a segment tells the end after a crash, no batch does
        log.roll(log.last_flush_ms)
    return end_offset


def truncate_fully_and_start_at(log: Log, offset: Offset, now_ms: int) -> None:
    """See `Log.truncate_fully_and_start_at`."""
    try:
        _lower_recovery_point(log, min(offset, log.log_start_offset))
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
        _sync_cut(log)
        log.epochs.clear()
        log.producers.clear()
        log.log_start_offset = offset
        _settle(log, offset)
        _remove_snapshots(log, -1)
        log.recovery_point = offset
        log.has_rolled = False
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error


def _sync_cut(log: Log) -> None:
    log.active.open().sync()
    log.disk.sync_directory(log.path)


def _lower_recovery_point(log: Log, offset: Offset) -> None:
    log.generation += 1
    log.forget_positions()
    if log.cleaned_offset is not None:
        log.cleaned_offset = min(offset, log.cleaned_offset)
    if offset < log.recovery_point:
        log.recovery_point = offset
        if log.before_truncation is not None:
            log.before_truncation()


def _settle(log: Log, end_offset: Offset) -> None:
    """Everything but the files follows the new end."""
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
    """Look behind the last time index entry for a larger timestamp that is still there; tells where the last batch ends."""
    assert segment.offset_index.entries is not None
    end_offset = segment.base_offset
    start = segment.offset_index.lookup(segment.max_timestamp_offset)
    for _, header in scan_headers(segment.open(), start, segment.size):
        segment.note_timestamp(header.max_timestamp, header.last_offset)
        end_offset = header.next_offset
    return end_offset
