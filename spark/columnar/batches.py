"""Selects the record batches of a fetch response that hold wanted records, checks them, and decompresses them.

This is the work per batch, in plain Python: offset range, control batches, aborted transactions and CRC. The work per
record is in `columns`.
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
from yak.spark.columnar.wire import AbortedRange, Buffer

PLAIN_BYTES_MAX: Final = 1 << 30
"""Limit for one response after decompression: below 2 GiB, so that Arrow's 32-bit positions reach every byte."""
_RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, null key, null value, header count 0: one byte each."""
_ABORT: Final = b"\x00\x00"
_MARKER_BYTES: Final = 4


class InvalidBatches(Exception):
    """Bytes that are not valid record batches."""


class Body(NamedTuple):
    """The records of one batch at [start, end) of the decompressed bytes, with the fields of its header."""

    start: int
    end: int
    records_count: int
    base_offset: int
    base_timestamp_ms: int
    timestamp_type: int  # LOG_APPEND_TIME: `base_timestamp_ms` is the time of every record


@dataclass(frozen=True, slots=True)
class WantedBatches:
    """The wanted batches of a response, decompressed."""

    plain: npt.NDArray[np.uint8]
    bodies: tuple[Body, ...]


class SelectedBatch(NamedTuple):
    """A batch with wanted records, at `position` of the response."""

    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class SelectedBatches:
    """The batches that `survey` selected from a response; they are not decompressed yet.

    `next_offset` follows its last whole batch, including batches that were skipped. `needed_bytes` is not 0 when the
    response did not hold its first batch completely: it is the fetch size to request.
    """

    chosen: tuple[SelectedBatch, ...]
    next_offset: int
    needed_bytes: int


def survey(records: Buffer, start: int, end: int, aborted: Sequence[AbortedRange] | None) -> SelectedBatches:
    """Select the batches that hold records of [start, end). `aborted` is None for read_uncommitted.

    The CRC of every batch in the range is checked, including skipped batches: otherwise a flipped bit could hide a
    batch. This is cheap, so the caller can send the next request before it decompresses this response. Raises
    InvalidBatches.
    """
    dropping = _AbortedTransactions(aborted or ())
    chosen: list[SelectedBatch] = []
    next_offset, passed = start, 0
    for position, header in _whole_batches(records):
        if header.base_offset < passed:
            raise InvalidBatches(f"the batch at offset {header.base_offset} comes after offset {passed - 1}")
        passed = header.next_offset
        if header.next_offset <= start or header.base_offset >= end:
            next_offset = max(next_offset, header.next_offset)
            continue
        if compute_crc(records, position, header.size_bytes) != header.crc:
            raise InvalidBatches(f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
        is_aborted = aborted is not None and dropping.drops(records, position, header)
        if not is_aborted and not header.is_control and header.records_count > 0:
            chosen.append(SelectedBatch(position, header))
        next_offset = max(next_offset, header.next_offset)
    needed_bytes = 0
    if next_offset == start and len(records) >= LENGTH_OVERHEAD:
        needed_bytes = max(LENGTH_OVERHEAD + int.from_bytes(records[8:12], "big", signed=True), len(records) + 1)
    return SelectedBatches(tuple(chosen), next_offset, needed_bytes)


def _whole_batches(records: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    position, size = 0, len(records)
    while position + HEADER_BYTES <= size:
        header = read_header(records, position)
        if header.magic != MAGIC_V2:
            raise InvalidBatches(f"a batch of format {header.magic}, not 2")
        if header.batch_length < BATCH_LENGTH_MIN or header.last_offset_delta < 0 or header.base_offset < 0:
            raise InvalidBatches(f"a batch of {header.batch_length} bytes at offset {header.base_offset}")
        if position + header.size_bytes > size:
            return  # a fetch response may end within its last batch
        yield position, header
        position += header.size_bytes


def unpack(records: npt.NDArray[np.uint8], surveyed: SelectedBatches) -> WantedBatches:
    """Decompress the selected batches. Raises InvalidBatches."""
    view = records.data
    if all(each.header.codec == 0 for each in surveyed.chosen):
        bodies = tuple(
            _body(each.header, each.position + HEADER_BYTES, each.position + each.header.size_bytes)
            for each in surveyed.chosen
        )
        return WantedBatches(records, bodies)
    pieces: list[Buffer] = []
    made: list[Body] = []
    total = 0
    for position, header in surveyed.chosen:
        body = view[position + HEADER_BYTES : position + header.size_bytes]
        try:
            piece = decompress(header.codec, body)
        except ProtocolViolation as error:
            raise InvalidBatches(f"the batch at offset {header.base_offset}: {error}") from None
        if total + len(piece) > PLAIN_BYTES_MAX:
            raise InvalidBatches(f"one answer of more than {PLAIN_BYTES_MAX} bytes when decompressed")
        made.append(_body(header, total, total + len(piece)))
        pieces.append(piece)
        total += len(piece)
    plain = np.frombuffer(b"".join(pieces), np.uint8)
    return WantedBatches(plain, tuple(made))


def _body(header: BatchHeader, start: int, end: int) -> Body:
    if header.records_count * _RECORD_BYTES_MIN > end - start:
        raise InvalidBatches(f"{header.records_count} records in {end - start} bytes at offset {header.base_offset}")
    if header.attributes & TIMESTAMP_TYPE_BIT:
        return Body(start, end, header.records_count, header.base_offset, header.max_timestamp, LOG_APPEND_TIME)
    return Body(start, end, header.records_count, header.base_offset, header.base_timestamp, CREATE_TIME)


class _AbortedTransactions:
    """Finds the batches of aborted transactions; takes batches in offset order (Kafka's CompletedFetch.java)."""

    def __init__(self, aborted: Sequence[AbortedRange]) -> None:
        self._ahead = [(each.first_offset, each.producer_id) for each in aborted]
        heapq.heapify(self._ahead)
        self._producers: set[int] = set()

    def drops(self, records: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the reader skips this batch: it is a control batch, or belongs to an aborted transaction."""
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
    """Whether a control batch is an abort marker; bytes 2 and 3 of its record's key hold the type."""
    try:
        marker = next(walk_records(memoryview(records)[position : position + header.size_bytes]), None)
    except ProtocolViolation as error:
        raise InvalidBatches(f"the control batch at offset {header.base_offset}: {error}") from None
    key = marker.key if marker else None
    if key is None or len(key) < _MARKER_BYTES:
        raise InvalidBatches(f"the control batch at offset {header.base_offset} has no marker")
    return key[2:4] == _ABORT
