"""Restoring producer state from disk: the newest valid snapshot up to an offset, then the batch headers after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from yak.ids import Offset, ProducerId
from yak.limits import PRODUCER_BATCHES_REMEMBERED
from yak.protocol.record_batch import NO_PRODUCER_ID, BatchHeader
from yak.seams.disk import Disk
from yak.storage.names import SNAPSHOT_SUFFIX, offset_name
from yak.storage.producer_snapshot import BadSnapshot, parse_snapshot
from yak.storage.producer_state import ProducerState
from yak.storage.reader import DamagedBatch, floor_boundary
from yak.storage.scan import headers_within, scan_headers
from yak.storage.segment import Segment

if TYPE_CHECKING:
    from yak.storage.log import Log

LOOK_BACK_BYTES = 8 * 1024 * 1024
"""How far before a snapshot to search: the most that a producer of large batches has in flight."""


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
    """Restore `producers` as of `end_offset`. Reads the disk; raises OSError, DamagedBatch.

    A snapshot holds the last batch of each producer. The earlier ones that still count are read from the log before it,
    or, without `looks_back`, only once a producer sends a sequence that does not follow. If a snapshot was corrupt, the
    batches read in its place are checked against their CRC.
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
            producers.earlier_read(earlier_batches(segments, start, producers.known()))
        elif entries:
            producers.unread_before = start
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


def earlier_batches(segments: Sequence[Segment], before: Offset, epochs: Mapping[ProducerId, int]) -> list[BatchHeader]:
    """The newest batches before an offset that producers of these epochs may still retry, newest first.

    Reads up to `LOOK_BACK_BYTES` of the disk; raises OSError.
    """
    found: list[BatchHeader] = []
    counts = dict.fromkeys(epochs, 0)
    left = LOOK_BACK_BYTES
    for segment in reversed(segments):
        if segment.base_offset >= before or not segment.size:
            continue
        if left <= 0:
            break
        _, start = floor_boundary(segment, max(0, segment.size - left), cached=False)
        headers = [header for _, header in scan_headers(segment.open(), start, segment.size)]
        for header in reversed(headers):
            producer_id = header.producer_id
            if header.base_offset >= before or header.producer_epoch != epochs.get(producer_id) or header.is_control:
                continue
            if counts[producer_id] < PRODUCER_BATCHES_REMEMBERED:
                counts[producer_id] += 1
                found.append(header)
        left -= segment.size
    return found


def search_plan(log: Log, before: Offset) -> Callable[[], list[BatchHeader]]:
    """A job that searches the present log for `earlier_batches`; it references the log only until it has run.

    Batches that retention removes in the meantime, or that are unreadable, are not found. Their producer is then
    rejected as if it had expired.
    """
    segments, epochs = list(log.segments), log.producers.known()

    def search() -> list[BatchHeader]:
        try:
            return earlier_batches(segments, before, epochs)
        except OSError:
            return []

    return search


def replay_producers(
    producers: ProducerState,
    segment: Segment,
    start_offset: Offset,
    end_offset: Offset,
    now_ms: int,
    *,
    checks: bool = False,
) -> None:
    """Add the batches of one segment within [start, end) to `producers`. Raises OSError, DamagedBatch."""
    for header in headers_within(segment, start_offset, end_offset, checks=checks):
        if header.producer_id != NO_PRODUCER_ID and header.base_offset >= start_offset:
            producers.update(header, header.base_offset, header.last_offset, now_ms)
