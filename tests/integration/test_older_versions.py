"""Data of earlier commits: a cluster opens them after a restart, and is upgraded one broker at a time under load."""

import io
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.loads import SteadyLoad, check_complete
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


def test_data_from_before_brokers_logged_in_to_each_other_open_after_a_restart_of_all(yak, older, data):
    bootstrap = started(older(BEFORE_LOGINS), data)
    with SteadyLoad(bootstrap, TOPIC, partitions=3) as load:
        load.wait_for(COUNT)
    committing = Consumer({"bootstrap.servers": bootstrap, "group.id": "kept"})
    committing.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
    assert yak.run("down", "--data-dir", str(data)).code == 0
    assert yak.run("up", "-d", "--data-dir", str(data)).code == 0
    wait_in_sync(yak, bootstrap)
    check_complete(load, bootstrap, TOPIC)
    assert committing.committed([TopicPartition(TOPIC, 0)], timeout=30)[0].offset == 7
    committing.close()


def test_a_cluster_of_an_earlier_commit_is_upgraded_one_by_one_under_load(yak, older, data):
    bootstrap = started(older(FIRST_WITH_LOGINS), data)
    with SteadyLoad(bootstrap, TOPIC, partitions=3) as load:
        wait_in_sync(yak, bootstrap)
        for node_id in ("3", "2", "1"):
            ran = yak.run("node", "restart", node_id, "--data-dir", str(data))
            assert ran.code == 0, ran.err
            wait_in_sync(yak, bootstrap)
        load.wait_for(1)
    check_complete(load, bootstrap, TOPIC)
