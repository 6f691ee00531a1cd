"""Kafka's own exactly-once check of Kafka Streams: its counts, sums and joins are exact while brokers and programs die.

`StreamsSmokeTest` is what Kafka's system tests run: one program writes numbers for 90 seconds and then verifies every result,
the others process them.
"""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from yak.local.cluster import LocalCluster, UpSettings

pytestmark = [pytest.mark.jvm, pytest.mark.thorough, pytest.mark.timeout(700)]
SMOKE_TEST = "org.apache.kafka.streams.tests.StreamsSmokeTest"
TOPICS = [
    "data",
    "fk",
    "echo",
    "min",
    "min-suppressed",
    "min-raw",
    "max",
    "sum",
    "sws-raw",
    "sws-suppressed",
    "dif",
    "cnt",
    "avg",
    "wcnt",
    "tagg",
    "fk-result",
]
SETTINGS = """\
bootstrap.servers={bootstrap}
processing.guarantee=exactly_once_v2
state.dir={state}
num.standby.replicas=1
replication.factor=3
acks=all
commit.interval.ms=1000
session.timeout.ms=10000
"""
BETWEEN_KILLS_SECONDS = 8
DRIVER_SECONDS = 480


class Programs:
    """The Java programs of a test."""

    def __init__(self, command: list[str], folder: Path, bootstrap: str) -> None:
        self._command, self._folder, self._bootstrap = command, folder, bootstrap
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, what: str) -> subprocess.Popen[bytes]:
        """Start `process` or `run`."""
        name = f"{what}-{len(self.running)}"
        settings = self._folder / f"{name}.properties"
        settings.write_text(SETTINGS.format(bootstrap=self._bootstrap, state=self._folder / f"{name}-state"))
        with (self._folder / f"{name}.log").open("ab") as log:
            program = subprocess.Popen([*self._command, SMOKE_TEST, str(settings), what], stdout=log, stderr=log)
        self.running.append(program)
        return program

    def said(self, name: str) -> str:
        """A program's output."""
        return (self._folder / f"{name}.log").read_text(errors="replace")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three brokers, as `yak up -d --brokers 3` starts them."""
    cluster = LocalCluster(str(tmp_path / "cluster"))
    try:
        cluster.up(UpSettings(port=0, brokers=3, no_http=True))
        yield cluster
    finally:
        cluster.discard()


@pytest.fixture
def programs(cluster: LocalCluster, streams_java: list[str], tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(streams_java, tmp_path, cluster.status().bootstrap)
    yield programs
    for program in programs.running:
        program.kill()
        program.wait()


def test_streams_exactly_once_is_exact_while_brokers_and_programs_are_killed(
    cluster: LocalCluster, programs: Programs
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.status().bootstrap})
    for created in admin.create_topics([NewTopic(name, 5, 3) for name in TOPICS]).values():
        created.result(20)
    first = programs.start("process")
    programs.start("process")
    driver = programs.start("run")
    began, killed = time.monotonic(), 0
    while driver.poll() is None and time.monotonic() - began < DRIVER_SECONDS:
        time.sleep(BETWEEN_KILLS_SECONDS)
        if time.monotonic() - began < 90:
            node = 1 + killed % 3
            cluster.kill(node)
            time.sleep(1)
            cluster.restart(node)
            killed += 1
            if killed == 4:
                first.send_signal(signal.SIGKILL)
                first.wait()
                programs.start("process")
    said = programs.said("run-2")
    assert driver.poll() == 0, said[-3000:]
    assert killed >= 6
    assert "ALL-RECORDS-DELIVERED" in said
    assert re.search(r"^SUCCESS$", said, re.MULTILINE), said[-3000:]
    assert "PROCESSED-MORE-THAN-GENERATED" not in said
