"""Whether consumers can parse the records of a small batch: the rules of `record_walk`, without building records.

The usual record, with deltas and lengths of one or two bytes, is checked in a few comparisons; any other takes the slow
path.
"""

from __future__ import annotations

import struct
from typing import Final

from yak.protocol.record_batch import HEADER_BYTES, BatchHeader, Buffer
from yak.protocol.record_walk import check_records as walk_them

_FRONT: Final = struct.Struct(">6B")
"""Length, attributes, timestamp delta, offset delta, key length; one byte more when the length takes two."""
_KEY_AT: Final = HEADER_BYTES + 5


def check_records(header: BatchHeader, batch: Buffer) -> None:
    """Raise ProtocolViolation unless the uncompressed batch is exactly `records_count` well-formed records."""
    if header.records_count != 1 or not _is_usual(batch):
        walk_them(header, batch)


def _is_usual(batch: Buffer) -> bool:
    """Whether the batch is one well-formed record without headers and with short lengths."""
    end = len(batch)
    try:
        length, second, timestamp_delta, offset_delta, key_length, sixth = _FRONT.unpack_from(batch, HEADER_BYTES)
    except struct.error:
        return False
    position = _KEY_AT
    if length >= 0x80:
        if second >= 0x80:
            return False
        length = (length & 0x7F) | (second << 7)
        timestamp_delta, offset_delta, key_length = offset_delta, key_length, sixth
        position += 1
    if length & 1 or position - 4 + (length >> 1) != end:  # it counts what follows it, four bytes before the key
        return False
    if timestamp_delta or offset_delta or key_length >= 0x80:
        return False
    if key_length != 1:
        if key_length & 1:
            return False
        position += key_length >> 1
    if position + 2 > end:
        return False
    length = batch[position]
    position += 1
    if length >= 0x80:
        high = batch[position]
        if high >= 0x80:
            return False
        length = (length & 0x7F) | (high << 7)
        position += 1
    if length != 1:
        if length & 1:
            return False
        position += length >> 1
    return position == end - 1 and batch[position] == 0
