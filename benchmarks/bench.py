"""`make bench`: YAK beside Apache Kafka on one screen, in less than 15 minutes.

    python benchmarks/bench.py [--json FILE] [--quick]

Rate, processor time of a record, median and p99, memory, start, idle, replication and kill -9, each with the ratio
YAK / Kafka; rows in which Kafka is better are red and begin with "!". Without Java or Maven YAK is measured alone.
Ctrl+C ends it, and prints what is there; so does the end of the time, on a busy machine. `--quick` is a smoke run with
small loads; `make bench-kafka` has all rows.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from bench_kafka import end_on_signal, say
from versus.brokers import Broker, KafkaBroker, running
from versus.cluster_rounds import ClusterPlan, FailoverRounds, ReplicationRounds, Side
from versus.idle_cost import Standing
from versus.kafka_cluster import KafkaCluster
from versus.kafka_jars import COMPARED_VERSION, Missing, Refused, compared_jars, java_version
from versus.rounds import Plan, Rounds
from versus.screen import screen_lines
from versus.table import Row, write_json
from versus.yak_broker import YakBroker
from versus.yak_cluster import YakCluster

from yak.client.bench.result import machine, machine_line
from yak.errors import YakError
from yak.local.bench.replication import BulkLoad

ROOT = Path(__file__).resolve().parents[1]
SECONDS_MAX = 870
"""After this it ends, and prints what is there: on a busy machine."""
ONE_BROKER_SECONDS = 270.0
"""No further round of one broker begins after this; the other parts take about six minutes on two cores."""

CONFIGS = ("max.connections.per.ip=2000",)
"""YAK's default is 1,000: the measured connections and one for metadata."""


class Bench:
    def __init__(self, jars: Path | None, folder: Path, *, is_quick: bool) -> None:
        self._jars = jars
        self._folder = folder
        self._is_quick = is_quick
        self._made = 0
        self.is_whole = True
        """Whether no part failed so far."""
        self._parts: list[Callable[[], list[Row]]] = []

    def rows(self) -> list[Row]:
        """Those that both sides have."""
        return [row for part in self._parts for row in part()]

    def run(self) -> None:
        """Measure everything; a part in which a broker or a load fails ends, and the next one begins."""
        for part in (self._one_broker, self._standing, self._three_brokers):
            try:
                part()
            except (RuntimeError, YakError, OSError) as error:
                self.is_whole = False
                say(f"a part ended with an error: {error} {getattr(error, 'why', '')}".rstrip())

    def _standing(self) -> None:
        standing = Standing(self._fresh(), say, is_quick=self._is_quick)
        self._parts.append(standing.table.rows)
        standing.run()

    def _new_folder(self, name: str) -> Path:
        self._made += 1
        return self._folder / f"{name}-{self._made}"

    def _fresh(self) -> dict[str, Callable[[], Broker]]:
        found: dict[str, Callable[[], Broker]] = {"yak": lambda: YakBroker(self._new_folder("yak"), configs=CONFIGS)}
        jars = self._jars
        if jars is not None:
            found["kafka"] = lambda: KafkaBroker(jars, self._new_folder("kafka"))
        return found

    def _one_broker(self) -> None:
        scale = 20 if self._is_quick else 1
        plan = Plan(
            rounds=1 if self._is_quick else 3,
            cells=[BulkLoad(100, 8, 3_000_000 // scale), BulkLoad(1000, 8, 600_000 // scale, 20)],
            requests=30_000 // scale,
            latency_s=1.0 if self._is_quick else 4.0,
            java_records={},
            is_per_record=True,
            seconds_max=ONE_BROKER_SECONDS,
        )
        fresh = self._fresh()
        with ExitStack() as stack:
            sides = [stack.enter_context(running(make())) for make in fresh.values()]
            rounds = Rounds(sides, fresh, self._jars or self._folder, plan, say)
            self._parts.append(rounds.table.rows)
            rounds.run()

    def _three_brokers(self) -> None:
        scale = 20 if self._is_quick else 1
        plan = ClusterPlan(
            rounds=1 if self._is_quick else 2,
            shapes=(BulkLoad(1000, 16, 400_000 // scale),),
            prepared=(),
            ack_s=1.0 if self._is_quick else 5.0,
            idle_partitions=0,
            idle_s=0.0,
            is_per_record=True,
        )
        sides: list[Side] = [YakCluster(self._new_folder("yak"))]
        if self._jars is not None:
            sides.append(KafkaCluster(self._jars, self._new_folder("kafka")))
        try:
            for side in sides:
                side.prepare()
                side.start()
            replication = ReplicationRounds(sides, plan, say)
            self._parts.append(lambda: three(replication.table.rows()))
            replication.run()
            failover = FailoverRounds(sides, 1, 1 if self._is_quick else 3, say)
            self._parts.append(lambda: three(failover.table().rows()))
            failover.run()
        finally:
            for side in sides:
                side.stop()


def three(rows: list[Row]) -> list[Row]:
    """The rows of three brokers, named so."""
    return [replace(row, name=f"3 brokers, {row.name.replace('CPU of all brokers', 'CPU')}") for row in rows]


class TimeIsOver(Exception):
    """`SECONDS_MAX` have passed."""


def end_in_time(_signum: int, _frame: FrameType | None) -> None:
    """The end of the time as an exception, so that all brokers are stopped. Raises TimeIsOver."""
    raise TimeIsOver


def main() -> int:
    """0 when everything was measured; 1 when a load failed, 130 after Ctrl+C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with the samples of all rounds")
    parser.add_argument("--quick", action="store_true", help="small loads, to see that it works")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, end_on_signal)
    signal.signal(signal.SIGALRM, end_in_time)
    jars, alone, java = None, "", ""
    try:
        java = java_version()
        jars = compared_jars(ROOT / "build/kafka")
    except (Missing, Refused) as missing:
        alone = " ".join(str(missing).split())
    began, code = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="yak-bench-") as folder:
        bench = Bench(jars, Path(folder), is_quick=options.quick)
        signal.alarm(SECONDS_MAX)
        try:
            bench.run()
        except KeyboardInterrupt:
            say("ended by Ctrl+C; what was measured until then:")
            code = 130
        except TimeIsOver:
            say(f"{SECONDS_MAX} s are over; what was measured until then:")
            code = 1
        finally:
            signal.alarm(0)
    facts = machine_line(machine())
    kafka = f"Kafka {COMPARED_VERSION}, {java}" if jars else "YAK alone"
    is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(facts, f"{kafka}; {datetime.now(UTC):%Y-%m-%d}, {time.monotonic() - began:.0f} s", "", sep="\n")
    print(*screen_lines(bench.rows(), alone, is_coloured=is_coloured), sep="\n")
    if options.json is not None:
        write_json(options.json, bench.rows(), machine=machine(), kafka=COMPARED_VERSION if jars else None, alone=alone)
        say(f"written: {options.json}")
    return code or int(not bench.is_whole)


if __name__ == "__main__":
    sys.exit(main())
