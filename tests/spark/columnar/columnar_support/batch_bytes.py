"""Record batches as bytes, written record by record: what the columnar decoder is held against."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from yak.protocol.compression import compress
from yak.protocol.record_batch import (
    BATCH_LENGTH_MIN,
    CODECS,
    CONTROL_BIT,
    HEADER,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    compute_crc,
)
from yak.protocol.varint import zigzag

Headers = Sequence[tuple[bytes, bytes | None]]


@dataclass(frozen=True)
class Record:
    """One record; offset and time count from its batch's."""

    offset_delta: int
    key: bytes | None = None
    value: bytes | None = None
    timestamp_delta: int = 0
    headers: Headers = ()


def sized(data: bytes | None) -> bytes:
    """Length and bytes; -1 for null."""
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def record_bytes(record: Record) -> bytes:
    """A record with its length."""
    headers = b"".join(sized(name) + sized(value) for name, value in record.headers)
    body = b"".join(
        (
            b"\x00",
            zigzag(record.timestamp_delta),
            zigzag(record.offset_delta),
            sized(record.key),
            sized(record.value),
            zigzag(len(record.headers)),
            headers,
        )
    )
    return zigzag(len(body)) + body


def batch(
    base_offset: int,
    records: Sequence[Record],
    *,
    codec: str = "none",
    base_timestamp: int = 1_700_000_000_000,
    append_time: int | None = None,
    producer_id: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    last_offset_delta: int | None = None,
    body: bytes | None = None,
    records_count: int | None = None,
) -> bytes:
    """A whole batch with the right CRC; `body` and `records_count` say something else than `records`, for damage."""
    plain = b"".join(map(record_bytes, records)) if body is None else body
    packed = compress(CODECS.index(codec), plain)
    attributes = CODECS.index(codec) | TRANSACTIONAL_BIT * is_transactional | CONTROL_BIT * is_control
    if append_time is not None:
        attributes |= TIMESTAMP_TYPE_BIT
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset_delta if records else 0
    header = HEADER.pack(
        base_offset,
        BATCH_LENGTH_MIN + len(packed),
        0,
        2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        base_timestamp if append_time is None else append_time,
        producer_id,
        0,
        -1,
        len(records) if records_count is None else records_count,
    )
    made = bytearray(header + packed)
    struct.pack_into(">I", made, 17, compute_crc(made))
    return bytes(made)


def marker(base_offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    """The control batch that ends a transaction."""
    record = Record(0, struct.pack(">hh", 0, is_commit), struct.pack(">hi", 0, 0))
    return batch(base_offset, [record], producer_id=producer_id, is_transactional=True, is_control=True)
