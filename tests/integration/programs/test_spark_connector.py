"""Spark's own Kafka connector reads each committed record once and no other, while brokers are killed."""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from on_spark.connector_jars import connector_jars
from versus.kafka_jars import Missing, java_version

from yak.testing.cluster import Cluster

pyspark = pytest.importorskip("pyspark")
pytestmark = [pytest.mark.jvm, pytest.mark.thorough, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
TOPIC, PARTITIONS = "payments", 3
RECORDS = 90
"""Of a transaction, in all partitions."""
ROUNDS = 6


class Reader:
    """The Spark program: `spark_committed.py`."""

    def __init__(self, bootstrap: str, folder: Path, jars: list[Path]) -> None:
        self._log = folder / "spark.log"
        words = [bootstrap, TOPIC, str(folder / "spark"), ",".join(map(str, jars))]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(HERE / "spark_committed.py"), *words],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, command: str) -> Counter[str]:
        """How often the program has each value."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self._log.read_text(errors="replace")[-3000:]
        return Counter(json.loads(answer))

    def close(self) -> None:
        """End its input: the program and its JVM end."""
        self._process.communicate(timeout=120)


@pytest.fixture
def reader(yak_cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """A running reader of a topic with three replicas."""
    try:
        java_version()
        jars = connector_jars(HERE.parents[2] / "build/spark-connector", pyspark.__version__)
    except Missing as missing:
        pytest.skip(str(missing))
    yak_cluster.create_topic(TOPIC, partitions=PARTITIONS)
    reader = Reader(yak_cluster.bootstrap, tmp_path, jars)
    yield reader
    reader.close()


class Payments:
    """Writes transactions, and knows which values are committed."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._numbers = itertools.count()
        self._plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self.committed: set[str] = set()

    def producer(self, name: str) -> Producer:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": name})
        producer.init_transactions(60)
        return producer

    def write(self, producer: Producer) -> set[str]:
        """Write to each partition, and wait until the records are in the log."""
        values = {f"{next(self._numbers)}" for _ in range(RECORDS)}
        for at, value in enumerate(sorted(values)):
            producer.produce(TOPIC, value, partition=at % PARTITIONS)
        assert producer.flush(60) == 0
        return values

    def write_one_round(self, producer: Producer) -> None:
        """An aborted and a committed transaction, and records without one."""
        producer.begin_transaction()
        self.write(producer)
        producer.abort_transaction(60)
        producer.begin_transaction()
        values = self.write(producer)
        producer.commit_transaction(60)
        self.committed |= values | self.write(self._plain)


@pytest.mark.yak(brokers=3)
def test_spark_connector_reads_each_committed_record_once_while_brokers_are_killed(yak_cluster, reader):
    payments = Payments(yak_cluster.bootstrap)
    one, other = payments.producer("one"), payments.producer("other")
    for round_ in range(ROUNDS):
        payments.write_one_round(one)
        before = Counter(payments.committed)
        assert reader.ask("batch") == before

        other.begin_transaction()
        held_back = payments.write(other)
        payments.write_one_round(one)
        assert reader.ask("batch") == before
        assert reader.ask("stream") == before
        node = yak_cluster.leader_of(TOPIC, round_ % PARTITIONS)
        yak_cluster.kill(node)
        if round_ % 2:
            reader.ask("restart")
        if round_ % 3:
            other.commit_transaction(60)
            payments.committed |= held_back
        else:
            other.abort_transaction(60)
        after = Counter(payments.committed)
        assert reader.ask("batch") == after
        assert reader.ask("stream") == after
        yak_cluster.restart(node)
