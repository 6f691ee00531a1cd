"""Which segments retention removes, by age, size and log start offset: Kafka's UnifiedLog.deleteOldSegments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from yak.errors import LogDirectoryFailure
from yak.ids import Offset
from yak.storage.names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_name
from yak.storage.segment import Segment

if TYPE_CHECKING:
    from yak.storage.log import Log


def expired_segments(log: Log, now_ms: int, high_watermark: Offset) -> list[Segment]:
    """See `Log.expired_segments`."""
    config = log.config
    deletes = "delete" in config.cleanup_policy
    surplus_bytes = log.size_bytes - config.retention_bytes if deletes and config.retention_bytes >= 0 else 0
    expired: list[Segment] = []
    segments = log.segments
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end_offset = log.log_end_offset if is_last else segments[index + 1].base_offset
        if end_offset > high_watermark or (is_last and not segment.size):
            break
        is_below_start = end_offset <= log.log_start_offset and not is_last
        is_surplus = surplus_bytes - segment.size >= 0 and surplus_bytes > 0
        if not (is_below_start or is_surplus or (deletes and _is_too_old(segment, now_ms, config.retention_ms))):
            break
        surplus_bytes -= segment.size
        expired.append(segment)
    return expired


def _is_too_old(segment: Segment, now_ms: int, retention_ms: int) -> bool:
    if retention_ms < 0:
        return False
    newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
    return now_ms - newest > retention_ms


def remove_segments(log: Log, segments: list[Segment], now_ms: int) -> Callable[[], None]:
    """See `Log.remove_segments`."""
    if not segments:
        return lambda: None
    assert log.segments[: len(segments)] == segments, "only the oldest segments may go"
    if segments[-1] is log.active:
        log.roll(now_ms or log.last_flush_ms)
    log.segments = log.segments[len(segments) :]
    log.size_bytes -= sum(segment.size for segment in segments)
    log.cursors = None
    advance_log_start(log, log.segments[0].base_offset)
    log.recovery_point = max(log.recovery_point, log.segments[0].base_offset)
    disk = log.disk
    renamed: list[str] = []
    try:
        for segment in segments:
            renamed += segment.set_aside(DELETED_SUFFIX)
            if segment.base_offset in log.snapshot_offsets:
                log.snapshot_offsets.remove(segment.base_offset)
                disk.remove(f"{log.path}/{offset_name(segment.base_offset)}{SNAPSHOT_SUFFIX}")
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error

    def delete() -> None:
        for path in renamed:
            disk.remove(path)

    return delete


def advance_log_start(log: Log, offset: Offset) -> bool:
    """See `Log.advance_log_start`. An offset past the log end is a bug of the caller."""
    assert offset <= log.log_end_offset
    if offset <= log.log_start_offset:
        return False
    log.log_start_offset = offset
    log.epochs.truncate_from_start(offset)
    return True
