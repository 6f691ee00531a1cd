"""`stats`: computes mean, minimum, maximum and percentiles of a JSON field."""

from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Final

from yak.spark.jobs import windows
from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.topic_frames import numbers
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ACCURACY: Final = 10_000
"""percentile_approx is exact up to this many values per window and key; above, its rank error is at most 1/10,000."""
_EXACT: Final = "decimal(38,9)"
"""Type of sums: a sum of doubles depends on the order of values, which may change when a job resumes."""


@dataclass(frozen=True, kw_only=True)
class Options(windows.WindowOptions):
    """Options of `stats`."""

    field: str = flag("--field", "A number in a JSON value: cpu.percent.", metavar="PATH", default=MISSING)
    percentiles: str = flag("--percentiles", "Between 0 and 100.", metavar="P,...", default="50,95,99")

    def check(self) -> None:
        super().check()
        self.ranks()

    def ranks(self) -> list[float]:
        """The percentiles. Raises UsageError (`spark-options`)."""
        try:
            found = [float(text) for text in self.percentiles.split(",") if text.strip()]
        except ValueError:
            found = [-1.0]
        if not all(0.0 <= each <= 100.0 for each in found):
            raise unsupported(
                f'--percentiles "{self.percentiles}" cannot be used', "they are numbers from 0 to 100", "50,95,99"
            )
        return found


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Mean, least, greatest and percentiles of a field of JSON values, by key and window.

    `count` is of records with the number, `malformed` of those without it (--mode permissive), and of numbers from 1e29 on,
    which no exact sum holds. A mean takes nine decimals of each number. Results do not depend on how the records fell
    into batches.
    """
    from pyspark.sql import functions as f

    rows = windows.with_watermark(numbers(spark, options, options.field), options)
    # cast and sum fail the query at NaN, at an infinite and at a large number, and at a sum of them
    rows = rows.withColumn("exact", f.col("number").try_cast(_EXACT))
    rows = rows.withColumn("number", f.when(f.col("exact").isNotNull(), f.col("number")))
    ranks = options.ranks()
    sums = [
        f.count("number").alias("count"),
        f.sum(f.when(f.col("number").isNull(), 1).otherwise(0)).alias("malformed"),
        f.try_sum("exact").alias("total"),
        f.min("number").alias("min"),
        f.max("number").alias("max"),
    ]
    if ranks:
        levels = f.array(*[f.lit(rank / 100.0) for rank in ranks])
        sums.append(f.percentile_approx("number", levels, _ACCURACY).alias("ranks"))
    found = rows.groupBy(windows.window_column(options), "key").agg(*sums)
    return found.select(
        f.col("window.start").alias("start"),
        f.col("window.end").alias("end"),
        "key",
        "count",
        "malformed",
        (f.col("total").cast("double") / f.col("count")).alias("mean"),
        "min",
        "max",
        *[f.col("ranks")[number].alias(column_of(rank)) for number, rank in enumerate(ranks)],
    )


def column_of(rank: float) -> str:
    """The column name of a percentile: `p95`, `p99_9`."""
    return f"p{rank:g}".replace(".", "_")


JOB = Job(
    "stats",
    "Mean, min, max and percentiles of a JSON field in windows.",
    Options,
    build,
    keys=("key", "start"),
    modes=windows.modes,
    identity=(*windows.IDENTITY, "field", "percentiles"),
    examples=("yak spark run stats -t server_metrics --field memory_percent --window 10s",),
)
