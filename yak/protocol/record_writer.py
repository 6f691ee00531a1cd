"""Writing record batches: what the broker itself appends, and what the simulator's clients send.

Layout: Kafka's DefaultRecordBatch.java and DefaultRecord.java; uncompressed, without record headers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from yak.protocol.record_batch import BATCH_LENGTH_MIN, HEADER, MAGIC_V2, NO_PRODUCER_ID, NO_SEQUENCE, compute_crc

_CRC: Final = struct.Struct(">I")
_CRC_POSITION: Final = 17
_NO_EPOCH: Final = -1
_NULL: Final = b"\x01"


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = _NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """One batch of (key, value) records, at least one, all with the same timestamp; base offset 0."""
    body = b"".join(_record(index, key, value) for index, (key, value) in enumerate(records))
    header = HEADER.pack(
        0,
        BATCH_LENGTH_MIN + len(body),
        -1,
        MAGIC_V2,
        0,
        0,
        len(records) - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch = bytearray(header + body)
    _CRC.pack_into(batch, _CRC_POSITION, compute_crc(batch))
    return bytes(batch)


def _record(offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0\0" + zigzag(offset_delta) + _nullable(key) + _nullable(value) + b"\0"
    return zigzag(len(body)) + body


def _nullable(data: bytes | None) -> bytes:
    return _NULL if data is None else zigzag(len(data)) + data


def zigzag(value: int) -> bytes:
    """A signed number as a variable-length integer, small magnitudes in few bytes."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
