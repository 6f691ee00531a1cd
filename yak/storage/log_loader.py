"""Opening one partition's folder: which of its files are valid, and the `Log` over it (Kafka's LogLoader.java)."""

import bisect
import uuid
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise

from yak.config.log_config import LogConfig
from yak.ids import FilePosition, Offset, TopicPartition
from yak.ports.disk import Disk
from yak.storage.checkpoints import BadCheckpoint, NewerVersion, parse_epochs, parse_moved, parse_partition_metadata
from yak.storage.epoch_cache import EpochCache
from yak.storage.indexes import OffsetIndex, TimeIndex, TransactionIndex, is_offset_index, last_time_entry
from yak.storage.log import Log
from yak.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    NEW_LOG_MARK,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
    parse_offset,
)
from yak.storage.producer_state import ProducerState
from yak.storage.reader import DamagedBatch, end_of_closed, scan_headers
from yak.storage.recovery import DamagedLog, Recovery, RecoveryResult, describe, rebuild_indexes
from yak.storage.segment import UNKNOWN_TIMESTAMP, Segment

NO_TOPIC_ID = uuid.UUID(int=0)
ALL_FLUSHED: Offset = 2**63 - 1
"""The recovery point after a clean stop whose checkpoint is damaged: the log end, wherever it is."""
_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)


@dataclass(slots=True)
class LoadedLog:
    """A log and the repairs to it. `warnings` and `damage` are lines for the log; damage is the serious kind.

    `is_short`: records at one of its ends were durable, and so perhaps committed, and are missing.
    """

    log: Log
    is_short: bool = False
    recovered: RecoveryResult | None = None
    warnings: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


