"""Topics as DataFrames for the jobs: raw records, and records with key, time and a JSON field as columns."""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from yak.spark.driver.settings import one_of
from yak.spark.jobs.options import (
    RECORD_MODES,
    JobOptions,
    ReadOptions,
    duration_ms,
    end_of,
    key_values,
    start_options,
)
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_Reading = TypeVar("_Reading", bound=ReadOptions)
_YEARS_MS: Final = (-62_135_596_800_000, 253_402_300_799_999)
"""The first and the last millisecond of the years 1 to 9999, in UTC."""


@dataclass(frozen=True, kw_only=True)
class EventOptions(JobOptions):
    """Options for records as events, with a key and a time."""

    key_field: str | None = flag(
        "--key-field", "Group by this field of a JSON value.  [the record's key]", metavar="PATH"
    )
    time_field: str | None = flag(
        "--time-field",
        "When it happened: epoch ms or ISO-8601 in a JSON value.  [the record's timestamp]",
        metavar="PATH",
    )
    watermark: str = flag("--watermark", "How late a record may come.", metavar="DURATION", default="10s")
    mode: str = flag(
        "--mode",
        "Values that are not JSON with the fields asked for: permissive (null), dropmalformed or failfast.",
        metavar="MODE",
        default="permissive",
    )

    def check(self) -> None:
        super().check()
        one_of("--mode", self.mode, RECORD_MODES)
        duration_ms(self.watermark)


def of_topic(options: _Reading, topic: str, topics: Collection[str]) -> _Reading:
    """The options for one of the topics that a job reads apart: of offsets as JSON, only those of this topic."""

    def own(text: str) -> str:
        found = json.loads(text) if text.strip().startswith("{") else {}
        return json.dumps({topic: found[topic]}) if topic in found and found.keys() <= set(topics) else text

    to = None if options.to is None else own(options.to)
    return replace(options, topic=topic, from_=own(options.from_), to=to)


def records(spark: "SparkSession", options: ReadOptions) -> "DataFrame":
    """The records of the topics, in the columns of Spark's Kafka source; a batch if `--to` is set."""
    reader = spark.read if options.is_batch else spark.readStream
    settings = {"subscribe": options.topic, **start_options(options.from_)}
    before_ms = None
    if options.to is not None:
        ending, before_ms = end_of(options.to)
        settings |= ending
    if options.max_offsets_per_trigger is not None and not options.is_batch:
        settings["maxOffsetsPerTrigger"] = str(options.max_offsets_per_trigger)
    settings |= source_settings(options)
    frame = reader.format(options.connector).options(**settings).load()
    if before_ms is not None:
        from pyspark.sql import functions as f

        frame = frame.where(f.col("timestamp") < f.timestamp_millis(f.lit(before_ms)))
    return frame


def source_settings(options: ReadOptions) -> dict[str, str]:
    """The broker settings, for both connectors."""
    settings = {"kafka.bootstrap.servers": options.bootstrap}
    if options.connector == "yak":
        settings["isolation"] = options.isolation
    else:
        settings["kafka.isolation.level"] = options.isolation
    return settings | key_values("--option", options.option)


def events(spark: "SparkSession", options: EventOptions) -> "DataFrame":
    """The records with `key`, `record_key` and `value` as text, and `time`; a missing `key` is ""."""
    return keyed(spark, options).fillna("", ["key"])


def keyed(spark: "SparkSession", options: EventOptions) -> "DataFrame":
    """`events` with null for a missing key: the record's own, or the field that --key-field names."""
    from pyspark.sql import functions as f

    frame = records(spark, options)
    text = f.col("value").cast("string")
    record_key = f.col("key").cast("string")
    frame = frame.select(
        (record_key if options.key_field is None else json_field(text, options.key_field)).alias("key"),
        record_key.alias("record_key"),
        text.alias("value"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        (f.col("timestamp") if options.time_field is None else json_time(text, options.time_field)).alias("time"),
    )
    if options.key_field is not None:
        frame = mind(frame, f.col("key").isNotNull(), f"no field {options.key_field}", options.mode)
    if options.time_field is not None:
        frame = mind(frame, f.col("time").isNotNull(), f"no time at {options.time_field}", options.mode)
    return frame.where(f.col("time").isNotNull())


def numbers(spark: "SparkSession", options: EventOptions, path: str) -> "DataFrame":
    """`events` with `number`, the JSON field at `path`; null if it is missing and the mode is permissive."""
    from pyspark.sql import functions as f

    number = json_field(f.col("value"), path).try_cast("double")
    frame = events(spark, options).withColumn("number", number)
    return mind(frame, f.col("number").isNotNull(), f"no number at {path}", options.mode)


def mind(frame: "DataFrame", is_good: "Column", what: str, mode: str) -> "DataFrame":
    """Handle records with an invalid value by `mode`: keep them, drop them, or fail."""
    from pyspark.sql import functions as f

    if mode == "permissive":
        return frame
    if mode == "dropmalformed":
        return frame.where(is_good)
    place = f.concat_ws("/", "topic", f.col("partition").cast("string"), f.col("offset").cast("string"))
    # `yak.spark.driver.errors` parses this line from Spark's error text. Its mark is split into two pieces, because Spark
    # also prints the query's plan, which contains this expression.
    said = f" is malformed: its value is not JSON, or has {what}. Try: --mode permissive; or --mode dropmalformed"
    message = f.concat(f.lit("Source"), f.lit("Error: [spark-json] record "), place, f.lit(said))
    return frame.where(f.when(is_good, f.lit(True)).otherwise(f.raise_error(message).cast("boolean")))


def json_path(path: str) -> str:
    """`cpu.user` in the syntax of get_json_object."""
    return path if path.startswith("$") else f"$.{path}"


def json_field(text: "Column", path: str) -> "Column":
    """A field of JSON text, as text; null if it is missing or the text is not JSON."""
    from pyspark.sql import functions as f

    return f.get_json_object(text, json_path(path))


def json_time(text: "Column", path: str) -> "Column":
    """A field of JSON text as a timestamp: epoch milliseconds or ISO-8601; null for anything else."""
    from pyspark.sql import functions as f

    found = json_field(text, path)
    epoch_ms = found.try_cast("bigint")
    # Microseconds and nanoseconds would be years after 9999, which Python does not have, or end the query.
    epoch_ms = f.when(epoch_ms.between(*_YEARS_MS), epoch_ms)
    return f.coalesce(f.timestamp_millis(epoch_ms), f.try_to_timestamp(found))
