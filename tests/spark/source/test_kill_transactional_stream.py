"""A transactional stream while its driver, its Python workers and brokers are killed: each row is read once."""

import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place

from yak.client.admin import LATEST, Admin
from yak.ids import TopicPartition
from yak.local.cluster import LocalCluster, UpSettings

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.timeout(1200), pytest.mark.thorough]
PROGRAM = Path(__file__).with_name("copy_stream.py")
ROOT = Path(__file__).resolve().parents[3]
COUNT = 10_000
PARTITIONS = 2


class Query:
    """The program's process; one that has ended is started again, as by a supervisor."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self.arguments, self.folder = arguments, folder
        self.child: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def batches(self) -> int:
        """Batches that Spark has committed."""
        return sum(path.name.isdigit() for path in (self.folder / "commits").glob("*"))

    def go_on(self, batches: int) -> None:
        """Run until so many batches are committed."""
        deadline = time.monotonic() + 300
        while self.batches() < batches:
            if self.child is None or self.child.poll() is not None:
                self.child = subprocess.Popen(
                    [sys.executable, "-P", str(PROGRAM), *self.arguments],
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    stdout=(self.folder.parent / "child.log").open("ab"),
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self.starts += 1
            assert time.monotonic() < deadline, f"{self.batches()} batches after {self.starts} starts"
            time.sleep(0.02)

    def processes(self) -> list[psutil.Process]:
        assert self.child is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.child.pid).children(recursive=True)
        return []

    def kill_workers(self) -> int:
        """Kill the Python workers of the tasks; Spark runs their tasks again."""
        killed = 0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                parent = process.parent()
                if parent is not None and "pyspark.daemon" in parent.cmdline() and "pyspark.worker" in parent.cmdline():
                    process.kill()
                    killed += 1
        return killed

    def kill(self) -> None:
        """Kill the driver with Java and all Python workers."""
        doomed = self.processes()
        assert self.child is not None
        self.child.kill()
        for process in doomed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(doomed, timeout=20)
        self.child.wait()


def values(bootstrap: str, topic: str, isolation: str) -> Counter[int]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "isolation.level": isolation, "enable.partition.eof": True}
    )
    consumer.assign([Place(topic, partition, 0) for partition in range(PARTITIONS)])
    found: Counter[int] = Counter()
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "nothing for 30 s"
        if message.error() is None:
            found[int(message.value() or b"")] += 1
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended += 1
    consumer.close()
    return found


def wait_for_open_transaction(bootstrap: str, topic: str) -> None:
    """Wait until there are records after the last stable offset."""
    admin = Admin(bootstrap)
    partitions = {TopicPartition(topic, partition): LATEST for partition in range(PARTITIONS)}
    deadline = time.monotonic() + 120
    while admin.offsets(partitions) == admin.offsets(partitions, read_committed=True):
        assert time.monotonic() < deadline, "no transaction in 120 s"


def test_rows_are_read_once_through_kills_of_driver_workers_and_brokers(tmp_path: Path) -> None:
    local = LocalCluster(str(tmp_path / "cluster"))
    query = None
    try:
        local.up(UpSettings(port=0, brokers=3, leaders=3))
        bootstrap = ",".join(broker.address for broker in local.status().brokers)
        for topic in ("source", "target"):
            Admin(bootstrap).create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        for number in range(COUNT):
            producer.produce("source", b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        folder = tmp_path / "checkpoint"
        query = Query(bootstrap, str(folder), "source", "target", folder=folder)
        workers = 0
        for node in (1, 2, 3):
            query.go_on(query.batches() + 2)
            wait_for_open_transaction(bootstrap, "target")
            local.kill(node)
            query.go_on(query.batches() + 2)
            local.up(UpSettings())
            query.go_on(query.batches() + 2)
            wait_for_open_transaction(bootstrap, "target")
            workers += query.kill_workers()
            query.go_on(query.batches() + 2)
            wait_for_open_transaction(bootstrap, "target")
            query.kill()
        assert query.batches() < COUNT // 200, "the kills came too late"
        assert workers > 0
        query.go_on(COUNT // 200)
        committed = values(bootstrap, "target", "read_committed")
        assert committed == dict.fromkeys(range(COUNT), 1)
        assert sum(values(bootstrap, "target", "read_uncommitted").values()) > COUNT, "no kill aborted anything"
    finally:
        if query is not None and query.child is not None:
            query.kill()
        local.discard()
