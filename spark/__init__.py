"""Analytics on Spark: topics as tables (`format("yak")`), jobs over them, and sessions to run them in.

    import yak.spark
    spark = yak.spark.session()
    spark.read.format("yak").option("bootstrap", "localhost:9092").option("subscribe", "orders").load()

With a session of your own: `spark.dataSource.register(yak.spark.YakDataSource)`.

Importing this package does not import pyspark, numpy or pyarrow; its public names import them on first use.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yak.spark.source.data_source import YakDataSource as YakDataSource

__all__ = ["YakDataSource", "session"]


def session(master: str | None = None, *, conf: Mapping[str, str] | None = None, **settings: Any) -> Any:
    """A SparkSession with `format("yak")` registered, by default on this machine.

    `conf` holds Spark's own settings; `settings` are other fields of `yak.spark.driver.settings.SessionSettings`. Raises
    UsageError: `spark-missing`, `spark-options`, `spark-master`, `spark-memory`, …
    """
    from yak.spark.driver.make import make_session
    from yak.spark.driver.settings import SessionSettings

    return make_session(SessionSettings(master=master, conf=conf or {}, **settings))


if not TYPE_CHECKING:  # inside the `if`, because a type checker would otherwise accept any name of this module

    def __getattr__(name: str) -> object:
        """Import `YakDataSource`, which needs pyspark, on first use (PEP 562)."""
        if name != "YakDataSource":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from yak.spark.source.data_source import YakDataSource

        globals()[name] = YakDataSource
        return YakDataSource
