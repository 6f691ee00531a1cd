"""From the bytes of a fetch answer to the record batches in it that count, checked and without their compression.

This is work per batch, in plain Python: which batches lie in the wanted range, which are control batches or of aborted
transactions, whether their CRC holds. What is per record is in `columns`.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from yak.errors import ProtocolViolation
from yak.protocol.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_V2,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    compute_crc,
    read_header,
)
from yak.protocol.record_walk import decompress, walk_records
from yak.spark.columnar.schema import CREATE_TIME, LOG_APPEND_TIME
from yak.spark.columnar.wire import Aborted, Buffer

PLAIN_BYTES_MAX: Final = 1 << 30
"""Of one answer without compression: below 2 GiB, so that Arrow's 32-bit positions reach every byte."""
_RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, null key, null value, no headers: a byte each."""
_ABORT: Final = b"\x00\x00"
_MARKER_BYTES: Final = 4


class Damaged(Exception):
    """Bytes that are no records."""


class Body(NamedTuple):
    """The records of one batch at [start, end) of the plain bytes, and what its header says of all of them."""

    start: int
    end: int
    records_count: int
    base_offset: int
    base_timestamp_ms: int
    timestamp_type: int  # LOG_APPEND_TIME: every record has the base timestamp


@dataclass(frozen=True, slots=True)
class Found:
    """What an answer holds of a range. `next_offset` follows its last whole batch, whether or not that counted.

    `needed_bytes` is not 0 when not even the first batch was there as a whole: the size to ask for.
    """

    plain: npt.NDArray[np.uint8]
    bodies: tuple[Body, ...]
    next_offset: int
    needed_bytes: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """A batch whose records count, at `position` of the answer."""

    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What the headers of an answer say; nothing is checked or decompressed yet."""

    chosen: tuple[Chosen, ...]
    next_offset: int
    needed_bytes: int


def survey(records: Buffer, start: int, end: int, aborted: Sequence[Aborted] | None) -> Surveyed:
    """Which batches hold records of [start, end); `aborted` None is read_uncommitted.

    Every batch that lies there must have the right CRC, also those that are passed over: else a bit could hide a batch.
    Cheap beside the rest, so that the next request can be sent before that is done. Raises Damaged.
    """
    dropping = _AbortedTransactions(aborted or ())
    chosen: list[Chosen] = []
    next_offset, passed = start, 0
    for position, header in _whole_batches(records):
        if header.base_offset < passed:
            raise Damaged(f"the batch at offset {header.base_offset} comes after offset {passed - 1}")
        passed = header.next_offset
        if header.next_offset <= start or header.base_offset >= end:
            next_offset = max(next_offset, header.next_offset)
            continue
        if compute_crc(records, position, header.size_bytes) != header.crc:
            raise Damaged(f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
        if aborted is not None and dropping.drops(records, position, header):
            counts = False
        else:
            counts = not header.is_control and header.records_count > 0
        if counts:
            chosen.append(Chosen(position, header))
        next_offset = max(next_offset, header.next_offset)
    needed_bytes = 0
    if next_offset == start and len(records) >= LENGTH_OVERHEAD:
        needed_bytes = max(_size_of_first(records), len(records) + 1)
    return Surveyed(tuple(chosen), next_offset, needed_bytes)


def _whole_batches(records: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    position, size = 0, len(records)
    while position + HEADER_BYTES <= size:
        header = read_header(records, position)
        if header.magic != MAGIC_V2:
            raise Damaged(f"a batch of format {header.magic}, not 2")
        if header.batch_length < BATCH_LENGTH_MIN or header.last_offset_delta < 0 or header.base_offset < 0:
            raise Damaged(f"a batch of {header.batch_length} bytes at offset {header.base_offset}")
        if position + header.size_bytes > size:
            return  # the last batch of an answer may be cut off
        yield position, header
        position += header.size_bytes


def _size_of_first(records: Buffer) -> int:
    return LENGTH_OVERHEAD + int.from_bytes(records[8:12], "big", signed=True)


def unpack(records: npt.NDArray[np.uint8], surveyed: Surveyed) -> Found:
    """Undo the compression. Raises Damaged."""
    view = records.data
    if all(each.header.codec == 0 for each in surveyed.chosen):
        bodies = tuple(
            _body(each.header, each.position + HEADER_BYTES, each.position + each.header.size_bytes)
            for each in surveyed.chosen
        )
        return Found(records, bodies, surveyed.next_offset, surveyed.needed_bytes)
    pieces: list[Buffer] = []
    made: list[Body] = []
    total = 0
    for position, header in ((each.position, each.header) for each in surveyed.chosen):
        body = view[position + HEADER_BYTES : position + header.size_bytes]
        try:
            piece = decompress(header.codec, body)
        except ProtocolViolation as error:
            raise Damaged(f"the batch at offset {header.base_offset}: {error}") from None
        if total + len(piece) > PLAIN_BYTES_MAX:
            raise Damaged(f"one answer of more than {PLAIN_BYTES_MAX} bytes when decompressed")
        made.append(_body(header, total, total + len(piece)))
        pieces.append(piece)
        total += len(piece)
    plain = np.frombuffer(b"".join(pieces), np.uint8)
    return Found(plain, tuple(made), surveyed.next_offset, surveyed.needed_bytes)


def _body(header: BatchHeader, start: int, end: int) -> Body:
    if header.records_count * _RECORD_BYTES_MIN > end - start:
        raise Damaged(f"{header.records_count} records in {end - start} bytes at offset {header.base_offset}")
    if header.attributes & TIMESTAMP_TYPE_BIT:
        return Body(start, end, header.records_count, header.base_offset, header.max_timestamp, LOG_APPEND_TIME)
    return Body(start, end, header.records_count, header.base_offset, header.base_timestamp, CREATE_TIME)


class _AbortedTransactions:
    """Which batches of an answer are of aborted transactions, asked of them in order (Kafka's CompletedFetch.java)."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._ahead = [(each.first_offset, each.producer_id) for each in aborted]
        heapq.heapify(self._ahead)
        self._producers: set[int] = set()

    def drops(self, records: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the records of the batch do not count."""
        if header.producer_id == NO_PRODUCER_ID:
            return False
        while self._ahead and self._ahead[0][0] <= header.last_offset:
            self._producers.add(heapq.heappop(self._ahead)[1])
        if header.is_control:
            if _is_abort(records, position, header):
                self._producers.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._producers


def _is_abort(records: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether a control batch ends its transaction by aborting it: the second half of its record's key says so."""
    try:
        marker = next(walk_records(memoryview(records)[position : position + header.size_bytes]), None)
    except ProtocolViolation as error:
        raise Damaged(f"the control batch at offset {header.base_offset}: {error}") from None
    key = marker.key if marker else None
    if key is None or len(key) < _MARKER_BYTES:
        raise Damaged(f"the control batch at offset {header.base_offset} has no marker")
    return key[2:4] == _ABORT
