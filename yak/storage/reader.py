"""Finding and reading batches of a log: in the step from the page cache, else as a job in a thread.

A read takes its first position from, in order: the last appended batches, the end of an earlier read, the offset index
and a scan of at most one index interval. It ends at a batch boundary that the index knows, so that the next read of a
sequential consumer begins at a known position.

ListOffsets finds a record by timestamp: Kafka's LogSegment.findOffsetByTimestamp and FileRecords.searchForTimestamp. The
result is the first *record* at or after the timestamp, with its own timestamp.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from yak.errors import LogDirectoryFailure, ProtocolViolation
from yak.ids import FilePosition, LeaderEpoch, Offset
from yak.ports.disk import Buffer, Disk, File, FileSlice
from yak.protocol.control_batch import EndTransactionMarker, read_marker
from yak.protocol.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchHeader,
    compute_crc,
    read_header,
)
from yak.protocol.record_walk import walk_records
from yak.storage.indexes import (
    AbortedTxn,
    TimeIndex,
    floor_by_offset,
    floor_by_position,
    floor_by_timestamp,
    is_offset_index,
)
from yak.storage.names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from yak.storage.segment import IndexUnreadable, Segment

if TYPE_CHECKING:
    from yak.storage.log import Log

_BATCH = struct.Struct(">qi11xi")
_unpack_batch = _BATCH.unpack_from
_base_offset = attrgetter("base_offset")
SCAN_BYTES = 8192
_EMPTIED_BYTES = 64 * HEADER_BYTES
_WALK_BYTES = 256 * 1024
SLICE_BYTES_MIN = 64 * 1024
"""A smaller slice does not pay: two more system calls instead of one copy."""
EMPTY = b""


class OffsetOutOfRange(Exception):
    """A read outside the log: `offset` is not between `log_start_offset` and `log_end_offset`."""

    def __init__(self, offset: Offset, log_start_offset: Offset, log_end_offset: Offset) -> None:
        super().__init__(f"offset {offset} is not in [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class NotCached(Exception):
    """The bytes are not in the page cache, or no longer in the file."""


class DamagedBatch(Exception):
    """An impossible batch header: the position was wrong, or the file is damaged. The offset is -1 where it is not known."""

    def __init__(self, file: str, position: FilePosition, reason: str = "", offset: Offset = -1) -> None:
        super().__init__(f"{file} at {position}" + (f": {reason}" if reason else ""))
        self.file, self.position, self.reason, self.offset = file, position, reason, offset


@dataclass(slots=True, eq=False, repr=False)
class Read:
    """One read: segments, offset, size. `start` and `end` are positions in the first segment, -1 when unknown."""

    segments: list[Segment]
    offset: Offset
    max_bytes: int
    up_to: Offset
    _: KW_ONLY
    segment_end: Offset
    """The offset that follows the range that the read found; `up_to` before."""
    at_least_one: bool
    skips_emptied: bool = False
    """Whether a range of batches that compaction emptied is left out if there are records behind it."""
    has_gaps: bool = True
    start: FilePosition = -1
    end: FilePosition = -1
    _location: tuple[str, FilePosition] | None = None

    @property
    def location(self) -> tuple[str, FilePosition]:
        """File and position of the first byte found, or of the search for it."""
        return self._location or (self.segments[0].path(LOG_SUFFIX), max(self.start, 0))

    def perform(self, *, cached: bool) -> tuple[Buffer, Offset, FilePosition, Segment | None]:
        """(batches, next offset, its position, its segment); the last three are -1, -1, None when not known.

        With `cached` it reads only the page cache. Raises NotCached, OSError.
        """
        found = self._find(cached=cached)
        return (EMPTY, -1, -1, None) if found is None else self._read_range(*found, cached=cached)

    def slice(self) -> tuple[FileSlice, Offset, FilePosition, Segment | None] | None:
        """Like `perform`, but with the batches as a file range for `sendfile`.

        None when that is impossible, or too little to be worth it. Raises NotCached, DamagedBatch, OSError.
        """
        found = self._find(cached=True)
        if found is None:
            return None
        segment, start, end = found
        if end - start < SLICE_BYTES_MIN:
            return None
        file = segment.open()
        self._check_first(file, fetch(file, _BATCH.size, start, cached=True), start, end)
        if end - start <= self.max_bytes:
            whole = file.slice_cached(end - start, start)
            return None if whole is None else (whole, -1, -1, None)
        last_offset, boundary = floor_boundary(segment, start + self.max_bytes, cached=True)
        if boundary - start < SLICE_BYTES_MIN:
            return None
        front = file.slice_cached(boundary - start, start)
        if front is None:
            return None
        next_offset = _base_offset_of(fetch(file, _BATCH.size, boundary, cached=True), last_offset)
        return None if next_offset < 0 else (front, next_offset, boundary, segment)

    def _find(self, *, cached: bool) -> tuple[Segment, FilePosition, FilePosition] | None:
        """(first segment with batches of this read, start, end); None when there is none."""
        segments = self.segments
        emptied: tuple[Segment, FilePosition, FilePosition] | None = None
        for index, segment in enumerate(segments):
            size = segment.size
            end = self.end if index == 0 else -1
            if end < 0:
                if index + 1 < len(segments) and segments[index + 1].base_offset <= self.up_to:
                    end = size
                    self.segment_end = segments[index + 1].base_offset
                else:
                    self.segment_end = self.up_to
                    end = position_of(segment, self.up_to, size, cached=cached, has_gaps=self.has_gaps)
            start = self.start if index == 0 else -1
            if start < 0:
                start = position_of(segment, self.offset, end, cached=cached, has_gaps=self.has_gaps)
            if start < end:
                if not (self.skips_emptied and _are_emptied(segment.open(), start, end, cached=cached)):
                    return segment, start, end
                emptied = segment, start, end
        return emptied

    def _read_range(
        self, segment: Segment, start: FilePosition, end: FilePosition, *, cached: bool
    ) -> tuple[Buffer, Offset, FilePosition, Segment | None]:
        file = segment.open()
        self._location = file.path, start
        wanted = end - start
        data: Buffer
        if wanted <= self.max_bytes:
            data = fetch(file, wanted, start, cached=cached)
            if len(data) == wanted:
                self._check_first(file, data, start, end)
                return data, -1, -1, None
        else:
            last_offset, boundary = floor_boundary(segment, start + self.max_bytes, cached=cached)
            if boundary > start:
                wanted = boundary - start + _BATCH.size
                data = fetch(file, wanted, start, cached=cached)
                if len(data) == wanted:
                    self._check_first(file, data, start, end)
                    next_offset = _base_offset_of(data[-_BATCH.size :], last_offset)
                    if next_offset >= 0:
                        return memoryview(data)[: -_BATCH.size], next_offset, boundary, segment
            else:
                data = fetch(file, min(wanted, max(self.max_bytes, _BATCH.size)), start, cached=cached)
        self._check_first(file, data, start, end)
        return self._trim(segment, file, data, start, cached=cached)

    def _check_first(self, file: File, data: Buffer, start: FilePosition, end: FilePosition) -> None:
        """Check that the first batch holds the offset or follows it after a gap, and ends where it may.

        The fetcher checks the others, and comes back for the first one that is invalid.
        """
        if len(data) < _BATCH.size:
            return
        base_offset, batch_length, last_offset_delta = _unpack_batch(data)
        if not BATCH_LENGTH_MIN <= batch_length <= end - start - LENGTH_OVERHEAD:
            raise DamagedBatch(file.path, start, f"the batch length is {batch_length}")
        if base_offset + last_offset_delta < self.offset or (base_offset > self.offset and not self.has_gaps):
            raise DamagedBatch(file.path, start, f"offset {base_offset}, expected {self.offset}")

    def _trim(
        self, segment: Segment, file: File, data: Buffer, start: FilePosition, *, cached: bool
    ) -> tuple[Buffer, Offset, FilePosition, Segment | None]:
        """The whole batches in `data`; a larger first batch is returned whole if `at_least_one`."""
        length, next_offset = whole_batches(data, min(self.max_bytes, len(data)))
        if not length:
            if len(data) < _BATCH.size:
                raise NotCached
            base_offset, batch_length, last_offset_delta = _unpack_batch(data)
            length = LENGTH_OVERHEAD + batch_length
            if length > self.max_bytes and not self.at_least_one:
                return EMPTY, -1, -1, None
            data = fetch(file, length, start, cached=cached)
            if len(data) < length:
                raise NotCached
            next_offset = base_offset + last_offset_delta + 1
        return memoryview(data)[:length], next_offset, start + length, segment


def ends_with_segment(log: Log, offset: Offset, up_to: Offset) -> bool:
    """Whether a read from `offset` towards `up_to` ends with its segment: the next segment has, or will have, more."""
    segments = log.segments
    if offset >= segments[-1].base_offset or not log.log_start_offset <= offset < up_to:
        return False
    return segments[bisect_right(segments, offset, key=_base_offset)].base_offset <= up_to


class ReadResult(NamedTuple):
    """The batches that a `ReadPlan` found, up to the first damaged one."""

    data: Buffer
    next_offset: Offset
    """The offset that follows the batches; -1 when there are none."""
    damage: DamagedBatch | None
    """The batch that ended the read, or was to begin it; two reads returned the same bytes."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A plan to read from the device.

    It shares the segments with the step, and uses only their files: a replaced or removed segment keeps its open file.
    The step drops the result if the log was truncated meanwhile.
    """

    directory: str
    read: Read

    def run(self, disk: Disk) -> ReadResult:  # noqa: ARG002
        """Read batches, and check each against its CRC and its neighbours. Raises LogDirectoryFailure.

        Damaged bytes are read once more, because a disk may return wrong bytes once.
        """
        result = self._try()
        return result if result.damage is None else self._try()

    def _try(self) -> ReadResult:
        read = copy(self.read)
        try:
            data, next_offset, _, _ = read.perform(cached=False)
        except DamagedBatch as damaged:
            return ReadResult(EMPTY, -1, damaged)
        except (NotCached, FileNotFoundError):
            return ReadResult(EMPTY, -1, DamagedBatch(*read.location, "the file ends before it, or was removed"))
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        whole_bytes, next_offset, reason = _check(data, read, read.segment_end if next_offset < 0 else next_offset)
        damage = None
        if reason:
            file, position = read.location
            damage = DamagedBatch(file, position + whole_bytes, reason)
        whole = data if whole_bytes == len(data) else memoryview(data)[:whole_bytes]
        return ReadResult(whole, next_offset, damage)


class PendingRead:
    """A read of a log that needs the device: a job runs `plan`, and the step takes its result."""

    __slots__ = ("_generation", "_swaps", "damage", "log", "next_offset", "plan")

    def __init__(self, log: Log, read: Read) -> None:
        self.log = log
        self._generation, self._swaps = log.generation, log.swaps
        self.plan = ReadPlan(log.directory, read)
        self.next_offset: Offset = -1
        """The offset that follows the batches that were taken; -1 when there are none."""
        self.damage: DamagedBatch | None = None
        """The damaged batch in the log that ended the read."""

    @property
    def offset(self) -> Offset:
        """Where the read begins."""
        return self.plan.read.offset

    def take(self, result: ReadResult) -> Buffer:
        """The batches of a result; empty when a truncation may have removed them in the meantime."""
        log = self.log
        if log.generation != self._generation:
            return EMPTY
        self.next_offset = result.next_offset
        if (
            log.swaps == self._swaps
            and self.offset >= log.log_start_offset
            and self.plan.read.segments[0] in log.segments
        ):
            # else retention or compaction replaced the bytes during the read
            self.damage = result.damage
        return result.data


def _check(data: Buffer, read: Read, end_offset: Offset) -> tuple[int, Offset, str]:
    """(bytes of the valid batches, the offset after them, what is wrong with the next batch or "").

    The first batch must hold the read's offset, the others must follow each other, and none may reach beyond
    `end_offset`.
    """
    position, expected = 0, -1
    while position < len(data):
        left = len(data) - position
        header = read_header(data, position) if left >= HEADER_BYTES else None
        if header is None or not HEADER_BYTES <= header.size_bytes <= left:
            return position, expected, "not a valid batch for this position"
        base_offset = header.base_offset
        is_behind = header.last_offset < read.offset if expected < 0 else base_offset < expected
        is_ahead = base_offset > max(expected, read.offset) and not read.has_gaps
        if is_behind or is_ahead or header.next_offset > end_offset or header.last_offset < base_offset:
            return position, expected, f"offset {base_offset}, expected {max(expected, read.offset)}"
        if compute_crc(data, position, header.size_bytes) != header.crc:
            return position, expected, f"the CRC-32C of the batch at offset {base_offset} does not match its bytes"
        expected = header.next_offset
        position += header.size_bytes
    return position, expected, ""


def fetch(file: File, size: int, position: FilePosition, *, cached: bool) -> bytes:
    """Bytes of a file, from the page cache only if `cached`. Raises NotCached when there are none."""
    data = file.read_cached(size, position) if cached else file.read(size, position)
    if not data:
        raise NotCached
    return data


def _are_emptied(file: File, start: FilePosition, end: FilePosition, *, cached: bool) -> bool:
    """Whether compaction removed all records of the batches in this range: each is only a header. Raises NotCached, OSError."""
    if (end - start) % HEADER_BYTES:
        return False
    for position in range(start, end, _EMPTIED_BYTES):
        chunk = fetch(file, min(_EMPTIED_BYTES, end - position), position, cached=cached)
        for at in range(0, len(chunk), HEADER_BYTES):
            if len(chunk) - at < HEADER_BYTES or read_header(chunk, at).size_bytes != HEADER_BYTES:
                return False
    return True


def begins_with(data: Buffer, offset: Offset) -> bool:
    """Whether `data` begins with a batch at `offset` that ends within it. Another program may have changed the file."""
    base_offset, batch_length, _ = _unpack_batch(data)
    return bool(base_offset == offset and BATCH_LENGTH_MIN <= batch_length <= len(data) - LENGTH_OVERHEAD)


def whole_batches(data: Buffer, limit: int) -> tuple[int, Offset]:
    """(bytes of the whole batches within `limit`, offset that follows them); (0, -1) when there is none.

    A batch that does not come after the one before is damage, and ends them: its offsets must not decide which aborted
    transactions a consumer gets with them.
    """
    position, next_offset = 0, -1
    end = min(limit, len(data))
    while position + _BATCH.size <= end:
        base_offset, batch_length, last_offset_delta = _unpack_batch(data, position)
        following = position + LENGTH_OVERHEAD + batch_length
        if batch_length < BATCH_LENGTH_MIN or following > end or base_offset < next_offset or last_offset_delta < 0:
            break
        position = following
        next_offset = base_offset + last_offset_delta + 1
    return position, next_offset


def position_of(
    segment: Segment, offset: Offset, limit: FilePosition, *, cached: bool, has_gaps: bool = True
) -> FilePosition:
    """Start of the batch that holds `offset`, or of the first one after it; `limit` when there is none before that.

    Raises NotCached, DamagedBatch, OSError.
    """
    if offset <= segment.base_offset or not limit:
        return 0
    last_offset, position = _index_floor(segment, offset, cached=cached)
    if 0 < position < limit:
        try:
            return find_batch(
                segment.open(), offset, position, limit, cached=cached, has_gaps=has_gaps, last=last_offset
            )
        except DamagedBatch:
            # the index may be wrong: scan from the segment's start
            pass
    return find_batch(segment.open(), offset, 0, limit, cached=cached, has_gaps=has_gaps, expected=segment.base_offset)


def find_batch(
    file: File,
    offset: Offset,
    position: FilePosition,
    limit: FilePosition,
    *,
    cached: bool,
    has_gaps: bool = True,
    expected: Offset = -1,
    last: Offset = -1,
) -> FilePosition:
    """Start of the first batch from `position` on whose last offset is at or above `offset`; `limit` when none is.

    The batch at `position` must begin at `expected` or end with `last`, if they are given. Each batch must follow the
    one before.
    """
    while position < limit:
        chunk = fetch(file, min(SCAN_BYTES, limit - position), position, cached=cached)
        if len(chunk) < _BATCH.size:
            if limit - position < _BATCH.size:
                raise DamagedBatch(file.path, position)
            raise NotCached
        at, end = 0, len(chunk) - _BATCH.size
        while at <= end:
            base_offset, batch_length, last_offset_delta = _unpack_batch(chunk, at)
            last_offset = base_offset + last_offset_delta
            if (
                batch_length < BATCH_LENGTH_MIN
                or base_offset < expected
                or (base_offset > expected >= 0 and not has_gaps)
                or last_offset < base_offset
                or (last >= 0 and last_offset != last)
            ):
                raise DamagedBatch(file.path, position + at)
            if last_offset >= offset:
                return position + at
            expected, last = last_offset + 1, -1
            at += LENGTH_OVERHEAD + batch_length
        position += at
    if position != limit:
        # a wrong length led past the end: the batch may be in the skipped bytes
        raise DamagedBatch(file.path, limit)
    return limit


def _index_floor(segment: Segment, offset: Offset, *, cached: bool) -> tuple[Offset, FilePosition]:
    """(last offset, start) of the last indexed batch that ends at or below `offset`; start 0 when there is none."""
    entries = _index_entries(segment, cached=cached)
    if not entries:
        return -1, 0
    relative_offset, position = floor_by_offset(entries, offset - segment.base_offset)
    return segment.base_offset + relative_offset, position


def floor_boundary(segment: Segment, position: FilePosition, *, cached: bool) -> tuple[Offset, FilePosition]:
    """(last offset, start) of the last indexed batch that begins at or below `position`; start 0 when there is none.

    Raises OSError.
    """
    try:
        entries = _index_entries(segment, cached=cached)
    except NotCached:
        return -1, 0
    if not entries:
        return -1, 0
    relative_offset, found = floor_by_position(entries, position)
    return segment.base_offset + relative_offset, found


def _base_offset_of(begin: Buffer, last_offset: Offset) -> Offset:
    """Base offset of the batch that begins with these bytes; -1 when the index means another batch."""
    if len(begin) < _BATCH.size:
        return -1
    base_offset, _, last_offset_delta = _unpack_batch(begin)
    return int(base_offset) if base_offset + last_offset_delta == last_offset else -1


def _index_entries(segment: Segment, *, cached: bool) -> bytes | bytearray | None:
    """The offset index's entries; None when the file is unusable. In a thread it leaves the segment unchanged."""
    index = segment.offset_index
    if index.entries is not None:
        return index.entries
    try:
        if cached:
            if not segment.load_offset_index_cached():
                raise NotCached
            return index.entries
        data = segment.read_index(OFFSET_INDEX_SUFFIX)
        return data if is_offset_index(data) else None
    except (IndexUnreadable, FileNotFoundError):
        return None


