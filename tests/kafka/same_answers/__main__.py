"""Start one broker of Apache Kafka and one of YAK, and print where their answers to the same requests differ.

    python tests/kafka/same_answers/__main__.py [--table NAME] [--seeds N] [--first N] [--all]

A table is a module beside this one, with `SCENARIOS`; it may have `CONFIGS` of both brokers, and a `prepare` that returns
those of YAK. It needs Java 17, and takes Kafka's jars as `make bench` does. Exits with 1 if answers differ. Kafka does some
work after it has answered: try a seed again before you look into it.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "tests/integration")]

from versus import brokers  # noqa: E402
from versus.kafka_jars import Missing, compared_jars, java_version  # noqa: E402

from tests.kafka.same_answers.engine import Side, differences  # noqa: E402

CONFIGS: Final = (
    "num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
)
KAFKA_CONFIGS: Final = ("group.consumer.assignment.interval.ms=0",)
"""YAK assigns partitions to members at once."""
START_SECONDS: Final = 30.0


@contextmanager
def running_yak(folder: Path, configs: tuple[str, ...]) -> Iterator[int]:
    """The port of one broker of YAK, which keeps its metadata itself."""
    ready = folder / "ready.json"
    port = () if any(pair.startswith("listeners=") for pair in configs) else ("--port", "0")
    where = ("--metadata", "raft", "--data-dir", str(folder / "data"), *port, "--no-http")
    words = [word for pair in configs for word in ("-c", pair)]
    command = [sys.executable, "-m", "yak.commands", "serve", *where, "--ready-file", str(ready), *words]
    with (folder / "log").open("wb") as log:
        process = brokers.spawn(command, ROOT, log, os.environ | {"PYTHONPATH": str(ROOT)})
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists() or not ready.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"error: yak serve did not start:\n{brokers.tail(folder / 'log')}")
            time.sleep(0.05)
        yield int(json.loads(ready.read_text())["address"].rpartition(":")[2])
    finally:
        brokers.stop_process(process)


def main() -> int:
    """0 when all answers are equal, 1 when some differ. Without Java or Maven: a reason and 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default="data", help="a module beside this one (data)")
    parser.add_argument("--seeds", type=int, default=10, help="how many (10)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument(
        "--all", action="store_true", help="print all differences; later ones may follow from the first"
    )
    arguments = parser.parse_args()
    table = importlib.import_module(f"tests.kafka.same_answers.{arguments.table}")
    try:
        java_version()
        jars = compared_jars(ROOT / "build/kafka")
    except Missing as reason:
        print(f"skipped: {reason}")
        return 0
    os.environ.setdefault("KAFKA_HEAP_OPTS", "-Xms100M -Xmx400M")
    configs: tuple[str, ...] = (*CONFIGS, *getattr(table, "CONFIGS", ()))
    brokers.SERVER_PROPERTIES += "\n".join(configs[1:] + KAFKA_CONFIGS) + "\n"
    configs += table.prepare() if hasattr(table, "prepare") else ()
    found = 0
    with tempfile.TemporaryDirectory() as name, running_yak(Path(name), configs) as port:
        kafka = brokers.KafkaBroker(jars, Path(name) / "kafka")
        ports = {"kafka": kafka.port, "yak": port}
        with brokers.running(kafka):
            for side in (Side(kind, port, "coordinators") for kind, port in ports.items()):
                for key_type in (0, 1):  # creates the coordinators' topics
                    side.ask(10, 4, key_type=key_type, coordinator_keys=["a", "b"])
            for scenario in table.SCENARIOS:
                for seed in range(arguments.first, arguments.first + arguments.seeds):
                    differing = differences(scenario, ports, seed)
                    found += len(differing)
                    for each in differing if arguments.all else differing[:1]:
                        print(f"{scenario.__name__}, seed {seed}, the first of {len(differing)} differences:\n  {each}")
                print(f"{scenario.__name__}: {arguments.seeds} seeds tried", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
