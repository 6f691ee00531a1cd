"""Producer state from disk: the newest good snapshot at or below an offset, then the batch headers after it."""

import contextlib
from collections.abc import Sequence

from yak.ids import Offset
from yak.protocol.record_batch import NO_PRODUCER_ID
from yak.seams.disk import Disk
from yak.storage.names import SNAPSHOT_SUFFIX, offset_name
from yak.storage.producer_snapshot import BadSnapshot, parse_snapshot
from yak.storage.producer_state import ProducerState
from yak.storage.reader import DamagedBatch, floor_boundary
from yak.storage.scan import headers_within, scan_headers
from yak.storage.segment import Segment

LOOK_BACK_BYTES = 8 * 1024 * 1024
"""How far before a snapshot batches are looked for: the most that a producer of large batches has under way."""


def restore_producers(
    producers: ProducerState,
    disk: Disk,
    path: str,
    segments: Sequence[Segment],
    snapshot_offsets: Sequence[Offset],
    end_offset: Offset,
    now_ms: int,
    *,
    looks_back: bool = True,
) -> None:
    """Bring `producers` to what they were at `end_offset`. Reads the disk; raises OSError, DamagedBatch.

    A snapshot holds the last batch of each producer; the earlier ones that still count are looked for in the log before it,
    or, when nothing may be read there now (`looks_back`), once a producer sends something that does not fit. On a disk that
    gave a snapshot wrong, what is read in its place is checked.
    """
    producers.clear()
    bad_snapshot = ""
    start = segments[0].base_offset
    for offset in sorted(snapshot_offsets, reverse=True):
        if offset > end_offset:
            continue
        name = f"{offset_name(offset)}{SNAPSHOT_SUFFIX}"
        try:
            entries = list(parse_snapshot(disk.read_file(f"{path}/{name}")))
        except BadSnapshot:
            bad_snapshot = bad_snapshot or name
            continue
        except FileNotFoundError:
            continue
        producers.restore(entries, now_ms)
        start = max(start, offset)
        if entries and looks_back:
            _look_back(producers, segments, start)
        elif entries:
            _look_back_when_needed(producers, list(segments), start)
        break
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
        if following <= start or segment.base_offset >= end_offset or not segment.size:
            continue
        try:
            replay_producers(producers, segment, start, end_offset, now_ms, checks=bool(bad_snapshot))
        except DamagedBatch as damaged:
            if not bad_snapshot:
                raise
            why = f"{damaged.reason}; it was read because {bad_snapshot} is damaged too"
            raise DamagedBatch(damaged.file, damaged.position, why) from damaged


def _look_back(producers: ProducerState, segments: Sequence[Segment], before: Offset) -> None:
    """Find the batches before an offset that a producer may still send again, newest segment first."""
    left = LOOK_BACK_BYTES
    for segment in reversed(segments):
        if segment.base_offset >= before or not segment.size:
            continue
        if left <= 0:
            return
        _, start = floor_boundary(segment, max(0, segment.size - left), cached=False)
        headers = [header for _, header in scan_headers(segment.open(), start, segment.size)]
        for header in reversed(headers):
            if header.producer_id != NO_PRODUCER_ID and header.base_offset < before:
                producers.remember_earlier(header)
        left -= segment.size


def _look_back_when_needed(producers: ProducerState, segments: Sequence[Segment], before: Offset) -> None:
    def look() -> None:
        # what retention took meanwhile, or cannot be read, is not known: the producer is refused as if it had expired
        with contextlib.suppress(OSError):
            _look_back(producers, segments, before)

    producers.look_back = look


def replay_producers(
    producers: ProducerState,
    segment: Segment,
    start_offset: Offset,
    end_offset: Offset,
    now_ms: int,
    *,
    checks: bool = False,
) -> None:
    """Take the batches of one segment within [start, end) into `producers`. Raises OSError, DamagedBatch."""
    for header in headers_within(segment, start_offset, end_offset, checks=checks):
        if header.producer_id != NO_PRODUCER_ID and header.base_offset >= start_offset:
            producers.update(header, header.base_offset, header.last_offset, now_ms)
