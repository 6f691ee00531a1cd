"""Helpers of `Log.roll`: the age limit and the producer snapshot. Kafka's LogSegment.shouldRoll and UnifiedLog.roll."""

from __future__ import annotations

from typing import TYPE_CHECKING

import crc32c

from yak.storage.cleanable import longest_segment_ms
from yak.storage.names import SNAPSHOT_SUFFIX, offset_name
from yak.storage.producer_state import format_snapshot

if TYPE_CHECKING:
    from yak.storage.log import Log


def roll_after_ms(log: Log) -> int:
    """How long after its first timestamp the active segment takes appends, in ms."""
    config, segment_ms = log.config, longest_segment_ms(log.config)
    if not config.segment_jitter_ms:
        return segment_ms
    # Kafka draws the jitter; a hash of the segment's name spreads as well and needs no random source
    seed = crc32c.crc32c(f"{log.topic_partition} {log.active.base_offset}".encode())
    return segment_ms - int(seed) % min(config.segment_jitter_ms, segment_ms)


def write_snapshot(log: Log) -> None:
    """See `Log.write_snapshot`."""
    offset = log.log_end_offset
    log.disk.write_file_lazily(
        f"{log.path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}", format_snapshot(log.producers.to_snapshot())
    )
    bases = {segment.base_offset for segment in log.segments}
    kept = [old for old in log.snapshot_offsets if old in bases and old != offset]
    for old in log.snapshot_offsets:
        if old not in bases and old != offset:
            log.disk.remove(f"{log.path}/{offset_name(old)}{SNAPSHOT_SUFFIX}")
    log.snapshot_offsets = [*kept, offset]
    log.names_changed = True
