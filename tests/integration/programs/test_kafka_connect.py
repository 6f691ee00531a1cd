"""Kafka Connect in distributed mode: a file to a topic to a file, while brokers and the worker are killed."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from yak.local import ports
from yak.testing.cluster import Cluster

Wait = Callable[..., None]
pytestmark = [pytest.mark.jvm, pytest.mark.thorough, pytest.mark.timeout(400)]
SETTINGS = """\
bootstrap.servers={bootstrap}
group.id=connect
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
offset.storage.partitions=5
status.storage.topic=connect-status
offset.flush.interval.ms=500
plugin.path={libs}
plugin.discovery=service_load
listeners=http://127.0.0.1:{port}
"""
EXACTLY_ONCE = "exactly.once.source.support=enabled\n"


class Worker:
    """One Connect worker; its port stays the same over a kill and a start."""

    def __init__(
        self, folder: Path, java: list[str], libs: Path, bootstrap: str, wait_until: Wait, more: str = ""
    ) -> None:
        self._wait_until = wait_until
        self._log = folder / "connect.log"
        self.port = ports.find_free("127.0.0.1")
        settings = folder / "worker.properties"
        settings.write_text(SETTINGS.format(bootstrap=bootstrap, libs=libs, port=self.port) + more)
        self._command = [*java, "org.apache.kafka.connect.cli.ConnectDistributed", str(settings)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        self._wait_until(lambda: self.get("/connectors") is not None, 120, self.said)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def get(self, path: str) -> Any:
        """The answer; None while the worker does not answer yet."""
        assert self._process is not None
        assert self._process.poll() is None, self.said()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None

    def create(self, name: str, **config: str) -> None:
        body = json.dumps({"name": name, "config": {key.replace("_", "."): value for key, value in config.items()}})
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/connectors", body.encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 201


@pytest.fixture
def worker(
    yak_cluster: Cluster, tmp_path: Path, java: list[str], libs: Path, wait_until: Wait, request: pytest.FixtureRequest
) -> Iterator[Worker]:
    """A running worker; an indirect parameter adds to its settings."""
    more = getattr(request, "param", "")
    found = Worker(tmp_path, java, libs, yak_cluster.bootstrap, wait_until, more)
    found.start()
    try:
        yield found
    finally:
        found.kill()


@pytest.mark.yak(brokers=3)
def test_connect_copies_every_line_once_through_a_killed_broker_and_a_killed_worker(
    yak_cluster: Cluster, worker: Worker, tmp_path: Path, wait_until: Wait
) -> None:
    lines, copied = tmp_path / "in.txt", tmp_path / "out.txt"

    def write(numbers: range) -> None:
        with lines.open("a") as file:
            file.writelines(f"{number}\n" for number in numbers)

    def copies() -> list[str]:
        return copied.read_text().splitlines() if copied.exists() else []

    write(range(1000))
    package = "org.apache.kafka.connect.file."
    worker.create("source", connector_class=f"{package}FileStreamSourceConnector", file=str(lines), topic="lines")
    worker.create("sink", connector_class=f"{package}FileStreamSinkConnector", file=str(copied), topics="lines")
    wait_until(lambda: len(copies()) >= 1000, 90, worker.said)
    yak_cluster.kill(yak_cluster.leader_of("connect-configs"))
    write(range(1000, 2000))
    wait_until(lambda: len(copies()) >= 2000, 90, worker.said)
    assert copies() == [str(number) for number in range(2000)]
    time.sleep(2)  # its offsets are flushed every 0.5 s
    worker.kill()
    write(range(2000, 2500))
    worker.start()
    wait_until(lambda: len(copies()) >= 2500, 120, worker.said)
    assert copies() == [str(number) for number in range(2500)]


@pytest.mark.yak(brokers=3)
@pytest.mark.parametrize("worker", [EXACTLY_ONCE], indirect=True, ids=["exactly-once"])
def test_connect_exactly_once_writes_each_line_once_whenever_worker_and_brokers_are_killed(
    yak_cluster: Cluster, worker: Worker, tmp_path: Path, wait_until: Wait
) -> None:
    lines, written = tmp_path / "in.txt", 0
    lines.touch()
    source = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    worker.create(
        "source",
        connector_class=source,
        file=str(lines),
        topic="lines",
        exactly_once_support="required",
        batch_size="20",
    )
    reader = Consumer(
        {
            "bootstrap.servers": yak_cluster.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    reader.subscribe(["lines"])
    read: list[int] = []

    def write(count: int) -> None:
        nonlocal written
        with lines.open("a") as file:
            file.writelines(f"{number}\n" for number in range(written, written + count))
        written += count

    def has_read(count: int) -> bool:
        read.extend(int(message.value() or b"") for message in reader.consume(1000, 0.5) if not message.error())
        return len(read) >= count

    try:
        for killed in ("worker", "connect-offsets", "lines", "worker"):
            write(2000)
            wait_until(lambda: has_read(written - 1500), 90, worker.said)
            if killed == "worker":
                worker.kill()
                worker.start()
            else:
                node = yak_cluster.leader_of(killed)
                yak_cluster.kill(node)
                yak_cluster.restart(node)
        wanted = written
        write(500)  # the source keeps up to 1,024 bytes of lines until more are written
        wait_until(lambda: has_read(wanted), 120, worker.said)
        assert read == list(range(len(read)))
    finally:
        reader.close()
