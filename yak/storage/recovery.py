"""After an unclean stop: read and check every batch from the recovery point's segment on, and truncate an incomplete tail.

Kafka's LogLoader.recoverLog and LogSegment.recover, with one more rule. Below the recovery point the bytes were synced,
so a corrupt batch there is damage, not an incomplete write: it is reported and never truncated. The same holds above it if
only the process ended and not the machine, because that leaves one incomplete last write and nothing else to truncate.
Without another replica such a log is truncated all the same.
"""

from dataclasses import KW_ONLY, dataclass, field

from yak.config.log_config import LogConfig
from yak.errors import ProtocolViolation
from yak.ids import FilePosition, Offset
from yak.ports.disk import File
from yak.protocol.control_batch import EndTransactionMarker, read_marker
from yak.protocol.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_V2,
    NO_PRODUCER_ID,
    BatchHeader,
    compute_crc,
    read_header,
)
from yak.storage.epoch_cache import EpochCache
from yak.storage.producer_state import ProducerState
from yak.storage.reader import DamagedBatch
from yak.storage.segment import RELATIVE_OFFSET_MAX, Segment

CHUNK_BYTES = 4 * 1024 * 1024
_MAGIC_AT = 16
_LENGTH_BITS = 31
NO_EPOCH = -1
"""The epoch in batches of Kafka brokers that had no leader epochs yet."""


class DamagedLog(Exception):
    """A log's structure is broken below its recovery point or at a truncation point: nothing is changed or served."""

    def __init__(self, file: str, position: FilePosition, offset: Offset, reason: str) -> None:
        super().__init__(f"{file} at byte {position}, offset {offset}: {reason}")


