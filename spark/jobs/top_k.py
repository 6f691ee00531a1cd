"""`top-k`: finds the keys with the most records in each window."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yak.spark.jobs import windows
from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.topic_frames import events
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Options(windows.WindowOptions):
    """Options of `top-k`."""

    k: int = flag("--k", "How many keys.", metavar="N", min=1, max=10000, default=10)

    def check(self) -> None:
        super().check()
        if self.session_gap is not None:
            raise unsupported("top-k has no sessions", "the sessions of two keys are different windows", "--window 1m")


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """The K keys with the most records in each window, written when the watermark has passed the window's end.

    Two aggregates follow each other, which Spark does in append mode only. Keys with equally many records are ranked by
    name, so that the result is the same however often it is computed.
    """
    from pyspark.sql import functions as f

    rows = windows.with_watermark(events(spark, options), options)
    counted = rows.groupBy(windows.window_column(options), "key").agg(f.count("*").alias("count"))
    # Ascending order of (-count, key): largest count first, then by name.
    entry = f.struct((-f.col("count")).alias("less"), f.col("key"))
    ranked = counted.groupBy("window").agg(f.slice(f.sort_array(f.collect_list(entry)), 1, options.k).alias("top"))
    return ranked.select("window", f.posexplode("top").alias("place", "entry")).select(
        f.col("window.start").alias("start"),
        f.col("window.end").alias("end"),
        (f.col("place") + 1).alias("rank"),
        f.col("entry.key").alias("key"),
        (-f.col("entry.less")).alias("count"),
    )


JOB = Job(
    "top-k",
    "The keys with the most records in each window.",
    Options,
    build,
    keys=("start", "rank"),
    identity=(*windows.IDENTITY, "k"),
    examples=("yak spark run top-k -t clicks --k 10 --window 1m",),
)
