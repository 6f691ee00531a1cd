"""How a record's value becomes columns: as the bytes it is; `json_values` has the other way."""

from collections.abc import Iterator
from typing import Any

from yak.spark.source.errors import in_one_line
from yak.spark.source.options import ReadOptions
from yak.spark.source.reading import RangePartition, batches
from yak.spark.source.worker import settle

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


class Decoding:
    """Values stay bytes."""

    def source_column(self, name: str) -> str | None:
        """The source's own column that the query's column of this name is; None for what comes out of values."""
        return name if name in COLUMNS else None

    def decode(self, batch: Any) -> Any:
        """The reader's batch in the query's columns."""
        return batch


def decoded(task: RangePartition, options: ReadOptions, decoding: Decoding) -> Iterator[Any]:
    """The batches of one task, decoded. Raises SourceError."""
    with in_one_line():
        for batch in batches(task, options):
            yield decoding.decode(batch)
    settle()
