"""The record batch, format v2: its 61-byte header, and the only bytes of it that a broker may change.

Batches stay opaque from socket to disk: nothing here reads a record. Layout: Kafka's DefaultRecordBatch.java.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
"""Bytes before the records."""
LENGTH_OVERHEAD = 12
"""`batch_length` counts the bytes after it: a batch has LENGTH_OVERHEAD + batch_length bytes."""
BATCH_LENGTH_MIN = HEADER_BYTES - LENGTH_OVERHEAD
CRC_START = 21
"""The CRC-32C covers everything from the attributes on; the broker sets base offset and leader epoch."""
MAGIC_V2 = 2

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
"""The base timestamp is the delete horizon of the batch's tombstones (KIP-534); timestamps still count from it."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
SEQUENCE_MAX = 2**31 - 1

_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")


class BatchHeader(NamedTuple):
    """All fields before the records, as the bytes have them."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return LENGTH_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset that follows the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Compression codec, an index into CODECS (5 to 7 are unknown ones)."""
        return self.attributes & COMPRESSION_MASK

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; wraps to 0 after 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether a broker wrote it to end a transaction; never true for a client's batch."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove the batch's tombstones; None until a compaction has seen them (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


_make = tuple.__new__
_unpack_header = HEADER.unpack_from


def add_sequence(sequence: int, count: int) -> int:
    """`sequence` + `count` in producer sequence arithmetic (Kafka's DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & SEQUENCE_MAX


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked; struct.error when there are fewer than 61 bytes."""
    # `tuple.__new__` takes half the time of a NamedTuple's own constructor, and every batch passes here.
    return _make(BatchHeader, _unpack_header(data, position))


def compute_crc(batch: Buffer, position: int = 0, size: int | None = None) -> int:
    """CRC-32C of one batch of `size` bytes at `position` (default: the rest)."""
    end = None if size is None else position + size
    crc: int = crc32c.crc32c(memoryview(batch)[position + CRC_START : end])
    return crc


def iterate_headers(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch, in order; ends at an incomplete or impossible one."""
    position, end = 0, len(data)
    while position + HEADER_BYTES <= end:
        header = read_header(data, position)
        if header.batch_length < BATCH_LENGTH_MIN or position + header.size_bytes > end:
            return
        yield position, header
        position += header.size_bytes


def with_append_time(batch: Buffer, timestamp_ms: int) -> bytearray:
    """A copy of the batch with LogAppendTime: type bit, max timestamp, and a new CRC."""
    copy = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(copy, CRC_START)
    _ATTRIBUTES.pack_into(copy, CRC_START, attributes | TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(copy, 35, timestamp_ms)
    _CRC.pack_into(copy, 17, compute_crc(copy))
    return copy


def with_max_timestamp(batch: Buffer, timestamp_ms: int) -> bytes:
    """A copy of the batch with another largest timestamp: new CRC, the rest unchanged."""
    copy = bytearray(batch)
    _MAX_TIMESTAMP.pack_into(copy, 35, timestamp_ms)
    _CRC.pack_into(copy, 17, compute_crc(copy))
    return bytes(copy)


def with_records(batch: Buffer, records: bytes, attributes: int) -> bytes:
    """A copy of the batch with other records bytes and attributes: new length and CRC, the rest unchanged."""
    copy = bytearray(memoryview(batch)[:HEADER_BYTES])
    copy += records
    struct.pack_into(">i", copy, 8, len(copy) - LENGTH_OVERHEAD)
    _ATTRIBUTES.pack_into(copy, CRC_START, attributes)
    _CRC.pack_into(copy, 17, compute_crc(copy))
    return bytes(copy)