# ------------------------------------------------------------------------------------------------ headers only


def scan_headers(file: File, position: FilePosition, limit: FilePosition) -> Iterator[tuple[FilePosition, BatchHeader]]:
    """(position, header) of each batch that begins in [position, limit); ends early at an impossible or missing header.

    Reads only headers; the last batch may be incomplete. Raises OSError.
    """
    expected = -1
    while position + HEADER_BYTES <= limit:
        chunk = file.read(min(_WALK_BYTES, limit - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            header = read_header(chunk, at)
            if header.batch_length < BATCH_LENGTH_MIN or header.base_offset < expected:
                return
            expected = header.next_offset
            yield position + at, header
            at += header.size_bytes
        if not at:
            return
        position += at


def end_of_closed(segment: Segment, expected: Offset) -> Offset | None:
    """The offset behind the last whole batch of a closed segment; None if its headers do not lead to the end of its file.

    Headers from the last entry of the offset index on are enough if they lead to `expected`; all are read otherwise.
    Raises OSError.
    """
    file, size = segment.open(), segment.size
    begin = _index_floor(segment, expected, cached=False)[1]
    if begin and _end_from(file, begin, size, -1) == expected:
        return expected
    return _end_from(file, 0, size, segment.base_offset)


def _end_from(file: File, position: FilePosition, size: FilePosition, end: Offset) -> Offset | None:
    reached = position
    for place, header in scan_headers(file, position, size):
        reached = place + header.size_bytes
        if reached > size:
            return end
        end = header.next_offset
    return end if size - reached < HEADER_BYTES else None


def marked_headers_within(
    segment: Segment, start_offset: Offset, end_offset: Offset, *, checks: bool = False
) -> Iterator[tuple[BatchHeader, EndTransactionMarker | None]]:
    """Headers, and the markers of control batches, of the batches from `start_offset` on, and of a few before it, up to
    `end_offset`.

    Without a usable index it starts at the segment's first batch. Raises OSError. Raises DamagedBatch after the last
    header if the bytes after it are no batch, so that the caller does not miss producers and epochs there. With
    `checks` it reads each batch completely, and raises DamagedBatch also for a wrong CRC. It always does so for a control
    batch.
    """
    try:
        reached = position_of(segment, start_offset, segment.size, cached=False)
    except (DamagedBatch, NotCached):
        reached = 0
    file = segment.open()
    for position, header in scan_headers(file, reached, segment.size):
        if header.base_offset >= end_offset:
            return
        marker: EndTransactionMarker | None = None
        if checks or header.is_control:
            batch = file.read(header.size_bytes, position)
            if compute_crc(batch) != header.crc:
                raise DamagedBatch(file.path, position, "the CRC-32C does not match its bytes")
            if header.is_control:
                try:
                    marker = read_marker(batch)
                except ProtocolViolation as error:
                    raise DamagedBatch(file.path, position, str(error)) from error
        yield header, marker
        reached = position + header.size_bytes
    if reached != segment.size:
        raise DamagedBatch(file.path, reached, "not a valid batch for this position")


def aborted_transactions(segments: Sequence[Segment], offset: Offset, end_offset: Offset) -> list[AbortedTxn]:
    """The aborted transactions with records or markers in [offset, end_offset) (UnifiedLog.collectAbortedTransactions)."""
    found: list[AbortedTxn] = []
    for segment in segments[max(0, bisect_right(segments, offset, key=_base_offset) - 1) :]:
        if segment.transaction_index is None:
            continue
        for aborted in segment.transaction_index.since(offset):
            if aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return found
    return found


# ----------------------------------------------------------------------------------- by timestamp (ListOffsets)


class TimestampOffset(NamedTuple):
    """A record found by time: its offset, its own timestamp in ms, and the leader epoch of its batch."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class TimestampSearch:
    """A plan to find the first record at or after a timestamp, by Kafka's ListOffsets rules.

    It shares the segments with the step, and reads the file of each up to the size that it had when the plan was made.
    """

    directory: str
    segments: tuple[tuple[Segment, FilePosition], ...]
    log_start_offset: Offset
    timestamp_ms: int

    def run(self, disk: Disk) -> TimestampOffset | None:  # noqa: ARG002
        """The record; None when there is none.

        Raises LogDirectoryFailure, and ProtocolViolation when the batch cannot be decompressed, or one before it is damaged.
        """
        for segment, size in self.segments:
            find = partial(_find_in_segment, segment, size, self.timestamp_ms, self.log_start_offset)
            found = _found(self.directory, find)
            if found is not None:
                return found
        return None


@dataclass(frozen=True, slots=True)
class MaxTimestampSearch:
    """A plan to find the record with the largest timestamp; it shares the segments like `TimestampSearch`."""

    directory: str
    segments: tuple[tuple[Segment, FilePosition], ...]
    log_start_offset: Offset

    def run(self, disk: Disk) -> TimestampOffset | None:  # noqa: ARG002
        """The record; None when no record has a timestamp. Raises as `TimestampSearch.run`."""
        best: TimestampOffset | None = None
        # a segment's largest timestamp is an upper bound: its record may be below the log start
        for segment, size in sorted(self.segments, key=lambda item: (-item[0].max_timestamp, item[0].base_offset)):
            if best is not None and segment.max_timestamp <= best.timestamp:
                break
            found = _found(self.directory, partial(_find_max_in_segment, segment, size, self.log_start_offset))
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
        return best


def _found(directory: str, find: Callable[[], TimestampOffset | None]) -> TimestampOffset | None:
    """What a search of one segment finds; None when its file is gone. Raises as `TimestampSearch.run`."""
    try:
        return find()
    except FileNotFoundError:
        return None
    except DamagedBatch as damaged:
        raise ProtocolViolation(str(damaged)) from damaged
    except OSError as error:
        raise LogDirectoryFailure(directory, error) from error


def _find_in_segment(
    segment: Segment, size: FilePosition, timestamp_ms: int, log_start_offset: Offset
) -> TimestampOffset | None:
    position = _start_position(segment, timestamp_ms, log_start_offset)
    if position:
        try:
            return _find_from(segment, position, size, timestamp_ms, log_start_offset)
        except DamagedBatch:
            # the index may be wrong: scan from the segment's start
            pass
    return _find_from(segment, 0, size, timestamp_ms, log_start_offset)


def _find_from(
    segment: Segment, position: FilePosition, size: FilePosition, timestamp_ms: int, log_start_offset: Offset
) -> TimestampOffset | None:
    file = segment.open()
    for at, header in scan_headers(file, position, size):
        if header.max_timestamp >= timestamp_ms and header.last_offset >= log_start_offset:
            batch = file.read(header.size_bytes, at)
            if len(batch) < header.size_bytes:
                break
            for record in walk_records(batch):
                if record.timestamp >= timestamp_ms and record.offset >= log_start_offset:
                    return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
        position = at + header.size_bytes
    if position != size:
        raise DamagedBatch(file.path, position, "not a valid batch for this position")
    return None


def _find_max_in_segment(segment: Segment, size: FilePosition, log_start_offset: Offset) -> TimestampOffset | None:
    file = segment.open()
    best, position = None, 0
    if segment.max_timestamp_offset >= log_start_offset:
        position = _index_floor(segment, segment.max_timestamp_offset, cached=False)[1]
    if position:
        with suppress(DamagedBatch):  # the index may be wrong
            best = _largest_timestamp(segment, position, size, log_start_offset)
    if best is None or best[1].max_timestamp < segment.max_timestamp:
        # there is no such position, or the batch lost its records in a compaction
        best = _largest_timestamp(segment, 0, size, log_start_offset)
    if best is None:
        return None
    at, header = best
    batch = file.read(header.size_bytes, at)
    if len(batch) < header.size_bytes:
        raise DamagedBatch(file.path, at, "an incomplete batch")
    for record in walk_records(batch):
        if record.timestamp == header.max_timestamp and record.offset >= log_start_offset:
            return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return TimestampOffset(header.last_offset, header.max_timestamp, header.partition_leader_epoch)


def _largest_timestamp(
    segment: Segment, position: FilePosition, size: FilePosition, log_start_offset: Offset
) -> tuple[FilePosition, BatchHeader] | None:
    """The first batch from `position` on with the largest timestamp, among those with records from the log start on.

    Raises DamagedBatch where the headers end before the segment does.
    """
    best: tuple[FilePosition, BatchHeader] | None = None
    file = segment.open()
    for at, header in scan_headers(file, position, size):
        position = at + header.size_bytes
        if header.last_offset < log_start_offset or not header.records_count:
            continue
        if header.max_timestamp >= 0 and (best is None or header.max_timestamp > best[1].max_timestamp):
            best = (at, header)
            if header.max_timestamp == segment.max_timestamp:
                return best
    if position != size:
        raise DamagedBatch(file.path, position, "not a valid batch for this position")
    return best


def _start_position(segment: Segment, timestamp_ms: int, log_start_offset: Offset) -> FilePosition:
    """Where the scan starts; the segment's start if an index is unusable, as indexes are only a shortcut."""
    entries: bytes | bytearray | None = segment.time_index.entries
    if entries is None:
        try:
            entries = segment.read_index(TIME_INDEX_SUFFIX)
        except FileNotFoundError:
            return 0
        if len(entries) % TimeIndex.ENTRY_BYTES:
            return 0
    offset = segment.base_offset + floor_by_timestamp(entries, timestamp_ms)
    return _index_floor(segment, max(offset, log_start_offset), cached=False)[1]
