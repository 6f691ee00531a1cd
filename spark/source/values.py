"""Decodes record values: this module keeps them as bytes, `json_values` makes columns of them."""

import gc
import sys
import zipimport
from collections.abc import Iterator
from typing import Any, Final

from yak.spark.source.errors import in_one_line
from yak.spark.source.options import ReadOptions
from yak.spark.source.range_partition import RangePartition, batches

_ZIPPED: Final = ("pyspark", "py4j", "yak")
"""Packages whose zip does not change while the process lives."""
_state = {"is_settled": False}


def settle() -> None:
    """Call after a task, when all modules are loaded. Does nothing outside of PySpark's workers."""
    main = sys.modules["__main__"].__spec__
    if main is None or main.name != "pyspark.daemon":
        return
    for name in _ZIPPED:
        module = sys.modules.get(name)
        loader = module.__spec__.loader if module is not None and module.__spec__ is not None else None
        if isinstance(loader, zipimport.zipimporter):
            # Without the entry, the zip's directory is not read again; an import restores it from zipimport's cache.
            sys.path_importer_cache.pop(loader.archive, None)
    if not _state["is_settled"]:
        _state["is_settled"] = True
        gc.collect()
        gc.freeze()


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
