"""`join`: joins records of two topics by key and time distance."""

from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING

from yak.spark.driver.settings import one_of
from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.options import duration_ms, interval
from yak.spark.jobs.topic_frames import EventOptions, keyed, of_topic
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Options(EventOptions):
    """Options of `join`."""

    with_: str = flag("--with", "The topic to join with.", metavar="NAME", default=MISSING)
    within: str = flag("--within", "Distance in time, before or after.", metavar="DURATION", default="10m")
    kind: str = flag(
        "--kind", "inner; or left: unmatched records too, once no match can come.", metavar="KIND", default="inner"
    )
    with_key_field: str | None = flag(
        "--with-key-field", "As --key-field, of the other topic.  [the same]", metavar="PATH"
    )

    def check(self) -> None:
        super().check()
        one_of("--kind", self.kind, ("inner", "left"))
        duration_ms(self.within)
        if "," in self.topic or "," in self.with_:
            raise unsupported(
                "join takes one topic on each side", "sides are told apart by topic", "-t orders --with payments"
            )


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Pairs of a record of --topic and one of --with that have the same key and are at most --within apart in time.

    A record without a key has no pair. Both sides are kept in Spark's state store until the watermark says that nothing
    can join them any more. With --kind left, an unmatched record of --topic comes then, with nulls.
    """
    import dataclasses

    from pyspark.sql import functions as f

    topics = (options.topic, options.with_)
    other = dataclasses.replace(options, key_field=options.with_key_field or options.key_field)
    left = _side(keyed(spark, of_topic(options, options.topic, topics)), options, "")
    right = _side(keyed(spark, of_topic(other, options.with_, topics)), options, "with_")
    near = f.expr(
        f"key = with_key AND with_time >= time - INTERVAL '{_seconds(options.within)}' SECOND "
        f"AND with_time <= time + INTERVAL '{_seconds(options.within)}' SECOND"
    )
    joined = left.join(right, near, "left_outer" if options.kind == "left" else "inner")
    return joined.select(
        "key", "time", "value", "partition", "offset", "with_time", "with_value", "with_partition", "with_offset"
    )


def _side(rows: "DataFrame", options: Options, prefix: str) -> "DataFrame":
    from pyspark.sql import functions as f

    named = rows.select(*[f.col(name).alias(prefix + name) for name in ("key", "time", "value", "partition", "offset")])
    return named.withWatermark(prefix + "time", interval(options.watermark))


def _seconds(duration: str) -> str:
    """A duration as an SQL interval in seconds."""
    return f"{duration_ms(duration) / 1000.0:.3f}"


JOB = Job(
    "join",
    "Pairs of records of two topics with one key, close in time.",
    Options,
    build,
    keys=("key",),
    identity=("with_", "within", "kind", "key_field", "with_key_field", "time_field", "watermark", "mode"),
    examples=("yak spark run join -t orders --with payments --key-field order_id --within 10m",),
)
