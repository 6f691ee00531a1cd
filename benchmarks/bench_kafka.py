"""`make bench-kafka`: the same load on YAK and on Apache Kafka, side by side, as tables of ratios.

Four parts: one broker of each, three brokers of each, kill -9, and reads that are compressed, cold or far away. Needs
Java 17 and Maven; says so and ends with 0 where they are missing. `--quick` is a smoke run of a few minutes, `--part`
runs one part alone.
"""

import argparse
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import FrameType

from versus.brokers import Broker, KafkaBroker, running
from versus.cluster_rounds import ClusterPlan, FailoverRounds, ReplicationRounds, Side
from versus.kafka_cluster import KafkaCluster
from versus.kafka_jars import COMPARED_VERSION, Missing, Refused, compared_jars, java_version
from versus.link import NEAR, NoLink, delayed_link
from versus.loads import cells
from versus.page import FAILOVER, ONE, PARTS, READS, THREE, put_section, section
from versus.read_rounds import DROP_CACHES, ReadPlan, ReadRounds, read_cells
from versus.rounds import Plan, Rounds
from versus.table import Row, table_lines, write_json
from versus.yak_broker import YakBroker
from versus.yak_cluster import YakCluster

from yak.client.bench.result import machine, machine_line
from yak.local.bench.ledger_load import IMPATIENT, READER
from yak.local.bench.replication import shapes

ROOT = Path(__file__).resolve().parents[1]
ROUNDS_MIN = 5
FAILOVER_ROUNDS = 3
READ_ROUNDS = 3
KILLS = 4


