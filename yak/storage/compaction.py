"""One round of compaction of one log: only the last record of each key stays (Kafka's Cleaner.java).

A round runs in pieces (`CompactionPiece`), each a job, so that the step can pause, resume or abandon it. First it reads
the dirty part for the last offset of each key. Then it rewrites the segments, oldest first, several small ones into one.
A piece that completes a segment returns it, and the step swaps it in (`Log.replace_segments`) before the next piece.

The segments are swapped in order, so a replaced record goes before the record that replaced it can go. A crash between
two swaps therefore brings no deleted record back.

`cleanable` finds the part of a log that a round may clean (Kafka's LogCleanerManager.scala). The clean part went through
an earlier round; the dirty part came after it. Compaction never touches the active segment, records at or above the last
stable offset, records not yet synced, or records younger than `min.compaction.lag.ms`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from yak.config.log_config import NEVER, LogConfig
from yak.errors import ProtocolViolation
from yak.ids import FilePosition, Offset
from yak.limits import COMPACTION_SPARE_BYTES
from yak.ports.disk import Buffer, Disk, File
from yak.protocol.record_batch import BATCH_LENGTH_MIN, HEADER_BYTES, BatchHeader, compute_crc, read_header
from yak.protocol.record_spans import spans
from yak.storage.batch_filter import BatchFilter, DirtyBatches, readable_records
from yak.storage.epoch_cache import UNKNOWN_EPOCH, EpochCache
from yak.storage.flush import sync_indexes
from yak.storage.indexes import OffsetIndex, TimeIndex
from yak.storage.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)
from yak.storage.offset_map import OffsetMap
from yak.storage.reader import DamagedBatch, NotCached, aborted_transactions, position_of
from yak.storage.recovery import NO_EPOCH
from yak.storage.segment import FILE_BYTES_MAX, RELATIVE_OFFSET_MAX, UNKNOWN_TIMESTAMP, Segment
from yak.storage.transaction_filter import TransactionFilter

if TYPE_CHECKING:
    from yak.storage.log import Log

PIECE_BYTES = 32 * 1024
"""Bytes read between two yields: about half a millisecond of CPU for records of a hundred bytes.

