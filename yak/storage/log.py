"""One partition's log: Kafka's UnifiedLog.scala and LocalLog.java.

Only the step writes. `append` is the hottest path of the broker: one write of 16 new bytes and the rest of the batch,
then integer updates. `reader` reads, `recovery` checks the log after an unclean stop.

Two things of a truncation wait for the device, and jobs do both outside the step. Before it, the lowered recovery point
must be durable: after a crash it must not cover truncated bytes. After it, the truncation must be durable before the
next append: a power loss must not bring old records back behind new ones.
"""

import bisect
import errno
import struct
import uuid
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter

import crc32c

from yak.config.log_config import NEVER, LogConfig
from yak.errors import LogDirectoryFailure, ProtocolViolation, directory_failure
from yak.ids import FilePosition, LeaderEpoch, Offset, TopicPartition
from yak.ports.disk import Buffer, Disk, DiskFull, FileSlice
from yak.protocol.control_batch import read_marker
from yak.protocol.record_batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    BatchHeader,
    iterate_headers,
    read_header,
)
from yak.storage.checkpoints import MovedLog, format_moved
from yak.storage.epoch_cache import EpochCache
from yak.storage.fetched_batch import check_fetched_batch
from yak.storage.flush import FlushPlan, LogClose
from yak.storage.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    NEW_LOG_MARK,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    offset_name,
)
from yak.storage.position_cache import NEWEST_BYTES_MAX, RECENT_MAX, PositionCache
from yak.storage.producer_state import ProducerState
from yak.storage.reader import (
    EMPTY,
    SLICE_BYTES_MIN,
    DamagedBatch,
    MaxTimestampSearch,
    NotCached,
    OffsetOutOfRange,
    PendingRead,
    Read,
    TimestampSearch,
    begins_with,
)
from yak.storage.segment import (
    FILE_BYTES_MAX,
    RELATIVE_OFFSET_MAX,
    UNKNOWN_TIMESTAMP,
    FilesRemoval,
    Segment,
)
from yak.storage.truncation import cannot_truncate, find_max_timestamp_after_truncation, find_truncation_point

_pack_prefix = struct.Struct(">qii").pack
_PREFIX_BYTES = 16
_ALWAYS = -(2**63)
_EPOCH_MAX = 2**31 - 1
_base_offset_of = attrgetter("base_offset")


