"""The Spark demo's scenario: live metrics into YAK, two jobs, Spark killed, a broker killed, all totals checked.

The steps report through a `SparkNarrator`; this module prints nothing.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from yak.client.admin import Admin
from yak.errors import NothingInTime
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.demo.stage import stage
from yak.spark.demo.metrics import SAMPLES_PER_SECOND, TOPIC, MetricsLoad, samples
from yak.spark.demo.pipeline import COUNTS, STATS
from yak.spark.demo.results import Results
from yak.spark.demo.spark_process import SparkProcess, rate_of
from yak.spark.demo.totals import WINDOW_MS, MetricVerdict, Place, Sent, compare

STEPS: Final = 7
BROKERS: Final = 3
MIN_ISR: Final = 2
PARTITIONS: Final = 4
PATIENCE_SECONDS: Final = 120.0
"""Bound for Spark's start, and for catching up, on a slow machine."""
_LOOK_SECONDS: Final = 0.25
_RESULT_PARTITIONS: Final = 2


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot of the pipeline, for display."""

    sent: int
    counted: int
    in_stats: int
    spark: str
    """starting, running or killed; empty before Spark is started."""
    batch: int | None
    records_per_second: float
    brokers: tuple[tuple[int, bool], ...]
    counts: dict[Place, int]
    stats: dict[Place, dict[str, object]]


class SparkNarrator(Protocol):
    """Reports the scenario to the user."""

    def step(self, number: int, title: str) -> None:
        """Report the start of a step."""

    def say(self, text: str) -> None:
        """Report a fact about the current step."""

    def look(self, look: Look) -> None:
        """Report the state of the pipeline; called four times a second."""

    def live(self) -> AbstractContextManager[object]:
        """The context in which `look` is called."""


@dataclass(frozen=True, slots=True)
class SparkDemoSettings:
    """Settings of the demo. `data_dir` None means a new temporary directory, deleted at the end unless `keep`."""

    load_seconds: float
    keep: bool = False
    data_dir: str | None = None


@dataclass(slots=True)
class SparkDemoTimes:
    """Measured times in milliseconds."""

    start_ms: float = 0.0
    spark_start_ms: float = 0.0
    """From the start of Spark's process to the first result in a topic."""
    spark_resume_ms: float = 0.0
    caught_up_ms: float = 0.0
    """From the last record to Spark's result that includes it."""
    total_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SparkDemoResult:
    """The demo's report."""

    settings: SparkDemoSettings
    verdicts: tuple[MetricVerdict, ...]
    results_read: int
    spark_killed: tuple[int, int]
    """Process id, and number of processes that were killed with it."""
    broker_killed: tuple[int, int]
    """Node id and process id."""
    times: SparkDemoTimes
    bootstrap: str
    data_dir: str

    @property
    def holds(self) -> bool:
        """Whether every number of every window equals the producer's own."""
        return bool(self.verdicts) and all(each.holds for each in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "ok": self.holds,
            "sent": sum(each.sent for each in self.verdicts),
            "counted": sum(each.counted for each in self.verdicts),
            "in_stats": sum(each.in_stats for each in self.verdicts),
            "windows": sum(each.windows for each in self.verdicts),
            "differing": sum(each.differing for each in self.verdicts),
            "results_read": self.results_read,
            "spark_killed": {"pid": self.spark_killed[0], "processes": self.spark_killed[1]},
            "broker_killed": {"node_id": self.broker_killed[0], "pid": self.broker_killed[1]},
            "times": {name: round(value, 1) for name, value in asdict(self.times).items()},
            "metrics": [{**asdict(each), "ok": each.holds} for each in self.verdicts],
            "data_dir": self.data_dir if self.settings.keep else None,
            "bootstrap": self.bootstrap if self.settings.keep else None,
        }