@dataclass(slots=True)
class RecoveryResult:
    """What recovery found and did in one log. `damage` has each corrupt batch that stays in the log."""

    truncated_bytes: int = 0
    truncated_because: str = ""
    removed_segments: list[Segment] = field(default_factory=list)
    damage: list[DamagedBatch] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Recovery:
    """Checks the batches of one log in order. `epochs` and `producers` must be as of the first segment's base offset.

    `allows_gaps`: this broker or a leader has compacted the log, whatever its configuration is now.
    `keeps_written`: only the process ended, and other replicas have the data: batches that were written whole are not
    truncated.
    `may_be_short`: a log that ends inside a batch below its recovery point is truncated there: nothing of it follows.
    `cleaned_offset`: the log is compacted below it, as its cleaner synced it.
    """

    config: LogConfig
    epochs: EpochCache
    producers: ProducerState
    recovery_point: Offset
    now_ms: int
    _: KW_ONLY
    allows_gaps: bool = False
    keeps_written: bool = False
    may_be_short: bool = False
    cleaned_offset: Offset = 0
    result: RecoveryResult = field(default_factory=RecoveryResult, init=False)
    is_last: bool = field(default=True, init=False)
    """Whether the segment that is checked is the log's last one."""

    def __post_init__(self) -> None:
        self.allows_gaps |= self.config.is_compacted

    def run(self, segments: list[Segment]) -> Offset:
        """Recover these last segments of a log; returns the log end offset. Raises OSError, DamagedLog.

        Segments after the first truncation are removed from the list and named in the result; the caller deletes their
        files.
        """
        end_offset = segments[0].base_offset
        for index, segment in enumerate(segments):
            if index and not self._may_follow(segment.base_offset, end_offset):
                self._drop(segments, index, f"segment {segment.base_offset} does not follow offset {end_offset}")
                break
            end_offset = segment.base_offset
            self.is_last = index + 1 == len(segments)
            end_offset, was_truncated = self._segment(segment, end_offset)
            if was_truncated and index + 1 < len(segments):
                self._drop(segments, index + 1, self.result.truncated_because)
                break
        return end_offset

    def _may_follow(self, base_offset: Offset, end_offset: Offset) -> bool:
        """Whether a segment with this base offset can follow segments that end at `end_offset`.

        YAK's compaction leaves no gap between segments, Kafka's does, also above the last recovery point that it wrote.
        Above both a gap is crash loss, unless it is wider than an index can hold: a follower starts a new segment behind
        such a gap.
        """
        if base_offset == end_offset:
            return True
        is_flushed = base_offset <= max(self.recovery_point, self.cleaned_offset)
        is_wide = base_offset - end_offset > RELATIVE_OFFSET_MAX
        return self.allows_gaps and base_offset > end_offset and (is_flushed or is_wide)

    def _drop(self, segments: list[Segment], index: int, reason: str) -> None:
        if segments[index].base_offset < self.recovery_point:
            raise DamagedLog(segments[index].path(".log"), 0, segments[index].base_offset, reason)
        self.result.removed_segments = segments[index:]
        self.result.truncated_bytes += sum(segment.size for segment in segments[index:])
        self.result.truncated_because = reason
        del segments[index:]

    def _segment(self, segment: Segment, expected: Offset) -> tuple[Offset, bool]:
        """(offset after the last good batch, whether the rest was truncated)."""
        segment.reset_indexes()
        segment.max_timestamp, segment.max_timestamp_offset = -1, segment.base_offset
        segment.index_due_position = self.config.index_interval_bytes
        file, size = segment.open(), segment.size
        position = 0
        chunk, chunk_start = b"", 0
        is_damaged = False
        while position < size:
            at = position - chunk_start
            need = _size_at(chunk, at)
            if at + need > len(chunk):
                chunk_start, at = position, 0
                chunk = _read_batch_and_more(file, position, size)
                need = _size_at(chunk, 0)
            reason = self._fault(segment, chunk, at, expected, size - position)
            if reason:
                if not self._may_truncate(file, position, size, expected, follows_damage=is_damaged):
                    raise DamagedLog(file.path, position, expected, reason)
                self._truncate(segment, file, position, expected, reason)
                return expected, True
            header = read_header(chunk, at)
            is_damaged = compute_crc(chunk, at, need) != header.crc
            if is_damaged:
                reason = "the CRC-32C does not match"
                if expected >= self.recovery_point:
                    if self.keeps_written:
                        raise DamagedLog(file.path, position, expected, reason)
                    self._truncate(segment, file, position, expected, reason)
                    return expected, True
                self.result.damage.append(DamagedBatch(file.path, position, reason, header.base_offset))
            else:
                # a corrupt header may give a timestamp at which retention removes records too early
                self._take_timestamp(segment, header, position)
            marker: EndTransactionMarker | None = None
            if header.is_control and not is_damaged:
                try:
                    marker = read_marker(chunk[at : at + need])
                except ProtocolViolation as error:
                    self.result.damage.append(DamagedBatch(file.path, position, str(error), header.base_offset))
            self._take(segment, header, position, marker)
            expected = header.next_offset
            position += need
        return expected, False

    def _fault(self, segment: Segment, chunk: bytes, at: int, expected: Offset, left: int) -> str:
        """Why no batch can follow the one at `at`; empty when one can."""
        if left < HEADER_BYTES:
            return f"the batch is torn: {left} bytes left"
        header = read_header(chunk, at)
        if header.batch_length < BATCH_LENGTH_MIN:
            return f"the batch length is {header.batch_length}"
        if header.size_bytes > left:
            return f"the batch is torn: {left} of {header.size_bytes} bytes"
        if header.magic != MAGIC_V2:
            return f"the batch has message format {header.magic}, and this YAK reads {MAGIC_V2}"
        if header.last_offset_delta < 0 or header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return f"the last offset delta is {header.last_offset_delta}"
        if header.base_offset < expected or (header.base_offset != expected and not self.allows_gaps):
            return f"offset {header.base_offset}, expected {expected}"
        if NO_EPOCH != header.partition_leader_epoch < self.epochs.latest:
            return f"leader epoch {header.partition_leader_epoch} comes after {self.epochs.latest}"
        return ""

    def _may_truncate(
        self, file: File, position: FilePosition, size: FilePosition, expected: Offset, *, follows_damage: bool
    ) -> bool:
        """Whether to truncate here, where no batch can follow.

        Of bytes that were flushed, or are written before the process alone ended, only an incomplete last write goes.
        """
        is_flushed = expected < self.recovery_point
        if is_flushed and not (self.may_be_short and self.is_last):
            return False
        if not is_flushed and not self.keeps_written:
            return True
        if follows_damage:
            return False
        data = file.read(min(CHUNK_BYTES, size - position), position)
        return is_incomplete_write(data, size - position, expected, allows_gaps=self.allows_gaps)

    def _truncate(self, segment: Segment, file: File, position: FilePosition, expected: Offset, reason: str) -> None:
        self.result.truncated_bytes += segment.size - position
        self.result.truncated_because = f"{file.path} at byte {position}, offset {expected}: {reason}"
        file.truncate(position)
        segment.size = position

    def _take_timestamp(self, segment: Segment, header: BatchHeader, position: FilePosition) -> None:
        if not position:
            segment.first_timestamp = header.max_timestamp
        segment.note_timestamp(header.max_timestamp, header.last_offset)

    def _take(
        self, segment: Segment, header: BatchHeader, position: FilePosition, marker: EndTransactionMarker | None
    ) -> None:
        last_offset = header.last_offset
        if position > segment.index_due_position:
            segment.add_index_entry(last_offset, position, self.config.index_interval_bytes)
        if header.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.producer_id != NO_PRODUCER_ID:
            completed = self.producers.update(header, header.base_offset, last_offset, self.now_ms, marker)
            if completed is not None and completed.is_aborted:
                segment.add_aborted(self.producers.aborted(completed))


