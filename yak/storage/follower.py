"""Appending fetched batches: they keep the leader's offsets and epochs, and are checked as network input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.errors import LogDirectoryFailure, ProtocolViolation
from yak.ids import FilePosition, LeaderEpoch, Offset
from yak.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC_V2,
    BatchHeader,
    Buffer,
    compute_crc,
    iterate_headers,
    read_header,
)
from yak.storage.cleanable import may_have_gaps
from yak.storage.segment import RELATIVE_OFFSET_MAX
from yak.storage.truncation import sync_cut

if TYPE_CHECKING:
    from yak.storage.log import Log

EPOCH_MAX = 2**31 - 1


def append(log: Log, batches: Buffer, now_ms: int, epoch_max: LeaderEpoch) -> Offset:
    """See `Log.append_as_follower`."""
    view = memoryview(batches)
    if _append_one(log, view, now_ms, epoch_max):
        return log.log_end_offset
    if log.unsynced_cut is not None:
        sync_cut(log)
    run_start = 0
    run: list[tuple[int, BatchHeader]] = []
    expected, epoch = log.log_end_offset, log.latest_epoch
    stop = 0
    refusal: str | None = None
    for position, header in iterate_headers(view):
        try:
            _check(log, view, position, header, expected, epoch, epoch_max)
        except ProtocolViolation as error:
            refusal = str(error)  # not the exception: its traceback would keep this frame, and with it the batches
            break
        stop = position + header.size_bytes
        end = log.active.size + stop - run_start
        is_far = header.last_offset - expected > RELATIVE_OFFSET_MAX
        if is_far or (log.active.size + position - run_start > 0 and _must_roll(log, run, end, header, now_ms)):
            _write(log, view, run, run_start, position, now_ms)
            run, run_start = [], position
            if is_far:
                # a segment that begins here cannot index that offset: start one after the gap (UnifiedLog.maybeRoll)
                log.log_end_offset = header.base_offset
            log.roll(now_ms)
        run.append((position, header))
        expected, epoch = header.next_offset, header.partition_leader_epoch
    _write(log, view, run, run_start, stop, now_ms)
    if refusal is not None:
        raise ProtocolViolation(refusal)
    if not stop and len(view) >= HEADER_BYTES:
        raise ProtocolViolation(f"the leader sent no whole batch in {len(view)} bytes")
    return log.log_end_offset


def _append_one(log: Log, view: memoryview, now_ms: int, epoch_max: LeaderEpoch) -> bool:
    """Append a single batch that follows the log end and fits the active segment, the common case; False otherwise."""
    if len(view) < HEADER_BYTES:
        return False
    header = read_header(view)
    segment = log.active
    position = segment.size
    end = position + len(view)
    if (
        header.size_bytes != len(view)
        or header.base_offset != log.log_end_offset
        or not position
        or end > log.roll_position
        or header.max_timestamp > log.roll_timestamp
        or header.last_offset > log.roll_offset
    ):
        return False
    _check(log, view, 0, header, header.base_offset, log.epochs.latest, epoch_max)
    if position > segment.index_due_position:
        log.prepare_index_entry()
    try:
        (segment.file or segment.open()).append((view,))
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error
    segment.size = end
    log.size_bytes += len(view)
    log.log_end_offset = header.next_offset
    log.note_batch(header, header.base_offset, position, end, now_ms)
    return True


def _check(
    log: Log,
    view: memoryview,
    position: int,
    header: BatchHeader,
    expected: Offset,
    epoch: LeaderEpoch,
    epoch_max: LeaderEpoch,
) -> None:
    if header.magic != MAGIC_V2 or header.last_offset_delta < 0:
        raise ProtocolViolation(f"the leader sent a batch of format {header.magic}")
    if header.base_offset < expected:
        raise ProtocolViolation(f"the leader sent offset {header.base_offset}, the log ends at {expected}")
    if header.base_offset != expected and not may_have_gaps(log):
        raise ProtocolViolation(f"the leader left out offsets {expected} to {header.base_offset - 1}")
    if header.partition_leader_epoch < epoch:
        raise ProtocolViolation(f"leader epoch {header.partition_leader_epoch} after {epoch}")
    if header.partition_leader_epoch > epoch_max:
        raise ProtocolViolation(f"leader epoch {header.partition_leader_epoch} from a leader in {epoch_max}")
    if compute_crc(view, position, header.size_bytes) != header.crc:
        raise ProtocolViolation(f"the CRC-32C of the batch at offset {header.base_offset} does not fit its bytes")


def _must_roll(
    log: Log, run: list[tuple[int, BatchHeader]], end: FilePosition, header: BatchHeader, now_ms: int
) -> bool:
    if end > log.roll_position or header.last_offset > log.roll_offset:
        return True
    if not log.active.size:
        # nothing written yet: the segment's age counts from the first batch of this run
        first = run[0][1].max_timestamp
        return first >= 0 and header.max_timestamp - first > log.config.segment_ms
    return log.must_roll(end, header.max_timestamp, header.last_offset, now_ms)


def _write(log: Log, view: memoryview, run: list[tuple[int, BatchHeader]], start: int, stop: int, now_ms: int) -> None:
    """Write a run of batches that fit the active segment in one go, then index them."""
    if not run:
        return
    segment = log.active
    before = segment.size
    if before + stop - start > segment.index_due_position:
        log.prepare_index_entry()
    try:
        segment.open().append((view[start:stop],))
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error
    segment.size = before + stop - start
    log.size_bytes += stop - start
    next_offset = log.log_end_offset
    log.log_end_offset = run[-1][1].next_offset
    for position, header in run:
        at = before + position - start
        if header.base_offset != next_offset and log.cleaned_offset is None:
            log.cleaned_offset = log.segments[0].base_offset
        next_offset = header.next_offset
        log.note_batch(header, header.base_offset, at, at + header.size_bytes, now_ms)
