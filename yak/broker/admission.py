"""Validates a produced batch by its header, as Kafka's LogValidator does, and appends it.

The records stay opaque, except in small uncompressed batches: there it is cheap to parse them, and batches that no
consumer could parse are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker import appending
from yak.broker.keyed_records import check_keys
from yak.broker.recompression import needs_recompression, recompress_later
from yak.broker.refused_batches import check_order, note_refused
from yak.errors import ErrorCode, PeerError, ProtocolViolation
from yak.protocol.record_batch import (
    BATCH_LENGTH_MIN,
    CONTROL_BIT,
    HEADER_BYTES,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    compute_crc,
    read_header,
)
from yak.protocol.record_check import check_records
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

WALKED_RECORDS_MAX = 16
"""Uncompressed batches of up to this many records are parsed record by record (about 0.3 us each)."""
RECORD_BYTES_MIN = 7
"""The smallest record: length, attributes, two deltas, two null lengths and a header count, one byte each."""
ZSTD_CODEC = 4
ZSTD_VERSION = 7


def append_batch(
    broker: Broker, partition: Partition, records: Buffer | None, version: int, acks: int, now_ms: int
) -> appending.Appended:
    """Validate one batch as Kafka's leader does and append it.

    Raises PeerError with Kafka's error code; the batch was not appended then.
    """
    log = partition.log
    if log is None:
        raise PeerError(ErrorCode.kafka_storage_error, "the log directory of this partition is offline")
    config = log.config
    header = check_batch(records, version, config.max_message_bytes)
    assert records is not None
    if broker.metadata.store_lost_ms is not None and broker.metadata.is_isolated(partition):
        raise PeerError(
            ErrorCode.not_leader_or_follower,
            "this broker hears neither the metadata store nor a follower; nothing was written",
        )
    if acks == appending.ACKS_ALL and partition.is_under_min_isr:
        note_refused(partition, header, now_ms)
        raise PeerError(
            ErrorCode.not_enough_replicas,
            f"{len(partition.isr)} in-sync replicas, min.insync.replicas={config.min_insync_replicas}; nothing was written",
        )
    if partition.refused_sequences:
        check_order(partition, header, now_ms)
    is_append_time = config.message_timestamp_type == "LogAppendTime"
    if not is_append_time:
        before_max_ms, after_max_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        _check_timestamps(header, before_max_ms, after_max_ms, broker.wall_ms)
    if (
        partition.pending_appends is not None
        or (config.compression_type != "producer" and needs_recompression(header, config))
        or (config.is_compacted and not _has_keys(partition, header, records))
    ):
        return recompress_later(broker, partition, header, bytes(records), acks)
    return appending.place(broker, partition, header, records, acks, now_ms)


def _has_keys(partition: Partition, header: BatchHeader, records: Buffer) -> bool:
    """True if every record of a small batch has a key, False if a job must check the batch. Raises PeerError for no key."""
    if header.codec or header.records_count > WALKED_RECORDS_MAX:
        return False
    check_keys(partition.topic_partition, records)
    return True


def check_batch(records: Buffer | None, version: int, max_message_bytes: int) -> BatchHeader:
    """The header of `records`, which must be exactly one valid batch. Raises PeerError (Kafka's LogValidator.java)."""
    size = 0 if records is None else len(records)
    if records is None or size == 0:
        raise PeerError(ErrorCode.invalid_record, "a produce request must carry one record batch a partition")
    if size > 16 and records[16] != MAGIC_V2:
        raise PeerError(
            ErrorCode.unsupported_for_message_format,
            f"message format {records[16]} is not served, only record batches (2)",
        )
    if size < HEADER_BYTES:
        raise PeerError(ErrorCode.corrupt_message, f"{size} bytes are too few for a record batch")
    header = read_header(records)
    batch_length = header.batch_length
    if batch_length < BATCH_LENGTH_MIN or header.size_bytes > size:
        raise PeerError(ErrorCode.corrupt_message, f"batch length {batch_length} does not fit the {size} bytes sent")
    if header.size_bytes < size:
        raise PeerError(ErrorCode.invalid_record, "more than one record batch for a partition")
    if size > max_message_bytes:
        raise PeerError(ErrorCode.message_too_large, f"batch of {size} bytes, max.message.bytes={max_message_bytes}")
    if header.base_offset != 0:
        raise PeerError(ErrorCode.invalid_record, f"the base offset is {header.base_offset}; a client must send 0")
    if header.crc != compute_crc(records):
        raise PeerError(ErrorCode.corrupt_message, "the CRC-32C of the batch does not fit its bytes")
    _check_header(header, version, size)
    if header.records_count <= WALKED_RECORDS_MAX and not header.codec:
        try:
            check_records(header, records)
        except ProtocolViolation as error:
            raise PeerError(ErrorCode.invalid_record, str(error)) from error
    return header


def _check_header(header: BatchHeader, version: int, size: int) -> None:
    attributes = header.attributes
    count = header.records_count
    if attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
        if attributes & CONTROL_BIT:
            raise PeerError(ErrorCode.invalid_record, "clients may not write control batches")
        raise PeerError(ErrorCode.invalid_txn_state, "transactions are not served by this version of YAK")
    if count <= 0 or count != header.last_offset_delta + 1:
        raise PeerError(
            ErrorCode.invalid_record, f"{count} records, but the last offset delta is {header.last_offset_delta}"
        )
    codec = header.codec
    if codec > ZSTD_CODEC or (codec == ZSTD_CODEC and version < ZSTD_VERSION):
        raise PeerError(ErrorCode.unsupported_compression_type, f"codec {codec} is not served in Produce v{version}")
    if not codec and count * RECORD_BYTES_MIN > size - HEADER_BYTES:
        raise PeerError(ErrorCode.invalid_record, f"{count} records cannot fit in {size - HEADER_BYTES} bytes")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise PeerError(ErrorCode.invalid_record, "a batch with a producer id needs its epoch and sequence")
    elif header.producer_id != NO_PRODUCER_ID:
        raise PeerError(ErrorCode.invalid_record, f"producer id {header.producer_id} is not one")


def _check_timestamps(header: BatchHeader, before_max_ms: int, after_max_ms: int, wall_ms: int) -> None:
    first, newest = header.base_timestamp, header.max_timestamp
    if first < NO_TIMESTAMP or newest < NO_TIMESTAMP:
        raise PeerError(ErrorCode.invalid_timestamp, f"timestamp {min(first, newest)} is before the epoch")
    if max(first, newest) - wall_ms > after_max_ms:
        raise PeerError(
            ErrorCode.invalid_timestamp,
            f"timestamp {max(first, newest)} is more than message.timestamp.after.max.ms={after_max_ms} ahead of the broker",
        )
    if first != NO_TIMESTAMP and wall_ms - first > before_max_ms:
        raise PeerError(
            ErrorCode.invalid_timestamp,
            f"timestamp {first} is more than message.timestamp.before.max.ms={before_max_ms} behind the broker",
        )