def _size_at(chunk: bytes, at: int) -> int:
    """Size of the batch at `at` by its header, at least a header's size."""
    if at + HEADER_BYTES > len(chunk):
        return HEADER_BYTES
    return max(HEADER_BYTES, LENGTH_OVERHEAD + int.from_bytes(chunk[at + 8 : at + 12], "big", signed=True))


def _read_batch_and_more(file: File, position: FilePosition, size: FilePosition) -> bytes:
    chunk = file.read(min(CHUNK_BYTES, size - position), position)
    need = _size_at(chunk, 0)
    if len(chunk) < need <= size - position:
        chunk = file.read(need, position)
    return chunk


def is_incomplete_write(data: bytes, left: int, expected: Offset, *, allows_gaps: bool) -> bool:
    """Whether a file's last `left` bytes, beginning with `data`, may be an incomplete last write. Otherwise a batch has a
    wrong length, which is damage.

    A process that ends during a write leaves the beginning of the next batch, and nothing after it. `expected` is the
    next offset.
    """
    if left < HEADER_BYTES:
        return True
    header = read_header(data)
    if header.size_bytes <= left or header.magic != MAGIC_V2 or header.last_offset_delta < 0:
        return False
    if header.base_offset < expected or (header.base_offset != expected and not allows_gaps):
        return False
    # search after `expected`, not after the header's offset: that may be as wrong as its length
    return not _is_whole_but_for_its_length(data, header.batch_length, header.crc) and not _holds_a_batch(
        data, expected
    )


def _is_whole_but_for_its_length(data: bytes, length: int, crc: int) -> bool:
    sizes = [len(data), *(LENGTH_OVERHEAD + (length ^ (1 << bit)) for bit in range(_LENGTH_BITS))]
    return any(HEADER_BYTES <= size <= len(data) and compute_crc(data, 0, size) == crc for size in sizes)


def _holds_a_batch(data: bytes, after: Offset) -> bool:
    """Whether `data` contains a whole batch with a later offset: then the write before it was complete."""
    magic = data.find(MAGIC_V2, HEADER_BYTES + _MAGIC_AT)
    while magic >= 0:
        position = magic - _MAGIC_AT
        if position + HEADER_BYTES > len(data):
            return False
        header = read_header(data, position)
        if (
            header.base_offset > after
            and BATCH_LENGTH_MIN <= header.batch_length <= len(data) - position - LENGTH_OVERHEAD
            and compute_crc(data, position, header.size_bytes) == header.crc
        ):
            return True
        magic = data.find(MAGIC_V2, magic + 1)
    return False


def rebuild_indexes(segment: Segment, config: LogConfig, producers: ProducerState, *, allows_gaps: bool = False) -> str:
    """Rebuild the indexes of a closed segment from its batches; returns what is wrong with the file, or "".

    `producers` are as of the segment's start. Nothing is truncated: the segment is below the recovery point. Raises OSError.
    """
    recovery = Recovery(config, EpochCache(), producers, 2**63 - 1, segment.created_ms, allows_gaps=allows_gaps)
    size = segment.size
    try:
        recovery.run([segment])
    except DamagedLog as damaged:
        segment.size = size
        return str(damaged)
    segment.close_for_appends()
    return "; ".join(map(describe, recovery.result.damage))


def describe(batch: DamagedBatch) -> str:
    """A corrupt batch that recovery found, in a line."""
    return f"{batch.file} at byte {batch.position}, offset {batch.offset}: {batch.reason}"