@dataclass(eq=False)
class LogLoader:
    """Loads one folder. The three offsets come from the checkpoints; None when they have no entry.

    `closed_bytes` is the log's size at the clean stop before this start; None when it is not known.
    """

    disk: Disk
    directory: str
    folder: str
    topic_partition: TopicPartition
    config: LogConfig
    _: KW_ONLY
    recovery_point: Offset | None
    log_start_offset: Offset | None
    cleaned_offset: Offset | None = None
    was_clean: bool
    """Whether the files are as a clean stop left them; the load clears it when it finds something else."""
    closed_bytes: int | None = None
    high_watermark: Offset = 0
    """The checkpoint's, until `load` finds that the log has another."""
    keeps_written: bool = False
    is_replicated: bool = False
    now_ms: int

    def __post_init__(self) -> None:
        self._path = f"{self.directory}/{self.folder}"
        self.topic_id = NO_TOPIC_ID
        self._reads_all = False
        """Whether recovery reads the flushed segments too, which it does not truncate."""
        self._sizes: dict[str, int] = {}
        self._warnings: list[str] = []
        self._damage: list[str] = []
        self._shrank = False
        """Whether the log has fewer bytes than at the clean stop."""
        self._missing: DamagedBatch | None = None
        """Where flushed records are missing at an end of the log."""
        self._hole: DamagedBatch | None = None
        """Where they are missing between two segments."""

    def load(self) -> LoadedLog:
        """Load the log. Raises OSError, and DamagedLog when the folder must stay as it is."""
        try:
            return self._load()
        except DamagedBatch as damaged:
            reason = f"producer state and leader epochs cannot be read back: {damaged}"
            raise DamagedLog(self._path, damaged.position, self.log_start_offset or 0, reason) from damaged

    def _load(self) -> LoadedLog:
        self._sizes = dict(self.disk.file_sizes(self._path))
        self._clear_leftovers()
        is_new = NEW_LOG_MARK in self._sizes
        if is_new:
            self._take_mark()
        else:
            self._check_size()
        self.topic_id = self._read_topic_id()
        segments = self._segments()
        self._check_offsets(segments[-1])
        self._drop_deleted(segments)
        self._check_owner(segments)
        epochs = self._epochs(has_records=any(segment.size for segment in segments))
        producers = ProducerState()
        snapshots = sorted(o for name in self._sizes if (o := parse_offset(name, SNAPSHOT_SUFFIX)) is not None)
        recovered: RecoveryResult | None = None
        end_offset = self._known_end(segments)
        if end_offset is None:
            recovered, end_offset, snapshots = self._recover(segments, epochs, producers, snapshots)
        else:
            # a power loss may bring back a truncated tail's snapshot; it would count once the log is as long again
            trusted = [offset for offset in snapshots if offset <= end_offset]
            self._drop_snapshots(snapshots, trusted)
            snapshots = trusted
        if recovered is None and (snapshots or any(segment.size for segment in segments)):
            self._repair_indexes(segments, snapshots)
            producers.restore(self.disk, self._path, segments, snapshots, end_offset, self.now_ms, reads_earlier=False)
        log = self._log(segments, epochs, producers, snapshots, end_offset)
        log.names_changed = recovered is not None
        log.has_stale_checkpoints = is_new
        damage = [] if recovered is None else recovered.damage
        log.damage_at_load = damage[0] if damage else self._hole or self._missing
        if self.cleaned_offset is not None:
            log.cleaned_offset = self._trusted_cleaned_offset(end_offset)
        return LoadedLog(log, self._missing is not None, recovered, self._warnings, self._damage)

    def _trusted_cleaned_offset(self, end_offset: Offset) -> Offset:
        """The checkpoint's, or 0 if it is beyond the log: the log is compacted from its start again, as by Kafka.

        A compaction that took uncompacted records for clean would later drop a tombstone and keep an older record of its key.
        So the offset is at most the recovery point, which a truncation lowers on the disk before it removes records.
        """
        cleaned_offset = self.cleaned_offset or 0
        if cleaned_offset <= end_offset:
            return cleaned_offset if self.was_clean else min(cleaned_offset, self.recovery_point or 0)
        self._warnings.append(
            f"its cleaner offset {cleaned_offset} is beyond the log end {end_offset}: compaction starts again"
        )
        return 0

    def _take_mark(self) -> None:
        """The checkpoints may hold the offsets of an earlier log. Those of a log that moved here are in its mark."""
        path = f"{self._path}/{NEW_LOG_MARK}"
        try:
            moved = parse_moved(self.disk.read_file(path))
        except BadCheckpoint as error:
            raise DamagedLog(path, 0, 0, str(error)) from error
        self.was_clean = False
        if moved is None:
            self.recovery_point = self.log_start_offset = None
            # another topic's would expose records that are not replicated yet
            self.high_watermark = 0
            if self.cleaned_offset is not None:
                # nothing is clean, but a leader that compacts may have left gaps
                self.cleaned_offset = 0
            return
        # a truncation since the move may have lowered it, and with it the others
        lowered = moved.recovery_point if self.recovery_point is None else self.recovery_point
        self.recovery_point = min(moved.recovery_point, lowered)
        self.log_start_offset = moved.log_start_offset
        self.high_watermark = min(moved.high_watermark, self.recovery_point)
        self.cleaned_offset = moved.cleaned_offset and min(moved.cleaned_offset, self.recovery_point)

    # ------------------------------------------------------------------------------------------------- files

    def _clear_leftovers(self) -> None:
        """Complete interrupted deletions, and swaps of cleaned segments (as Kafka does)."""
        swaps = False
        for name in list(self._sizes):
            if name.endswith(_LEFTOVER_SUFFIXES):
                self._remove(name)
            elif name.endswith(SWAP_SUFFIX):
                swaps = True
            elif name.endswith((OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                log_name = name.rpartition(".")[0] + LOG_SUFFIX
                if log_name not in self._sizes and log_name + SWAP_SUFFIX not in self._sizes:
                    self._warnings.append(f"removed {name}: an index without a segment")
                    self._remove(name)
                    # a clean stop leaves none: the segment was lost since, and recovery finds where the log ends now
                    self.was_clean = False
        if swaps:
            self._complete_swaps()

    def _complete_swaps(self) -> None:
        swap_logs = [name for name in self._sizes if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
        for name in swap_logs:
            base = parse_offset(name, LOG_SUFFIX + SWAP_SUFFIX)
            if base is None:
                continue
            next_offset = base
            for _, header in scan_headers(self.disk.open(f"{self._path}/{name}"), 0, self._sizes[name]):
                next_offset = header.next_offset
            for other in [
                o for o in self._sizes if (b := parse_offset(o, LOG_SUFFIX)) is not None and base <= b < next_offset
            ]:
                for suffix in SEGMENT_SUFFIXES:
                    self._remove(other[: -len(LOG_SUFFIX)] + suffix)
        # a `.log` last: the end of the process in between must not make its indexes leftovers
        for name in sorted(
            (name for name in self._sizes if name.endswith(SWAP_SUFFIX)), key=lambda name: name in swap_logs
        ):
            plain = name[: -len(SWAP_SUFFIX)]
            if plain.rpartition(".")[0] + LOG_SUFFIX + SWAP_SUFFIX in swap_logs:
                self.disk.rename(f"{self._path}/{name}", f"{self._path}/{plain}")
                self._sizes[plain] = self._sizes.pop(name)
            else:
                self._remove(name)
        self._warnings.append(f"completed {len(swap_logs)} interrupted segment swaps")

    def _check_size(self) -> None:
        """After a clean stop, recover a log whose files have another size than they had then: some were cut or removed.

        Such a log would be served with a hole, by a start that reads no record.
        """
        size = sum(size for name, size in self._sizes.items() if parse_offset(name, LOG_SUFFIX) is not None)
        if self.closed_bytes is not None and size != self.closed_bytes:
            self._warnings.append(f"its segments have {size} bytes, and had {self.closed_bytes} at the clean stop")
            self.was_clean = False
            self._shrank = size < self.closed_bytes

    def _check_offsets(self, active: Segment) -> None:
        """Ignore offsets of checkpoints that cannot be those of the clean stop before this start.

        That stop wrote the log end as recovery point, and a producer snapshot there. Another log end would give the next
        records offsets that are in use, or leave a hole, and a log start above it would delete the log.
        """
        end = self.recovery_point
        if not self.was_clean or end is None or end == ALL_FLUSHED:
            return
        base, has_snapshot = active.base_offset, offset_name(end) + SNAPSHOT_SUFFIX in self._sizes
        if not (end > base and has_snapshot if active.size else end == base):
            self._warnings.append(f"its recovery point {end} is not the log end of the clean stop")
            if self.closed_bytes is None:
                self.was_clean = False
            else:
                self.recovery_point = ALL_FLUSHED
        elif (self.log_start_offset or 0) > end:
            self._warnings.append(f"its log start offset {self.log_start_offset} is above its log end {end}")
            self.log_start_offset = None

    def _remove(self, name: str) -> None:
        self.disk.remove(f"{self._path}/{name}")
        self._sizes.pop(name, None)

    def _read_topic_id(self) -> uuid.UUID:
        if PARTITION_METADATA not in self._sizes:
            return NO_TOPIC_ID
        try:
            return parse_partition_metadata(self.disk.read_file(f"{self._path}/{PARTITION_METADATA}"))
        except NewerVersion as newer:
            raise newer.refusal(f"{self._path}/{PARTITION_METADATA}") from newer
        except BadCheckpoint as error:
            self._warnings.append(f"{PARTITION_METADATA}: {error}")
            return NO_TOPIC_ID

    def _epochs(self, *, has_records: bool) -> EpochCache:
        reason = "it is missing after a clean stop"
        if LEADER_EPOCH_CHECKPOINT in self._sizes:
            try:
                return EpochCache(parse_epochs(self.disk.read_file(f"{self._path}/{LEADER_EPOCH_CHECKPOINT}")))
            except NewerVersion as newer:
                raise newer.refusal(f"{self._path}/{LEADER_EPOCH_CHECKPOINT}") from newer
            except BadCheckpoint as error:
                reason = str(error)
        elif not self.was_clean or not has_records:
            return EpochCache()
        self._warnings.append(f"{LEADER_EPOCH_CHECKPOINT}: {reason}; the leader epochs are rebuilt from the batches")
        # recovery reads everything again and finds the epochs
        self.was_clean, self._reads_all = False, True
        return EpochCache()

    def _segments(self) -> list[Segment]:
        bases = sorted(base for name in self._sizes if (base := parse_offset(name, LOG_SUFFIX)) is not None)
        if not bases:
            return [Segment.create(self.disk, self._path, self.log_start_offset or 0, self.config, self.now_ms)]
        return [self._segment(base) for base in bases]

    def _drop_deleted(self, segments: list[Segment]) -> None:
        """Remove segments below the log start: a power loss may bring back files that retention removed."""
        while len(segments) > 1 and segments[1].base_offset <= (self.log_start_offset or 0):
            segments.pop(0).remove_files()

    def _segment(self, base: Offset) -> Segment:
        segment = Segment(self.disk, self._path, base, self.now_ms)
        name = offset_name(base)
        segment.size = self._sizes[name + LOG_SUFFIX]
        segment.index_due_position = segment.size + self.config.index_interval_bytes
        index_bytes = self._sizes.get(name + OFFSET_INDEX_SUFFIX, -1)
        time_bytes = self._sizes.get(name + TIME_INDEX_SUFFIX, -1)
        if not segment.size:
            segment.index_due_position = self.config.index_interval_bytes
            # files that are not empty still cover the bytes that were truncated before a crash
            if self._sizes.get(name + TRANSACTION_INDEX_SUFFIX):
                segment.transaction_index = TransactionIndex(base)
                segment.transaction_index.reset()
            if index_bytes or time_bytes:
                segment.reset_indexes()
            return segment
        segment.first_timestamp = UNKNOWN_TIMESTAMP
        if not self._load_transaction_index(segment) or not self._load_ends(segment, index_bytes, time_bytes):
            segment.offset_index.saved_count = -1
        return segment

    def _load_ends(self, segment: Segment, index_bytes: int, time_bytes: int) -> bool:
        """Take the sizes and the last entries of the index files; False when they cannot be the segment's.

        A power loss may leave zeros in a file, which Kafka trusts: retention would remove the segment as one of 1970. What a
        clean stop synced is not compared with the log.
        """
        base, count = segment.base_offset, time_bytes // TimeIndex.ENTRY_BYTES
        if (
            min(index_bytes, time_bytes) < 0
            or index_bytes % OffsetIndex.ENTRY_BYTES
            or time_bytes % TimeIndex.ENTRY_BYTES
        ):
            return False
        end = self._last_entry(segment, TIME_INDEX_SUFFIX, time_bytes, TimeIndex.ENTRY_BYTES)
        timestamp, relative_offset = last_time_entry(end)
        if (count and timestamp < 0) or relative_offset < min(1, count - 1):
            return False
        if not self.was_clean:
            end = self._last_entry(segment, OFFSET_INDEX_SUFFIX, index_bytes, OffsetIndex.ENTRY_BYTES)
            # only records without timestamps, or of 1970, leave a time index without a later timestamp
            if not is_offset_index(end) or (timestamp <= 0 and segment.read_first_timestamp() != timestamp):
                return False
        segment.offset_index = OffsetIndex(base, index_bytes // OffsetIndex.ENTRY_BYTES)
        if count:
            segment.time_index = TimeIndex(base, count, timestamp)
            segment.note_timestamp(timestamp, base + relative_offset)
        return True

    def _last_entry(self, segment: Segment, suffix: str, file_bytes: int, entry_bytes: int) -> bytes:
        return self.disk.open(segment.path(suffix)).read(entry_bytes, file_bytes - entry_bytes) if file_bytes else b""

    def _load_transaction_index(self, segment: Segment) -> bool:
        """Load the aborted transactions; False when the file cannot be the segment's."""
        if not self._sizes.get(offset_name(segment.base_offset) + TRANSACTION_INDEX_SUFFIX):
            return True
        data = self.disk.read_file(segment.path(TRANSACTION_INDEX_SUFFIX))
        index = TransactionIndex(segment.base_offset, len(data) // TransactionIndex.ENTRY_BYTES)
        is_valid = index.load(data)
        segment.transaction_index = index if is_valid else TransactionIndex(segment.base_offset)
        return is_valid

    # ---------------------------------------------------------------------------------------------- valid or not

    def _known_end(self, segments: list[Segment]) -> Offset | None:
        """The log end offset, if it is known without reading batches: everything was flushed, or the log is empty."""
        active = segments[-1]
        if not active.size and active.base_offset < (self.recovery_point or 0) < ALL_FLUSHED:
            # flushed records are missing: recovery reports it
            return None
        if len(segments) == 1 and not active.size:
            return active.base_offset
        if not self.was_clean or self.recovery_point is None:
            return None
        if not active.size:
            return active.base_offset
        if self.recovery_point == ALL_FLUSHED:
            return None
        return self.recovery_point if self.recovery_point > active.base_offset else None

    def _check_owner(self, segments: list[Segment]) -> None:
        """Refuse records of an unknown topic: they are never served, nor replaced by an empty log."""
        held = next((segment for segment in segments if segment.size), None)
        if self.topic_id == NO_TOPIC_ID and held is not None:
            path = f"{self._path}/{PARTITION_METADATA}"
            raise DamagedLog(path, 0, held.base_offset, "it does not name the topic of these records")

    def _repair_indexes(self, segments: list[Segment], snapshots: list[Offset]) -> None:
        """Rebuild index files that are missing or cannot be the segment's, though the stop was clean."""
        for index, segment in enumerate(segments):
            if segment.size and segment.offset_index.saved_count < 0:
                producers, base = ProducerState(), segment.base_offset
                producers.restore(self.disk, self._path, segments[:index] or segments, snapshots, base, self.now_ms)
                allows_gaps = self.cleaned_offset is not None
                trouble = rebuild_indexes(segment, self.config, producers, allows_gaps=allows_gaps)
                self._warnings.append(f"rebuilt the indexes of segment {segment.base_offset}")
                if trouble:
                    self._damage.append(trouble)

    def _recover(
        self, segments: list[Segment], epochs: EpochCache, producers: ProducerState, snapshots: list[Offset]
    ) -> tuple[RecoveryResult, Offset, list[Offset]]:
        recovery_point = segments[0].base_offset
        if (self.recovery_point or 0) > (self.log_start_offset or 0):
            # otherwise no record above the log start was flushed: the recovery point only followed the log start
            recovery_point = max(recovery_point, self.recovery_point or 0)
        # left: the indexes of a segment that rolled right after a flush may not be on the device
        first = max(0, bisect.bisect_left(segments, recovery_point, key=lambda segment: segment.base_offset) - 1)
        first = 0 if self._reads_all else first
        base = segments[first].base_offset
        self._repair_indexes(segments[:first], snapshots)
        self._check_contiguity(segments[: first + 1])
        trusted = [offset for offset in snapshots if offset <= base]
        producers.restore(self.disk, self._path, segments[: first + 1], trusted, base, self.now_ms)
        # a full resync, and retention, leave epochs below the log that its leader may not have
        epochs.truncate_from_end(base if first else 0)
        suspects = segments[first:]
        allows_gaps = self.cleaned_offset is not None
        recovery = Recovery(
            self.config,
            epochs,
            producers,
            recovery_point,
            self.now_ms,
            allows_gaps=allows_gaps,
            keeps_written=self.keeps_written,
            may_be_short=recovery_point < ALL_FLUSHED,
            cleaned_offset=self.cleaned_offset or 0,
        )
        end_offset = recovery.run(suspects)
        segments[first:] = suspects
        result = recovery.result
        for segment in result.removed_segments:
            segment.remove_files()
        for segment in suspects[:-1]:
            segment.close_for_appends()
        self._drop_snapshots(snapshots, trusted)
        self._damage += map(describe, result.damage)
        if end_offset < recovery_point < ALL_FLUSHED:
            reason = f"ends at offset {end_offset}, below its recovery point {recovery_point}"
            self._note_missing(segments[-1], segments[-1].size, reason, end_offset)
        elif self._shrank and segments[0].base_offset > (self.log_start_offset or 0):
            # without a clean stop, retention may have removed them since the last checkpoint
            start = segments[0].base_offset
            reason = f"begins at offset {start}, above its log start offset {self.log_start_offset or 0}"
            self._note_missing(segments[0], 0, reason, start)
        return result, end_offset, trusted

    def _check_contiguity(self, segments: list[Segment]) -> None:
        """Compare the ends of segments below the recovery point, which recovery does not read, with what follows them.

        A consumer that reached such a hole would get nothing, without an error. Other replicas have the records, so a
        replica with others does a full resync. Raises OSError, DamagedLog.
        """
        if self.cleaned_offset is not None or self.config.is_compacted:
            return
        for segment, following in pairwise(segments):
            end = end_of_closed(segment, following.base_offset)
            if end is None or end >= following.base_offset:
                continue
            reason = f"offsets {end} to {following.base_offset - 1} are missing: a file was cut or removed"
            path = segment.path(LOG_SUFFIX)
            if self.is_replicated:
                raise DamagedLog(path, segment.size, end, reason)
            self._hole = self._hole or DamagedBatch(path, segment.size, reason, end)
            self._damage.append(f"{path}: {reason}")

    def _note_missing(self, segment: Segment, position: FilePosition, where: str, offset: Offset) -> None:
        reason = f"{where}: flushed records are missing"
        self._missing = DamagedBatch(segment.path(LOG_SUFFIX), position, f"the log {reason}", offset)
        self._damage.append(f"{self._path} {reason}")

    def _drop_snapshots(self, snapshots: list[Offset], retained: list[Offset]) -> None:
        for offset in snapshots:
            if offset not in retained:
                self.disk.remove(f"{self._path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}")

    def _log(
        self,
        segments: list[Segment],
        epochs: EpochCache,
        producers: ProducerState,
        snapshots: list[Offset],
        end_offset: Offset,
    ) -> Log:
        start = max(self.log_start_offset or 0, segments[0].base_offset)
        if end_offset < start:
            # the missing batches were never flushed, and their records are deleted
            self._warnings.append(f"ended at offset {end_offset}, below its log start offset: restarts at {start}")
            for segment in segments:
                segment.remove_files()
            segments = [Segment.create(self.disk, self._path, start, self.config, self.now_ms)]
            self._drop_snapshots(snapshots, [])
            snapshots = []
            producers.clear()
            end_offset = start
        epochs.truncate_from_end(end_offset)
        epochs.restore_front(segments, start)
        epochs.truncate_from_start(start)
        is_empty = len(segments) == 1 and not segments[0].size
        recovery_point = end_offset if is_empty else self.recovery_point or 0
        return Log(
            self.disk,
            self.directory,
            self._path,
            self.topic_partition,
            self.topic_id,
            self.config,
            segments,
            epochs=epochs,
            producers=producers,
            snapshot_offsets=snapshots,
            log_start_offset=start,
            log_end_offset=end_offset,
            recovery_point=max(segments[0].base_offset, min(recovery_point, end_offset)),
        )
