"""The position and key of each record of a batch, for compaction, without building record objects.

Layout: Kafka's DefaultRecord.java. Headers and values are not read.
"""

from collections.abc import Iterator
from typing import TypeAlias

from yak.errors import ProtocolViolation
from yak.protocol.varint import int64, read_zigzag, zigzag

_RECORD_BYTES_MIN = 6


Span: TypeAlias = tuple[int, int, int, bytes | None, bool]
"""One record: (start, stop) in its batch's uncompressed records, offset delta, key (None when null), whether it has a value.

A plain tuple, and varints of one and two bytes inlined: both are half of what compaction costs.
"""


def spans(records: bytes, count: int, last_offset_delta: int) -> Iterator[Span]:  # noqa: C901 - inlined varints
    """Each of the `count` records, which must fill `records` exactly. Raises ProtocolViolation at the first error."""
    start, end = 0, len(records)
    before = -1
    try:
        for index in range(count):
            size = records[start]
            position = start + 1
            if size < 0x80:
                size = (size >> 1) ^ -(size & 1)
            elif (high := records[position]) < 0x80:
                size = ((size & 0x7F | high << 7) >> 1) ^ -(size & 1)
                position += 1
            else:
                size, position = read_zigzag(records, start)
            stop = position + size
            if size < _RECORD_BYTES_MIN or stop > end:
                raise ProtocolViolation(f"record {index} has a length of {size}, {end - position} bytes are left")
            position += 1
            if records[position] < 0x80:
                position += 1
            else:
                _, position = read_zigzag(records, position)
            delta = records[position]
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
                position += 1
            else:
                delta, position = read_zigzag(records, position)
            if not before < delta <= last_offset_delta:
                raise ProtocolViolation(f"record {index} has offset delta {delta}")
            before = delta
            size = records[position]
            if size < 0x80:
                size = (size >> 1) ^ -(size & 1)
                position += 1
            else:
                size, position = read_zigzag(records, position)
            key = None
            if size >= 0:
                key = records[position : position + size]
                position += size
            value_size = records[position]
            if value_size < 0x80:
                value_size = (value_size >> 1) ^ -(value_size & 1)
                position += 1
            elif (high := records[position + 1]) < 0x80:
                value_size = ((value_size & 0x7F | high << 7) >> 1) ^ -(value_size & 1)
                position += 2
            else:
                value_size, position = read_zigzag(records, position)
            if value_size > 0:
                position += value_size
            if size < -1 or value_size < -1 or position >= stop:
                raise ProtocolViolation(f"record {index} is too short for its key and value")
            yield start, stop, delta, key, value_size >= 0
            start = stop
    except IndexError:
        raise ProtocolViolation("the batch ends inside a record") from None
    if start != end:
        raise ProtocolViolation(f"{end - start} bytes after the last record")


def timestamp_delta(records: bytes, span: Span) -> int:
    """The record's timestamp minus its batch's base timestamp, in ms."""
    _, position = read_zigzag(records, span[0])
    return read_zigzag(records, position + 1)[0]


def moved_timestamp(records: bytes, span: Span, by_ms: int) -> bytes:
    """The whole record with another timestamp delta, for a base timestamp that is `by_ms` earlier."""
    _, position = read_zigzag(records, span[0])
    delta, rest = read_zigzag(records, position + 1)
    body = records[position : position + 1] + zigzag(int64(delta + by_ms)) + records[rest : span[1]]
    return zigzag(len(body)) + body
