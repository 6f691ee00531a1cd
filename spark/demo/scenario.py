"""`yak demo spark`: live metrics into YAK, two jobs, Spark killed, a broker killed, all totals compared."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil

from yak.attempts import attempts
from yak.client.admin import Admin
from yak.client.connection import IMPATIENT
from yak.client.consume import PartitionReader, Window
from yak.errors import WaitTimeout
from yak.ids import TopicPartition
from yak.local import spark_runs
from yak.local.cluster import UpSettings
from yak.local.demo.child import Child
from yak.local.demo.scenario import FINISH_SECONDS, Reporter, Result, Scenario, Settings
from yak.local.spark_runs import Run
from yak.spark.demo.metrics import SAMPLES_PER_SECOND, TOPIC, MetricsLoad, samples
from yak.spark.demo.pipeline import COUNTS, STATS
from yak.spark.demo.totals import WINDOW_MS, MetricCounts, MetricWindow, compare


class Results:
    """A thread that reads both result topics from their beginning."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, dict[MetricWindow, dict[str, Any]]] = {COUNTS: {}, STATS: {}}
        self.records = 0
        """Results read so far, repeated ones included."""
        self._enough = threading.Event()
        windows = {TopicPartition(t, p): Window(0, None) for t in (COUNTS, STATS) for p in range(partitions)}
        self._reader = PartitionReader(
            bootstrap, windows, extra={**IMPATIENT, "topic.metadata.refresh.interval.ms": 1_000}
        )
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def counts(self) -> dict[MetricWindow, int]:
        """The latest count of each metric and window."""
        with self._lock:
            return {place: row["count"] for place, row in self._rows[COUNTS].items()}

    def stats(self) -> dict[MetricWindow, dict[str, object]]:
        """The latest row of each metric and window."""
        with self._lock:
            return dict(self._rows[STATS])

    def counted(self) -> tuple[int, int]:
        """The sum of records in the results of `counts` and of `stats`."""
        with self._lock:
            first, second = (sum(row["count"] for row in self._rows[topic].values()) for topic in (COUNTS, STATS))
            return first, second

    def abandon(self) -> None:
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._reader.close()

    def _run(self) -> None:
        while not self._enough.is_set():
            for message in self._reader.fetch(500, 0.2):
                row = json.loads(message.value() or b"")
                window_ms = round(datetime.fromisoformat(row["start"]).timestamp() * 1000)
                with self._lock:
                    self.records += 1
                    self._rows[str(message.topic())][row["key"], window_ms] = row


class SparkProcess:
    """One Spark process at a time; `work` holds its checkpoints and logs."""

    def __init__(self, bootstrap: str, work: str) -> None:
        self._bootstrap = bootstrap
        self._work = work
        self._child: Child | None = None
        self._run: Run | None = None

    @property
    def pid(self) -> int:
        """Process id of Spark's Python driver."""
        assert self._child is not None, "it runs"
        return self._child.pid

    def start(self) -> None:
        """Start Spark on the existing checkpoints."""
        self._run = spark_runs.new_run("demo", bootstrap=self._bootstrap, base=Path(self._work, "runs"))
        module = (sys.executable, "-P", "-m", "yak.spark.demo.pipeline")
        environment = {**os.environ, spark_runs.VARIABLE: str(self._run.folder)}
        self._child = Child((*module, self._bootstrap, f"{self._work}/checkpoints"), environment=environment)

    def progress(self) -> list[dict[str, Any]]:
        """The progress of Spark's batches, the latest last."""
        if self._run is None:
            return []
        return [line for line in spark_runs.progress_of(self._run) if line.get("event") == "batch"]

    def batch(self) -> int | None:
        """The number of the latest batch."""
        progress = self.progress()
        return progress[-1].get("batch") if progress else None

    def state(self) -> str:
        """`starting`, `running` or `killed`; empty before the first start."""
        if self._run is None:
            return ""
        if self._child is None:
            return "killed"
        return "running" if self.progress() else "starting"

    def check(self) -> None:
        """Raise the YakError that Spark ended with, if it ended by itself."""
        if self._child is not None and self._child.code is not None:
            assert self._run is not None, "it was started"
            raise spark_runs.error_of(self._run) or self._child.failure("Spark", "demo-spark")

    def kill(self) -> int:
        """`kill -9` Spark, Java and Python's workers, and wait until all have ended; return their number."""
        assert self._child is not None, "it runs"
        tree = psutil.Process(self._child.pid)
        doomed = [*tree.children(recursive=True), tree]
        for process in doomed:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._child.end()
        self._child = None
        psutil.wait_procs(doomed[:-1], timeout=10)
        return len(doomed)

    def stop(self, timeout_seconds: float) -> None:
        """Stop Spark gracefully. If it does not end in time, kill it and raise WaitTimeout."""
        assert self._child is not None, "it runs"
        psutil.Process(self._child.pid).terminate()
        for _ in attempts(timeout_seconds, 0.1):
            if self._child.code is not None:
                return
        self.kill()
        raise WaitTimeout("demo-spark", f"Spark did not end within {timeout_seconds:.0f} s")

    def abandon(self) -> None:
        """Kill Spark if it runs."""
        if self._child is not None and self._child.code is None:
            self.kill()


