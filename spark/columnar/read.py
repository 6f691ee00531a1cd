"""`read`: reads a range of one partition's offsets as Arrow batches."""

import logging
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from yak.spark.columnar.batches import InvalidBatches, survey, unpack
from yak.spark.columnar.columns import decode
from yak.spark.columnar.connection import understand
from yak.spark.columnar.partition_fetch import Answer, OffsetsMissing, PartitionFetch
from yak.spark.columnar.schema import READ_COMMITTED, DataLoss, NotReadable, OffsetRange, ReadSettings, arrow_schema

BYTES_MAX: Final = 64 << 20
"""A batch of this size is returned before it has all its rows."""


class RowBatches:
    """For one read of one partition: topic and partition are constant columns."""

    def __init__(self, wanted: OffsetRange, settings: ReadSettings) -> None:
        self._rows_max = max(1, settings.batch_rows)
        self._schema = arrow_schema(settings.include_headers)
        self._topic = wanted.topic
        self._partition = wanted.partition
        self._pieces: list[Any] = []
        self._rows = 0
        self._bytes = 0

    def add(self, columns: Any) -> Iterator[Any]:
        """Add a batch of `columns.VARIABLE_COLUMNS` (and headers); return the batches that are full."""
        self._pieces.append(columns)
        self._rows += columns.num_rows
        self._bytes += columns.nbytes
        if self._rows >= self._rows_max or self._bytes >= BYTES_MAX:
            yield from self.rest()

    def rest(self) -> Iterator[Any]:
        """Return all buffered rows."""
        pieces, self._pieces, self._rows, self._bytes = self._pieces, [], 0, 0
        if not pieces:
            return
        if len(pieces) > 1:
            pieces = pa.Table.from_batches(pieces).combine_chunks().to_batches()
        for piece in pieces:
            for first in range(0, piece.num_rows, self._rows_max):
                yield self._whole(piece.slice(first, self._rows_max))

    def _whole(self, columns: Any) -> Any:
        count = columns.num_rows
        key, value, *others = columns.columns
        topic = pa.repeat(pa.scalar(self._topic, pa.string()), count)
        partition = pa.array(np.full(count, self._partition, np.int32))
        return pa.RecordBatch.from_arrays([key, value, topic, partition, *others], schema=self._schema)


_log = logging.getLogger(__name__)


def read(wanted: OffsetRange, settings: ReadSettings) -> Iterator[Any]:
    """The records of `wanted` as `pyarrow.RecordBatch`es of `arrow_schema(settings.include_headers)`, in order.

    No batch is empty; most have `settings.batch_rows` rows. Raises `UnsupportedSetting` before anything is sent. Raises
    `DataLoss` when records are gone and `settings.fail_on_data_loss` is set; otherwise logs a warning and goes on with
    the first record that is left. Raises `NotReadable` after `settings.timeout_ms` without progress, or for damaged
    records.
    """
    connecting = understand(settings)
    fetch = PartitionFetch(wanted, settings, connecting)
    return _read(wanted, settings, fetch)


def _read(wanted: OffsetRange, settings: ReadSettings, fetch: PartitionFetch) -> Iterator[Any]:
    rows = RowBatches(wanted, settings)
    offset = wanted.start
    with fetch:
        fetch.ask(offset)
        while offset < wanted.end:
            try:
                answer = fetch.answer()
                offset, columns = _take_in(answer, offset, wanted, settings, fetch)
            except OffsetsMissing as gone:
                offset = _after_loss(gone, offset, wanted, settings)
                fetch.progressed()
                fetch.ask(offset)
                continue
            except InvalidBatches as damaged:
                message = f"{wanted.topic}-{wanted.partition} is damaged from offset {offset} on"
                raise NotReadable(message, str(damaged)) from None
            if columns is not None:
                yield from rows.add(columns)
        yield from rows.rest()


def _take_in(
    answer: Answer, offset: int, wanted: OffsetRange, settings: ReadSettings, fetch: PartitionFetch
) -> tuple[int, Any]:
    """(next offset, columns or None) of a response. The next request is sent before this response is decoded."""
    head = answer.head
    aborted = head.aborted if settings.isolation == READ_COMMITTED else None
    surveyed = survey(answer.records, offset, wanted.end, aborted)
    if surveyed.next_offset == offset:
        _wait(answer, offset, surveyed.needed_bytes, settings, fetch)
        return offset, None
    fetch.progressed()
    if surveyed.next_offset < wanted.end:
        fetch.ask(surveyed.next_offset)
    found = unpack(np.frombuffer(answer.records, np.uint8), surveyed)
    columns = decode(found, offset, wanted.end, include_headers=settings.include_headers)
    return surveyed.next_offset, columns


def _wait(answer: Answer, offset: int, needed_bytes: int, settings: ReadSettings, fetch: PartitionFetch) -> None:
    head = answer.head
    if needed_bytes:
        fetch.need(needed_bytes)
    elif settings.isolation == READ_COMMITTED and head.last_stable_offset <= offset < head.high_watermark:
        fetch.nothing_yet(f"a transaction that began at or before offset {offset} is still open", is_gone=False)
    else:
        at_end = offset >= head.high_watermark
        why = f"the log ends at offset {head.high_watermark}" if at_end else "the broker sends no records"
        fetch.nothing_yet(why, is_gone=at_end)


def _after_loss(gone: OffsetsMissing, offset: int, wanted: OffsetRange, settings: ReadSettings) -> int:
    """The offset to go on with after data loss. Raises DataLoss if `fail_on_data_loss` is set."""
    if settings.fail_on_data_loss:
        raise DataLoss(gone.why, wanted.topic, wanted.partition, offset, gone.earliest) from None
    left = wanted.end if gone.earliest is None else min(gone.earliest, wanted.end)
    _log.warning("%s-%d: offsets %d to %d are gone (%s)", wanted.topic, wanted.partition, offset, left - 1, gone.why)
    return left