def run(settings: SparkDemoSettings, narrator: SparkNarrator) -> SparkDemoResult:
    """Run the scenario. Raises YakError when a part of it cannot start, or Spark or the cluster makes no progress."""
    with stage(settings.data_dir, keep=settings.keep) as (cluster, work):
        story = _Story(settings, narrator, cluster, work)
        try:
            with narrator.live():
                return story.tell()
        finally:
            story.abandon()


@dataclass(slots=True)
class _Story:
    """The scenario's steps, in order; each step leaves its state to the next ones."""

    settings: SparkDemoSettings
    narrator: SparkNarrator
    cluster: LocalCluster
    work: str
    times: SparkDemoTimes = field(default_factory=SparkDemoTimes)
    bootstrap: str = ""
    load: MetricsLoad | None = None
    results: Results | None = None
    spark: SparkProcess | None = None
    brokers: dict[int, bool] = field(default_factory=dict)

    def tell(self) -> SparkDemoResult:
        began = time.monotonic()
        self._start()
        load, results = self._send()
        spark = self._compute(results)
        spark_killed = self._kill_spark(spark, load)
        broker_killed = self._resume(spark, results)
        sent = self._catch_up(load, results, broker_killed[0])
        self.narrator.step(7, "Compare every window with what the producer counted itself")
        verdicts = compare(sent, results.counts(), results.stats())
        self.narrator.say(
            f"{sum(each.windows for each in verdicts)} windows of {WINDOW_MS // 1000} s: count, mean, min, max"
        )
        self._look()
        spark.stop(60.0)
        self.times.total_ms = (time.monotonic() - began) * 1000.0
        return SparkDemoResult(
            self.settings,
            verdicts,
            results.records,
            spark_killed,
            broker_killed,
            self.times,
            self.bootstrap,
            self.cluster.data_dir,
        )

    def abandon(self) -> None:
        """Stop everything that still runs beside the cluster."""
        if self.spark is not None:
            self.spark.abandon()
        if self.load is not None:
            self.load.abandon()
        if self.results is not None:
            self.results.close()

    # ------------------------------------------------------------------------------------------------- the steps

    def _start(self) -> None:
        self.narrator.step(1, f"Start Redis and {BROKERS} brokers")
        up = self.cluster.up(UpSettings(port=0, brokers=BROKERS, leaders=BROKERS))
        self.times.start_ms = up.took_ms
        self.bootstrap = up.status.bootstrap
        self.brokers = {broker.node_id: True for broker in up.status.brokers}
        self.narrator.say(f"ready in {up.took_ms:.0f} ms, Redis included")

    def _send(self) -> tuple[MetricsLoad, Results]:
        say = self.narrator.say
        self.narrator.step(2, "Send this machine's metrics, live")
        admin = Admin(self.bootstrap)
        for topic, partitions in ((TOPIC, PARTITIONS), (COUNTS, _RESULT_PARTITIONS), (STATS, _RESULT_PARTITIONS)):
            admin.create_topic(
                topic, partitions=partitions, replication_factor=BROKERS, configs={"min.insync.replicas": str(MIN_ISR)}
            )
        self.load = load = MetricsLoad(self.bootstrap)
        self.results = results = Results(self.bootstrap, _RESULT_PARTITIONS)
        names = [metric for metric, _ in samples()]
        say(f"{TOPIC}: {', '.join(names)}, {len(names) * SAMPLES_PER_SECOND} records/s")
        say(f"by {load.name}")
        say(f"acks=all, idempotent, {PARTITIONS} partitions of {BROKERS} replicas")
        load.start()
        results.start()
        return load, results

    def _compute(self, results: Results) -> SparkProcess:
        say = self.narrator.say
        self.narrator.step(3, f"Start Spark: the jobs counts and stats, windows of {WINDOW_MS // 1000} s")
        self.spark = spark = SparkProcess(self.bootstrap, self.work)
        began = time.monotonic()
        spark.start()
        self._wait("Spark's first results are there", lambda: min(results.counted()) > 0)
        self.times.spark_start_ms = (time.monotonic() - began) * 1000.0
        say(f"first results {self.times.spark_start_ms / 1000:.1f} s after its start (process {spark.pid})")
        say(f"they go to {COUNTS} and {STATS}; what is shown is read from there")
        self._go_on(self.settings.load_seconds / 3)
        return spark

    def _kill_spark(self, spark: SparkProcess, load: MetricsLoad) -> tuple[int, int]:
        pid = spark.pid or 0
        batch = self._batch()
        self.narrator.step(4, f"Kill Spark in the middle of it: kill -9 {pid}")
        count = spark.kill()
        before = load.acknowledged
        self._go_on(self.settings.load_seconds / 6)
        self.narrator.say(f"{count} processes gone, Java and Python's workers too, after batch {batch}")
        self.narrator.say(f"YAK took {load.acknowledged - before} records meanwhile")
        return pid, count

    def _resume(self, spark: SparkProcess, results: Results) -> tuple[int, int]:
        say = self.narrator.say
        self.narrator.step(5, "Start Spark again on its checkpoints, and kill a broker meanwhile")
        before, began = results.records, time.monotonic()
        spark.start()
        self._go_on(self.settings.load_seconds / 12)
        node = self._leader()
        pid = self.cluster.kill(node).pid
        self.brokers[node] = False
        say(f"broker {node} killed: kill -9 {pid}; it led partition 0 of {TOPIC}")
        self._wait("Spark goes on", lambda: results.records > before)
        self.times.spark_resume_ms = (time.monotonic() - began) * 1000.0
        say(f"Spark's next results {self.times.spark_resume_ms / 1000:.1f} s after its start")
        self._go_on(self.settings.load_seconds / 3)
        return node, pid

    def _catch_up(self, load: MetricsLoad, results: Results, node: int) -> Sent:
        say = self.narrator.say
        self.narrator.step(6, f"Start broker {node} again, stop the metrics, let Spark catch up")
        self.cluster.restart(node)
        self.brokers[node] = True
        self._go_on(self.settings.load_seconds / 12)
        sent = load.finish(60.0)
        began = time.monotonic()
        # A surplus of records ends the wait too; the comparison then shows where it is.
        self._wait("Spark counts all that was sent", lambda: min(results.counted()) >= sent.count, must=False)
        self.times.caught_up_ms = (time.monotonic() - began) * 1000.0
        say(f"{sent.count} records acknowledged; in the results {' and '.join(map(str, results.counted()))}")
        return sent

    # --------------------------------------------------------------------------------------------------- helpers

    def _leader(self) -> int:
        topic = Admin(self.bootstrap).metadata().require_topic(TOPIC)
        return next(each.leader for each in topic.partitions if each.number == 0)

    def _spark_state(self) -> str:
        if self.spark is None:
            return ""
        if self.spark.pid is None:
            return "killed"
        return "running" if self.spark.progress() else "starting"

    def _batch(self) -> int | None:
        progress = self.spark.progress() if self.spark is not None else []
        return progress[-1].get("batch") if progress else None

    def _go_on(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._look()
            time.sleep(min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))

    def _wait(self, what: str, is_so: Callable[[], bool], *, must: bool = True) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                if must:
                    raise NothingInTime("demo-spark", f"{PATIENCE_SECONDS:.0f} s passed before {what}")
                return
            if self.spark is not None and self.spark.pid is None:
                self.spark.check()
            self._look()
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        if self.load is None or self.results is None:
            return
        progress = self.spark.progress() if self.spark is not None else []
        counted, in_stats = self.results.counted()
        self.narrator.look(
            Look(
                self.load.acknowledged,
                counted,
                in_stats,
                self._spark_state(),
                self._batch(),
                rate_of(progress),
                tuple(sorted(self.brokers.items())),
                self.results.counts(),
                self.results.stats(),
            )
        )
