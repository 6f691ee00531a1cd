"""Validation of a produced batch by its header, and its conversion to the topic's codec (Kafka's LogValidator).

The records stay opaque, except in small uncompressed batches: there it is cheap to parse them, and batches that no
consumer could parse are refused. Jobs of `yak.partitions.leader_appends` check each record of other batches, for topics
with rules about single records, and recompress.
"""

from __future__ import annotations

from dataclasses import dataclass

from yak.config.log_config import NEVER, LogConfig
from yak.errors import ErrorCode, PeerError, ProtocolViolation
from yak.ids import ProducerId, TopicPartition
from yak.limits import RECORD_ERRORS_MAX
from yak.protocol.compression import compress
from yak.protocol.produce_answer import RecordError
from yak.protocol.record_batch import (
    BATCH_LENGTH_MIN,
    CODECS,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    compute_crc,
    read_header,
    with_max_timestamp,
    with_records,
)
from yak.protocol.record_check import check_records
from yak.protocol.record_walk import decompress, walk, walk_records

WALKED_RECORDS_MAX = 16
"""Uncompressed batches of up to this many records are parsed record by record (about 0.3 us each)."""
RECORD_BYTES_MIN = 7
"""The smallest record: length, attributes, two deltas, two null lengths and a header count, one byte each."""
ZSTD_CODEC = 4
ZSTD_VERSION = 7
_UNCOMPRESSED = "uncompressed"
_LENGTH_AT, _MAGIC_AT = 8, 16
_OLDEST_BATCH_LENGTH_MIN = 14
"""The length of an empty message of format 0 (Kafka's LegacyRecord.RECORD_OVERHEAD_V0)."""