The step waits for the GIL until a piece ends. With 128 KiB, the p99 of a producer beside the cleaner was a third longer."""
_KEYS_MAX = 10_000
"""A batch with more records is walked twice: its keys are not held all at once."""


class NoRoom(OSError):
    """The file system has no room for the new files next to the old ones."""


class Uncleanable(Exception):
    """The log cannot be compacted: a broken structure, or files that would be too large."""


class Unreadable(Exception):
    """A batch differs from the appended one, at least as read now; rewriting it could make that permanent."""

    def __init__(self, offset: Offset, batch: DamagedBatch) -> None:
        super().__init__(f"{batch}, offset {offset}")
        self.offset, self.batch = offset, batch


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


class Replacement(NamedTuple):
    """A cleaned segment that is synced to the device, and the segments that it replaces."""

    replaced: list[Segment]
    cleaned: Segment


@dataclass(slots=True)
class CompactionResult:
    """What a round did. The log is now clean below `end_offset`."""

    end_offset: Offset
    is_full: bool = False
    """Whether the key map was full before the dirty part ended, so that another round is due."""
    keys: int = 0
    dropped_records: int = 0
    unreadable_batches: int = 0
    segments_before: int = 0
    segments_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


class SegmentOverflow(Exception):
    """The batches do not fit in one file: recompression and new tombstone times may need more bytes."""


class CleanedSegment:
    """A segment that will replace others. Its files have the suffix `.cleaned` until they are complete.

    The indexes are built as in appends. The next start removes `.cleaned` files that a stop left. One thread uses it at
    a time; every method raises OSError.
    """

    def __init__(self, disk: Disk, folder: str, base_offset: Offset, config: LogConfig, created_ms: int) -> None:
        self._disk = disk
        self._interval_bytes = config.index_interval_bytes
        self.segment = Segment(disk, folder, base_offset, created_ms)
        self.segment.aside = CLEANED_SUFFIX
        self.segment.remove_files()
        self.segment.file = disk.open(self.segment.path(LOG_SUFFIX), create=True)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            disk.open(self.segment.path(suffix), create=True).close()
        self.segment.index_due_position = self._interval_bytes

    def append(self, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
        """Append these batches in one write. Raises SegmentOverflow."""
        segment = self.segment
        buffers = []
        for header, batch in batches:
            position = segment.size
            if position + len(batch) > FILE_BYTES_MAX:
                raise SegmentOverflow(segment.path(LOG_SUFFIX))
            if not position:
                segment.first_timestamp = header.max_timestamp
            segment.note_timestamp(header.max_timestamp, header.last_offset)
            if position > segment.index_due_position:
                segment.add_index_entry(header.last_offset, position, self._interval_bytes)
            segment.size = position + len(batch)
            buffers.append(batch)
        if buffers:
            segment.open().append([b"".join(buffers)])

    def finish(self) -> Segment:
        """Complete the indexes and sync all files; blocks on the device."""
        segment = self.segment
        segment.close_for_appends()
        replaced_index = f"{segment.folder}/{offset_name(segment.base_offset)}{TRANSACTION_INDEX_SUFFIX}"
        if segment.transaction_index is None and self._disk.exists(replaced_index):
            # An empty one: a kill in the middle of the swap would leave that of the replaced segment with this log.
            self._disk.open(segment.path(TRANSACTION_INDEX_SUFFIX), create=True).close()
        segment.open().sync()
        sync_indexes(self._disk, segment)
        self._disk.sync_directory(segment.folder)
        segment.offset_index.unload()
        segment.time_index.unload()
        return segment


class Compaction:
    """A round over `scope`, with `map_bytes` for the key map. The step creates it, then only its pieces touch it.

    It reads the closed segments of the log, which never change, through their open files. If the log is truncated,
    deleted or moved, the step discards what the pieces return.
    """

    def __init__(self, log: Log, scope: Cleanable, map_bytes: int, now_ms: int) -> None:
        self._directory, self._path = log.directory, log.path
        self._generation = log.generation
        self._config = log.config
        self._scope = scope
        self._segments = [segment for segment in log.segments[:-1] if segment.base_offset < scope.end_offset]
        ends = [segment.base_offset for segment in self._segments[1:]] + [scope.end_offset]
        self._ends = {segment.base_offset: end for segment, end in zip(self._segments, ends, strict=False)}
        """The end offset of each segment of the round, by its base offset."""
        producers = log.producers
        self._remembered_offsets = producers.remembered_offsets()
        self._marker_epochs = producers.marker_epochs()
        self._search_earlier = None
        if producers.unread_before is not None:
            self._search_earlier = producers.search_plan(log.segments, producers.unread_before)
        self._epochs = EpochCache(list(log.epochs.entries))
        self._epoch_starts = frozenset(start for _epoch, start in log.epochs.entries)
        self._offsets = OffsetMap(map_bytes)
        self._now_ms = now_ms
        self._transactions = TransactionFilter(
            aborted_transactions(log.segments, log.segments[0].base_offset, scope.end_offset)
        )
        self._unreadable_offsets: set[Offset] = set()
        """The base offset of each dirty batch whose keys could not be read."""
        self._done_bytes = 0
        self.result = CompactionResult(scope.first_dirty_offset)
        self._pieces: Generator[Replacement | None, None, None] | None = None

    def is_void(self, log: Log) -> bool:
        """Whether the log was truncated, deleted or moved since the round began."""
        return log.path != self._path or log.generation != self._generation

    def has_lost_segments(self, log: Log) -> bool:
        """Whether retention or DeleteRecords removed segments of the round: their files may be gone."""
        return log.segments[0].base_offset > self._segments[0].base_offset

    def next_piece(self, disk: Disk) -> Replacement | CompactionResult | None:
        """Do one more piece. Returns a replacement to make before the next piece, or the result at the end of the round.

        Raises NoRoom, Uncleanable, Unreadable, OSError. Replacements made by then stay.
        """
        if self._pieces is None:
            self._pieces = self._run(disk)
        return next(self._pieces, self.result)

    def close(self) -> None:
        """End the round: remove the files of a segment that is not complete. Raises OSError."""
        if self._pieces is not None:
            self._pieces.close()

    def _run(self, disk: Disk) -> Generator[Replacement | None, None, None]:
        remembered_offsets = self._remembered_offsets
        if self._search_earlier is not None:
            # the log was opened with the last batch of each producer only
            earlier = self._search_earlier.run(disk)
            remembered_offsets = remembered_offsets.union(header.last_offset for header in earlier)
            yield None
        yield from self._read_keys()
        yield from self._offsets.gather_newest()
        filter_ = BatchFilter(
            self._offsets,
            remembered_offsets,
            self._now_ms,
            self._config.delete_retention_ms,
            self._epoch_starts,
            self._transactions,
            DirtyBatches(self._scope.first_dirty_offset, self._unreadable_offsets),
            self._marker_epochs,
        )
        result = self.result
        for group, filter_.end_offset in self._groups():
            replacement = yield from self._rewrite(disk, group, filter_)
            result.segments_before += len(group)
            result.bytes_before += sum(segment.size for segment in group)
            cleaned = group if replacement is None else [replacement.cleaned]
            result.segments_after += len(cleaned)
            result.bytes_after += sum(segment.size for segment in cleaned)
            if replacement is not None:
                yield replacement
                # after this sync the next segment may drop records that this one had to drop first
                disk.sync_directory(self._path)
        result.dropped_records = filter_.dropped_records
        result.unreadable_batches = filter_.unreadable_batches

    # ---------------------------------------------------------------------------------------------------- the keys

    def _read_keys(self) -> Iterator[None]:
        offsets, start = self._offsets, self._scope.first_dirty_offset
        for segment in self._segments:
            end_offset = self._ends[segment.base_offset]
            if end_offset <= start or not segment.size:
                continue
            try:
                position = position_of(segment, start, segment.size, cached=False)
            except (DamagedBatch, NotCached) as error:
                raise Uncleanable(str(error)) from error
            for header, batch in self._batches(segment, position, end_offset):
                if not self._take_keys(header, batch, start):
                    self.result.is_full = True
                    break
                if self._is_piece_done(len(batch)):
                    yield None
            if self.result.is_full:
                break
        if not self.result.is_full:
            offsets.latest_offset = self._scope.end_offset - 1
        self.result.end_offset = offsets.latest_offset + 1
        self.result.keys = len(offsets)

    def _take_keys(self, header: BatchHeader, batch: Buffer, start: Offset) -> bool:
        """Put the keys of a batch into the map; False when the map is full."""
        offsets = self._offsets
        if not header.is_control and not self._transactions.is_aborted(header):
            for keys, at in self._keys(header, batch, start):
                taken = offsets.put_all(keys, at)
                if taken < len(keys):
                    offsets.latest_offset = at[taken] - 1
                    return False
        offsets.latest_offset = max(offsets.latest_offset, header.last_offset)
        return True

    def _keys(self, header: BatchHeader, batch: Buffer, start: Offset) -> Iterator[tuple[list[bytes], list[Offset]]]:
        """The keys of a batch's records from `start` on, with their offsets; none when a record cannot be read."""
        base_offset, count, last_offset_delta = header.base_offset, header.records_count, header.last_offset_delta
        first_delta = start - base_offset
        if not count:
            return
        keys, deltas = [], []
        try:
            records = readable_records(header, batch)
            self._done_bytes += len(records)
            if count > _KEYS_MAX:
                for _ in spans(records, count, last_offset_delta):
                    pass
            for _start, _stop, offset_delta, key, _has_value in spans(records, count, last_offset_delta):
                if key is not None and offset_delta >= first_delta:
                    keys.append(key)
                    deltas.append(offset_delta)
                    if len(keys) == _KEYS_MAX:
                        yield keys, [base_offset + delta for delta in deltas]
                        keys, deltas = [], []
        except ProtocolViolation:
            self._unreadable_offsets.add(base_offset)
            return
        yield keys, [base_offset + delta for delta in deltas]

    # ------------------------------------------------------------------------------------------------ the segments

    def _groups(self) -> Iterator[tuple[list[Segment], Offset]]:
        """Adjacent segments that fit into one (Cleaner.groupSegmentsBySize), as far as the key map reaches.

        Each group comes with the offset that follows it.
        """
        config = self._config
        bytes_max = min(config.segment_bytes, FILE_BYTES_MAX)
        group: list[Segment] = []
        size = entries = times = end_of_last = 0
        for segment in self._segments:
            end_offset = self._ends[segment.base_offset]
            if segment.base_offset >= self.result.end_offset:
                break
            more = segment.offset_index.count * OffsetIndex.ENTRY_BYTES
            more_times = segment.time_index.count * TimeIndex.ENTRY_BYTES
            if group and (
                size + segment.size > bytes_max
                or entries + more > config.segment_index_bytes
                or times + more_times > config.segment_index_bytes
                or end_offset - 1 - group[0].base_offset > RELATIVE_OFFSET_MAX
            ):
                yield group, segment.base_offset
                group, size, entries, times = [], 0, 0, 0
            group.append(segment)
            end_of_last = end_offset
            size, entries, times = size + segment.size, entries + more, times + more_times
        if group:
            yield group, end_of_last

    def _rewrite(
        self, disk: Disk, group: list[Segment], filter_: BatchFilter
    ) -> Generator[None, None, Replacement | None]:
        """Write the surviving batches of these segments; returns None when every batch survives unchanged."""
        size = sum(segment.size for segment in group)
        if disk.free_bytes(self._directory) < size + COMPACTION_SPARE_BYTES:
            raise NoRoom(f"compaction must rewrite {size} bytes")
        new = CleanedSegment(disk, self._path, group[0].base_offset, self._config, group[-1].created_ms)
        is_ready = False
        try:
            has_changed = len(group) > 1
            for segment in group:
                left: list[tuple[BatchHeader, Buffer]] = []
                for header, batch in self._batches(segment, 0, self._ends[segment.base_offset]):
                    filtered = filter_.filter(header, batch)
                    if filtered is not batch:
                        has_changed = True
                    if filtered is not None:
                        left.append((header if filtered is batch else read_header(filtered), filtered))
                    aborted = self._transactions.aborted_by(header) if filter_.keeps_aborted else None
                    if aborted is not None:
                        new.segment.add_aborted(aborted)
                    if self._is_piece_done(len(batch)):
                        new.append(left)
                        left = []
                        yield None
                new.append(left)
            if has_changed:
                cleaned = new.finish()
                if (modified_ms := group[-1].modified_ms()) is not None:
                    # as in Kafka: records without timestamps do not become newer
                    disk.set_modified_ms(cleaned.path(LOG_SUFFIX), modified_ms)
                is_ready = True
                return Replacement(group, cleaned)
        except SegmentOverflow as error:
            raise Uncleanable(f"{error} would be too large") from error
        finally:
            if not is_ready:
                new.segment.remove_files()
        return None

    # ----------------------------------------------------------------------------------------------------- reading

    def _is_piece_done(self, done_bytes: int) -> bool:
        self._done_bytes += done_bytes
        if self._done_bytes < PIECE_BYTES:
            return False
        self._done_bytes = 0
        return True

    def _batches(
        self, segment: Segment, position: FilePosition, end_offset: Offset
    ) -> Iterator[tuple[BatchHeader, Buffer]]:
        """Each batch of a segment that ends at `end_offset`, from a position on."""
        file, size = segment.open(), segment.size
        expected = segment.base_offset
        while position < size:
            chunk = memoryview(_read_whole(file, position, size))
            at = 0
            while at + HEADER_BYTES <= len(chunk):
                header = read_header(chunk, at)
                if header.batch_length < BATCH_LENGTH_MIN or header.last_offset_delta < 0:
                    raise Uncleanable(f"{file.path} at byte {position + at} is no batch")
                if at + header.size_bytes > len(chunk):
                    break
                if header.base_offset < expected or header.last_offset >= end_offset:
                    # a batch at a wrong offset would count as newer, or older, than it is
                    raise Uncleanable(
                        f"{file.path} at byte {position + at}: offset {header.base_offset} is outside the segment"
                    )
                expected = header.next_offset
                yield self._read_surely(file, position + at, header, chunk[at : at + header.size_bytes])
                at += header.size_bytes
            if not at:
                raise Uncleanable(f"{file.path} at byte {position} is not a complete batch")
            position += at

    def _read_surely(
        self, file: File, position: FilePosition, header: BatchHeader, batch: Buffer
    ) -> tuple[BatchHeader, Buffer]:
        """The batch as it was appended. A damaged one is read once more, because a disk may return wrong bytes once."""
        if not self._damage(header, batch):
            return header, batch
        again = file.read(header.size_bytes, position)
        if len(again) == header.size_bytes and not self._damage(found := read_header(again), again):
            return found, again
        reason = self._damage(header, batch)
        raise Unreadable(header.base_offset, DamagedBatch(file.path, position, reason))

    def _damage(self, header: BatchHeader, batch: Buffer) -> str:
        """How a batch differs from the appended one, else ""; the checksum does not cover the leader epoch."""
        if compute_crc(batch) != header.crc:
            return "the CRC-32C does not match"
        epoch, known = header.partition_leader_epoch, self._epochs.epoch_for(header.base_offset)
        if epoch != known and epoch != NO_EPOCH and known != UNKNOWN_EPOCH:
            return f"leader epoch {epoch}, but the epoch cache says {known}"
        return ""