def say(text: str) -> None:
    """Progress on stderr; the table is on stdout."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated (default: all)")
    parser.add_argument("--rounds", type=int, help="rounds of each part (default 5, kill -9: 3, with --quick 1)")
    parser.add_argument("--kills", type=int, help=f"kills a round on each side (default {KILLS}, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="one small round, to see that it works")
    parser.add_argument("--no-java-clients", action="store_true", help="leave out Kafka's own load tools")
    parser.add_argument("--work-dir", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    parser.add_argument(
        "--json",
        type=Path,
        default=ROOT / "build/bench-kafka.json",
        help="the figures; those of other parts beside it as NAME-PART.json",
    )
    parser.add_argument("--docs", type=Path, help="the page (default docs/benchmarks.md; none with --quick)")
    return parser.parse_args(argv)


def make_plan(options: argparse.Namespace) -> Plan:
    """How much to measure with one broker: a full run takes about 12 minutes on 2 cores."""
    quick = options.quick
    scale = 0.25 if quick else 1.0
    return Plan(
        rounds=options.rounds or (1 if quick else ROUNDS_MIN),
        cells=cells(scale, quick=quick),
        requests=10_000 if quick else 40_000,
        latency_s=1.0 if quick else 3.0,
        java_records={} if options.no_java_clients else {100: int(1_500_000 * scale), 1000: int(400_000 * scale)},
    )


def make_cluster_plan(options: argparse.Namespace) -> ClusterPlan:
    """How much to measure with three: about 12 minutes on 2 cores."""
    quick = options.quick
    return ClusterPlan(
        rounds=options.rounds or (1 if quick else ROUNDS_MIN),
        shapes=shapes(0.1 if quick else 1.0, clients=(1,) if quick else (1, 4)),
        prepared=shapes(0.25 if quick else 1.0),
        ack_s=2.0 if quick else 6.0,
        idle_partitions=0 if quick else 1000,
        idle_s=10.0,
    )


def begin(stack: ExitStack, side: Broker) -> Broker:
    """A broker that accepts records, until the stack ends."""
    stack.enter_context(running(side))
    say(f"{side.name} answers at {side.bootstrap}")
    return side


def run_one(jars: Path, folder: Path, plan: Plan) -> Rounds:
    numbers = count(1)
    fresh: dict[str, Callable[[], Broker]] = {
        "yak": lambda: YakBroker(folder / f"yak-{next(numbers)}"),
        "kafka": lambda: KafkaBroker(jars, folder / f"kafka-{next(numbers)}"),
    }
    with ExitStack() as stack:
        rounds = Rounds([begin(stack, make()) for make in fresh.values()], fresh, jars, plan, say)
        rounds.run()
        return rounds


def run_three(
    options: argparse.Namespace, jars: Path, folder: Path, parts: Sequence[str]
) -> list[tuple[str, list[Row], list[str], int]]:
    """The parts with three brokers of each, on the same clusters: (part, rows, notes, rounds)."""
    found: list[tuple[str, list[Row], list[str], int]] = []
    sides: list[Side] = [YakCluster(folder / "yak-three"), KafkaCluster(jars, folder / "kafka-three")]
    try:
        for side in sides:
            side.prepare()
            side.start()
            say(f"three of {side.name} answer at {side.bootstrap}")
        if THREE in parts:
            plan = make_cluster_plan(options)
            replication = ReplicationRounds(sides, plan, say)
            replication.run()
            found.append((THREE, replication.table.rows(), [], plan.rounds))
        if FAILOVER in parts:
            rounds = options.rounds or (1 if options.quick else FAILOVER_ROUNDS)
            failover = FailoverRounds(sides, rounds, options.kills or (1 if options.quick else KILLS), say)
            failover.run()
            found.append((FAILOVER, failover.table().rows(), failover.notes(), rounds))
        return found
    finally:
        for side in sides:
            side.stop()


def run_reads(options: argparse.Namespace, jars: Path, folder: Path) -> tuple[list[Row], list[str], int]:
    """(rows, what was left out, rounds): about 12 minutes on two cores."""
    near, far = read_cells(0.1 if options.quick else 1.0)
    plan = ReadPlan(options.rounds or (1 if options.quick else READ_ROUNDS), near, far, link_seconds=5.0)
    left_out = [] if os.access(DROP_CACHES, os.W_OK) else [f"from disk: {DROP_CACHES} is not writable"]
    with ExitStack() as made:
        try:
            link, host = made.enter_context(delayed_link()), NEAR
        except NoLink as why:
            link, host = None, "127.0.0.1"
            left_out.append(f"across a link: {why}")
        sides = (YakBroker(folder / "yak-reads", host=host), KafkaBroker(jars, folder / "kafka-reads", host=host))
        rounds = ReadRounds([begin(made, side) for side in sides], plan, link, say)
        rounds.run()
        return rounds.table.rows(), left_out, plan.rounds


def settings_text(properties: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in properties.items())


def report(
    options: argparse.Namespace, part: str, rows: Sequence[Row], notes: Sequence[str], rounds: int, java: str
) -> None:
    """Print the table of one part; write its JSON and its section of the page."""
    facts = machine()
    sys.stdout.write("\n".join([*table_lines(rows), *notes]) + "\n")
    sys.stdout.write(f"{machine_line(facts)}; Kafka {COMPARED_VERSION}, {java}\n\n")
    path = options.json if part == ONE else options.json.with_stem(f"{options.json.stem}-{part}")
    write_json(path, rows)
    arguments = shlex.join(sys.argv[1:])
    about = {
        "command": "make bench-kafka" + (f' ARGS="{arguments}"' if arguments else ""),
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine_line(facts),
        "kafka_version": COMPARED_VERSION,
        "java": java,
        "rounds": str(rounds),
        "client": settings_text(IMPATIENT),
        "reader": settings_text({name: value for name, value in READER.items() if name not in IMPATIENT}),
    }
    docs = options.docs or (None if options.quick else ROOT / "docs/benchmarks.md")
    if docs is not None:
        before = docs.read_text(encoding="utf-8") if docs.exists() else ""
        docs.write_text(put_section(before, part, section(part, rows, notes, about)), encoding="utf-8")
    say(f"written: {path}" + (f", {docs}" if docs else ""))


def end_on_signal(signum: int, _frame: FrameType | None) -> None:
    """SIGTERM as an exception, so that all brokers are stopped."""
    raise SystemExit(128 + signum)


def main(argv: list[str]) -> int:
    """Exit code 0 when the tables were made, or when this machine lacks Java or Maven."""
    options = arguments(argv)
    signal.signal(signal.SIGTERM, end_on_signal)
    try:
        java = java_version()
        jars = compared_jars(ROOT / "build/kafka")
    except (Missing, Refused) as missing:
        say(f"bench-kafka skipped: {missing}")
        return 0
    parts = options.part or PARTS
    with tempfile.TemporaryDirectory(prefix="yak-bench-", dir=options.work_dir) as folder:
        if ONE in parts:
            plan = make_plan(options)
            rounds = run_one(jars, Path(folder), plan)
            report(options, ONE, rounds.table.rows(), rounds.skipped, plan.rounds, java)
        if THREE in parts or FAILOVER in parts:
            for part, rows, notes, count in run_three(options, jars, Path(folder), parts):
                report(options, part, rows, notes, count, java)
        if READS in parts:
            rows, notes, count = run_reads(options, jars, Path(folder))
            report(options, READS, rows, notes, count, java)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
