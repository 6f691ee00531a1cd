"""`counts`: how many records each key has in each window."""

from typing import TYPE_CHECKING

from yak.spark.jobs import windows
from yak.spark.jobs.frame import Job
from yak.spark.jobs.topic_frames import events
from yak.spark.jobs.windows import WindowOptions as Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Count the records of each key in windows of time.

    Windows follow each other (--window), overlap (--slide) or last until a key is silent (--session-gap). The count of a
    window is written again whenever it changes (update), or once, when the watermark has passed its end (append).
    """
    from pyspark.sql import functions as f

    rows = windows.with_watermark(events(spark, options), options)
    counted = rows.groupBy(windows.window_column(options), "key").agg(f.count("*").alias("count"))
    return counted.select(f.col("window.start").alias("start"), f.col("window.end").alias("end"), "key", "count")


JOB = Job(
    "counts",
    "Records of each key in windows: tumbling, sliding or sessions.",
    Options,
    build,
    keys=("key", "start"),
    modes=windows.modes,
    identity=windows.IDENTITY,
    examples=("yak spark run counts -t orders --window 1m", "yak spark run counts -t clicks --session-gap 30s"),
)
