"""`replay`: writes an archive back into a topic, in order per key, each record once."""

import json
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, Final

from yak.client.times import parse_time_ms
from yak.errors import UsageError
from yak.spark.jobs.archive import SCHEMA
from yak.spark.jobs.checkpoint import of_another
from yak.spark.jobs.files import Files
from yak.spark.jobs.frame import Job
from yak.spark.jobs.options import SparkOptions, bootstrap_flag, key_values, option_flag
from yak.spark.jobs.sinks import StartedJob
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME: Final = "yak-replay.json"


class ReplayState:
    """The newest file of the folder holds the whole state; it is complete before the previous file is deleted."""

    def __init__(self, files: Files, found: dict[str, Any]) -> None:
        self._files, self._found = files, found

    @classmethod
    def load(
        cls, files: Files, mine: dict[str, Any], ranges: dict[int, tuple[int, int]], times: "Times"
    ) -> "ReplayState":
        """This replay's state, new with these offset ranges and times, or resumed with those that it was begun with.

        Raises UsageError (`spark-checkpoint`) for another's state.
        """
        listed = {str(partition): list(range_) for partition, range_ in ranges.items()}
        names = files.names(files.folder)
        saved = [name for name in names if name.startswith(_NAME)]
        if not saved:
            if {"offsets", "metadata"} & set(names):
                raise of_another(files.folder, "a streaming query made it")
            new = {"of": mine, "ranges": listed, "times": times, "done": 0, "begun": None, "ends": {}, "step": 0}
            return cls(files, new)
        found = json.loads(files.read(files.at(saved[-1])))
        differing = [name for name in mine if mine[name] != found["of"].get(name)]
        if differing:
            said = "; ".join(f"{name.strip('_')} was {found['of'].get(name)} and is {mine[name]}" for name in differing)
            raise of_another(files.folder, said)
        return cls(files, {"times": times, **found})  # states of earlier versions have no times

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """First and last offset of each source partition, as they were when the replay began."""
        return {int(partition): (first, last) for partition, (first, last) in self._found["ranges"].items()}

    @property
    def times(self) -> "Times":
        """The requested time as it was when the replay began: -1h is another time in each run."""
        from_ms, to_ms = self._found["times"]
        return from_ms, to_ms

    @property
    def done(self) -> int:
        """Number of chunks that are completely in the target."""
        return int(self._found["done"])

    @property
    def begun(self) -> int | None:
        """The chunk that may be partly in the target."""
        begun: int | None = self._found["begun"]
        return begun

    @property
    def ends(self) -> dict[str, int]:
        """End offsets of the target's partitions before that chunk."""
        return dict(self._found["ends"])

    def begin(self, number: int, ends: dict[str, int]) -> None:
        """Record that a chunk is about to be written."""
        self._save(begun=number, ends=ends)

    def finish(self, number: int) -> None:
        """Record that a chunk is completely written."""
        self._save(done=number + 1, begun=None)

    def _save(self, **changes: Any) -> None:
        self._found |= {**changes, "step": self._found["step"] + 1}
        step = self._found["step"]
        if not self._files.write_new(self._files.at(f"{_NAME}.{step:010d}"), json.dumps(self._found) + "\n"):
            raise UsageError(
                "spark-checkpoint",
                f"{self._files.folder} is used by another replay at the same time",
                why="it has saved its progress meanwhile, and both would write the same records",
                try_=("wait until the other one has ended", "another --checkpoint-dir and another --into"),
            )
        if step > 1:
            self._files.delete(self._files.at(f"{_NAME}.{step - 1:010d}"))


HEADER: Final = "yak-replayed"
"""Header of a replayed record with its original topic/partition/offset."""


