"""Transactions a second, and the time of a commit, of YAK and Apache Kafka on one broker each, in turns. Run by hand:

    .venv/bin/python benchmarks/bench_transactions.py [--seconds N] [--rounds N] [--directory DIR]

librdkafka writes small records into one topic with three partitions. A row is a number of producers, each in a thread, and
of records in a transaction. The time of a commit is that of `commit_transaction`, which flushes first.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from versus.brokers import Broker, KafkaBroker, running
from versus.kafka_jars import Missing, compared_jars, java_version
from versus.yak_broker import YakBroker

ROOT = Path(__file__).resolve().parents[1]
ROWS = ((1, 1), (1, 100), (10, 1), (10, 100))
VALUE = b"x" * 100
PARTITIONS = 3


def write(bootstrap: str, number: int, records: int, seconds: float, commit_ms: list[float]) -> None:
    """Commit transactions for some time, and note the time of each commit."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"bench-{number}", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(30)
    warm_until = time.monotonic() + 1
    until = warm_until + seconds
    while time.monotonic() < until:
        producer.begin_transaction()
        for index in range(records):
            producer.produce("transactions", VALUE, partition=index % PARTITIONS)
        began = time.perf_counter()
        producer.commit_transaction(30)
        if time.monotonic() > warm_until:
            commit_ms.append((time.perf_counter() - began) * 1e3)


def measure(broker: Broker, producers: int, records: int, seconds: float) -> tuple[float, float]:
    """(commits a second, median time of a commit in ms)."""
    commit_ms: list[float] = []
    threads = [
        threading.Thread(target=write, args=(broker.bootstrap, number, records, seconds, commit_ms))
        for number in range(producers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(commit_ms) / seconds, statistics.median(commit_ms)


def run(sides: Sequence[Broker], rounds: int, seconds: float) -> None:
    for side in sides:
        admin = AdminClient({"bootstrap.servers": side.bootstrap})
        admin.create_topics([NewTopic("transactions", PARTITIONS, 1)])["transactions"].result(20)
    print(f"{'producers':>9} {'records':>7}  " + "  ".join(f"{side.name:>6} commits/s  median ms" for side in sides))
    for producers, records in ROWS:
        found: dict[str, list[tuple[float, float]]] = {side.name: [] for side in sides}
        for number in range(rounds):
            for side in sides if number % 2 else reversed(sides):
                found[side.name].append(measure(side, producers, records, seconds))
        cells = [
            tuple(statistics.median(each[column] for each in found[side.name]) for column in (0, 1)) for side in sides
        ]
        print(f"{producers:9} {records:7}  " + "  ".join(f"{rate:16.0f}  {ms:9.2f}" for rate, ms in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-transactions-", dir=options.directory) as name, ExitStack() as stack:
        folder = Path(name)
        sides: list[Broker] = [YakBroker(folder / "yak")]
        try:
            java_version()
            sides.append(KafkaBroker(compared_jars(ROOT / "build/kafka"), folder / "kafka"))
        except Missing as missing:
            print(f"without Kafka: {missing}")
        run([stack.enter_context(running(side)) for side in sides], options.rounds, options.seconds)


if __name__ == "__main__":
    main()