@dataclass(frozen=True, slots=True)
class CompactionPiece:
    """A plan for the next piece of a round. Pieces share the round, and run one at a time."""

    compaction: Compaction

    def run(self, disk: Disk) -> Replacement | CompactionResult | None:
        """See `Compaction.next_piece`."""
        return self.compaction.next_piece(disk)


@dataclass(frozen=True, slots=True)
class CompactionDiscard:
    """A plan to end a round between two pieces, and to discard a replacement that was not made."""

    compaction: Compaction
    replacement: Replacement | None

    def run(self, disk: Disk) -> None:  # noqa: ARG002
        """Remove the files. Raises OSError."""
        self.compaction.close()
        if self.replacement is not None and self.replacement.cleaned.aside == CLEANED_SUFFIX:
            self.replacement.cleaned.remove_files()


def _read_whole(file: File, position: FilePosition, size: FilePosition) -> bytes:
    """A piece of a file from a batch's start on; it contains at least that batch if it is whole."""
    chunk = file.read(min(PIECE_BYTES, size - position), position)
    if len(chunk) >= HEADER_BYTES:
        need = read_header(chunk).size_bytes
        if len(chunk) < need <= size - position:
            chunk = file.read(need, position)
    return chunk


def cleanable(log: Log, last_stable_offset: Offset, now_ms: int) -> Cleanable:
    """The part of a log that can be cleaned now. Raises LogDirectoryFailure."""
    config = log.config
    first_dirty_offset = max(log.cleaned_offset or 0, log.segments[0].base_offset)
    safe_offset = min(last_stable_offset, log.recovery_point)
    end_offset = log.segments[0].base_offset
    clean_bytes = dirty_bytes = 0
    due_ms, oldest_ms = NEVER, NEVER
    for segment, following in pairwise(log.segments):
        if following.base_offset > safe_offset:
            break
        is_dirty = following.base_offset > first_dirty_offset
        if is_dirty and config.min_compaction_lag_ms:
            largest = segment.largest_timestamp()
            if now_ms - largest < config.min_compaction_lag_ms:
                due_ms = largest + config.min_compaction_lag_ms
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


def dirty_ratio(log: Log) -> float:
    """Bytes of a log's closed segments that no compaction has read yet, divided by the bytes of all; no disk access."""
    clean_offset = max(log.cleaned_offset or 0, log.segments[0].base_offset)
    dirty_bytes = total_bytes = 0
    for segment, following in pairwise(log.segments):
        total_bytes += segment.size
        if following.base_offset > clean_offset:
            dirty_bytes += segment.size
    return dirty_bytes / total_bytes if total_bytes else 0.0


def _first_timestamp(log: Log, segment: Segment) -> int:
    """The segment's first timestamp, as `max.compaction.lag.ms` needs it; NEVER when it is not needed or not known."""
    if log.config.max_compaction_lag_ms == NEVER or not segment.size:
        return NEVER
    if segment.first_timestamp == UNKNOWN_TIMESTAMP:
        log.load_first_timestamp(segment)
    return segment.first_timestamp if segment.first_timestamp > 0 else NEVER
