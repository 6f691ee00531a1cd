"""Combines the columns of several fetch responses into record batches of about `batch_rows` rows."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from yak.spark.columnar.schema import OffsetRange, ReadSettings, arrow_schema

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
