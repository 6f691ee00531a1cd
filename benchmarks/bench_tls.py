"""Produce and consume over TLS against plain, alternated in one run, with librdkafka and one broker of each kind.

    python benchmarks/bench_tls.py [--records N] [--size BYTES] [--rounds N] [--kafka]

Prints the median throughput of each kind, its ratio to plain, and the broker's processor time. With --kafka, Apache Kafka
with TLS takes its turns too; that needs Java and Maven. Needs no Redis.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer
from versus.brokers import KafkaBroker, free_port, running
from versus.kafka_jars import compared_jars
from versus.loads import send
from versus.yak_broker import serving

from yak.security.certificates import create_certificates

MIB = 1024 * 1024
PATIENCE_S = 30.0


@contextlib.contextmanager
def kafka(folder: Path, certs: Path) -> Iterator[tuple[str, psutil.Process]]:
    jars = compared_jars(Path(__file__).resolve().parents[1] / "build/kafka")
    with running(KafkaBroker(jars, folder, tls_port=free_port(), key_store=certs / "broker.pem")) as found:
        yield f"127.0.0.1:{found.tls_port}", psutil.Process(found.pids()[0])


def produce(config: dict[str, Any], topic: str, records: int, value: bytes) -> None:
    producer = Producer({**config, "linger.ms": 5, "batch.size": MIB, "queue.buffering.max.kbytes": 256 * 1024})
    for _ in range(records):
        send(producer, topic, value)
    assert producer.flush(PATIENCE_S) == 0


def consume(config: dict[str, Any], topic: str, records: int) -> None:
    settings = {"group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest", "fetch.message.max.bytes": 4 * MIB}
    consumer = Consumer({**config, **settings})
    consumer.subscribe([topic])
    left = records
    while left:
        found = consumer.consume(min(left, 10_000), PATIENCE_S)
        assert found, f"{left} of {records} records did not come"
        left -= len(found)
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kafka", action="store_true")
    options = parser.parse_args()
    value = bytes(range(256)) * (options.size // 256 + 1)
    value = value[: options.size]
    figures: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        certs = folder / "certs"
        create_certificates(str(certs), ["127.0.0.1"], 90, [], force=False, now=datetime.now(UTC))
        one = ("-c", "num.partitions=1", "-c")
        tls = ("listeners=SSL://127.0.0.1:0", "-c", f"ssl.keystore.location={certs}/broker.pem")
        security = {"security.protocol": "SSL", "ssl.ca.location": f"{certs}/ca.pem"}
        sides: dict[str, tuple[str, psutil.Process, dict[str, str]]] = {
            "plain": (*stack.enter_context(serving(folder / "plain", *one, "listeners=PLAINTEXT://127.0.0.1:0")), {}),
            "TLS": (*stack.enter_context(serving(folder / "tls", *one, *tls)), security),
        }
        if options.kafka:
            sides["Kafka's TLS"] = (*stack.enter_context(kafka(folder / "kafka", certs)), security)
        for index in range(options.rounds + 1):
            for side, (address, process, settings) in sides.items():
                config = {"bootstrap.servers": address, "log_level": 0, **settings}
                topic = f"round-{index}"
                for work, run in (
                    ("produce", partial(produce, config, topic, options.records, value)),
                    ("consume", partial(consume, config, topic, options.records)),
                ):
                    cpu, started = sum(process.cpu_times()[:2]), time.perf_counter()
                    run()
                    took, cpu = time.perf_counter() - started, sum(process.cpu_times()[:2]) - cpu
                    if index:  # the first round warms up
                        figures.setdefault((work, side), []).append((took, cpu))
    size = options.records * options.size / MIB
    for work in ("produce", "consume"):
        for side in sides:
            speed = statistics.median(size / took for took, _ in figures[work, side])
            plain = statistics.median(size / took for took, _ in figures[work, "plain"])
            cpu = statistics.median(cpu for _, cpu in figures[work, side]) / size * 1024
            print(
                f"{work:8} {side:12} {speed:5.0f} MiB/s, {speed / plain:.2f} of plain; broker's CPU {cpu:.2f} s a GiB"
            )


if __name__ == "__main__":
    main()
