"""YAK's Spark source against Spark's own Kafka connector: the same broker, the same session, one after the other.

Parts: `batch` (5 million records of 100 B on local[2]), `stream` (rows a second while catching up), `latency` (from a
record's timestamp to its batch's result at 20,000 messages a second), `scale` (1 to 16 partitions on a standalone cluster
of a master and two workers). Needs Java 17; Maven for the other connector, which is left out where it cannot be had.
"""

import argparse
import contextlib
import json
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from on_spark.connector_jars import connector_jars
from on_spark.loads import Rate, batch_read, batch_sum, latencies_ms, stream_rate
from on_spark.sessions import end_session, make_session
from on_spark.standalone import standalone
from on_spark.topics import fill, make_topic
from versus.kafka_jars import Missing, Refused

from yak.local.cluster import LocalCluster, UpSettings

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("batch", "stream", "latency", "scale")
SIZE_BYTES = 100
PARTITIONS = 2
SCALE = (1, 2, 4, 8, 16)
TINY = 1600
"""Records of a topic whose reading is nothing but planning and starting tasks."""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be repeated (default: all)")
    parser.add_argument("--records", type=int, default=5_000_000, help="of a topic (default 5 million)")
    parser.add_argument("--rounds", type=int, default=3, help="of each connector, taken in turn (default 3)")
    parser.add_argument("--seconds", type=int, default=30, help="of the latency part (default 30)")
    parser.add_argument("--rate", type=int, default=20_000, help="messages a second of the latency part")
    parser.add_argument("--per-trigger", type=int, default=1_000_000, help="maxOffsetsPerTrigger of the stream part")
    parser.add_argument("--only", choices=("yak", "kafka"), help="one connector alone")
    parser.add_argument("--json", type=Path, default=ROOT / "build/bench-spark.json", help="all figures")
    return parser.parse_args(argv)