def rate_of(progress: list[dict[str, Any]]) -> float:
    """Records per second in one query's batches of the last 10 seconds."""
    now_ms = time.time_ns() // 1_000_000
    recent = [line for line in progress if line["time_ms"] > now_ms - 10_000 and line.get("query") == "counts"]
    return sum(line.get("input_rows") or 0 for line in recent) / 10


BROKERS: Final = 3
PARTITIONS: Final = 4
_RESULT_PARTITIONS: Final = 2
_STOP_SECONDS: Final = 60.0
_SUMS: Final = {
    "sent": "sent",
    "counted": "counted",
    "in_stats": "in stats",
    "windows": "",
    "differing": "differing windows",
}
"""The summed counts, and their names for people."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the pipeline, for display."""

    sent: int
    counted: int
    in_stats: int
    spark: str
    """starting, running or killed; empty before Spark is started."""
    batch: int | None
    records_per_second: float
    brokers: tuple[tuple[int, bool], ...]
    counts: dict[MetricWindow, int]
    stats: dict[MetricWindow, dict[str, object]]

    def summary(self) -> str:
        """The state in one line."""
        spark = f"Spark batch {self.batch}" if self.spark == "running" else f"Spark {self.spark or 'comes next'}"
        down = [str(node) for node, is_up in self.brokers if not is_up]
        brokers = f"broker {', '.join(down)} is dead" if down else f"{len(self.brokers)} brokers"
        return f"sent {self.sent}, counted {self.counted}; {spark}; {brokers}"


