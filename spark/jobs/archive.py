"""`archive`: writes topics to Parquet files by topic, date and hour, exactly once."""

from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from yak.errors import UsageError
from yak.spark.driver.settings import one_of
from yak.spark.jobs import checkpoint
from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.options import ReadOptions, interval
from yak.spark.jobs.sinks import StartedJob
from yak.spark.jobs.topic_frames import records
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION_COLUMNS: Final = ("topic", "date", "hour")
"""The partition columns, which are folders."""
SCHEMA: Final = (
    "key binary, value binary, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>, topic string, date string, hour string"
)
_CLASSES: Final = {"delta": "io.delta.tables.DeltaTable", "iceberg": "org.apache.iceberg.spark.SparkCatalog"}


@dataclass(frozen=True, kw_only=True)
class Options(ReadOptions):
    """Options of `archive`: target folder and format."""

    into: str = flag("--into", "The archive; for Iceberg a table.", metavar="FOLDER", default=MISSING)
    format: str = flag("--format", "parquet; delta or iceberg where installed.", metavar="NAME", default="parquet")
    checkpoint_dir: str | None = flag("--checkpoint-dir", "Where it resumes from.  [FOLDER/_checkpoint]", metavar="DIR")

    def check(self) -> None:
        super().check()
        one_of("--format", self.format, ("parquet", *_CLASSES))
        if self.is_batch:
            raise unsupported(
                "archive follows its topics",
                "a stream knows what is archived already; --to reads once",
                "--available-now     to stop at the end of what is there",
            )
        if self.format != "parquet" and self.checkpoint_dir is None:
            raise unsupported(f"--format {self.format} needs --checkpoint-dir", "its tables have no room for ours")


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Store topics as Parquet files: FOLDER/topic=…/date=…/hour=… of each record's timestamp (UTC), with all of it.

    Exactly once: Spark's file sink lists the files of each batch in FOLDER/_spark_metadata, and Spark reads only those. A
    batch writes a file for each partition and hour, so a longer --trigger makes larger files.

    With --format delta or iceberg, their own streaming sinks do this, and their own commands compact.
    """
    from pyspark.sql import functions as f

    frame = records(spark, replace(options, option=(*options.option, "includeHeaders=true")))
    seconds = f.unix_seconds("timestamp")  # a session's time zone may skip or repeat an hour
    days = f.floor(seconds / 86_400).cast("int")
    hour = f.pmod(f.floor(seconds / 3_600), f.lit(24))
    return frame.select(
        "key",
        "value",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
        "topic",
        f.date_from_unix_date(days).cast("string").alias("date"),
        f.format_string("%02d", hour).alias("hour"),
    )


def start(spark: "SparkSession", options: Options) -> StartedJob:
    """Start the query. Raises UsageError for another query's checkpoint, and for a missing table format."""
    if options.format != "parquet":
        _must_have(spark, options.format)
    frame = build(spark, options)
    place = options.checkpoint_dir or f"{options.into.rstrip('/')}/_checkpoint"
    if options.format == "parquet":
        checkpoint.claim_folder(spark, options.into, place)
    checkpoint.claim(spark, JOB, options, place)
    writer = frame.writeStream.queryName(JOB.name).option("checkpointLocation", place)
    if options.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=interval(options.trigger))
    writer = writer.format(options.format).partitionBy(*PARTITION_COLUMNS).outputMode("append")
    if options.format == "iceberg":
        return StartedJob(writer.option("fanout-enabled", "true").toTable(options.into))
    return StartedJob(writer.start(options.into))


def _must_have(spark: "SparkSession", format_: str) -> None:
    """Raise UsageError (`spark-format`) when Spark does not have this table format."""
    from py4j.protocol import Py4JJavaError

    session: Any = spark
    java = session._jvm.java.lang  # noqa: SLF001 - PySpark has no other way to look
    try:
        java.Class.forName(_CLASSES[format_], False, java.Thread.currentThread().getContextClassLoader())
    except Py4JJavaError:
        raise UsageError(
            "spark-format",
            f"this Spark has no {format_}",
            why=f"{_CLASSES[format_]} is in none of its jars",
            try_=("--packages GROUP:NAME:VERSION     from Maven", "--jars /path/to.jar", "--format parquet"),
        ) from None


JOB = Job(
    "archive",
    "Topics to Parquet (or Delta, Iceberg) by topic, date and hour, exactly once.",
    Options,
    build,
    start=start,
    identity=("into", "format"),
    examples=("yak spark run archive -t orders --into ./archive", "… --available-now"),
)
