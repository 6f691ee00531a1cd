"""`anomaly`: finds values far from their key's previous values, by an exponentially weighted mean and variance."""

import math
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any

from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.topic_frames import EventOptions, numbers
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_RESULT = (
    "key string, topic string, partition int, offset long, time timestamp, "
    "number double, mean double, deviation double, z double"
)
_STATE = "seen long, mean double, variance double"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True, kw_only=True)
class Options(EventOptions):
    """Options of `anomaly`."""

    field: str = flag("--field", "A number in a JSON value.", metavar="PATH", default=MISSING)
    alpha: float = flag("--alpha", "Weight of the newest value.", metavar="0..1", default=0.1)
    threshold: float = flag("--threshold", "How many deviations are too many.", metavar="Z", default=4.0)
    warm_up: int = flag("--warm-up", "Values of a key before the next ones are scored.", metavar="N", min=2, default=20)

    def check(self) -> None:
        super().check()
        if not 0.0 < self.alpha < 1.0 or self.threshold <= 0.0:
            raise unsupported("--alpha or --threshold out of range", "alpha is between 0 and 1, a threshold above 0")


_FARTHEST = 1e150
"""A value farther from the mean counts as that far: its square is infinite, and an infinite variance would stay so."""


@dataclass(slots=True)
class RunningStatistics:
    """Running statistics of one key: number of values, weighted mean and variance (West, 1979)."""

    seen: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def score(self, number: float) -> float | None:
        """Distance of a value from the mean in standard deviations; None when all earlier values were equal to it."""
        if number == self.mean:
            return 0.0
        return (number - self.mean) / math.sqrt(self.variance) if self.variance > 0.0 else None

    def add(self, number: float, alpha: float) -> None:
        """Add a value; an infinite one would stay in the mean, and is left out."""
        if math.isinf(number):
            return
        if self.seen == 0:
            self.mean = number
        else:
            difference = max(-_FARTHEST, min(_FARTHEST, number - self.mean))
            self.mean += alpha * difference
            self.variance = (1.0 - alpha) * (self.variance + alpha * difference * difference)
        self.seen += 1


def outliers(
    running: RunningStatistics, rows: list[Any], options: Options
) -> Iterator[tuple[Any, float, float, float | None]]:
    """Score the rows in offset order and add each to `running`; return the outliers as (row, mean, deviation, z).

    Mean and deviation are those before the row. A batch's rows of a key come unordered. Where all records of a key are in
    one partition, offset order, and with it the result, does not depend on how records were split into batches.
    """
    for row in sorted(rows, key=lambda row: (row.topic, row.partition, row.offset)):
        mean, deviation = running.mean, math.sqrt(running.variance)
        z = running.score(row.number)
        if running.seen >= options.warm_up and (z is None or abs(z) >= options.threshold):
            yield row, mean, deviation, z
        running.add(row.number, options.alpha)


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """Values whose distance from their key's running mean is at least --threshold running deviations.

    Mean and variance are exponentially weighted (--alpha) and kept per key in Spark's state store (transformWithState,
    RocksDB). A value is scored by those before it, then added. `z` is null if all values before were equal.
    """
    from pyspark.sql import functions as f

    rows = numbers(spark, options, options.field).where(f.col("number").isNotNull())
    # NaN would stay in the mean for ever.
    rows = rows.where(~f.isnan("number")).select("key", "topic", "partition", "offset", "time", "number")
    return rows.groupBy("key").transformWithState(
        statefulProcessor=_processor(options), outputStructType=_RESULT, outputMode="Append", timeMode="None"
    )


def _processor(options: Options) -> Any:
    """The stateful processor. It is defined here because its base class is pyspark's."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Ewma(StatefulProcessor):
        """Stores one `RunningStatistics` per key."""

        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("ewma", _STATE)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803 - Spark's names
            stored = self._state.get() if self._state.exists() else None
            running = RunningStatistics(*stored) if stored is not None else RunningStatistics()
            found = [
                Row(
                    key=key[0],
                    topic=row.topic,
                    partition=row.partition,
                    offset=row.offset,
                    time=row.time,
                    number=row.number,
                    mean=mean,
                    deviation=deviation,
                    z=z,
                )
                for row, mean, deviation, z in outliers(running, list(rows), options)
            ]
            self._state.update((running.seen, running.mean, running.variance))
            yield from found

        def close(self) -> None:
            """Nothing to close."""

    return Ewma()


JOB = Job(
    "anomaly",
    "Values of a JSON field far from their key's own running mean.",
    Options,
    build,
    keys=("key", "offset"),
    identity=("field", "alpha", "threshold", "warm_up", "key_field", "time_field", "mode"),
    conf=(("spark.sql.streaming.stateStore.providerClass", ROCKSDB),),
    examples=("yak spark run anomaly -t server_metrics --field load_1m --threshold 5",),
)