@dataclass(frozen=True, kw_only=True)
class Options(SparkOptions):
    """Options of `replay`."""

    archive: str = flag("--archive", "What the archive job wrote.", metavar="FOLDER", default=MISSING)
    topic: str = flag("--topic, -t", "The archived topic.", metavar="NAME", default=MISSING)
    into: str = flag("--into", "The topic to write to.", metavar="NAME", default=MISSING)
    checkpoint_dir: str = flag("--checkpoint-dir", "Where it resumes from.", metavar="DIR", default=MISSING)
    bootstrap: str = bootstrap_flag()
    from_: str | None = flag("--from", "Records since then.  [all]", metavar="TIME")
    to: str | None = flag("--to", "Records before then.  [all]", metavar="TIME")
    chunk_rows: int = flag(
        "--chunk-rows", "Records between two entries in the checkpoint.", metavar="N", min=1, default=1_000_000
    )
    option: tuple[str, ...] = option_flag()

    def check(self) -> None:
        super().check()
        key_values("--option", self.option)
        for text in (self.from_, self.to):
            if text is not None:
                _time_ms(text)


Ranges = dict[int, tuple[int, int]]
"""First and last offset by source partition."""
Times = tuple[int | None, int | None]
"""The requested time in ms, from and until; None: without a bound."""


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Write the archived records of a topic to another topic, those of one partition in their order.

    All records of a key are in one partition, so their order is kept too. Each gets the header `yak-replayed` with its old
    place, and keeps its time. After a crash of the job or of an executor it looks in the target for what of the chunk under
    way has arrived, and writes the rest: each record is there once. The target is to be written by this replay alone,
    or at least without that header.
    """
    return _chosen(_records(spark, options), _times(options))


def start(spark: "SparkSession", options: Options) -> StartedJob:
    """Replay all chunks."""
    rows = _records(spark, options)
    mine = {name: getattr(options, name) for name in ("archive", "topic", "into", "from_", "to", "chunk_rows")}
    files = Files(spark, options.checkpoint_dir)
    state = ReplayState.load(files, mine, _ranges(rows, options), _times(options))
    for number, chunk in enumerate(chunks_of(state.ranges, options.chunk_rows)):
        if number < state.done:
            continue
        is_again = state.begun == number
        # saved again when it is resumed: another replay of this checkpoint, if there is one, fails then
        state.begin(number, state.ends if is_again else _ends(options))
        _write(_chosen(_inside(rows, chunk), state.times), options, state.ends, is_again)
        state.finish(number)
    return StartedJob()


def chunks_of(ranges: Ranges, rows: int) -> Iterator[Ranges]:
    """Split offset ranges into consecutive chunks of about `rows` records; the same ranges give the same chunks."""
    share = max(1, rows // max(1, len(ranges)))
    starts = {partition: first for partition, (first, _) in sorted(ranges.items())}
    while starts:
        chunk = {partition: (at, min(at + share - 1, ranges[partition][1])) for partition, at in starts.items()}
        yield chunk
        starts = {partition: last + 1 for partition, (_, last) in chunk.items() if last < ranges[partition][1]}


def _records(spark: "SparkSession", options: Options) -> "DataFrame":
    """The archived records of the topic. Raises UsageError (`spark-archive`)."""
    from pyspark.sql import functions as f

    files = Files(spark, options.archive)
    topics = [name.partition("=")[2] for name in files.names(files.folder) if name.startswith("topic=")]
    if options.topic not in topics:
        raise _no_records(options, f"it has {', '.join(topics)}" if topics else "it is no archive, or an empty one")
    return spark.read.schema(SCHEMA).parquet(files.folder).where(f.col("topic") == options.topic)


def _ranges(rows: "DataFrame", options: Options) -> Ranges:
    from pyspark.sql import functions as f

    found = rows.groupBy("partition").agg(f.min("offset").alias("first"), f.max("offset").alias("last")).collect()
    if not found:
        raise _no_records(options, "none of its batches is complete")
    return {row["partition"]: (row["first"], row["last"]) for row in found}


def _no_records(options: Options, why: str) -> UsageError:
    return UsageError(
        "spark-archive",
        f"{options.archive} has no records of {options.topic}",
        why=why,
        try_=(f"yak spark run archive -t {options.topic} --into {options.archive}",),
    )


def _inside(rows: "DataFrame", chunk: Ranges) -> "DataFrame":
    from pyspark.sql import functions as f

    inside = f.lit(False)
    for partition, (first, last) in chunk.items():
        inside |= (f.col("partition") == partition) & f.col("offset").between(first, last)
    return rows.where(inside)


def _times(options: Options) -> Times:
    from_ms, to_ms = (None if text is None else _time_ms(text) for text in (options.from_, options.to))
    return from_ms, to_ms


def _chosen(rows: "DataFrame", times: Times) -> "DataFrame":
    """The rows in the requested time."""
    from pyspark.sql import functions as f

    from_ms, to_ms = times
    if from_ms is not None:
        rows = rows.where(f.col("timestamp") >= f.timestamp_millis(f.lit(from_ms)))
    if to_ms is not None:
        rows = rows.where(f.col("timestamp") < f.timestamp_millis(f.lit(to_ms)))
    return rows


def _write(rows: "DataFrame", options: Options, ends: dict[str, int], is_again: bool) -> None:
    """Write rows so that one task gets a whole source partition and sends it in order."""
    from pyspark.sql import functions as f

    place = f.concat_ws("/", "topic", f.col("partition").cast("string"), f.col("offset").cast("string"))
    header = f.struct(f.lit(HEADER).alias("key"), place.cast("binary").alias("value"))
    headers = f.concat(f.coalesce("headers", f.array().cast("array<struct<key:string,value:binary>>")), f.array(header))
    ordered = rows.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    cluster = _cluster(options)

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        send(batches, cluster, options.into, ends if is_again or context.attemptNumber() else None)
        yield from ()

    records = ordered.select("key", "value", "timestamp", headers.alias("headers"), place.alias("place"))
    records.mapInArrow(write, "written boolean").collect()


def send(batches: Iterator[Any], cluster: dict[str, str], topic: str, ends: dict[str, int] | None) -> None:
    """Write a task's records with `place`; if `ends` are given, without those that came after these offsets.

    Spark runs a task again whose executor is lost.
    """
    import pyarrow.compute as pc

    from yak.spark.source.write import produce, write_options

    writing = write_options({**cluster, "topic": topic, "keepTimestamps": "true"}, overwrite=False)
    if ends is not None:
        arrived = _arrived(cluster, topic, ends)
        batches = (batch.filter(pc.invert(pc.is_in(batch.column("place"), arrived))) for batch in batches)
    produce(batches, writing, [])


def _arrived(cluster: dict[str, str], topic: str, ends: dict[str, int]) -> Any:
    """Original places of the records that reached the target after these offsets."""
    import pyarrow as pa

    from yak.spark.source.batch import BatchReader
    from yak.spark.source.options import read_options
    from yak.spark.source.schema import kafka_schema
    from yak.spark.source.values import Decoding

    offsets = {"startingOffsets": json.dumps({topic: ends}), "endingOffsets": "latest"}
    options = read_options({**cluster, **offsets, "subscribe": topic, "includeHeaders": "true"})
    reader = BatchReader(options, kafka_schema(include_headers=True), Decoding())
    found = [
        header["value"].decode()
        for part in reader.partitions()
        for batch in reader.read(part)
        for headers in batch.column("headers").to_pylist()
        for header in (headers or ())[-1:]
        if header["key"] == HEADER
    ]
    return pa.array(found, pa.string())


def _ends(options: Options) -> dict[str, int]:
    """The end offset of each target partition, as the data source takes offsets. Raises YakError (`unknown-topic`)."""
    from yak.spark.source.options import read_options
    from yak.spark.source.topics import Topics

    topics = Topics(read_options({**_cluster(options), "subscribe": options.into}))
    return {str(each.partition): offset for each, offset in topics.latest(topics.assigned()).items()}


def _cluster(options: Options) -> dict[str, str]:
    """The data source's options for the brokers."""
    return {"kafka.bootstrap.servers": options.bootstrap, **key_values("--option", options.option)}


def _time_ms(text: str) -> int:
    import time

    return parse_time_ms(text, now_ms=time.time_ns() // 1_000_000)


JOB = Job(
    "replay",
    "An archive back into a topic: order kept by key, each record once.",
    Options,
    build,
    start=start,
    # a task cannot tell a stage's second attempt from its first, nor know of an attempt that runs at the same time
    conf=(("spark.stage.maxConsecutiveAttempts", "1"), ("spark.speculation", "false")),
    examples=("yak spark run replay --archive ./archive -t orders --into orders-again --checkpoint-dir ./c",),
)
