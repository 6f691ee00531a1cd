"""Analytics on Spark: topics as tables (`YakDataSource`), jobs over them, and sessions to run them in.

    from yak.spark import YakDataSource
    spark.dataSource.register(YakDataSource)
    spark.read.format("yak").option("bootstrap", "localhost:9092").option("subscribe", "orders").load()

Importing this package does not import pyspark, numpy or pyarrow; its public names import them on first use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yak.spark.source.data_source import YakDataSource as YakDataSource

__all__ = ["YakDataSource"]

_HOMES = {"YakDataSource": "yak.spark.source.data_source"}
"""The module that each public name is in."""


if not TYPE_CHECKING:  # inside the `if`, because a type checker would otherwise accept any name of this module

    def __getattr__(name: str) -> object:
        """Import a public name on first use (PEP 562)."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(home), name)
        globals()[name] = found
        return found