class Bench:
    def __init__(self, options: argparse.Namespace, folder: Path, local: LocalCluster, jars: list[Path]) -> None:
        self.options = options
        self.folder = folder
        self.jars = jars
        broker = local.status().brokers[0]
        self.bootstrap = broker.address
        self.pids = [broker.pid] if broker.pid else []
        self.formats = [options.only] if options.only else ["yak", "kafka"] if jars else ["yak"]
        self.found: dict[str, Any] = {}
        self._folders = 0

    def new_folder(self, name: str) -> Path:
        self._folders += 1
        made = self.folder / f"{name}-{self._folders}"
        made.mkdir()
        return made

    @contextlib.contextmanager
    def session(self, master: str = "local[2]", **more: str) -> Iterator[Any]:
        made = make_session(self.new_folder("session"), self.jars, master, **more)
        try:
            yield made
        finally:
            end_session(made)

    def full_topic(self, name: str, partitions: int, records: int) -> str:
        make_topic(self.bootstrap, name, partitions)
        fill(self.bootstrap, name, partitions, records, SIZE_BYTES)
        return name

    # ------------------------------------------------------------------------------------------------------ parts

    def batch(self, session: Any, topic: str) -> None:
        rows, rates = self.options.records, {format_: list[Rate]() for format_ in self.formats}
        sums: dict[str, list[float]] = {format_: [] for format_ in self.formats}
        for number in range(self.options.rounds + 1):
            for format_ in self.formats:
                rate = batch_read(session, format_, self.bootstrap, topic, rows, self.pids)
                summed = batch_sum(session, format_, self.bootstrap, topic, rows, self.pids)
                if number:  # the first grows the JVM warm
                    rates[format_].append(rate)
                    sums[format_].append(summed.rows_per_s)
        for format_, each in rates.items():
            cpu = {
                kind: round(statistics.median(one.cpu_s_per_million[kind] for one in each), 2)
                for kind in each[0].cpu_s_per_million
            }
            self.put(f"batch {format_}", "rows/s", [one.rows_per_s for one in each], f"CPU s a million rows {cpu}")
            self.put(f"batch sum {format_}", "rows/s", sums[format_])

    def stream(self, session: Any, topic: str) -> None:
        for format_ in self.formats * max(1, self.options.rounds - 1):
            folder = self.new_folder("checkpoint")
            rate, durations = stream_rate(
                session, format_, self.bootstrap, topic, self.options.records, folder, self.options.per_trigger
            )
            self.put(f"stream {format_}", "rows/s", [rate], f"ms a batch {durations}")

    def latency(self, session: Any) -> None:
        """One after the other, each with a topic of its own."""
        for format_ in self.formats:
            topic = f"latency-{format_}"
            make_topic(self.bootstrap, topic, PARTITIONS)
            folder = self.new_folder("checkpoint")
            found, came = latencies_ms(
                session, format_, self.bootstrap, topic, PARTITIONS, self.options.rate, self.options.seconds, folder
            )
            p50, p95, p99 = np.percentile(found, (50, 95, 99))
            self.put(f"latency {format_}", "ms p95", [p95], f"p50 {p50:.0f}, p99 {p99:.0f}, {came:,.0f} messages/s")

    def scale(self) -> None:
        """The same records in 1 to 16 partitions, read by two executors of one core; and next to none, for the fixed cost."""
        topics = {count: self.full_topic(f"scale-{count}", count, self.options.records) for count in SCALE}
        tiny = {count: self.full_topic(f"tiny-{count}", count, TINY) for count in SCALE}
        with (
            standalone(self.new_folder("cluster"), workers=2) as master,
            self.session(master, **{"spark.executor.memory": "900m", "spark.cores.max": "2"}) as session,
        ):
            for format_ in self.formats:
                for count, topic in [(2, topics[2]), *topics.items()]:
                    rates = [
                        batch_read(session, format_, self.bootstrap, topic, self.options.records, self.pids).rows_per_s
                        for _ in range(self.options.rounds)
                    ]
                    self.found.pop(f"scale {format_} {count}", None)  # the first of 2 partitions grew the JVMs warm
                    self.put(f"scale {format_} {count}", "rows/s", rates)
                for count, topic in tiny.items():
                    rates = [
                        batch_read(session, format_, self.bootstrap, topic, TINY, self.pids).rows_per_s
                        for _ in range(2 * self.options.rounds)
                    ]
                    self.put(f"fixed {format_} {count}", "ms a query", [1000 * TINY / rate for rate in rates])

    def put(self, name: str, unit: str, values: list[float], note: str = "") -> None:
        self.found.setdefault(name, []).extend(values)
        figures = " ".join(f"{value:,.0f}" for value in values)
        say(f"{name:<18} {statistics.median(values):>12,.0f} {unit}   ({figures}) {note}")


def run(options: argparse.Namespace, folder: Path, local: LocalCluster) -> None:
    import pyspark

    try:
        jars = [] if options.only == "yak" else connector_jars(ROOT / "build/spark-connector", pyspark.__version__)
        say("against " + (jars[0].name if jars else "nothing"))
    except (Missing, Refused) as missing:
        jars = []
        say(f"YAK alone: {missing}")
    bench = Bench(options, folder, local, jars)
    parts = options.part or PARTS
    if {"batch", "stream", "latency"} & set(parts):
        full = {"batch", "stream"} & set(parts)
        topic = bench.full_topic("full", PARTITIONS, options.records) if full else ""
        with bench.session() as session:
            if "batch" in parts:
                bench.batch(session, topic)
            if "stream" in parts:
                bench.stream(session, topic)
            if "latency" in parts:
                bench.latency(session)
    if "scale" in parts:
        bench.scale()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(bench.found, indent=1))


def main() -> None:
    options = arguments(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended also then
    folder = Path(tempfile.mkdtemp(prefix="yak-bench-spark-"))
    local = LocalCluster(str(folder / "cluster"))
    try:
        local.up(UpSettings(port=0, brokers=1, leaders=1, no_http=True))
        run(options, folder, local)
    finally:
        local.discard()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