class Log:
    """A partition's batches on disk.

    `directory` is the log directory, `path` the partition's folder in it. `has_unflushed_closed_segments` is true from a
    roll until the closed segment is flushed. Fields without a comment have their Kafka meaning.
    """

    __slots__ = (
        "__weakref__", "_dropped_snapshots", "active", "cleaned_offset", "config", "damage_at_load", "directory", "disk",
        "epochs", "generation", "has_stale_checkpoints", "has_unflushed_closed_segments", "log_end_offset",
        "log_start_offset", "names_changed", "path", "positions", "producers", "recovery_point", "roll_offset", "roll_position",
        "roll_timestamp", "segments", "size_bytes", "snapshot_offsets", "swaps", "topic_id", "topic_partition",
        "unsynced_truncation",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: str,
        path: str,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        config: LogConfig,
        segments: list[Segment],
        *,
        epochs: EpochCache,
        producers: ProducerState,
        snapshot_offsets: list[Offset],
        log_start_offset: Offset,
        log_end_offset: Offset,
        recovery_point: Offset,
    ) -> None:
        self.disk, self.directory, self.path = disk, directory, path
        self.topic_partition, self.topic_id, self.config = topic_partition, topic_id, config
        self.segments, self.active = segments, segments[-1]
        self.epochs, self.producers = epochs, producers
        self.snapshot_offsets, self.recovery_point = snapshot_offsets, recovery_point
        self.log_start_offset, self.log_end_offset = log_start_offset, log_end_offset
        self.swaps = 0
        self.size_bytes = sum(segment.size for segment in segments)
        self.names_changed = False
        self.has_unflushed_closed_segments = len(segments) > 1 and recovery_point <= self.active.base_offset
        self._dropped_snapshots: list[Offset] = []
        """Snapshots at no segment's start: the next flush removes them."""
        self.has_stale_checkpoints = False
        """The checkpoints may hold offsets of an earlier log, or of before a resync (`names.NEW_LOG_MARK`)."""
        self.unsynced_truncation: Segment | None = None
        """The segment truncated but not synced since. A power loss may undo that, so an append syncs first."""
        self.generation = 0
        """Changes with each truncation, so that a flush begun before it does not move the recovery point."""
        self.cleaned_offset: Offset | None = None
        """The log is compacted below this offset; None when it never was, and the offsets have no gaps."""
        self.damage_at_load: DamagedBatch | None = None
        """The first corrupt batch that recovery found and no truncation removed: the producer state, and the last stable
        offset with it, may lack what it held."""
        self.positions = PositionCache()
        producers.has_transactions |= any(segment.transaction_index is not None for segment in segments)
        self.roll_position = self.roll_offset = self.roll_timestamp = 0
        self._set_roll_limits()

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, [{self.log_start_offset}, {self.log_end_offset}))"

    @property
    def unflushed_messages(self) -> int:
        """Records that a power loss could lose."""
        return self.log_end_offset - self.recovery_point

    @property
    def may_have_gaps(self) -> bool:
        """Whether a leader may leave out offsets because its compaction removed their batches."""
        return self.cleaned_offset is not None or self.config.is_compacted

    # -------------------------------------------------------------------------------------------------- append

    def append(self, header: BatchHeader, batch: Buffer, leader_epoch: LeaderEpoch, now_ms: int) -> Offset:
        """Append one validated batch at the end of the log, under this leader epoch; returns its base offset.

        `header` is the batch's header, `batch` all of its bytes. Raises LogDirectoryFailure and then leaves the log
        unchanged: every step that can fail comes before the write or is the write. The steps after it only change
        memory.
        """
        _, batch_length, _, _, _, _, last_offset_delta, _, max_timestamp, producer_id, _, _, _ = header
        base_offset = self.log_end_offset
        last_offset = base_offset + last_offset_delta
        segment = self.active
        position = segment.size
        end = position + batch_length + 12
        if (
            end > self.roll_position or max_timestamp > self.roll_timestamp or last_offset > self.roll_offset
        ) and self._must_roll(end, max_timestamp, last_offset, now_ms):
            end -= position
            self.roll(now_ms)
            segment = self.active
            position = 0
        if position > segment.index_due_position:
            self._prepare_index_entry()
        next_offset = last_offset + 1
        prefix, rest = _pack_prefix(base_offset, batch_length, leader_epoch), memoryview(batch)[_PREFIX_BYTES:]
        try:
            if batch_length <= NEWEST_BYTES_MAX:
                whole = prefix + rest
                (segment.file or segment.open()).append((whole,))
                self.positions.newest = (base_offset, next_offset, whole)
            else:
                (segment.file or segment.open()).append((prefix, rest))
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        segment.size = end
        self.size_bytes += end - position
        self.log_end_offset = next_offset
        if not position:
            self._begin_segment(max_timestamp)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        if max_timestamp > segment.max_timestamp:
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = last_offset
        if position > segment.index_due_position:
            self._add_index_entry(last_offset, position)
        if producer_id != NO_PRODUCER_ID:
            if header.attributes & CONTROL_BIT:
                self._end_transaction(header, batch, base_offset, now_ms)
            else:
                self.producers.update(header, base_offset, last_offset, now_ms)
        recent = self.positions.recent
        recent[next_offset] = end
        if len(recent) > RECENT_MAX:
            self.positions.trim()
        return base_offset

    def append_as_follower(self, batches: Buffer, now_ms: int, epoch_max: LeaderEpoch = _EPOCH_MAX) -> Offset:
        """Append whole batches as the leader of `epoch_max` stored them, with their offsets and epochs; returns the new
        end.

        An incomplete batch at the end is ignored. Raises LogDirectoryFailure. Raises ProtocolViolation when no batch is
        whole, or a batch is corrupt, does not follow the log end, or has an epoch below the last one or above
        `epoch_max`. The batches before it are appended.
        """
        view = memoryview(batches)
        if self._append_fetched_batch(view, now_ms, epoch_max):
            return self.log_end_offset
        if self.unsynced_truncation is not None:
            self.sync_truncation()
        run_start = 0
        run: list[tuple[int, BatchHeader]] = []
        expected, epoch = self.log_end_offset, self.epochs.latest
        stop = 0
        refusal: str | None = None
        for position, header in iterate_headers(view):
            try:
                check_fetched_batch(
                    view, position, header, expected, epoch, epoch_max, may_have_gaps=self.may_have_gaps
                )
            except ProtocolViolation as error:
                refusal = str(error)  # not the exception: its traceback would keep this frame, and with it the batches
                break
            stop = position + header.size_bytes
            end = self.active.size + stop - run_start
            is_far = header.last_offset - expected > RELATIVE_OFFSET_MAX
            if is_far or (
                self.active.size + position - run_start > 0 and self._must_roll_behind(run, end, header, now_ms)
            ):
                self._append_fetched_batches(view, run, run_start, position, now_ms)
                run, run_start = [], position
                if is_far:
                    # a segment that begins here cannot index that offset: start one after the gap (UnifiedLog.maybeRoll)
                    self.log_end_offset = header.base_offset
                    self.note_gap()
                self.roll(now_ms)
            run.append((position, header))
            expected, epoch = header.next_offset, header.partition_leader_epoch
        self._append_fetched_batches(view, run, run_start, stop, now_ms)
        if refusal is not None:
            raise ProtocolViolation(refusal)
        if not stop and len(view) >= HEADER_BYTES:
            raise ProtocolViolation(f"the leader sent {len(view)} bytes without a complete batch")
        return self.log_end_offset

    def _append_fetched_batch(self, view: memoryview, now_ms: int, epoch_max: LeaderEpoch) -> bool:
        """Append a single batch that follows the log end and fits the active segment, the common case; False otherwise."""
        if len(view) < HEADER_BYTES:
            return False
        header = read_header(view)
        segment = self.active
        position = segment.size
        end = position + len(view)
        if (
            header.size_bytes != len(view)
            or header.base_offset != self.log_end_offset
            or not position
            or end > self.roll_position
            or header.max_timestamp > self.roll_timestamp
            or header.last_offset > self.roll_offset
        ):
            return False
        expected, epoch = header.base_offset, self.epochs.latest
        check_fetched_batch(view, 0, header, expected, epoch, epoch_max, may_have_gaps=self.may_have_gaps)
        if position > segment.index_due_position:
            self._prepare_index_entry()
        try:
            (segment.file or segment.open()).append((view,))
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        segment.size = end
        self.size_bytes += len(view)
        self.log_end_offset = header.next_offset
        self._note_batch(header, view, position, end, now_ms)
        return True

    def _must_roll_behind(
        self, run: list[tuple[int, BatchHeader]], end: FilePosition, header: BatchHeader, now_ms: int
    ) -> bool:
        if end > self.roll_position or header.last_offset > self.roll_offset:
            return True
        if not self.active.size:
            # nothing written yet: the segment's age counts from the first batch of this run
            first = run[0][1].max_timestamp
            return first >= 0 and header.max_timestamp - first > self.config.segment_ms
        return self._must_roll(end, header.max_timestamp, header.last_offset, now_ms)

    def _append_fetched_batches(
        self, view: memoryview, run: list[tuple[int, BatchHeader]], start: int, stop: int, now_ms: int
    ) -> None:
        """Write a run of batches that fit the active segment in one go, then index them."""
        if not run:
            return
        segment = self.active
        before = segment.size
        if before + stop - start > segment.index_due_position:
            self._prepare_index_entry()
        try:
            segment.open().append((view[start:stop],))
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        segment.size = before + stop - start
        self.size_bytes += stop - start
        next_offset = self.log_end_offset
        self.log_end_offset = run[-1][1].next_offset
        for position, header in run:
            at = before + position - start
            if header.base_offset != next_offset:
                self.note_gap()
            next_offset = header.next_offset
            batch = view[position : position + header.size_bytes]
            self._note_batch(header, batch, at, at + header.size_bytes, now_ms)

    def note_gap(self) -> None:
        """The log may have gaps from now on, whatever its policy will be: the leader left out offsets, or compaction does."""
        if self.cleaned_offset is None:
            self.cleaned_offset = self.segments[0].base_offset

    def _note_batch(
        self, header: BatchHeader, batch: Buffer, position: FilePosition, end: FilePosition, now_ms: int
    ) -> None:
        """Update indexes, epochs, producers and positions for a batch that is in the active segment at [position, end).

        Touches memory only. If the batch gets an index entry, `_prepare_index_entry` was called before it was written.
        """
        segment = self.active
        base_offset, last_offset = header.base_offset, header.last_offset
        if not position:
            self._begin_segment(header.max_timestamp)
        if header.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(header.partition_leader_epoch, base_offset)
        segment.note_timestamp(header.max_timestamp, last_offset)
        if position > segment.index_due_position:
            self._add_index_entry(last_offset, position)
        if header.producer_id != NO_PRODUCER_ID:
            if header.is_control:
                self._end_transaction(header, batch, base_offset, now_ms)
            else:
                self.producers.update(header, base_offset, last_offset, now_ms)
        recent = self.positions.recent
        recent[last_offset + 1] = end
        if len(recent) > RECENT_MAX:
            self.positions.trim()

    def _end_transaction(self, header: BatchHeader, batch: Buffer, base_offset: Offset, now_ms: int) -> None:
        """Note the marker that was appended; an aborted transaction gets an entry in the transaction index."""
        completed = self.producers.update(header, base_offset, base_offset, now_ms, read_marker(batch))
        if completed is not None and completed.is_aborted:
            self.active.add_aborted(self.producers.aborted(completed))

    def _begin_segment(self, first_timestamp: int) -> None:
        """Note that the active segment got its first batch."""
        self.active.first_timestamp = first_timestamp
        self._set_roll_limits()

    def _prepare_index_entry(self) -> None:
        """Load the active segment's indexes, before the write whose batches get entries. Raises LogDirectoryFailure."""
        with directory_failure(self.directory):
            self.active.load_indexes_or_forget()

    def _add_index_entry(self, last_offset: Offset, position: FilePosition) -> None:
        """Index a batch of the active segment (indexes loaded); the next append rolls if an index is now full."""
        segment = self.active
        segment.add_index_entry(last_offset, position, self.config.index_interval_bytes)
        if segment.is_index_full(self.config):
            self.roll_position = 0

    # ---------------------------------------------------------------------------------------------------- roll

    def _set_roll_limits(self) -> None:
        """Precompute the position, timestamp and offset past which `append` must check for a roll."""
        segment, config = self.active, self.config
        self.roll_offset = segment.base_offset + RELATIVE_OFFSET_MAX
        full = self.unsynced_truncation is not None or (segment.size > 0 and segment.is_index_full(config))
        self.roll_position = 0 if full else min(config.segment_bytes, FILE_BYTES_MAX)
        if not segment.size:
            self.roll_timestamp = NEVER
        elif segment.first_timestamp >= 0:
            self.roll_timestamp = segment.first_timestamp + self._roll_after_ms()
        else:
            self.roll_timestamp = _ALWAYS

    def _must_roll(self, end: FilePosition, max_timestamp: int, last_offset: Offset, now_ms: int) -> bool:
        """Kafka's LogSegment.shouldRoll, for a batch that would end at `end` of the active segment.

        Syncs a truncation that is not synced yet: until then `_set_roll_limits` makes every append come here.
        """
        if self.unsynced_truncation is not None:
            self.sync_truncation()
        segment = self.active
        if not segment.size:
            return last_offset > self.roll_offset
        if end > self.roll_position or last_offset > self.roll_offset:
            return True
        if segment.first_timestamp == UNKNOWN_TIMESTAMP:
            self.load_first_timestamp(segment)
            self._set_roll_limits()
        if segment.first_timestamp >= 0:
            return max_timestamp > self.roll_timestamp
        return now_ms - segment.created_ms > self._roll_after_ms()

    def _roll_after_ms(self) -> int:
        """How long after its first timestamp the active segment takes appends, in ms."""
        config, segment_ms = self.config, self.config.max_segment_ms
        if not config.segment_jitter_ms:
            return segment_ms
        # Kafka draws the jitter; a hash of the segment's name spreads as well and needs no random source
        seed = crc32c.crc32c(f"{self.topic_partition} {self.active.base_offset}".encode())
        return segment_ms - int(seed) % min(config.segment_jitter_ms, segment_ms)

    def roll(self, now_ms: int) -> None:
        """Close the active segment and create a new one at the log end.

        Raises LogDirectoryFailure. After DiskFull the old segment is still active, and the roll may be retried.
        """
        if not self.active.size and self.active.base_offset == self.log_end_offset:
            return
        with directory_failure(self.directory):
            self.active.close_for_appends()
            self.disk.write_file_lazily(self._snapshot_path(self.log_end_offset), self.producers.to_snapshot())
            self._note_snapshot(self.log_end_offset)
            segment = Segment.create(self.disk, self.path, self.log_end_offset, self.config, now_ms)
        self.active.offset_index.unload()
        self.active.time_index.unload()
        self.segments.append(segment)
        self.active = segment
        self.positions.rolled(segment.base_offset)
        self.names_changed = True
        self.has_unflushed_closed_segments = True
        self._set_roll_limits()

    def _note_snapshot(self, offset: Offset) -> None:
        """A producer snapshot is written, unsynced; the next flush drops those at no segment's start."""
        bases = {segment.base_offset for segment in self.segments}
        self._dropped_snapshots += [old for old in self.snapshot_offsets if old not in bases and old != offset]
        self.snapshot_offsets = [*(old for old in self.snapshot_offsets if old in bases and old != offset), offset]
        self.names_changed = True

    def _snapshot_path(self, offset: Offset) -> str:
        return f"{self.path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"

    def load_first_timestamp(self, segment: Segment) -> None:
        """Read the segment's first timestamp, which loading skipped. Raises LogDirectoryFailure."""
        with directory_failure(self.directory):
            segment.first_timestamp = segment.read_first_timestamp()

    # ---------------------------------------------------------------------------------------------------- read

    def read(
        self, offset: Offset, max_bytes: int, up_to: Offset, *, at_least_one: bool, skips_emptied: bool = False
    ) -> Buffer | PendingRead:
        """Batches from the one with `offset` up to `up_to` (exclusive, a batch boundary), at most `max_bytes`.

        The result ends at a batch boundary. If the first batch is larger than `max_bytes`, it is returned whole with
        `at_least_one`, else nothing is. With `skips_emptied`, batches without records are left out where only they are left
        in a segment. Never blocks: a read that misses the page cache returns a PendingRead. Raises
        OffsetOutOfRange, LogDirectoryFailure.
        """
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset >= up_to:
            return EMPTY
        positions = self.positions
        newest = positions.newest_batch(offset, up_to, max_bytes)
        if newest is not None:
            positions.read_end = up_to
            return newest
        recent = positions.recent
        start, end = recent.get(offset), recent.get(up_to)
        if start is not None and end is not None and 0 < end - start <= max_bytes:
            try:
                data = self.active.open().read_cached(end - start, start)
            except OSError as error:
                raise LogDirectoryFailure(self.directory, error) from error
            if data is not None and len(data) == end - start and begins_with(data, offset):
                positions.read_end = up_to
                return data
        return self._read_slowly(
            self.plan_read(offset, max_bytes, up_to, at_least_one=at_least_one, skips_emptied=skips_emptied)
        )

    def _read_slowly(self, read: Read) -> Buffer | PendingRead:
        try:
            data, next_offset, position, segment = read.perform(cached=True)
        except (NotCached, DamagedBatch):
            return PendingRead(self, read)
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        self.positions.note_read(read, next_offset, position, segment)
        return data

    def slice(self, offset: Offset, max_bytes: int, up_to: Offset) -> FileSlice | None:
        """The result of `read` as a file range for `sendfile`, None if impossible or not worth it.

        The range is below `up_to`, and must not be truncated before it is sent. Raises LogDirectoryFailure.
        """
        start = self.positions.recent.get(offset)
        is_short = start is not None and self.active.size - start < SLICE_BYTES_MIN
        if is_short or not self.log_start_offset <= offset < up_to:
            return None
        read = self.plan_read(offset, max_bytes, up_to, at_least_one=False, skips_emptied=True)
        try:
            found = read.slice()
        except (NotCached, DamagedBatch):
            return None
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        if found is not None:
            self.positions.note_read(read, *found[1:])
        return None if found is None else found[0]

    def plan_read(
        self, offset: Offset, max_bytes: int, up_to: Offset, *, at_least_one: bool, skips_emptied: bool = False
    ) -> Read:
        """The read, with the positions that are known without disk access."""
        segments = self.segments
        index = max(0, bisect.bisect_right(segments, offset, key=_base_offset_of) - 1)
        segment = segments[index]
        is_active = segment is self.active
        start, end = self.positions.find(offset, up_to, segment, is_active=is_active)
        if end < 0 and is_active and up_to == self.log_end_offset:
            end = segment.size
        rest, gaps = segments[index:], self.may_have_gaps
        return Read(
            rest,
            offset,
            max_bytes,
            up_to,
            segment_end=up_to,
            at_least_one=at_least_one,
            skips_emptied=skips_emptied and gaps,
            has_gaps=gaps,
            start=start,
            end=end,
        )

    def timestamp_search(self, timestamp_ms: int) -> TimestampSearch:
        """A plan to find the first record at or after a timestamp."""
        segments = tuple((each, each.size) for each in self.segments if each.max_timestamp >= timestamp_ms)
        return TimestampSearch(self.directory, segments, self.log_start_offset, timestamp_ms)

    def max_timestamp_search(self) -> MaxTimestampSearch:
        """A plan to find the record with the largest timestamp (KIP-734)."""
        segments = tuple((each, each.size) for each in self.segments if each.size and each.max_timestamp >= 0)
        return MaxTimestampSearch(self.directory, segments, self.log_start_offset)

    # -------------------------------------------------------------------------------------------------- epochs

    def assign_epoch(self, epoch: LeaderEpoch) -> None:
        """Note that `epoch` begins at the log end."""
        self.epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, requested_epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """(largest epoch at or below the requested one, its end offset); (-1, -1) when unknown."""
        return self.epochs.end_offset_for(requested_epoch, self.log_end_offset)

    # ------------------------------------------------------------------------------------------------------- truncation

    def recovery_point_after_truncation(self, offset: Offset) -> Offset:
        """The recovery point that a truncation to `offset` needs. Raises LogDirectoryFailure, DamagedLog."""
        if offset < self.segments[0].base_offset:
            return min(offset, self.log_start_offset)
        return max(self.log_start_offset, self._truncation_point(offset)[2])

    def lower_recovery_point(self, offset: Offset) -> None:
        """Count only offsets below `offset` as flushed, and as compacted; a flush in progress is void."""
        self.generation += 1
        self.recovery_point = min(offset, self.recovery_point)
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.recovery_point, self.cleaned_offset)

    def truncate_to(self, offset: Offset, now_ms: int = 0) -> Offset:
        """Drop each batch with offsets from `offset` on, unsynced; returns the new end. Raises LogDirectoryFailure."""
        if offset >= self.log_end_offset:
            return self.log_end_offset
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return offset
        segment, position, end_offset = self._truncation_point(offset)
        if end_offset < self.log_start_offset:
            # only deleted records remain
            self.truncate_fully_and_start_at(self.log_start_offset, now_ms)
            return self.log_end_offset
        try:
            self._truncate(segment, position, end_offset, now_ms)
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        except DamagedBatch as error:
            raise cannot_truncate(segment, offset, error) from error
        return end_offset

    def _truncate(self, segment: Segment, position: FilePosition, end_offset: Offset, now_ms: int) -> None:
        self._begin_truncation(end_offset)
        retained = self.segments.index(segment) + 1
        removed, self.segments = self.segments[retained:], self.segments[:retained]
        self.active = segment
        for old in reversed(removed):
            old.remove_files()
        segment.truncate(end_offset, position, self.config)
        last_end = find_max_timestamp_after_truncation(segment)
        self._end_truncation(end_offset)
        if not self.producers.truncate_to(end_offset):
            self.producers.restore(
                self.disk,
                self.path,
                self.segments,
                self.snapshot_offsets,
                end_offset,
                now_ms,
                reads_earlier=False,
            )
        if last_end < end_offset:
            # truncated inside a compaction gap: after a crash a segment's name gives the log end, because no batch does
            try:
                self.roll(now_ms)
            except LogDirectoryFailure as failure:
                # not DiskFull: the log is truncated already, and a retry would not roll
                error = failure.error
                raise OSError(error.errno, error.strerror, error.filename) from failure

    def truncate_fully_and_start_at(self, offset: Offset, now_ms: int) -> None:
        """Drop all batches and restart the log at `offset`, without a sync.

        Raises LogDirectoryFailure; DiskFull leaves the log unchanged.
        """
        with directory_failure(self.directory):
            if offset < self.log_start_offset:
                # a start must not believe the checkpoint's log start, and drop the next records as deleted ones
                self.disk.write_file_lazily(f"{self.path}/{NEW_LOG_MARK}", b"")
                self.has_stale_checkpoints = True
            self._begin_truncation(min(offset, self.log_start_offset))
            removed = self.segments
            segment = Segment.create(self.disk, self.path, offset, self.config, now_ms)
            if segment.base_offset in {old.base_offset for old in removed}:
                removed = [old for old in removed if old.base_offset != offset]
                for suffix in SEGMENT_SUFFIXES:
                    if self.disk.exists(segment.path(suffix)):
                        self.disk.open(segment.path(suffix)).truncate(0)
            self.segments = [segment]
            self.active = segment
            for old in reversed(removed):
                old.remove_files()
            self.epochs.clear()
            self.producers.clear()
            self.log_start_offset = offset
            self._end_truncation(offset)
            self._remove_snapshots(-1)
            self.recovery_point = offset
            self.has_unflushed_closed_segments = False

    def _begin_truncation(self, offset: Offset) -> None:
        assert offset >= self.recovery_point, "the recovery point is lowered before a truncation, on the device too"
        self.generation += 1
        self.positions.clear()

    def _end_truncation(self, end_offset: Offset) -> None:
        """Adjust everything but the files to the new end."""
        self.unsynced_truncation = self.active
        if self.damage_at_load is not None and self.damage_at_load.offset >= end_offset:
            self.damage_at_load = None
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.size_bytes = sum(segment.size for segment in self.segments)
        self.epochs.truncate_from_end(end_offset)
        self.names_changed = True
        self._remove_snapshots(end_offset)
        self._set_roll_limits()

    def drop_records(self) -> None:
        """Empty the files of a log that is deleted. Raises LogDirectoryFailure."""
        with directory_failure(self.directory):
            for segment in self.segments:
                segment.open().truncate(0)

    def _remove_snapshots(self, above: Offset) -> None:
        for offset in [offset for offset in self.snapshot_offsets if offset > above]:
            self.disk.remove(self._snapshot_path(offset))
            self.snapshot_offsets.remove(offset)

    def truncation_sync_plan(self) -> FlushPlan:
        """The files to sync before the next append to a truncated log."""
        return FlushPlan(
            directory=self.directory,
            path=self.path,
            topic_id=self.topic_id,
            generation=self.generation,
            up_to_offset=self.log_end_offset,
            active_base_offset=self.active.base_offset,
            active=self.unsynced_truncation,
            sync_names=True,
        )

    def truncation_synced(self, plan: FlushPlan, missing: Sequence[Segment]) -> None:
        """Allow appends after a plan returned `missing`, if the log was not truncated again. Raises LogDirectoryFailure."""
        self._check_missing(missing)
        if plan.generation == self.generation:
            self.unsynced_truncation = None
            self._set_roll_limits()

    def mark_offsets(self, high_watermark: Offset) -> None:
        """Keep the offsets in the folder until a checkpoint has them: those of the last checkpoint are beyond the log end.

        A full disk keeps no log offline. Raises LogDirectoryFailure.
        """
        points = self.recovery_point, self.log_start_offset, high_watermark, self.cleaned_offset
        mark = format_moved(MovedLog(str(self.topic_partition), *points))
        with directory_failure(self.directory), suppress(DiskFull):
            self.disk.write_file_lazily(f"{self.path}/{NEW_LOG_MARK}", mark)
            self.has_stale_checkpoints = True

    def sync_truncation(self) -> None:
        """Sync the truncation now, for an append before the job's sync. Raises LogDirectoryFailure."""
        plan = self.truncation_sync_plan()
        self.truncation_synced(plan, plan.run(self.disk))

    def _truncation_point(self, offset: Offset) -> tuple[Segment, FilePosition, Offset]:
        """(segment to truncate, position in it, resulting log end offset). Raises LogDirectoryFailure, DamagedLog."""
        segment = next(segment for segment in reversed(self.segments) if segment.base_offset <= offset)
        with directory_failure(self.directory):
            return segment, *find_truncation_point(segment, offset, self.log_end_offset, has_gaps=self.may_have_gaps)

    # -------------------------------------------------------------------------------------------------------- retention

    def advance_log_start(self, offset: Offset) -> bool:
        """Raise the log start offset (DeleteRecords); the segments below it expire. Returns whether it moved."""
        assert offset <= self.log_end_offset
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        return True

    def expired_segment(self, now_ms: int, high_watermark: Offset) -> Segment | None:
        """The oldest segment, if retention removes it; None also for one past the high watermark."""
        config, oldest, is_last = self.config, self.segments[0], len(self.segments) == 1
        end_offset = self.log_end_offset if is_last else self.segments[1].base_offset
        if end_offset > high_watermark or (is_last and not oldest.size):
            return None
        deletes, surplus_bytes = "delete" in config.cleanup_policy, self.size_bytes - config.retention_bytes
        is_below_start = end_offset <= self.log_start_offset and not is_last
        is_surplus = deletes and config.retention_bytes >= 0 and surplus_bytes >= max(oldest.size, 1)
        is_old = deletes and 0 <= config.retention_ms < now_ms - oldest.largest_timestamp()
        return oldest if is_below_start or is_surplus or is_old else None

    def remove_segments(self, segments: list[Segment], now_ms: int = 0) -> FilesRemoval:
        """Remove the oldest segments and rename their files; the plan deletes them, file.delete.delay.ms later.

        Raises LogDirectoryFailure.
        """
        assert self.segments[: len(segments)] == segments, "only the oldest segments may go"
        if segments[-1] is self.active:
            self.roll(now_ms)
        self.segments = self.segments[len(segments) :]
        self.size_bytes -= sum(segment.size for segment in segments)
        self.positions.clear()
        self.advance_log_start(self.segments[0].base_offset)
        self.recovery_point = max(self.recovery_point, self.segments[0].base_offset)
        disk, renamed = self.disk, list[str]()
        with directory_failure(self.directory):
            for segment in segments:
                renamed += segment.set_aside(DELETED_SUFFIX)
                if segment.base_offset in self.snapshot_offsets:
                    self.snapshot_offsets.remove(segment.base_offset)
                    path = self._snapshot_path(segment.base_offset)
                    if disk.exists(path):
                        with suppress(DiskFull):  # one more snapshot harms nothing
                            disk.rename(path, path + DELETED_SUFFIX)
                            renamed.append(path + DELETED_SUFFIX)
        return FilesRemoval(tuple(renamed))

    # ------------------------------------------------------------------------------------------------------- compaction

    def holds_segments(self, segments: Sequence[Segment]) -> bool:
        """Whether these closed segments are still in the log and adjacent."""
        if segments[0] not in self.segments or segments[-1] is self.active:
            return False
        index = self.segments.index(segments[0])
        return self.segments[index : index + len(segments)] == list(segments)

    def replace_segments(self, segments: Sequence[Segment], cleaned: Segment) -> FilesRemoval:
        """Replace `segments` by `cleaned` now; the returned plan deletes their files, `file.delete.delay.ms` later.

        Fast: files are only renamed, and reads of the old ones continue. The next `CompactionPiece` syncs the directory, so
        that the new names are durable. Raises LogDirectoryFailure.
        """
        assert self.holds_segments(segments), "only segments of this log can be replaced"
        self.swaps += 1
        # a new suffix for each swap: readers may still use the files that the last swap left
        aside = f".{self.swaps}{DELETED_SUFFIX}"
        removed: list[str] = []
        with directory_failure(self.directory):
            for segment in segments:
                # open now: a thread could not open the file by its old name after the rename
                segment.open()
            cleaned.set_aside(SWAP_SUFFIX)
            for segment in segments:
                removed += segment.set_aside(aside)
            cleaned.set_aside("")
        self.note_gap()
        index = self.segments.index(segments[0])
        self.segments = [*self.segments[:index], cleaned, *self.segments[index + len(segments) :]]
        self.size_bytes += cleaned.size - sum(segment.size for segment in segments)
        self.positions.clear()
        self.names_changed = True
        return FilesRemoval(tuple(removed))

    # ------------------------------------------------------------------------------------------------------------ flush

    def flush_plan(self, *, include_active: bool = True) -> FlushPlan:
        """What must be synced to move the recovery point to the log end (or to the active segment's base offset)."""
        unsynced: list[Segment] = []
        index = len(self.segments) - 1
        # a segment that was closed just after a flush has indexes that are not synced yet
        while index > 0 and self.segments[index].base_offset >= self.recovery_point:
            index -= 1
            unsynced.append(self.segments[index])
        unsynced.reverse()
        epochs = self.epochs.take_changes()
        plan = FlushPlan(
            directory=self.directory,
            path=self.path,
            topic_id=self.topic_id,
            generation=self.generation,
            up_to_offset=self.log_end_offset if include_active else self.active.base_offset,
            active_base_offset=self.active.base_offset,
            closed=tuple(unsynced),
            active=self.active if include_active and self.active.size else None,
            epochs=epochs,
            snapshots=tuple(offset for offset in self.snapshot_offsets if self.recovery_point <= offset),
            dropped_snapshots=tuple(self._dropped_snapshots),
            sync_names=self.names_changed,
        )
        self._dropped_snapshots = []
        self.names_changed = False
        return plan

    def flushed(self, plan: FlushPlan, missing: Sequence[Segment]) -> None:
        """Move the recovery point after a plan's `run` returned `missing`. Raises LogDirectoryFailure."""
        self._check_missing(missing)
        if plan.generation != self.generation:
            return
        self.recovery_point = max(self.recovery_point, min(plan.up_to_offset, self.log_end_offset))
        if plan.active_base_offset == self.active.base_offset:
            self.has_unflushed_closed_segments = False

    def _check_missing(self, missing: Sequence[Segment]) -> None:
        """A segment without a file need not be durable if retention or a truncation removed it from the log."""
        for segment in missing:
            if segment in self.segments:
                raise LogDirectoryFailure(self.directory, OSError(errno.ENOENT, "is gone", segment.path(LOG_SUFFIX)))

    def close_plan(self) -> LogClose | None:
        """The plan to close the log at a clean stop; None when all of it is synced."""
        truncation = None if self.unsynced_truncation is None else self.truncation_sync_plan()
        is_empty = not self.size_bytes
        has_snapshot = is_empty or self.log_end_offset in self.snapshot_offsets
        has_epochs = self.epochs.is_saved(self.log_end_offset)
        is_flushed = self.recovery_point == self.log_end_offset and not self.names_changed and has_epochs
        has_indexes = self.active.offset_index.saved_count == self.active.offset_index.count
        if is_flushed and has_snapshot and has_indexes and truncation is None:
            return None
        snapshot = None
        if not has_snapshot:
            snapshot = self._snapshot_path(self.log_end_offset), self.producers.to_snapshot()
            self._note_snapshot(self.log_end_offset)
        epochs = self.epochs.to_bytes() if self.epochs.entries else b""
        return LogClose(self.path, truncation, snapshot, self.active, self.flush_plan(), epochs)

    def update_config(self, config: LogConfig) -> None:
        """Apply another configuration."""
        if self.config.is_compacted and not config.is_compacted:
            # the gaps that a start before this one did not find in a checkpoint
            self.note_gap()
        self.config = config
        self._set_roll_limits()