class RecordValidationError(PeerError):
    """A batch with records that cannot be stored, each listed by index and reason (Produce v8, KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class NoBatchError(PeerError):
    """Bytes that are not one batch: Kafka refuses them before it finds the log (ProduceRequest.validateRecords)."""


def record_errors_of(error: PeerError) -> tuple[RecordError, ...]:
    """The invalid records of a refused batch; empty for any other error."""
    return error.record_errors if isinstance(error, RecordValidationError) else ()


def check_batch(records: Buffer | None, version: int, max_message_bytes: int) -> BatchHeader:
    """The header of `records`, which must be exactly one valid batch. Raises PeerError (Kafka's LogValidator.java)."""
    size = 0 if records is None else len(records)
    if records is None or size < HEADER_BYTES or records[_MAGIC_AT] != MAGIC_V2:
        raise _no_batch(records)
    header = read_header(records)
    # one unpacking costs as much as two look-ups of a field
    base_offset, batch_length, _, _, crc, attributes, last_delta, _, _, producer_id, epoch, sequence, count = header
    batch_size = LENGTH_OVERHEAD + batch_length
    if batch_length < BATCH_LENGTH_MIN or batch_size > size:
        raise _no_batch(records)
    if batch_size < size:
        raise NoBatchError(ErrorCode.invalid_record, "more than one record batch for a partition")
    if base_offset != 0:
        raise PeerError(ErrorCode.invalid_record, f"the base offset is {base_offset}; a client must send 0")
    if size > max_message_bytes:
        raise PeerError(
            ErrorCode.message_too_large, f"the batch has {size} bytes, max.message.bytes={max_message_bytes}"
        )
    if crc != compute_crc(records):
        raise PeerError(ErrorCode.corrupt_message, "the CRC-32C of the batch does not match its bytes")
    if attributes:
        _check_attributes(attributes, producer_id, version)
    if count <= 0 or count != last_delta + 1:
        raise PeerError(ErrorCode.invalid_record, f"{count} records, but the last offset delta is {last_delta}")
    is_plain = not attributes & COMPRESSION_MASK
    if size - HEADER_BYTES < (count * RECORD_BYTES_MIN if is_plain else 1):
        raise PeerError(ErrorCode.invalid_record, f"{count} records cannot fit in {size - HEADER_BYTES} bytes")
    if producer_id >= 0:
        if sequence < 0 or epoch < 0:
            raise PeerError(
                ErrorCode.invalid_record, "a batch with a producer id needs a producer epoch and a sequence"
            )
    elif producer_id != NO_PRODUCER_ID:
        raise PeerError(ErrorCode.invalid_record, f"producer id {producer_id} is invalid")
    if is_plain and count <= WALKED_RECORDS_MAX:
        try:
            check_records(header, records)
        except ProtocolViolation as error:
            raise PeerError(ErrorCode.invalid_record, str(error)) from error
    return header


def _check_attributes(attributes: int, producer_id: ProducerId, version: int) -> None:
    if attributes & CONTROL_BIT:
        raise PeerError(ErrorCode.invalid_record, "clients may not write control batches")
    if attributes & TRANSACTIONAL_BIT and producer_id < 0:
        raise PeerError(ErrorCode.invalid_record, "a transactional batch needs a producer id")
    codec = attributes & COMPRESSION_MASK
    if codec > ZSTD_CODEC or (codec == ZSTD_CODEC and version < ZSTD_VERSION):
        raise PeerError(ErrorCode.unsupported_compression_type, f"Produce v{version} does not support codec {codec}")


def _no_batch(records: Buffer | None) -> NoBatchError:
    """Why these bytes are no whole batch of format 2, in Kafka's order (ByteBufferLogInputStream.nextBatch)."""
    if records is None or len(records) < LENGTH_OVERHEAD:
        return NoBatchError(ErrorCode.invalid_record, "a produce request must carry one record batch per partition")
    size, batch_length = len(records), int.from_bytes(records[_LENGTH_AT:LENGTH_OVERHEAD], "big", signed=True)
    message = f"the batch length is {batch_length}, the request carries {size} bytes"
    if batch_length < _OLDEST_BATCH_LENGTH_MIN:
        return NoBatchError(ErrorCode.corrupt_message, message)
    magic = records[_MAGIC_AT] if size > _MAGIC_AT else MAGIC_V2
    if magic > MAGIC_V2:
        return NoBatchError(ErrorCode.corrupt_message, f"there is no message format {magic}")
    if size <= _MAGIC_AT or LENGTH_OVERHEAD + batch_length > size:
        return NoBatchError(ErrorCode.invalid_record, message)
    if magic != MAGIC_V2:
        return NoBatchError(ErrorCode.invalid_record, f"message format {magic} is not supported; use format 2")
    return NoBatchError(ErrorCode.corrupt_message, message)


@dataclass(frozen=True, slots=True)
class RecordRules:
    """What a topic demands of each record (LogValidator.validateKey, validateTimestamp). Times in ms; none is -1."""

    topic_partition: TopicPartition
    needs_keys: bool
    """A compacted topic accepts no record without a key: nothing could replace it."""
    oldest_ms: int
    newest_ms: int
    refusal: str = ""
    """Why the timestamps of the header are refused, whatever those of the records are."""

    def check(self, batch: Buffer) -> None:
        """Raise RecordValidationError for records that break a rule, ProtocolViolation when they cannot be read.

        The error lists the first RECORD_ERRORS_MAX of them. Raise PeerError for a header that is refused.
        """
        refused: list[RecordError] = []
        code, count = ErrorCode.invalid_record, 0
        for index, record in enumerate(walk_records(batch)):
            if self.needs_keys and record.key is None:
                reason = f"{self.topic_partition} is compacted: every record needs a key"
            elif record.timestamp != NO_TIMESTAMP and not self.oldest_ms <= record.timestamp <= self.newest_ms:
                is_old = record.timestamp < self.oldest_ms
                side, bound_ms = ("before", self.oldest_ms) if is_old else ("after", self.newest_ms)
                reason = f"timestamp {record.timestamp} is {side} {bound_ms} (message.timestamp.{side}.max.ms)"
                code = ErrorCode.invalid_timestamp
            else:
                continue
            count += 1
            if count <= RECORD_ERRORS_MAX:
                refused.append(RecordError(index, reason))
        if count:
            if code == ErrorCode.invalid_timestamp:
                message = "One or more records have been rejected due to invalid timestamp"
            else:
                message = (
                    f"{count} of {index + 1} records are refused; record {refused[0].batch_index}: {refused[0].message}"
                )
            raise RecordValidationError(code, message, tuple(refused))
        if self.refusal:
            raise PeerError(ErrorCode.invalid_timestamp, self.refusal)


def with_create_time(batch: Buffer, config: LogConfig) -> bytes:
    """The batch of a client that set the timestamp type LogAppendTime, as one of CreateTime (LogValidator).

    Raises RecordValidationError with INVALID_TIMESTAMP if the topic has LogAppendTime, which only the broker sets, or without a time.
    """
    header = read_header(batch)
    if config.message_timestamp_type == "LogAppendTime" or header.max_timestamp == NO_TIMESTAMP:
        message = "a producer may not set the timestamp type LogAppendTime"
        refused = (RecordError(index, message) for index in range(min(header.records_count, RECORD_ERRORS_MAX)))
        raise RecordValidationError(ErrorCode.invalid_timestamp, message, tuple(refused))
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    return with_records(batch, bytes(memoryview(batch)[HEADER_BYTES:]), attributes)


def lacks_max_timestamp(header: BatchHeader, config: LogConfig) -> bool:
    """Whether the largest timestamp in the header is before the first one.

    Some clients leave it at -1, since Kafka computes it for every batch (LogValidator).
    """
    return header.max_timestamp < header.base_timestamp and config.message_timestamp_type != "LogAppendTime"


def with_records_max_timestamp(batch: Buffer) -> bytes:
    """The batch with the largest timestamp of its records in the header. Raises ProtocolViolation."""
    return with_max_timestamp(batch, max(record.timestamp for record in walk_records(batch)))


def check_timestamps(
    topic_partition: TopicPartition, header: BatchHeader, config: LogConfig, wall_ms: int
) -> RecordRules | None:
    """Rules that refuse a batch with a timestamp in its header too far from the wall clock, and find its records.

    None when the timestamps of the header are right. Raises PeerError for one before the epoch.
    """
    before_max_ms, after_max_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    first, newest = header.base_timestamp, header.max_timestamp
    if first < NO_TIMESTAMP or newest < NO_TIMESTAMP:
        raise PeerError(ErrorCode.invalid_timestamp, f"timestamp {min(first, newest)} is before the epoch")
    if max(first, newest) - wall_ms > after_max_ms:
        limit = f"message.timestamp.after.max.ms={after_max_ms}"
        message = f"timestamp {max(first, newest)} is more than {limit} ahead of the broker"
    elif first != NO_TIMESTAMP and wall_ms - first > before_max_ms:
        message = f"timestamp {first} is more than message.timestamp.before.max.ms={before_max_ms} behind the broker"
    else:
        return None
    return _time_rules(topic_partition, config, wall_ms, message)


def record_rules(topic_partition: TopicPartition, config: LogConfig, wall_ms: int) -> RecordRules | None:
    """The rules that the header of a batch cannot show to hold; None if the topic has none."""
    if config.message_timestamp_type != "LogAppendTime" and config.message_timestamp_before_max_ms != NEVER:
        return _time_rules(topic_partition, config, wall_ms)
    return RecordRules(topic_partition, True, NO_TIMESTAMP, NEVER) if config.is_compacted else None


def _time_rules(topic_partition: TopicPartition, config: LogConfig, wall_ms: int, refusal: str = "") -> RecordRules:
    oldest_ms = wall_ms - config.message_timestamp_before_max_ms
    newest_ms = wall_ms + config.message_timestamp_after_max_ms
    return RecordRules(topic_partition, config.is_compacted, oldest_ms, newest_ms, refusal)


def follows_rules(rules: RecordRules, header: BatchHeader, records: Buffer) -> bool:
    """True if every record of a small batch follows the rules, False if a job must check the batch. Raises PeerError."""
    if header.codec or header.records_count > WALKED_RECORDS_MAX:
        return False
    rules.check(records)
    return True


def wanted_codec(config: LogConfig) -> int | None:
    """The codec of the topic's batches; None when the producer decides."""
    if config.compression_type == "producer":
        return None
    return 0 if config.compression_type == _UNCOMPRESSED else CODECS.index(config.compression_type)


def needs_recompression(header: BatchHeader, config: LogConfig) -> bool:
    """Whether the batch has another codec than the topic's."""
    wanted = wanted_codec(config)
    return wanted is not None and wanted != header.codec


def recompress(header: BatchHeader, batch: bytes, codec: int) -> bytes:
    """The batch with its records under another codec.

    Raises ProtocolViolation when the records exceed the bounds when decompressed, or cannot be parsed.
    """
    records = decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
    for _ in walk(header, records):
        pass
    return with_records(batch, compress(codec, records), (header.attributes & ~COMPRESSION_MASK) | codec)
