"""`make bench-kafka`: the same load on YAK and on Apache Kafka, side by side, as one table of ratios.

Needs Java 17 and Maven; says so and ends with 0 where they are missing. `--quick` is a smoke run of a minute.
"""

import argparse
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from versus.brokers import Broker, KafkaBroker, start_and_wait
from versus.kafka_jars import KAFKA_VERSION, Missing, java_version, kafka_jars
from versus.loads import cells
from versus.page import page
from versus.rounds import Plan, Rounds
from versus.table import table_lines, write_json
from versus.yak_broker import YakBroker

from yak.client.bench.machine import machine, machine_line, usable_cores

ROOT = Path(__file__).resolve().parents[2]
ROUNDS_MIN = 5


def say(text: str) -> None:
    """Progress on stderr; the table is on stdout."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, help=f"rounds (default {ROUNDS_MIN}, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="one small round, to see that it works")
    parser.add_argument("--no-java-clients", action="store_true", help="leave out Kafka's own load tools")
    parser.add_argument(
        "--work-dir", type=Path, help="where both brokers keep their data (default: a temporary folder)"
    )
    parser.add_argument("--json", type=Path, default=ROOT / "build/bench-kafka.json", help="the figures")
    parser.add_argument("--docs", type=Path, help="the page (default docs/benchmarks.md; none with --quick)")
    return parser.parse_args(argv)


def make_plan(options: argparse.Namespace) -> Plan:
    """How much to measure: a full run takes about 12 minutes on 2 cores."""
    quick = options.quick
    scale = 0.25 if quick else 1.0
    return Plan(
        rounds=options.rounds or (1 if quick else ROUNDS_MIN),
        cells=cells(scale, quick=quick),
        requests=10_000 if quick else 40_000,
        latency_s=1.0 if quick else 3.0,
        java_records={} if options.no_java_clients else {100: int(1_500_000 * scale), 1000: int(400_000 * scale)},
    )


def run(options: argparse.Namespace, jars: Path, folder: Path, plan: Plan) -> Rounds:
    """Start both brokers, measure, stop both whatever happened."""
    made = 0

    def new_folder(name: str) -> Path:
        nonlocal made
        made += 1
        return folder / f"{name}-{made}"

    fresh: dict[str, Callable[[], Broker]] = {
        "yak": lambda: YakBroker(new_folder("yak")),
        "kafka": lambda: KafkaBroker(jars, new_folder("kafka")),
    }
    sides: list[Broker] = [fresh["yak"](), fresh["kafka"]()]
    try:
        for side in sides:
            side.prepare()
            start_and_wait(side)
            say(f"{side.name} answers at {side.bootstrap}")
        rounds = Rounds(sides, fresh, jars, plan, say)
        rounds.run()
        return rounds
    finally:
        for side in sides:
            side.stop()


def report(options: argparse.Namespace, rounds: Rounds, plan: Plan, java: str) -> None:
    """Print the table; write the JSON and the page."""
    rows = rounds.table.rows()
    facts = machine()
    sys.stdout.write("\n".join(table_lines(rows)) + "\n")
    for note in rounds.skipped:
        sys.stdout.write(note + "\n")
    sys.stdout.write(machine_line(facts) + f"; Kafka {KAFKA_VERSION}, {java}\n")
    write_json(options.json, rows)
    words = shlex.join(sys.argv[1:])
    about = {
        "command": "make bench-kafka" + (f' ARGS="{words}"' if words else ""),
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine_line(facts),
        "kafka_version": KAFKA_VERSION,
        "java": java,
        "rounds": str(plan.rounds),
        "cores": str(usable_cores()),
    }
    docs = options.docs or (None if options.quick else ROOT / "docs/benchmarks.md")
    if docs is not None:
        docs.write_text(page(rows, rounds.skipped, about), encoding="utf-8")
    say(f"written: {options.json}" + (f", {docs}" if docs else ""))


def end_on_signal(signum: int, _frame: FrameType | None) -> None:
    """SIGTERM as an exception, so that both brokers are stopped."""
    raise SystemExit(128 + signum)


def main(argv: list[str]) -> int:
    """Exit code 0 when the table was made, or when this machine lacks Java or Maven."""
    options = arguments(argv)
    signal.signal(signal.SIGTERM, end_on_signal)
    try:
        java = java_version()
        jars = kafka_jars(ROOT / "build/kafka", KAFKA_VERSION)
    except Missing as missing:
        say(f"bench-kafka skipped: {missing}")
        return 0
    plan = make_plan(options)
    with tempfile.TemporaryDirectory(prefix="yak-bench-", dir=options.work_dir) as folder:
        rounds = run(options, jars, Path(folder), plan)
    report(options, rounds, plan, java)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
