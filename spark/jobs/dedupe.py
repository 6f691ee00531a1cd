"""`dedupe`: keeps the first record of each key."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.options import duration_ms, interval
from yak.spark.jobs.topic_frames import EventOptions, events
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Options(EventOptions):
    """Options of `dedupe`."""

    within: str = flag("--within", "A key that comes again so much later is new.", metavar="DURATION", default="10m")

    def check(self) -> None:
        super().check()
        within_ms = duration_ms(self.within)
        if self.watermark != Options.watermark and duration_ms(self.watermark) > within_ms:
            raise unsupported(
                f"--watermark {self.watermark} is longer than --within {self.within}",
                "Spark remembers keys, and takes late records, for one time: that of --within",
                f"--within {self.watermark}",
            )


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """The first record of each key; what comes again within --within of event time is left out.

    The key is the record's, or a field of its JSON value (--key-field). Keys are kept in Spark's state store until the
    watermark has passed them, so memory is bounded by --within. Records go on with their own key and value.
    """
    from pyspark.sql import functions as f

    rows = events(spark, options)
    if rows.isStreaming:
        first = rows.withWatermark("time", interval(options.within)).dropDuplicatesWithinWatermark(["key"])
    else:
        first = _first_of_batch(rows, duration_ms(options.within))
    return first.select(f.col("record_key").alias("key"), "value", "topic", "partition", "offset", "timestamp")


def _first_of_batch(rows: "DataFrame", within_ms: int) -> "DataFrame":
    """The batch version, without a watermark: keep a record unless a kept record of its key precedes it by less."""
    import pandas as pd
    from pyspark.sql import functions as f

    def keep(group: pd.DataFrame) -> pd.DataFrame:
        ordered = group.sort_values(["time", "topic", "partition", "offset"])
        chosen, last = [], None
        for time in ordered["time"]:
            is_new = last is None or time - last > 1_000 * within_ms
            chosen.append(is_new)
            last = time if is_new else last
        return ordered[chosen]

    # Arrow takes no text but UTF-8, pandas no time before 1677 and after 2262
    texts, times = ("key", "record_key", "value"), ("time", "timestamp")
    raw = rows.withColumns(
        {name: rows[name].cast("binary") for name in texts} | {name: f.unix_micros(name) for name in times}
    )
    unique = raw.groupBy("key").applyInPandas(keep, raw.schema)
    return unique.withColumns(
        {name: unique[name].cast("string") for name in texts} | {name: f.timestamp_micros(name) for name in times}
    )


JOB = Job(
    "dedupe",
    "The first record of each key, within a time.",
    Options,
    build,
    keys=(),
    identity=("key_field", "time_field", "within", "mode"),
    examples=("yak spark run dedupe -t orders --key-field order_id --sink topic:orders-once --checkpoint-dir ./c",),
)
