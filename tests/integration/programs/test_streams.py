"""Kafka's own checks and examples of Kafka Streams: nothing is lost while brokers and programs are killed.

`StreamsSmokeTest` is the program of Kafka's system tests. One process writes numbers for 90 seconds and then verifies the
results, the others process them. With `exactly_once_v2` it requires each result to be exact. With `at_least_once`, where
records are processed again after a crash, it requires each record to be processed, exact minima, maxima, differences and
suppressed windows, and counts and sums that are not too low (SmokeTestDriver.verifyAll).
"""

import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clusters import running_cluster
from yak.local.cluster import LocalCluster, UpSettings

pytestmark = [pytest.mark.jvm, pytest.mark.thorough, pytest.mark.timeout(700)]
SMOKE_TEST = "org.apache.kafka.streams.tests.StreamsSmokeTest"
WORD_COUNT = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
TOPICS = [
    "data", "fk", "echo", "min", "min-suppressed", "min-raw", "max", "sum", "sws-raw", "sws-suppressed", "dif", "cnt",
    "avg", "wcnt", "tagg", "fk-result",
]  # fmt: skip
SETTINGS = """\
bootstrap.servers={bootstrap}
processing.guarantee={guarantee}
state.dir={state}
num.standby.replicas=1
replication.factor=3
acks=all
commit.interval.ms=1000
session.timeout.ms=10000
"""
BETWEEN_KILLS_SECONDS = 8
DRIVER_SECONDS = 480
WORD_COUNT_SETTINGS = """\
bootstrap.servers={bootstrap}
state.dir={state}
replication.factor=3
commit.interval.ms=500
"""
WORDS = ("log", "leader", "follower", "epoch", "offset", "broker", "fenced")
LINES = 3_000


class Programs:
    """The Java programs of a test."""

    def __init__(self, command: list[str], folder: Path, bootstrap: str) -> None:
        self._command, self._folder, self._bootstrap = command, folder, bootstrap
        self.running: list[subprocess.Popen[bytes]] = []

    def start_smoke_test(self, what: str, guarantee: str) -> subprocess.Popen[bytes]:
        """Start `process` or `run` of StreamsSmokeTest."""
        return self._start(what, SETTINGS.replace("{guarantee}", guarantee), SMOKE_TEST, what)

    def start_word_count(self) -> subprocess.Popen[bytes]:
        """Start WordCountDemo, whose guarantee is the default, `at_least_once`."""
        return self._start("words", WORD_COUNT_SETTINGS, WORD_COUNT)

    def _start(self, what: str, template: str, class_name: str, *arguments: str) -> subprocess.Popen[bytes]:
        name = f"{what}-{len(self.running)}"
        settings = self._folder / f"{name}.properties"
        settings.write_text(template.format(bootstrap=self._bootstrap, state=self._folder / f"{name}-state"))
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [*self._command, class_name, str(settings), *arguments]
            program = subprocess.Popen(command, stdout=log, stderr=log)
        self.running.append(program)
        return program

    def said(self, name: str) -> str:
        """A program's output."""
        return (self._folder / f"{name}.log").read_text(errors="replace")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three brokers, as `yak up -d --brokers 3` starts them."""
    with running_cluster(tmp_path / "cluster", UpSettings(port=0, brokers=3, no_http=True)) as cluster:
        yield cluster


@pytest.fixture
def programs(cluster: LocalCluster, streams_java: list[str], tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(streams_java, tmp_path, cluster.status().bootstrap)
    yield programs
    for program in programs.running:
        program.kill()
        program.wait()


def create_topics(cluster: LocalCluster, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.status().bootstrap})
    for created in admin.create_topics([NewTopic(name, 5, 3) for name in names]).values():
        created.result(20)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_streams_smoke_test_succeeds_while_brokers_and_programs_are_killed(cluster, programs, guarantee):
    create_topics(cluster, TOPICS)
    first = programs.start_smoke_test("process", guarantee)
    programs.start_smoke_test("process", guarantee)
    driver = programs.start_smoke_test("run", guarantee)
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
                programs.start_smoke_test("process", guarantee)
    said = programs.said("run-2")
    assert driver.poll() == 0, said[-3000:]
    assert killed >= 4  # the fourth time a program is killed too; a busy machine restarts brokers slowly
    assert "ALL-RECORDS-DELIVERED" in said
    assert re.search(r"^SUCCESS$", said, re.MULTILINE), said[-3000:]
    assert "PROCESSED-LESS-THAN-GENERATED" not in said
    if guarantee == "exactly_once_v2":
        assert "PROCESSED-MORE-THAN-GENERATED" not in said


class WordCounts:
    """The last count of each word in WordCountDemo's output topic."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "counts"})
        self._consumer.assign([TopicPartition("streams-wordcount-output", number, 0) for number in range(5)])
        self.latest: Counter[str] = Counter()

    def read(self) -> Counter[str]:
        """Read on, and return the counts."""
        for record in self._consumer.consume(1000, 0.5):
            assert record.error() is None or record.error().retriable(), record.error()
            if record.error() is None:
                self.latest[record.key().decode()] = int.from_bytes(record.value(), "big")
        return self.latest

    def close(self) -> None:
        self._consumer.close()


def test_streams_wordcount_is_exact_without_a_crash(cluster, programs, wait_until):
    create_topics(cluster, ["streams-plaintext-input", "streams-wordcount-output"])
    bootstrap = cluster.status().bootstrap
    program = programs.start_word_count()
    rng, expected = random.Random(1), Counter[str]()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(LINES):
        words = rng.choices(WORDS, k=rng.randrange(1, 6))
        expected.update(words)
        producer.produce("streams-plaintext-input", " ".join(words).encode(), key=b"%d" % number)
    assert producer.flush(20) == 0
    counts = WordCounts(bootstrap)
    try:
        wait_until(
            lambda: counts.read() == expected, 120, lambda: f"{counts.latest}\n{programs.said('words-0')[-3000:]}"
        )
        program.terminate()
        program.wait(60)
        # the stop commits, and must not count a record again
        assert counts.read() == expected
    finally:
        counts.close()
