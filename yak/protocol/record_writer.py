"""Writing record batches: for the broker itself, for records that come by HTTP, and for the simulator's clients.

Layout: Kafka's DefaultRecordBatch.java and DefaultRecord.java; uncompressed unless a codec is given.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from crc32c import crc32c

from yak.protocol.compression import compress
from yak.protocol.record_batch import BATCH_LENGTH_MIN, MAGIC_V2, NO_PRODUCER_ID, NO_SEQUENCE
from yak.protocol.varint import zigzag

_UNCHECKED, _CHECKED = struct.Struct(">qiibI"), struct.Struct(">hiqqqhii")
"""The header before and behind the start of what the CRC covers."""
_NO_EPOCH: Final = -1
_NULL: Final = b"\x01"
_FRONT: Final = b"\0\0"
"""Attributes and timestamp delta."""

Headers: TypeAlias = Sequence[tuple[bytes, bytes | None]]
"""A record's headers: UTF-8 names, and values."""
RECORD_OVERHEAD_BYTES_MAX: Final = 28
"""Largest size of a record without headers, key and value: five lengths and deltas, attributes, timestamp delta."""


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    *,
    headers: Mapping[int, Headers] | None = None,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = _NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    codec: int = 0,
) -> bytes:
    """One batch of at least one (key, value) record, all with the same timestamp; base offset 0.

    `headers` are by the record's index. `codec` is as for `compress`.
    """
    if headers:
        body = b"".join(
            _record(index, key, value, _headers(headers.get(index, ()))) for index, (key, value) in enumerate(records)
        )
    else:
        body = b"".join([_record(index, key, value, b"\0") for index, (key, value) in enumerate(records)])
    if codec:
        body = compress(codec, body)
    checked = _CHECKED.pack(
        attributes | codec,
        len(records) - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    checked += body
    return _UNCHECKED.pack(0, BATCH_LENGTH_MIN + len(body), -1, MAGIC_V2, crc32c(checked)) + checked


def _record(offset_delta: int, key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    small = _SMALL
    key_length = _NULL if key is None else small[len(key)] if len(key) < _SMALL_END else zigzag(len(key))
    value_length = _NULL if value is None else small[len(value)] if len(value) < _SMALL_END else zigzag(len(value))
    delta = small[offset_delta] if offset_delta < _SMALL_END else zigzag(offset_delta)
    body = b"".join((_FRONT, delta, key_length, key or b"", value_length, value or b"", headers))
    return (small[len(body)] if len(body) < _SMALL_END else zigzag(len(body))) + body


def _headers(headers: Headers) -> bytes:
    pieces = [zigzag(len(headers))]
    for name, value in headers:
        pieces += (zigzag(len(name)), name, _NULL if value is None else zigzag(len(value)), value or b"")
    return b"".join(pieces)


def headers_size_bytes(headers: Headers) -> int:
    """The size of these headers in a record."""
    return len(_headers(headers))


_SMALL_END: Final = 1024
_SMALL: Final = tuple(zigzag(number) for number in range(_SMALL_END))
"""The encodings of most records' lengths and deltas, computed once."""
