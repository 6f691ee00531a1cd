"""`archive`: writes topics to Parquet files by topic, date and hour, exactly once, and compacts small files."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from yak.errors import UsageError
from yak.spark.jobs import checkpoint
from yak.spark.jobs.books import BOOKS, PLACES, Books, Entry
from yak.spark.jobs.files import Files
from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.options import WRITE, ReadOptions, one_of, trigger_ms
from yak.spark.jobs.reading import records
from yak.spark.jobs.sinks import Running
from yak.spark.source.errors import in_one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "archive"
SUMMARY = "Topics to Parquet (or Delta, Iceberg) by topic, date and hour, exactly once."
_MIB: Final = 1 << 20
_CLASSES: Final = {"delta": "io.delta.tables.DeltaTable", "iceberg": "org.apache.iceberg.spark.SparkCatalog"}


@dataclass(frozen=True, kw_only=True)
class Options(ReadOptions):
    """Options of `archive`: target folder, format and file sizes."""

    into: Annotated[
        str, typer.Option("--into", metavar="FOLDER", help="The archive; for Iceberg a table.", rich_help_panel=WRITE)
    ]
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="NAME", help="parquet; delta or iceberg where installed.", rich_help_panel=WRITE
        ),
    ] = "parquet"
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-dir",
            metavar="DIR",
            help="Where it resumes from.  [FOLDER/_yak/checkpoint]",
            rich_help_panel=WRITE,
        ),
    ] = None
    file_mib: Annotated[
        int,
        typer.Option("--file-mib", metavar="MIB", min=1, help="Files are made so large.", rich_help_panel=WRITE),
    ] = 128
    compact_at: Annotated[
        int,
        typer.Option(
            "--compact-at",
            metavar="N",
            min=0,
            help="Make one of N small files of an hour; 0 never.",
            rich_help_panel=WRITE,
        ),
    ] = 16

    def check(self) -> None:
        """Check the options. Raises UsageError."""
        super().check()
        one_of("--format", self.format, ("parquet", *_CLASSES))
        if self.is_batch:
            raise unsupported(
                "archive follows its topics",
                "a stream knows what is archived already; --to reads once",
                "--available-now     to stop at the end of what is there",
            )
        if self.compact_at == 1:
            raise unsupported(
                "--compact-at 1 makes nothing smaller", "it takes two files to make one", "--compact-at 16"
            )
        if self.format != "parquet" and self.checkpoint_dir is None:
            raise unsupported(f"--format {self.format} needs --checkpoint-dir", "its tables have no room for ours")


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Store topics as Parquet files: FOLDER/topic=…/date=…/hour=… of each record's timestamp (UTC), with all of it.

    Exactly once: a batch counts when its entry in FOLDER/_yak appears, which names its files; a batch that is done again
    after a crash takes the place of what was left of the first. Small files of an hour are made one the same way, between
    two batches. Read it with any Parquet reader, or with the replay job.

    With --format delta or iceberg, their own streaming sinks do this, and their own commands compact.
    """
    from pyspark.sql import functions as f

    frame = records(spark, _with_headers(options))
    utc = f.to_utc_timestamp("timestamp", f.current_timezone())
    return frame.select(
        "key",
        "value",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
        "topic",
        f.date_format(utc, "yyyy-MM-dd").alias("date"),
        f.date_format(utc, "HH").alias("hour"),
    )


def start(spark: "SparkSession", options: Options) -> Running:
    """Start the query. Raises UsageError for another query's checkpoint, and for a missing table format."""
    if options.format != "parquet":
        _must_have(spark, options.format)
    frame = build(spark, options)
    place = options.checkpoint_dir or f"{options.into.rstrip('/')}/{BOOKS}/checkpoint"
    checkpoint.claim(spark, JOB, options, place)
    writer = frame.writeStream.queryName(NAME).option("checkpointLocation", place)
    if options.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{trigger_ms(options.trigger)} milliseconds")
    if options.format == "parquet":
        return Running(writer.foreachBatch(Archiver(options)).start())
    writer = writer.format(options.format).partitionBy(*PLACES).outputMode("append")
    if options.format == "iceberg":
        return Running(writer.option("fanout-enabled", "true").toTable(options.into))
    return Running(writer.start(options.into))


class Archiver:
    """Archives the batches of one query, each once, and compacts small files between batches."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._books: Books | None = None
        self._query = ""

    def __call__(self, batch: "DataFrame", number: int) -> None:
        """Archive one batch. Spark repeats a batch with the same records when it does not know whether it completed."""
        with in_one_line():
            self._take(batch, number)

    def _take(self, batch: "DataFrame", number: int) -> None:
        spark = batch.sparkSession
        books = self._books or self._open(spark)
        if books.is_done(self._query, number):
            return
        stage = books.stage()
        ordered = batch.sortWithinPartitions(*PLACES, "partition", "offset")
        ordered.write.partitionBy(*PLACES).parquet(stage)
        books.add(spark, query=self._query, batch=number)
        if self._options.compact_at:
            for group in small_groups(
                list(books.live.values()), self._options.compact_at, self._options.file_mib * _MIB
            ):
                compact(spark, books, group, self._query, self._options.file_mib * _MIB)

    def _open(self, spark: "SparkSession") -> Books:
        """Load the manifest and delete leftovers of a killed job."""
        self._query = str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
        books = Books.load(Files(spark, self._options.into))
        books.own(self._query)
        books.sweep()
        self._books = books
        return books


def small_groups(entries: list[Entry], at: int, file_bytes: int) -> list[list[Entry]]:
    """The groups of files to compact: per hour, the files below half of `file_bytes`, if there are at least `at`."""
    by_place: dict[tuple[str, str, str], list[Entry]] = {}
    for each in sorted(entries, key=lambda each: each.path):
        if each.size_bytes < file_bytes // 2:
            by_place.setdefault(each.place, []).append(each)
    return [group for group in by_place.values() if len(group) >= at]


def compact(spark: "SparkSession", books: Books, group: list[Entry], query: str, file_bytes: int) -> None:
    """Replace files of one hour by larger ones, sorted by partition and offset."""
    paths = [each.path for each in group]
    count = max(1, math.ceil(sum(each.size_bytes for each in group) / file_bytes))
    rows = books.read(spark, paths)
    rows = rows.coalesce(1) if count == 1 else rows.repartitionByRange(count, "partition", "offset")
    rows.sortWithinPartitions(*PLACES, "partition", "offset").write.partitionBy(*PLACES).parquet(books.stage())
    books.add(spark, query=query, batch=None, removed=paths)


def _with_headers(options: Options) -> Options:
    import dataclasses

    return dataclasses.replace(options, option=(*options.option, "includeHeaders=true"))


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
    NAME,
    SUMMARY,
    Options,
    build,
    start=start,
    identity=("into", "format"),
    examples=("yak spark run archive -t orders --into ./archive", "… --available-now --compact-at 4"),
)
