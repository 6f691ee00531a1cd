"""Quix Streams and Faust: counts by key are right though brokers and programs are killed or their state is lost."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clusters import running_cluster
from yak.local.cluster import LocalCluster, UpSettings

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[2] / "build/programs"
QUIX, FAUST = "quixstreams==3.28.1", "faust-streaming==0.15.3"
PARTITIONS, KEYS = 3, 10
RESULT_SECONDS = 90


def python_with(package: str) -> str:
    """The Python of an environment with this package, which is made at the first call."""
    folder = ENVIRONMENTS / package
    python = str(folder / "bin/python")
    ready = folder / "ready"
    if not ready.exists():
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", folder], capture_output=True, text=True)
        if not made.returncode:
            install = [python, "-m", "pip", "install", "--quiet", package]
            made = subprocess.run(install, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"{package} cannot be installed: {(made.stdout + made.stderr)[-300:]}")
        ready.touch()
    return python


class Programs:
    """The processes of one test, with their output in a file."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "programs.log"
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, package: str, file: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program of this folder."""
        with self.log.open("ab") as log:
            command = [python_with(package), str(HERE / file), *arguments]
            program = subprocess.Popen(command, stdout=log, stderr=log)
        self.running.append(program)
        return program

    def said(self) -> str:
        """The end of the programs' output."""
        return self.log.read_text(errors="replace")[-3000:]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three brokers with the topics `orders` and `counts`."""
    with running_cluster(tmp_path / "cluster", UpSettings(port=0, brokers=3, no_http=True)) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.status().bootstrap})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in ("orders", "counts")]).values():
            created.result(20)
        yield cluster


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    for program in programs.running:
        program.kill()
        program.wait()


class Counts:
    """Writes orders, and reads what the program counted."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2})
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition("counts", number, 0) for number in range(PARTITIONS)])
        self.written: Counter[str] = Counter()
        self.read: dict[str, list[int]] = {}

    def write(self, count: int) -> None:
        """Write this many orders."""
        for _ in range(count):
            key = f"key-{self.written.total() % KEYS}"
            self._producer.produce("orders", b"order", key)
            self.written[key] += 1
        assert self._producer.flush(60) == 0

    def read_on(self) -> bool:
        """Read what is there; whether all keys' last numbers are, at least, those written."""
        for message in self._consumer.consume(500, 0.5):
            assert message.error() is None or message.error().retriable(), message.error()
            if message.error() is None:
                self.read.setdefault(message.key().decode(), []).append(int(message.value()))
        return all(self.read.get(key, [0])[-1] >= number for key, number in self.written.items())

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()


@pytest.fixture
def counts(cluster: LocalCluster) -> Iterator[Counts]:
    counts = Counts(cluster.status().bootstrap)
    yield counts
    counts.close()


def test_quix_exactly_once_counts_each_order_once_while_brokers_and_programs_are_killed(
    cluster: LocalCluster, programs: Programs, counts: Counts, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    def start(number: int) -> subprocess.Popen[bytes]:
        state = str(tmp_path / f"state-{number}")
        return programs.start(QUIX, "quix_counts.py", cluster.status().bootstrap, state, "exactly-once")

    running = [start(0)]
    counts.write(100)
    wait_until(counts.read_on, RESULT_SECONDS, programs.said)
    for round_ in range(6):
        cluster.kill(1 + round_ % 3)
        counts.write(300)
        if round_ in (1, 4):
            running[-1].kill()
            running[-1].wait()
            running.append(start(len(running)))
        counts.write(100)
        cluster.restart(1 + round_ % 3)
        counts.read_on()
        time.sleep(2)
    wait_until(counts.read_on, RESULT_SECONDS, programs.said)
    for key, number in counts.written.items():
        assert counts.read[key] == list(range(1, number + 1)), key


@pytest.mark.parametrize("program", ["quix", "faust"])
def test_a_program_counts_on_when_its_state_is_lost(cluster, programs, counts, wait_until, tmp_path, program):
    def start(number: int) -> subprocess.Popen[bytes]:
        bootstrap, state = cluster.status().bootstrap, str(tmp_path / f"state-{number}")
        if program == "quix":
            return programs.start(QUIX, "quix_counts.py", bootstrap, state, "at-least-once")
        return programs.start(FAUST, "faust_counts.py", bootstrap, state)

    for number in range(3):
        running = start(number)
        counts.write(500)
        wait_until(counts.read_on, RESULT_SECONDS, programs.said)
        running.send_signal(signal.SIGTERM)
        running.wait(60)
    for key, number in counts.written.items():
        assert counts.read[key] == list(range(1, number + 1)), key
