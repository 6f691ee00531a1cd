"""`replay`: writes an archive back into a topic, in order per key, each record once."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from yak.client.times import parse_time_ms
from yak.errors import UsageError
from yak.spark.jobs.books import Books, Entry
from yak.spark.jobs.files import Files
from yak.spark.jobs.frame import Job
from yak.spark.jobs.options import READ, WHAT, WRITE, SparkOptions, key_values
from yak.spark.jobs.replay_state import ReplayState
from yak.spark.jobs.sinks import Running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "replay"
SUMMARY = "An archive back into a topic: order kept by key, each record once."
HEADER: Final = "yak-replayed"
"""Header of a replayed record with its original topic/partition/offset."""


@dataclass(frozen=True, kw_only=True)
class Options(SparkOptions):
    """Options of `replay`."""

    archive: Annotated[
        str, typer.Option("--archive", metavar="FOLDER", help="What the archive job wrote.", rich_help_panel=WHAT)
    ]
    topic: Annotated[
        str, typer.Option("--topic", "-t", metavar="NAME", help="The archived topic.", rich_help_panel=WHAT)
    ]
    into: Annotated[str, typer.Option("--into", metavar="NAME", help="The topic to write to.", rich_help_panel=WRITE)]
    checkpoint_dir: Annotated[
        str, typer.Option("--checkpoint-dir", metavar="DIR", help="Where it resumes from.", rich_help_panel=WRITE)
    ]
    bootstrap: Annotated[
        str,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT,...",
            envvar="YAK_BOOTSTRAP_SERVERS",
            help="Ask these brokers first.",
            rich_help_panel=WRITE,
        ),
    ] = "127.0.0.1:9092"
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Records since then.  [all]", rich_help_panel=READ),
    ] = None
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Records before then.  [all]", rich_help_panel=READ)
    ] = None
    chunk_rows: Annotated[
        int,
        typer.Option(
            "--chunk-rows",
            metavar="N",
            min=1,
            help="Records between two entries in the checkpoint.",
            rich_help_panel=WRITE,
        ),
    ] = 1_000_000
    option: Annotated[
        tuple[str, ...],
        typer.Option(
            "--option", metavar="KEY=VALUE", help="Of the data source (kafka.… of the client).", rich_help_panel=WRITE
        ),
    ] = ()

    def check(self) -> None:
        """Check the options. Raises UsageError."""
        super().check()
        key_values("--option", self.option)
        for text in (self.from_, self.to):
            if text is not None:
                _time_ms(text)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of replay: the offsets [first, last] of each source partition."""

    ranges: dict[int, tuple[int, int]]
    paths: tuple[str, ...]


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Write the archived records of a topic to another topic, those of one partition in their order.

    All records of a key are in one partition, so their order is kept too. Each gets the header `yak-replayed` with its old
    place, and keeps its time. After a crash the job looks in the target for what of the chunk under way has arrived, and writes the rest: each
    record is there once. The target is to be written by this replay alone, or at least without that header.
    """
    books = _books(spark, options)
    return _chosen(
        books.read(spark, [each.path for each in books.live.values() if each.topic == options.topic]), options
    )


def start(spark: "SparkSession", options: Options) -> Running:
    """Replay all chunks."""
    books = _books(spark, options)
    entries = [each for each in books.live.values() if each.topic == options.topic]
    mine = {name: getattr(options, name) for name in ("archive", "topic", "into", "from_", "to", "chunk_rows")}
    state = ReplayState.load(Files(spark, options.checkpoint_dir), mine | {"version": books.version})
    chunks = list(chunks_of(entries, options.chunk_rows))
    for number, chunk in enumerate(chunks):
        if number < state.done:
            continue
        rows = _rows_of(spark, books, chunk, options)
        if state.begun == number:
            rows = _without(rows, _arrived(spark, options, state.ends))
        else:
            state.begin(number, _ends(options))
        _write(rows, options)
        state.finish(number)
    return Running()


def chunks_of(entries: list[Entry], rows: int) -> Iterator[Chunk]:
    """Split the archive into consecutive chunks of about `rows` records; the same archive gives the same chunks."""
    cuts: dict[int, list[tuple[int, int]]] = {}
    for each in entries:
        for partition, (first, last, _) in each.ranges.items():
            cuts.setdefault(int(partition), []).append((first, last))
    starts = {partition: min(first for first, _ in ranges) for partition, ranges in cuts.items()}
    ends = {partition: max(last for _, last in ranges) for partition, ranges in cuts.items()}
    share = max(1, rows // max(1, len(starts)))
    while starts:
        ranges = {partition: (at, min(at + share - 1, ends[partition])) for partition, at in sorted(starts.items())}
        yield Chunk(ranges, tuple(sorted(each.path for each in entries if _touches(each, ranges))))
        starts = {partition: last + 1 for partition, (_, last) in ranges.items() if last < ends[partition]}


def _touches(entry: Entry, ranges: dict[int, tuple[int, int]]) -> bool:
    return any(
        first <= ranges[int(partition)][1] and last >= ranges[int(partition)][0]
        for partition, (first, last, _) in entry.ranges.items()
        if int(partition) in ranges
    )


def _books(spark: "SparkSession", options: Options) -> Books:
    books = Books.load(Files(spark, options.archive))
    if not any(each.topic == options.topic for each in books.live.values()):
        topics = sorted({each.topic for each in books.live.values()})
        raise UsageError(
            "spark-archive",
            f"{options.archive} has no records of {options.topic}",
            why=f"it has {', '.join(topics)}" if topics else "it is no archive, or an empty one",
            try_=(f"yak spark run archive -t {options.topic} --into {options.archive}",),
        )
    return books


def _rows_of(spark: "SparkSession", books: Books, chunk: Chunk, options: Options) -> "DataFrame":
    from pyspark.sql import functions as f

    inside = f.lit(False)
    for partition, (first, last) in chunk.ranges.items():
        inside |= (f.col("partition") == partition) & f.col("offset").between(first, last)
    return _chosen(books.read(spark, chunk.paths), options).where(inside)


def _chosen(rows: "DataFrame", options: Options) -> "DataFrame":
    from pyspark.sql import functions as f

    rows = rows.where(f.col("topic") == options.topic)
    if options.from_ is not None:
        rows = rows.where(f.col("timestamp") >= f.timestamp_millis(f.lit(_time_ms(options.from_))))
    if options.to is not None:
        rows = rows.where(f.col("timestamp") < f.timestamp_millis(f.lit(_time_ms(options.to))))
    return rows


def _write(rows: "DataFrame", options: Options) -> None:
    """Write rows so that one task gets a whole source partition and sends it in order."""
    from pyspark.sql import functions as f

    place = f.concat_ws("/", "topic", f.col("partition").cast("string"), f.col("offset").cast("string"))
    header = f.struct(f.lit(HEADER).alias("key"), place.cast("binary").alias("value"))
    headers = f.concat(f.coalesce("headers", f.array().cast("array<struct<key:string,value:binary>>")), f.array(header))
    ordered = rows.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    ordered.select("key", "value", "timestamp", headers.alias("headers")).write.format("yak").options(
        **{
            "kafka.bootstrap.servers": options.bootstrap,
            "topic": options.into,
            "keepTimestamps": "true",
            **key_values("--option", options.option),
        }
    ).mode("append").save()


def _arrived(spark: "SparkSession", options: Options, ends: dict[str, int]) -> "DataFrame":
    """Original positions of the records that reached the target since the chunk was begun."""
    from pyspark.sql import functions as f

    frame = (
        spark.read.format("yak")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.into)
        .option("startingOffsets", json.dumps({options.into: ends}))
        .option("endingOffsets", "latest")
        .option("includeHeaders", "true")
        .options(**key_values("--option", options.option))
        .load()
    )
    mine = f.filter("headers", lambda header: header["key"] == HEADER)
    place = f.split(f.element_at(mine, -1)["value"].cast("string"), "/")
    return frame.where(f.size(mine) > 0).select(
        place[0].alias("topic"), place[1].cast("int").alias("partition"), place[2].cast("long").alias("offset")
    )


def _without(rows: "DataFrame", arrived: "DataFrame") -> "DataFrame":
    return rows.join(arrived, ["topic", "partition", "offset"], "left_anti")


def _ends(options: Options) -> dict[str, int]:
    """The end offset of each target partition, as the data source takes offsets. Raises YakError (`unknown-topic`)."""
    from yak.client.admin import LATEST, Admin
    from yak.ids import TopicPartition

    admin = Admin(options.bootstrap)
    topic = admin.metadata().require_topic(options.into)
    places = [TopicPartition(options.into, each.number) for each in topic.partitions]
    found = admin.offsets(dict.fromkeys(places, LATEST))
    return {str(place.partition): each.offset for place, each in found.items()}


def _time_ms(text: str) -> int:
    import time

    return parse_time_ms(text, now_ms=time.time_ns() // 1_000_000)


JOB = Job(
    NAME,
    SUMMARY,
    Options,
    build,
    start=start,
    examples=("yak spark run replay --archive ./archive -t orders --into orders-again --checkpoint-dir ./c",),
)
