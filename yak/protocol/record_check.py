"""Whether consumers can parse the records of a small batch: the rules of `record_walk`, without building records.

The usual record, with deltas and lengths of one or two bytes, is checked in a few comparisons; any other takes the slow
path.
"""

from __future__ import annotations

from yak.protocol.record_batch import HEADER_BYTES, BatchHeader, Buffer
from yak.protocol.record_walk import check_records as walk_them


def check_records(header: BatchHeader, batch: Buffer) -> None:
    """Raise ProtocolViolation unless the uncompressed batch is exactly `records_count` well-formed records."""
    if header.records_count != 1 or not _is_usual(batch):
        walk_them(header, batch)


def _is_usual(batch: Buffer) -> bool:
    """Whether the batch is one well-formed record without headers and with short lengths."""
    end = len(batch)
    position = HEADER_BYTES
    length = batch[position]
    if length >= 0x80:
        high = batch[position + 1]
        if high >= 0x80:
            return False
        length = (length & 0x7F) | (high << 7)
        position += 1
    if length & 1 or position + 1 + (length >> 1) != end or end - position < 7:
        return False
    # attributes, timestamp delta 0, offset delta 0
    if batch[position + 2] or batch[position + 3]:
        return False
    position += 4
    length = batch[position]
    position += 1
    if length >= 0x80:
        return False
    if length != 1:
        if length & 1:
            return False
        position += length >> 1
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