class SparkScenario(Scenario):
    """Start, send, compute, kill Spark, start it again and kill a broker, catch up, compare."""

    SUMMARY = "Live metrics through YAK and Spark; both killed on the way; every window checked."
    TIMES = (
        "spark_start_ms",  # from the start of Spark's process to the first result in a topic
        "spark_resume_ms",
        "caught_up_ms",  # from the last record to Spark's result that includes it
    )
    ERROR = "demo-spark"
    PATIENCE_SECONDS = 120.0
    """Bound for Spark's start, and for catching up, on a slow machine."""
    POLL_SECONDS = 0.25
    load: MetricsLoad
    results: Results
    spark: SparkProcess

    def __init__(self, settings: Settings, reporter: Reporter) -> None:
        super().__init__(settings, reporter)
        self.brokers: dict[int, bool] = {}
        self.spark_killed: dict[str, int] = {}
        self.broker_killed: dict[str, int] = {}
        self.found: tuple[MetricCounts, ...] = ()

    def steps(self) -> Sequence[Callable[[], None]]:
        return (
            self._start_brokers, self._send, self._compute, self._kill_spark, self._resume, self._catch_up, self._compare,
        )  # fmt: skip

    def _start_brokers(self) -> None:
        status = self.start(UpSettings(port=0, brokers=BROKERS, leaders=BROKERS))
        self.brokers = {broker.node_id: True for broker in status.brokers}
        self.say(f"ready in {self.times['start_ms']:.0f} ms, Redis included")

    def _send(self) -> None:
        self.step("Send this machine's metrics, live")
        for topic, partitions in ((TOPIC, PARTITIONS), (COUNTS, _RESULT_PARTITIONS), (STATS, _RESULT_PARTITIONS)):
            self.create_topic(topic, partitions=partitions, replication_factor=BROKERS)
        self.load = MetricsLoad(self.bootstrap)
        self.results = Results(self.bootstrap, _RESULT_PARTITIONS)
        self.spark = SparkProcess(self.bootstrap, self.work)
        self.parts.append(self.spark)
        names = [metric for metric, _ in samples()]
        self.say(f"{TOPIC}: {', '.join(names)}, {len(names) * SAMPLES_PER_SECOND} records/s")
        self.say(f"by {self.load.name}")
        self.say(f"acks=all, idempotent, {PARTITIONS} partitions of {BROKERS} replicas")
        self.start_load(self.load, self.results)

    def _compute(self) -> None:
        self.step(f"Start Spark: the jobs counts and stats, windows of {WINDOW_MS // 1000} s")
        began = time.monotonic()
        self.spark.start()
        self.wait("Spark's first results are there", lambda: min(self.results.counted()) > 0)
        took_ms = self.took("spark_start_ms", began)
        self.say(f"first results {took_ms / 1000:.1f} s after its start (process {self.spark.pid})")
        self.say(f"they go to {COUNTS} and {STATS}; what is shown is read from there")
        self.poll_for(self.settings.load_seconds / 3)

    def _kill_spark(self) -> None:
        pid, batch = self.spark.pid, self.spark.batch()
        self.step(f"Kill Spark in the middle of it: kill -9 {pid}")
        count = self.spark.kill()
        self.spark_killed = {"pid": pid, "processes": count}
        before = self.load.sent.count
        self.poll_for(self.settings.load_seconds / 6)
        self.say(f"{count} processes gone, Java and Python's workers too, after batch {batch}")
        self.say(f"YAK took {self.load.sent.count - before} records meanwhile")

    def _resume(self) -> None:
        self.step("Start Spark again on its checkpoints, and kill a broker meanwhile")
        before, began = self.results.records, time.monotonic()
        self.spark.start()
        self.poll_for(self.settings.load_seconds / 12)
        topic = Admin(self.bootstrap).metadata().require_topic(TOPIC)
        node = next(each.leader for each in topic.partitions if each.number == 0)
        pid = self.cluster.kill(node).pid
        self.broker_killed = {"node_id": node, "pid": pid}
        self.brokers[node] = False
        self.say(f"broker {node} killed: kill -9 {pid}; it led partition 0 of {TOPIC}")
        self.wait("Spark goes on", lambda: self.results.records > before)
        took_ms = self.took("spark_resume_ms", began)
        self.say(f"Spark's next results {took_ms / 1000:.1f} s after its start")
        self.poll_for(self.settings.load_seconds / 3)

    def _catch_up(self) -> None:
        node = self.broker_killed["node_id"]
        self.step(f"Start broker {node} again, stop the metrics, let Spark catch up")
        self.cluster.restart(node)
        self.brokers[node] = True
        self.poll_for(self.settings.load_seconds / 12)
        self.load.finish(FINISH_SECONDS)
        began, count = time.monotonic(), self.load.sent.count
        # A surplus of records ends the wait too, and so does its time: the comparison then shows where they differ.
        until = began + self.PATIENCE_SECONDS
        self.wait(
            "Spark counts all that was sent",
            lambda: min(self.results.counted()) >= count or time.monotonic() > until,
        )
        self.took("caught_up_ms", began)
        counted = " and ".join(map(str, self.results.counted()))
        self.say(f"{count} records acknowledged; in the results {counted}")

    def _compare(self) -> None:
        self.step("Compare every window with what the producer counted itself")
        self.found = compare(self.load.sent, self.results.counts(), self.results.stats())
        windows = sum(each.windows for each in self.found)
        self.say(f"{windows} windows of {WINDOW_MS // 1000} s: count, mean, min, max")
        self.poll()
        self.spark.stop(_STOP_SECONDS)

    def result(self) -> Result:
        sums = {name: sum(getattr(each, name) for each in self.found) for name in _SUMS}
        first_ms, second_ms = self.times["spark_start_ms"] or 0.0, self.times["spark_resume_ms"] or 0.0
        records = self.results.records
        notes = [
            ", ".join(f"{label} {sums[name]}" for name, label in _SUMS.items() if label),
            f"results read {records}: a window is written again when it changes, and after a crash",
            f"first results {first_ms / 1000:.1f} s after Spark's start, {second_ms / 1000:.1f} s after the second",
            f"the whole demo {(self.times['total_ms'] or 0.0) / 1000:.0f} s",
        ]
        commands = [
            ("yak spark jobs", "what else there is"),
            ("yak demo spark --keep", "this again, and leave the cluster running"),
        ]
        if self.settings.keep:
            to = f"-b {self.bootstrap.partition(',')[0]} --to latest --follow"
            commands = [
                (f"yak spark run stats -t server_metrics --field value {to}", ""),
                (f"yak down --data-dir {self.where}", ""),
            ]
        fields = {
            **sums,
            "results_read": records,
            "spark_killed": self.spark_killed,
            "broker_killed": self.broker_killed,
            "metrics": [{**asdict(each), "ok": each.holds} for each in self.found],
            **self.common_fields(),
        }
        holds = bool(self.found) and all(each.holds for each in self.found)
        rows = [asdict(each) for each in self.found]
        return Result(holds, "every window is exactly what the producer counted", rows, notes, commands, fields)

    def poll(self) -> None:
        """Report the state of the pipeline. Raises the YakError that Spark ended with, if it ended by itself."""
        if not self.parts:
            return
        self.spark.check()
        counted, in_stats = self.results.counted()
        snapshot = Snapshot(
            self.load.sent.count,
            counted,
            in_stats,
            self.spark.state(),
            self.spark.batch(),
            rate_of(self.spark.progress()),
            tuple(sorted(self.brokers.items())),
            self.results.counts(),
            self.results.stats(),
        )
        self.reporter.progress(snapshot.summary(), snapshot)
