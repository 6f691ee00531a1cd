"""Restoring leader epochs that the cache lacks at its front, from the batch headers.

When deleted records move the log start, the epoch cache is truncated first and the log start checkpoint is written
later. After a crash the log may begin earlier again, before the first cached epoch. Followers need the end of such
epochs too.
"""

from collections.abc import Sequence

from yak.ids import LeaderEpoch, Offset
from yak.storage.epoch_cache import EpochCache
from yak.storage.scan import headers_within
from yak.storage.segment import Segment


def restore_front(epochs: EpochCache, segments: Sequence[Segment], log_start_offset: Offset) -> None:
    """Extend `epochs` down to the log start, unless empty. Reads the disk; raises OSError, DamagedBatch."""
    if not epochs.entries or epochs.entries[0][1] <= log_start_offset:
        return
    end_offset = epochs.entries[0][1]
    found: list[tuple[LeaderEpoch, Offset]] = []
    for index, segment in enumerate(segments):
        if segment.base_offset >= end_offset:
            break
        is_before = index + 1 < len(segments) and segments[index + 1].base_offset <= log_start_offset
        if segment.size and not is_before:
            _collect(found, segment, log_start_offset, end_offset)
    epochs.begin_with(found)


def _collect(
    found: list[tuple[LeaderEpoch, Offset]], segment: Segment, start_offset: Offset, end_offset: Offset
) -> None:
    for header in headers_within(segment, start_offset, end_offset):
        if header.last_offset >= start_offset and (not found or header.partition_leader_epoch > found[-1][0]):
            found.append((header.partition_leader_epoch, max(header.base_offset, start_offset)))
