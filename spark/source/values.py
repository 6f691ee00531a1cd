"""Decodes record values: this module keeps them as bytes, `json_values` makes columns of them."""

from collections.abc import Iterator
from typing import Any

from yak.spark.source.errors import in_one_line
from yak.spark.source.options import ReadOptions
from yak.spark.source.reading import RangePartition, batches
from yak.spark.source.worker import settle

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


class Decoding:
    """Keeps values as bytes."""

    def source_column(self, name: str) -> str | None:
        """The source's own column for this column of the query; None for columns that come from values."""
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
