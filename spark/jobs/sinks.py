"""Writes a job's result to the console, a topic, Parquet or memory, and starts the query that does it."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from yak.errors import UsageError
from yak.spark.jobs import checkpoint
from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.options import JobOptions, interval, sink_of
from yak.spark.jobs.topic_frames import source_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ROWS_PRINTED: Final = 40
"""Rows shown of a batch on the console, and of a memory table at the end."""
_MODES: Final = {
    "console": ("update", "append", "complete"),
    "topic": ("update", "append", "complete"),
    "parquet": ("append",),
    "memory": ("complete", "append", "update"),
}


class StartedJob:
    """A started job: a query, or None for a batch. `table` is shown at the end; a batch without one has ended."""

    def __init__(self, query: "StreamingQuery | None" = None, table: "DataFrame | None" = None) -> None:
        self.query = query
        self.table = table

    @property
    def is_unread(self) -> bool:
        """Whether this is a batch that reads only when it is shown."""
        return self.query is None and self.table is not None

    def show(self) -> None:
        """Print the memory table."""
        if self.table is not None:
            self.table.show(ROWS_PRINTED, truncate=False)


def write(job: Job, result: "DataFrame", options: JobOptions) -> StartedJob:
    """Write the result to the sink of `options`; return the running query. Raises UsageError."""
    from pyspark.errors import AnalysisException

    kind, name = sink_of(options.sink)
    if options.is_batch:
        return _write_batch(job, result, options, kind, name)
    allowed = output_modes(job, options, kind)
    for mode in allowed[:-1]:
        try:
            return _start(job, result, options, mode)
        except AnalysisException as error:
            # For an SQL query of the user, only Spark knows the allowed output mode.
            if not str(error.getCondition()).startswith("STREAMING_OUTPUT_MODE"):
                raise
    return _start(job, result, options, allowed[-1])


def _start(job: Job, result: "DataFrame", options: JobOptions, mode: str) -> StartedJob:
    kind, name = sink_of(options.sink)
    shaped = as_records(job, result) if kind == "topic" else result
    writer = shaped.writeStream.queryName(name if kind == "memory" else _free_name(result, job.name))
    writer = writer.outputMode(mode)
    writer = resumable(writer, job, result, options, mode)
    if kind == "console":
        return StartedJob(writer.foreachBatch(_print).start())
    if kind == "topic":
        settings = {"transactional": "true"} if options.connector == "yak" else {}
        settings |= {**source_settings(options), "topic": name}
        if mode == "append" or options.connector != "yak":
            return StartedJob(writer.format(options.connector).options(**settings).start())
        return StartedJob(writer.foreachBatch(_Sender(settings)).start())
    if kind == "parquet":
        assert options.checkpoint_dir is not None, "the options ask for it"
        checkpoint.claim_folder(result.sparkSession, name, options.checkpoint_dir)
        return StartedJob(writer.format("parquet").option("path", name).start())
    query = writer.format("memory").start()
    return StartedJob(query, result.sparkSession.table(name))


def _free_name(result: "DataFrame", name: str) -> str:
    """`name`, or name-2, name-3, … if a query of this session already has the name."""
    taken = {query.name for query in result.sparkSession.streams.active}
    return next(each for each in (name, *(f"{name}-{number}" for number in range(2, 1_000))) if each not in taken)


def resumable(writer: "DataStreamWriter", job: Job, result: "DataFrame", options: Any, mode: str) -> "DataStreamWriter":
    """The writer with checkpoint and trigger. Raises UsageError for a checkpoint that the query cannot resume from."""
    if options.checkpoint_dir is not None:
        if sink_of(options.sink)[0] == "memory" and mode != "complete":
            raise unsupported(
                "memory has nothing to resume from",
                f"the table is gone with the process, and {mode} mode does not write it again",
                "leave --checkpoint-dir out",
                "--sink parquet:FOLDER",
            )
        checkpoint.claim(result.sparkSession, job, options, options.checkpoint_dir)
        writer = writer.option("checkpointLocation", options.checkpoint_dir)
    if options.available_now:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=interval(options.trigger))


def output_modes(job: Job, options: JobOptions, kind: str) -> list[str]:
    """The requested mode, or the best one of job and sink; several if only Spark knows. Raises UsageError."""
    allowed = [mode for mode in _MODES[kind] if mode in job.modes(options)]
    if options.output_mode is None:
        return allowed if job.modes_by_spark else allowed[:1]
    if options.output_mode not in allowed:
        raise unsupported(
            f"--output-mode {options.output_mode} does not go with {job.name} into {options.sink}",
            f"that can be {' or '.join(allowed)}",
            f"--output-mode {allowed[0]}",
        )
    return [options.output_mode]


def as_records(job: Job, result: "DataFrame") -> "DataFrame":
    """Rows as records: the job's key columns as key, all columns as a JSON value."""
    from pyspark.sql import functions as f

    value = f.to_json(f.struct(*result.columns), {"ignoreNullFields": "false"})
    if job.keys:
        key = f.concat_ws("|", *[f.col(name).cast("string") for name in job.keys])
    elif {"key", "value"} <= set(result.columns):
        key, value = f.col("key").cast("string"), f.col("value").cast("string")
    else:
        key = f.lit(None).cast("string")
    return result.select(key.cast("binary").alias("key"), value.cast("binary").alias("value"))


def _write_batch(job: Job, result: "DataFrame", options: JobOptions, kind: str, name: str) -> StartedJob:
    if kind == "console":
        return StartedJob(table=result)
    if kind == "topic":
        settings = {**source_settings(options), "topic": name}
        as_records(job, result).write.format(options.connector).options(**settings).mode("append").save()
        return StartedJob()
    if kind == "parquet":
        from yak.spark.jobs.files import Files

        files = Files(result.sparkSession, name)
        if files.names(name):
            raise UsageError(
                "spark-output-exists",
                f"{name} is not empty",
                why="a batch writes its whole result once",
                try_=(f"--sink parquet:{name}-2", "--available-now --checkpoint-dir DIR     to add what is new"),
            )
        result.write.mode("append").parquet(name)
        return StartedJob()
    result.createOrReplaceTempView(name)
    return StartedJob(table=result)


class _Sender:
    """Writes batches of updated rows, because Spark's Python data sources support streams in append mode only."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def __call__(self, batch: "DataFrame", _number: int) -> None:
        """Write one batch as the data source's own stream writer does, one task for each partition."""
        from yak.spark.source.write import StreamWriter, write_options

        writer = StreamWriter(write_options(self._settings, overwrite=False), batch.schema)

        def write(rows: Iterator[Any]) -> Iterator[Any]:
            writer.write(rows)
            yield from ()

        batch.mapInArrow(write, "written boolean").collect()


def _print(batch: "DataFrame", number: int) -> None:
    """Print the first rows. All partitions are computed, since each stores its part of the state when its last row is read."""
    batch.persist()
    try:
        if batch.count():
            sys.stdout.write(f"batch {number}\n")
            batch.show(ROWS_PRINTED, truncate=False)
            sys.stdout.flush()
    finally:
        batch.unpersist()
