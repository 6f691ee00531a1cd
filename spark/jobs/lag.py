"""`lag`: measures the time from a record's timestamp to Spark."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from yak.spark.jobs import windows
from yak.spark.jobs.frame import Job
from yak.spark.jobs.reading import events
from yak.spark.jobs.windows import WindowOptions as Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "lag"
SUMMARY = "How long records take from their producer to Spark."


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Milliseconds from a record's timestamp to its being processed, by partition and window of that timestamp.

    The clock is the executor's, read when a piece of some thousand records is there; a timestamp is the producer's (or
    the broker's: message.timestamp.type), so clocks that differ show as lag.
    """
    from pyspark.sql import functions as f

    rows = events(spark, options).select("topic", "partition", "time")
    stamped = rows.mapInArrow(_stamp, "topic string, partition int, time timestamp, lag_ms double")
    stamped = windows.with_watermark(stamped, options)
    levels = f.array(f.lit(0.5), f.lit(0.95), f.lit(0.99))
    found = stamped.groupBy(windows.window_column(options), "topic", "partition").agg(
        f.count("*").alias("count"),
        f.min("lag_ms").alias("min_ms"),
        f.percentile_approx("lag_ms", levels, 10_000).alias("ranks"),
        f.max("lag_ms").alias("max_ms"),
    )
    return found.select(
        f.col("window.start").alias("start"),
        f.col("window.end").alias("end"),
        "topic",
        "partition",
        "count",
        "min_ms",
        *[f.col("ranks")[number].alias(name) for number, name in enumerate(("p50_ms", "p95_ms", "p99_ms"))],
        "max_ms",
    )


def _stamp(batches: Iterator[Any]) -> Iterator[Any]:
    """Add the age of each row's timestamp. Runs in the executors."""
    import time

    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        now_us = time.time_ns() // 1_000
        produced_us = batch.column(2).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        lag_us = pc.subtract(pa.scalar(now_us, pa.int64()), produced_us)
        lag_ms = pc.divide(lag_us.cast(pa.float64()), 1000.0)
        yield pa.RecordBatch.from_arrays([*batch.columns, lag_ms], names=["topic", "partition", "time", "lag_ms"])


JOB = Job(
    NAME,
    SUMMARY,
    Options,
    build,
    keys=("topic", "partition", "start"),
    modes=windows.modes,
    identity=windows.IDENTITY,
    examples=("yak spark run lag -t orders --window 10s",),
)
