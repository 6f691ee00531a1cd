"""`lag`: measures the time from a record's timestamp to Spark."""

from typing import TYPE_CHECKING

from yak.spark.jobs import windows
from yak.spark.jobs.frame import Job
from yak.spark.jobs.topic_frames import events
from yak.spark.jobs.windows import WindowOptions as Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Milliseconds from a record's timestamp to its being processed, by partition and window of that timestamp.

    The clock is the executor's, read at each record; a timestamp is the producer's (or the broker's:
    message.timestamp.type), so clocks that differ show as lag.
    """
    from pyspark.sql import functions as f

    # Spark's own present time is the same for a whole batch.
    now_ms = f.reflect(f.lit("java.lang.System"), f.lit("currentTimeMillis")).cast("double")
    rows = windows.with_watermark(events(spark, options), options)
    stamped = rows.withColumn("lag_ms", now_ms - f.unix_micros("time") / 1000)
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


JOB = Job(
    "lag",
    "How long records take from their producer to Spark.",
    Options,
    build,
    keys=("topic", "partition", "start"),
    modes=windows.modes,
    identity=windows.IDENTITY,
    examples=("yak spark run lag -t orders --window 10s",),
)
