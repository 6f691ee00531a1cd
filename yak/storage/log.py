"""One partition's log: append, read, and its start and end offsets. Kafka's UnifiedLog.scala and LocalLog.java.

Only the step writes. `append` is the hottest path of the broker: one write of 16 new bytes and the rest of the batch,
then integer updates. Rare work is in its own modules: `reader`, `truncation`, `flush`, `retention`, `recovery`.
"""

import bisect
import struct
import uuid
from collections.abc import Callable
from functools import partial

from yak.config.log_config import NEVER, LogConfig
from yak.errors import LogDirectoryFailure
from yak.ids import FilePosition, LeaderEpoch, Offset, TopicPartition
from yak.protocol.record_batch import HEADER_BYTES, NO_PRODUCER_ID, BatchHeader, read_header
from yak.seams.disk import Buffer, Disk, FileSlice
from yak.storage import flush, follower, retention, rolling, slicing, truncation
from yak.storage.cleanable import may_have_gaps
from yak.storage.epoch_cache import EpochCache
from yak.storage.flush import FlushPlan
from yak.storage.producer_state import ProducerState
from yak.storage.reader import (
    EMPTY,
    DamagedBatch,
    NotCached,
    OffsetOutOfRange,
    PendingRead,
    Read,
    TimestampOffset,
    begins_with,
    find_max_timestamp,
    find_timestamp,
)
from yak.storage.segment import FILE_BYTES_MAX, RELATIVE_OFFSET_MAX, UNKNOWN_TIMESTAMP, IndexUnreadable, Segment

__all__ = ["FlushPlan", "Log", "OffsetOutOfRange", "PendingRead", "TimestampOffset"]

_pack_prefix = struct.Struct(">qii").pack
_PREFIX_BYTES = 16
_NEWEST_BYTES_MAX = 2048
"""Larger batches are not buffered in memory, because a broker may append to thousands of partitions."""
_TAIL_MAX = 256
_TAIL_KEPT = 128
_CURSORS_MAX = 16
_ALWAYS = -(2**63)


def _base_offset_of(segment: Segment) -> Offset:
    return segment.base_offset


