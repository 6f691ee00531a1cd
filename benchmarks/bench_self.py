"""`make bench-self`: the broker of this tree beside that of an earlier commit, in alternated rounds.

    python benchmarks/bench_self.py [--commit NAME] [--rounds N] [--limit PERCENT]

Both get the same loads from the same clients, and a Redis each. What counts is the processor time of the broker's
process: for a record or a request, for a start, and at idle. Rates depend on what else the machine does, so they are
only shown. The exit code is 1 if the median of a processor time is more than `--limit` percent (10) above that of the
earlier commit. Two runs of one tree differ by up to 15 %: use five rounds or more on a quiet machine, and repeat before
you believe a difference.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from versus.brokers import Watched, free_port, spawn, start_and_wait, stop_process, tail
from versus.loads import Measured, Topics, ack_latency, bulk_consume, bulk_produce, pipelined
from versus.table import Goal, Table, Turns, table_lines

from yak.client.bench.result import machine, machine_line
from yak.local.bench.replication import BulkLoad
from yak.local.redis_server import EmbeddedRedis

ROOT = Path(__file__).resolve().parents[1]
FIRST_COMPARED = "aaf2c1c"
"""The commit of the first figures of one broker in docs/benchmarks.md."""
CELLS = (BulkLoad(100, 1, 4_000_000), BulkLoad(100, 8, 4_000_000, 20), BulkLoad(1000, 8, 800_000))
REQUESTS = 30_000
LATENCY_S = 4.0
IDLE_S = 4.0


@dataclass(slots=True)
class TreeBroker(Watched):
    """One broker from a source tree, by this tree's Python, with a Redis."""

    name: str
    tree: Path
    folder: Path
    port: int = field(default_factory=free_port)
    redis: EmbeddedRedis | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Start Redis, so that a start of the broker is only that."""
        self.folder.mkdir()
        self.redis = EmbeddedRedis(str(self.folder / "redis"))
        self.redis.start()

    def start(self) -> None:
        assert self.redis is not None
        arguments = ("serve", "--node-id", "1", "--port", str(self.port), "--data-dir", str(self.folder / "data"))
        command = [sys.executable, "-P", "-m", "yak.commands", *arguments, "--redis-url", self.redis.url]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("YAK_")}
        with open(self.folder / "broker.log", "ab") as log:
            self.process = spawn(command, self.folder, log, environment | {"PYTHONPATH": str(self.tree)})

    def pids(self) -> list[int]:
        """The broker's process: Redis is the same program on both sides."""
        assert self.process is not None
        return [self.process.pid]

    def log_tail(self) -> str:
        return tail(self.folder / "broker.log")

    def stop(self) -> None:
        stop_process(self.process)
        if self.redis is not None:
            self.redis.stop()


class Figures(Table):
    """All figures; the goal of a processor time is to grow by no more than the limit (0.1 is 10 %)."""

    def __init__(self, before: str, after: str, limit: float) -> None:
        super().__init__((after, before))
        self.limit = Goal(1 + limit, at_least=False)

    def add_load(self, side: str, name: str, measured: Measured, records: int, unit: str = "record") -> None:
        """The rate, and the processor time of a record or request."""
        self.add(name, f"{unit}s/s", None, side, measured.per_s)
        self.add(f"{name}: broker CPU", f"us/{unit}", self.limit, side, measured.cpu_s / records * 1e6)


def measure_start(broker: TreeBroker, figures: Figures) -> None:
    broker.prepare()
    try:
        took_s = start_and_wait(broker)
        figures.add("start to first acknowledged record", "ms", None, broker.name, 1000 * took_s)
        figures.add("start: broker CPU", "ms", figures.limit, broker.name, 1000 * broker.cpu_seconds())
    finally:
        broker.stop()


def measure_idle(broker: TreeBroker, figures: Figures) -> None:
    before = broker.cpu_seconds()
    time.sleep(IDLE_S)
    used_ms = 1000 * (broker.cpu_seconds() - before) / IDLE_S
    figures.add("idle: broker CPU", "ms/s", None, broker.name, used_ms)


def measure_loads(broker: TreeBroker, topics: Topics, figures: Figures) -> None:
    side = broker.name

    def one_partition(topic: str) -> None:
        measured = ack_latency(broker, topic, LATENCY_S)
        assert measured.result is not None
        median_ms = measured.result.latency.percentile(50) / 1e6
        figures.add("ack at 1,000 records/s: median", "ms", None, side, median_ms)
        figures.add_load(side, "ack at 1,000 records/s", measured, measured.result.records)
        figures.add_load(side, "requests of one record", pipelined(broker, topic, REQUESTS), REQUESTS, "request")

    topics.use(1, one_partition)
    for cell in CELLS:

        def bulk(topic: str, cell: BulkLoad = cell) -> None:
            figures.add_load(side, f"produce {cell.name}", bulk_produce(broker, topic, cell), cell.records)
            figures.add_load(side, f"consume {cell.name}", bulk_consume(broker, topic, cell), cell.records)

        topics.use(cell.partitions, bulk)


def compare(trees: dict[str, Path], folder: Path, rounds: int, limit: float) -> Figures:
    figures = Figures(*trees, limit)
    numbers = iter(range(10_000))

    def fresh(name: str) -> TreeBroker:
        return TreeBroker(name, trees[name], folder / str(next(numbers)))

    sides = [fresh(name) for name in trees]
    try:
        for side in sides:
            side.prepare()
            start_and_wait(side)
        topics = {side.name: Topics(side) for side in sides}
        for side in sides:  # bytecode, page cache and the clients' libraries are warm then
            measure_loads(side, topics[side.name], Figures(*trees, limit))
        turns = Turns(sides)
        for number in range(rounds):
            started = time.monotonic()
            bodies: list[Callable[[TreeBroker], None]] = [
                lambda side: measure_start(fresh(side.name), figures),
                lambda side: measure_idle(side, figures),
                lambda side: measure_loads(side, topics[side.name], figures),
            ]
            for body in bodies:
                turns.take(body)
            print(f"round {number + 1} of {rounds}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        for side in sides:
            figures.add("memory after the loads", "MB", None, side.name, side.rss_bytes() / 1e6)
    finally:
        for side in sides:
            side.stop()
    return figures


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """The files of a commit, with bytecode. Raises CalledProcessError when git does not know the commit."""
    with tempfile.TemporaryDirectory(prefix="yak-bench-") as folder:
        path = Path(folder) / "tree"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "-q", "--detach", str(path), commit], check=True)
        try:
            subprocess.run([sys.executable, "-m", "compileall", "-q", str(path / "yak")], check=False)
            yield path
        finally:
            with suppress(subprocess.CalledProcessError):
                subprocess.run([*git, "remove", "--force", str(path)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default=FIRST_COMPARED, help=f"the earlier commit (default {FIRST_COMPARED})")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=10.0, help="percent that a processor time may grow (default 10)")
    options = parser.parse_args()
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "yak")], check=False)
    try:
        with worktree(options.commit) as tree, tempfile.TemporaryDirectory(prefix="yak-bench-") as folder:
            figures = compare(
                {options.commit: tree, "working tree": ROOT}, Path(folder), options.rounds, options.limit / 100
            )
    except subprocess.CalledProcessError:
        print(f"git has no commit {options.commit!r}: name one of this repository (--commit)", file=sys.stderr)
        return 2
    print(*table_lines(figures.rows(), spread=True), machine_line(machine()), sep="\n")
    grown = [row.name for row in figures.rows() if row.met is False]
    for name in grown:
        print(f"more than {options.limit:g} % above {options.commit}: {name}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
