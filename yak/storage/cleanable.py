"""Which part of a log compaction may clean, and whether it is worth it: Kafka's LogCleanerManager.scala.

The clean part went through an earlier round; the dirty part came after it. Compaction never touches the active segment,
records at or above the high watermark, records not yet synced, or records younger than `min.compaction.lag.ms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from yak.config.log_config import NEVER, LogConfig
from yak.ids import Offset
from yak.storage.segment import UNKNOWN_TIMESTAMP, Segment

if TYPE_CHECKING:
    from yak.storage.log import Log


class Cleanable(NamedTuple):
    """A log's dirty part, [first_dirty_offset, end_offset), and the sizes of the clean and dirty parts in bytes."""

    first_dirty_offset: Offset
    end_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a dirty record is older than `max.compaction.lag.ms`."""
    due_ms: int | None
    """When more may be cleaned without a write, or the dirty part becomes overdue; None when time changes nothing."""

    @property
    def dirty_ratio(self) -> float:
        """Dirty bytes divided by all bytes."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worth(self, config: LogConfig) -> bool:
        """Whether a round should begin."""
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.dirty_ratio >= config.min_cleanable_dirty_ratio


def is_compacted(config: LogConfig) -> bool:
    """Whether logs with this configuration are compacted."""
    return "compact" in config.cleanup_policy


def may_have_gaps(log: Log) -> bool:
    """Whether a leader may leave out offsets because its compaction removed their batches."""
    return log.cleaned_offset is not None or is_compacted(log.config)


def longest_segment_ms(config: LogConfig) -> int:
    """The age at which the active segment rolls, since compaction cannot clean it (LogConfig.maxSegmentMs)."""
    return min(config.segment_ms, config.max_compaction_lag_ms) if is_compacted(config) else config.segment_ms


def cleanable(log: Log, high_watermark: Offset, now_ms: int) -> Cleanable:
    """The part of a log that can be cleaned now. Raises LogDirectoryFailure."""
    config = log.config
    first_dirty_offset = max(log.cleaned_offset or 0, log.segments[0].base_offset)
    safe_offset = min(high_watermark, log.recovery_point)
    end_offset = log.segments[0].base_offset
    clean_bytes = dirty_bytes = 0
    due_ms, oldest_ms = NEVER, NEVER
    for segment, following in zip(log.segments[:-1], log.segments[1:], strict=True):
        if following.base_offset > safe_offset:
            break
        is_dirty = following.base_offset > first_dirty_offset
        if is_dirty and config.min_compaction_lag_ms and now_ms - segment.max_timestamp < config.min_compaction_lag_ms:
            due_ms = segment.max_timestamp + config.min_compaction_lag_ms
            break
        end_offset = following.base_offset
        if is_dirty:
            dirty_bytes += segment.size
            oldest_ms = min(oldest_ms, _first_timestamp(log, segment))
        else:
            clean_bytes += segment.size
    overdue_ms = NEVER
    if oldest_ms != NEVER and config.max_compaction_lag_ms != NEVER:
        overdue_ms = oldest_ms + config.max_compaction_lag_ms
    is_overdue = overdue_ms < now_ms
    due_ms = due_ms if is_overdue else min(due_ms, overdue_ms + 1)
    return Cleanable(
        first_dirty_offset, end_offset, clean_bytes, dirty_bytes, is_overdue, due_ms if due_ms < NEVER else None
    )


def _first_timestamp(log: Log, segment: Segment) -> int:
    """The segment's first timestamp, as `max.compaction.lag.ms` needs it; NEVER when it is not needed or not known."""
    if log.config.max_compaction_lag_ms == NEVER or not segment.size:
        return NEVER
    if segment.first_timestamp == UNKNOWN_TIMESTAMP:
        log.load_first_timestamp(segment)
    return segment.first_timestamp if segment.first_timestamp > 0 else NEVER