class Log:
    """A partition's batches on disk.

    `directory` is the log directory, `path` the partition's folder in it. `has_rolled` is true from a roll until the
    closed segment is flushed. Fields without a comment have their Kafka meaning.
    """

    __slots__ = (
        "__weakref__",
        "active",
        "cleaned_offset",
        "config",
        "cursors",
        "directory",
        "disk",
        "epochs",
        "generation",
        "has_rolled",
        "has_stale_points",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "names_changed",
        "newest",
        "path",
        "producers",
        "read_end",
        "recovery_point",
        "roll_offset",
        "roll_position",
        "roll_timestamp",
        "segments",
        "size_bytes",
        "snapshot_offsets",
        "swaps",
        "tail",
        "topic_id",
        "topic_partition",
        "unsynced_cut",
    )

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
        now_ms: int,
    ) -> None:
        self.disk, self.directory, self.path = disk, directory, path
        self.topic_partition, self.topic_id, self.config = topic_partition, topic_id, config
        self.segments, self.active = segments, segments[-1]
        self.epochs, self.producers = epochs, producers
        self.snapshot_offsets = snapshot_offsets
        self.log_start_offset, self.log_end_offset = log_start_offset, log_end_offset
        self.recovery_point = recovery_point
        self.last_flush_ms, self.swaps = now_ms, 0
        self.size_bytes = sum(segment.size for segment in segments)
        self.names_changed = False
        self.has_rolled = len(segments) > 1 and recovery_point <= self.active.base_offset
        self.has_stale_points = False
        """The directory's checkpoints may hold the offsets of an earlier log of this name (`names.FRESH_MARK`)."""
        self.unsynced_cut: Segment | None = None
        """The segment truncated but not synced since. A power loss may undo that, so an append syncs first."""
        self.generation = 0
        """Changes with each truncation, so that a flush begun before it does not move the recovery point."""
        self.cleaned_offset: Offset | None = None
        """The log is compacted below this offset; None when it never was, and the offsets have no gaps."""
        self.newest: tuple[Offset, Offset, int, bytes] = (0, 0, 0, b"")
        """The last batch appended as the leader, if it is small: (base offset, next offset, generation, bytes).

        Followers and consumers that keep up fetch exactly this batch."""
        # offset -> position in the active segment where its batch begins (or will begin), for the last batches
        self.tail: dict[Offset, FilePosition] | None = None
        # offset -> (segment, position) where earlier reads ended
        self.cursors: dict[Offset, tuple[Segment, FilePosition]] | None = None
        self.read_end: Offset = -1  # the offset after the last result of `read` or `slice`
        self.roll_position = self.roll_offset = self.roll_timestamp = 0
        self.set_roll_limits()

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, [{self.log_start_offset}, {self.log_end_offset}))"

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """Last leader epoch in the log; -1 when there is none."""
        return self.epochs.latest

    @property
    def unflushed_messages(self) -> int:
        """Records that a power loss could lose."""
        return self.log_end_offset - self.recovery_point

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
        ) and self.must_roll(end, max_timestamp, last_offset, now_ms):
            end -= position
            self.roll(now_ms)
            segment = self.active
            position = 0
        if position > segment.index_due_position:
            self.prepare_index_entry()
        next_offset = last_offset + 1
        prefix, rest = _pack_prefix(base_offset, batch_length, leader_epoch), memoryview(batch)[_PREFIX_BYTES:]
        try:
            if batch_length <= _NEWEST_BYTES_MAX:
                whole = prefix + rest
                (segment.file or segment.open()).append((whole,))
                self.newest = (base_offset, next_offset, self.generation, whole)
            else:
                (segment.file or segment.open()).append((prefix, rest))
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        segment.size = end
        self.size_bytes += end - position
        self.log_end_offset = next_offset
        if not position:
            self.begin_segment(max_timestamp)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        if max_timestamp > segment.max_timestamp:
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = last_offset
        if position > segment.index_due_position:
            self.add_index_entry(last_offset, position)
        if producer_id != NO_PRODUCER_ID:
            self.producers.update(header, base_offset, last_offset, now_ms)
        tail = self.tail
        if tail is None:
            tail = self.tail = {base_offset: position}
        tail[next_offset] = end
        if len(tail) > _TAIL_MAX:
            self._trim_tail(tail)
        return base_offset

    def append_as_follower(self, batches: Buffer, now_ms: int, epoch_max: LeaderEpoch = follower.EPOCH_MAX) -> Offset:
        """Append whole batches as the leader of `epoch_max` stored them, offsets and epochs kept; returns the new end.

        An incomplete batch at the end is ignored. Raises LogDirectoryFailure. Raises ProtocolViolation when no batch is
        whole, or a batch is corrupt, does not follow the log end, or has an epoch below the last one or above
        `epoch_max`. The batches before it are appended.
        """
        return follower.append(self, batches, now_ms, epoch_max)

    def note_batch(
        self, header: BatchHeader, base_offset: Offset, position: FilePosition, end: FilePosition, now_ms: int
    ) -> None:
        """Update indexes, epochs, producers and tail for a batch that is in the active segment at [position, end).

        Touches memory only. If the batch gets an index entry, `prepare_index_entry` was called before it was written.
        """
        segment = self.active
        last_offset = base_offset + header.last_offset_delta
        if not position:
            self.begin_segment(header.max_timestamp)
        if header.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(header.partition_leader_epoch, base_offset)
        segment.note_timestamp(header.max_timestamp, last_offset)
        if position > segment.index_due_position:
            self.add_index_entry(last_offset, position)
        if header.producer_id != NO_PRODUCER_ID:
            self.producers.update(header, base_offset, last_offset, now_ms)
        tail = self.tail
        if tail is None:
            tail = self.tail = {base_offset: position}
        tail[last_offset + 1] = end
        if len(tail) > _TAIL_MAX:
            self._trim_tail(tail)

    def begin_segment(self, first_timestamp: int) -> None:
        """Note that the active segment got its first batch."""
        self.active.first_timestamp = first_timestamp
        self.set_roll_limits()

    def prepare_index_entry(self) -> None:
        """Load the active segment's indexes, before the write whose batches get entries. Raises LogDirectoryFailure."""
        segment = self.active
        try:
            segment.load_indexes()
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        except IndexUnreadable:
            # fewer entries mean a longer scan; the indexes are rebuilt when the segment is loaded again
            segment.offset_index.reset()
            segment.time_index.reset()

    def add_index_entry(self, last_offset: Offset, position: FilePosition) -> None:
        """Index a batch of the active segment (indexes loaded); the next append rolls if an index is now full."""
        segment = self.active
        segment.add_index_entry(last_offset, position, self.config.index_interval_bytes)
        if segment.is_index_full(self.config):
            self.roll_position = 0

    def _trim_tail(self, tail: dict[Offset, FilePosition]) -> None:
        self.tail = dict(list(tail.items())[-_TAIL_KEPT:])

    # ---------------------------------------------------------------------------------------------------- roll

    def set_roll_limits(self) -> None:
        """Precompute the position, timestamp and offset past which `append` must check for a roll."""
        segment, config = self.active, self.config
        self.roll_offset = segment.base_offset + RELATIVE_OFFSET_MAX
        full = self.unsynced_cut is not None or (segment.size > 0 and segment.is_index_full(config))
        self.roll_position = 0 if full else min(config.segment_bytes, FILE_BYTES_MAX)
        if not segment.size:
            self.roll_timestamp = NEVER
        elif segment.first_timestamp >= 0:
            self.roll_timestamp = segment.first_timestamp + rolling.roll_after_ms(self)
        else:
            self.roll_timestamp = _ALWAYS

    def must_roll(self, end: FilePosition, max_timestamp: int, last_offset: Offset, now_ms: int) -> bool:
        """Kafka's LogSegment.shouldRoll, for a batch that would end at `end` of the active segment."""
        if self.unsynced_cut is not None:
            truncation.sync_cut(self)
        segment = self.active
        if not segment.size:
            return last_offset > self.roll_offset
        if end > self.roll_position or last_offset > self.roll_offset:
            return True
        if segment.first_timestamp == UNKNOWN_TIMESTAMP:
            self.load_first_timestamp(segment)
            self.set_roll_limits()
        if segment.first_timestamp >= 0:
            return max_timestamp > self.roll_timestamp
        return now_ms - segment.created_ms > rolling.roll_after_ms(self)

    def roll(self, now_ms: int) -> None:
        """Close the active segment and create a new one at the log end.

        Raises LogDirectoryFailure. After DiskFull the old segment is still active, and the roll may be retried.
        """
        if not self.active.size and self.active.base_offset == self.log_end_offset:
            return
        try:
            self.active.close_for_appends()
            self.write_snapshot()
            segment = Segment.create(self.disk, self.path, self.log_end_offset, self.config, now_ms)
        except IndexUnreadable as error:
            raise LogDirectoryFailure(self.directory, OSError(0, f"unreadable index {error}")) from error
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        self.active.offset_index.unload()
        self.active.time_index.unload()
        self.segments.append(segment)
        self.active = segment
        self.tail = {segment.base_offset: 0}
        self.names_changed = True
        self.has_rolled = True
        self.set_roll_limits()

    def write_snapshot(self) -> None:
        """Write the producer snapshot at the log end, unsynced; delete those at no segment's start. Raises OSError."""
        rolling.write_snapshot(self)

    def load_first_timestamp(self, segment: Segment) -> None:
        """Read the segment's first timestamp, which loading skipped. Raises LogDirectoryFailure."""
        try:
            segment.first_timestamp = read_header(segment.open().read(HEADER_BYTES, 0)).max_timestamp
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        except struct.error:
            segment.first_timestamp = -1

    # ---------------------------------------------------------------------------------------------------- read

    def read(self, offset: Offset, max_bytes: int, up_to: Offset, *, at_least_one: bool) -> Buffer | PendingRead:
        """Batches from the one with `offset` up to `up_to` (exclusive, a batch boundary), at most `max_bytes`.

        The result ends at a batch boundary. If the first batch is larger than `max_bytes`, it is returned whole with
        `at_least_one`, else nothing is. Never blocks: a read that misses the page cache returns a PendingRead. Raises
        OffsetOutOfRange, LogDirectoryFailure.
        """
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset >= up_to:
            return EMPTY
        newest = self.newest_batch(offset, up_to, max_bytes)
        if newest is not None:
            self.read_end = up_to
            return newest
        tail = self.tail
        if tail is not None:
            start, end = tail.get(offset), tail.get(up_to)
            if start is not None and end is not None and 0 < end - start <= max_bytes:
                try:
                    data = self.active.open().read_cached(end - start, start)
                except OSError as error:
                    raise LogDirectoryFailure(self.directory, error) from error
                if data is not None and len(data) == end - start and begins_with(data, offset):
                    self.read_end = up_to
                    return data
        return self._read_slowly(offset, max_bytes, up_to, at_least_one=at_least_one)

    def newest_batch(self, offset: Offset, up_to: Offset, max_bytes: int) -> bytes | None:
        """The batch that spans exactly `offset` to `up_to`, if it is the last appended one and still in memory."""
        first, end, generation, batch = self.newest
        is_it = first == offset and end == up_to and generation == self.generation and len(batch) <= max_bytes
        return (batch or None) if is_it else None

    def _read_slowly(
        self, offset: Offset, max_bytes: int, up_to: Offset, *, at_least_one: bool
    ) -> Buffer | PendingRead:
        read = self.plan_read(offset, max_bytes, up_to, at_least_one=at_least_one)
        try:
            data, next_offset, position, segment = read.perform(cached=True)
        except (NotCached, DamagedBatch):
            return PendingRead(self, read)
        except OSError as error:
            raise LogDirectoryFailure(self.directory, error) from error
        self.read_end = read.segment_end if next_offset < 0 else next_offset
        if segment is not None:
            self.remember(offset, next_offset, segment, position)
        return data

    def checked_read(self, offset: Offset, max_bytes: int, up_to: Offset, *, at_least_one: bool) -> PendingRead:
        """Like `read`, for a reader that rejected the result of `read`: a job reads the file and checks each batch."""
        return PendingRead(self, self.plan_read(offset, max_bytes, up_to, at_least_one=at_least_one))

    def slice(self, offset: Offset, max_bytes: int, up_to: Offset) -> FileSlice | None:
        """The result of `read` as a file range for `sendfile`, None if impossible. Raises LogDirectoryFailure."""
        return slicing.slice_of(self, offset, max_bytes, up_to)

    def remember(self, offset: Offset, next_offset: Offset, segment: Segment, position: FilePosition) -> None:
        """Note that a sequential reader continues at `next_offset`, which is at `position`."""
        cursors = self.cursors
        if cursors is None:
            cursors = self.cursors = {}
        cursors.pop(offset, None)
        cursors[next_offset] = (segment, position)
        if len(cursors) > _CURSORS_MAX:
            del cursors[next(iter(cursors))]

    def plan_read(self, offset: Offset, max_bytes: int, up_to: Offset, *, at_least_one: bool) -> Read:
        """The read, with the positions that are known without disk access."""
        segments = self.segments
        index = max(0, bisect.bisect_right(segments, offset, key=_base_offset_of) - 1)
        segment = segments[index]
        start = end = -1
        tail = self.tail
        if tail is not None and segment is self.active:
            start, end = tail.get(offset, -1), tail.get(up_to, -1)
        if start < 0 and self.cursors is not None:
            cursor = self.cursors.get(offset)
            if cursor is not None and cursor[0] is segment:
                start = cursor[1]
        if end < 0 and segment is self.active and up_to == self.log_end_offset:
            end = segment.size
        rest, gaps = segments[index:], may_have_gaps(self)
        return Read(rest, offset, max_bytes, up_to, at_least_one=at_least_one, has_gaps=gaps, start=start, end=end)

    def forget_positions(self) -> None:
        """Forget the positions known from appends and reads."""
        self.tail = None
        self.cursors = None

    def offset_for_timestamp(self, timestamp_ms: int) -> Callable[[], TimestampOffset | None]:
        """A job: the first record at or after a timestamp, by Kafka's ListOffsets rules; None when there is none.

        The job reads the disk. It raises LogDirectoryFailure, or ProtocolViolation when the batch cannot be
        decompressed.
        """
        segments = [(segment, segment.size) for segment in self.segments if segment.max_timestamp >= timestamp_ms]
        return partial(find_timestamp, self.directory, segments, timestamp_ms, self.log_start_offset)

    def offset_of_max_timestamp(self) -> Callable[[], TimestampOffset | None]:
        """A job: the record with the largest timestamp (KIP-734); None when no record has one. Raises as above."""
        segments = [(segment, segment.size) for segment in self.segments if segment.size and segment.max_timestamp >= 0]
        return partial(find_max_timestamp, self.directory, segments, self.log_start_offset)

    # -------------------------------------------------------------------------------------------------- epochs

    def assign_epoch(self, epoch: LeaderEpoch) -> None:
        """Note that `epoch` begins at the log end."""
        self.epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, requested_epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """(largest epoch at or below the requested one, its end offset); (-1, -1) when unknown."""
        return self.epochs.end_offset_for(requested_epoch, self.log_end_offset)

    # -------------------------------------------------------------------------- truncation, retention, flushing

    def truncate_to(self, offset: Offset) -> Offset:
        """Drop each batch with offsets from `offset` on, unsynced; returns the new end. Raises LogDirectoryFailure."""
        return truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: Offset, now_ms: int) -> None:
        """Drop all batches and restart the log at `offset`, without a sync. Raises LogDirectoryFailure."""
        truncation.truncate_fully_and_start_at(self, offset, now_ms)

    def advance_log_start(self, offset: Offset) -> bool:
        """Raise the log start offset (DeleteRecords); the segments below it expire. Returns whether it moved."""
        return retention.advance_log_start(self, offset)

    def expired_segments(self, now_ms: int, high_watermark: Offset) -> list[Segment]:
        """The oldest segments that retention removes, none past the high watermark."""
        return retention.expired_segments(self, now_ms, high_watermark)

    def remove_segments(self, segments: list[Segment], now_ms: int = 0) -> Callable[[], None]:
        """Remove the oldest segments and rename their files; the job deletes them, file.delete.delay.ms later.

        Raises LogDirectoryFailure.
        """
        return retention.remove_segments(self, segments, now_ms)

    def update_config(self, config: LogConfig) -> None:
        """Apply another configuration."""
        self.config = config
        self.set_roll_limits()

    def flush_plan(self, *, include_active: bool = True) -> FlushPlan:
        """What must be synced to move the recovery point to the log end (or to the active segment's base offset)."""
        return flush.flush_plan(self, include_active=include_active)

    def flushed(self, plan: FlushPlan, now_ms: int | None = None) -> None:
        """Move the recovery point after a plan's `run` returned."""
        flush.flushed(self, plan, now_ms)
