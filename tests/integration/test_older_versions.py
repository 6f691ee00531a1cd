"""Data of earlier commits: a cluster opens them after a restart, and is upgraded one broker at a time under load."""

import io
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
BEFORE_LOGINS = "d4685374"
FIRST_WITH_LOGINS = "900e43b8"
TOPIC = "kept"
COUNT = 500

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.fixture
def older(yak: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Callable[..., Any]]:
    """Gives `yak.run` of a commit, with the libraries of today."""

    def at(commit: str) -> Callable[..., Any]:
        archive = subprocess.run(
            ["git", "archive", commit, "yak", "commands", "tui", "spark"], cwd=ROOT, capture_output=True
        )
        if archive.returncode != 0:
            pytest.skip(f"this clone has no commit {commit}")
        folder = tmp_path_factory.mktemp(commit)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="tar")

        def run(*arguments: str) -> Any:
            ran = yak.run(*arguments, PYTHONPATH=str(folder))
            assert ran.code == 0, ran.err
            return ran

        return run

    return at


class Load:
    """Writes numbers with acks=all until its end; `acknowledged` are those that a broker confirmed."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[int] = set()
        self.errors: list[str] = []
        self._is_over = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._is_over.wait(0.01):
            self._producer.produce(TOPIC, str(number), on_delivery=self._told)
            self._producer.poll(0)
            number += 1
        self._producer.flush(60)

    def _told(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged.add(int(message.value()))
        else:
            self.errors.append(str(error))


def numbers_in(bootstrap: str) -> list[int]:
    """All values of the topic's three partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(3)])
    found, ends = [], 0
    try:
        while ends < 3:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                ends += 1
            else:
                found.append(int(message.value()))
    finally:
        consumer.close()
    return found


def started(run: Callable[..., Any], data: Path) -> str:
    """Start three brokers with a topic; returns their addresses."""
    run("up", "-d", "--brokers", "3", "--port", "0", "--data-dir", str(data))
    bootstrap = str(run("up", "--status", "-o", "json", "--data-dir", str(data)).json["bootstrap"])
    run("topics", "create", TOPIC, "-p", "3", "-r", "3", "-b", bootstrap)
    return bootstrap


@pytest.fixture
def data(yak: Any, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    yield folder
    yak.run("down", "--data-dir", str(folder))


def wait_in_sync(yak: Any, bootstrap: str) -> None:
    wait_until(lambda: yak.run("isr", "--check", "-q", "-b", bootstrap).code == 0, "all replicas are in sync", 60)


def test_data_from_before_brokers_logged_in_to_each_other_open_after_a_restart_of_all(
    yak: Any, older: Callable[[str], Any], data: Path
) -> None:
    bootstrap = started(older(BEFORE_LOGINS), data)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(TOPIC, str(number))
    assert producer.flush(30) == 0
    committing = Consumer({"bootstrap.servers": bootstrap, "group.id": "kept"})
    committing.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
    assert yak.run("down", "--data-dir", str(data)).code == 0
    assert yak.run("up", "-d", "--data-dir", str(data)).code == 0
    wait_in_sync(yak, bootstrap)
    assert sorted(numbers_in(bootstrap)) == list(range(COUNT))
    assert committing.committed([TopicPartition(TOPIC, 0)], timeout=30)[0].offset == 7
    committing.close()


def test_a_cluster_of_an_earlier_commit_is_upgraded_one_by_one_under_load(
    yak: Any, older: Callable[[str], Any], data: Path
) -> None:
    bootstrap = started(older(FIRST_WITH_LOGINS), data)
    with Load(bootstrap) as load:
        wait_in_sync(yak, bootstrap)
        for node_id in ("3", "2", "1"):
            ran = yak.run("node", "restart", node_id, "--data-dir", str(data))
            assert ran.code == 0, ran.err
            wait_in_sync(yak, bootstrap)
    assert load.errors == []
    found = numbers_in(bootstrap)
    assert len(found) == len(set(found))
    assert load.acknowledged
    assert load.acknowledged <= set(found)
