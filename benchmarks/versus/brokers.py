"""The two brokers under test, each started fresh in a temporary folder and measured from outside.

Both are driven the same way: `start` spawns and returns at once, `wait_for_first_ack` times a client that retries
until one message is acknowledged.
"""

import base64
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol, TypeVar

import confluent_kafka
import psutil
from versus.kafka_jars import JVM_FLAGS

from yak.local.bench.fleet import process_cpu_seconds

STOP_SECONDS = 30
FIRST_ACK_SECONDS = 120

SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller_port}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""config/server.properties of the Kafka 4 release, with addresses and a data folder of our own."""

LOG4J2 = """\
Configuration:
  Appenders:
    File: {{name: file, fileName: "{log}", PatternLayout: {{pattern: "[%d] %p %m (%c)%n"}}}}
  Loggers:
    Root: {{level: INFO, AppenderRef: {{ref: file}}}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Watched(Protocol):
    """Processes as the operating system sees them: the broker's, then those of its helpers."""

    def pids(self) -> list[int]:
        """Of the processes, the broker's first."""

    def cpu_seconds(self) -> float:
        return sum(process_cpu_seconds(pid) for pid in self.pids())

    def rss_bytes(self) -> int:
        return int(psutil.Process(self.pids()[0]).memory_info().rss)

    def all_rss_bytes(self) -> int:
        return sum(int(psutil.Process(pid).memory_info().rss) for pid in self.pids())

    def kill(self) -> None:
        """SIGKILL the broker's process, and wait for its end; `start` starts it again on its data."""
        process = psutil.Process(self.pids()[0])
        process.kill()
        process.wait(STOP_SECONDS)


class Broker(Watched, Protocol):
    """One broker process, fresh data, on loopback."""

    name: str

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""

    def prepare(self) -> None:
        """What a user does once before the first start (Kafka: format the storage)."""

    def start(self) -> None:
        """Spawn the broker; returns at once."""

    def log_tail(self) -> str:
        """The end of the broker's log, for a broker that does not answer."""

    def stop(self) -> None:
        """End every process that was started, and remove the data."""


def wait_for_first_ack(bootstrap: str, topic: str) -> None:
    """Return when one message to `topic` (auto-created) is acknowledged; the client retries every few ms.

    Raises TimeoutError after `FIRST_ACK_SECONDS`.
    """
    config = {
        "bootstrap.servers": bootstrap,
        "linger.ms": 0,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 20,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 20,
        "topic.metadata.refresh.fast.interval.ms": 10,
        "topic.metadata.propagation.max.ms": FIRST_ACK_SECONDS * 1000,
        "log_level": 0,
        "error_cb": lambda _error: None,
    }
    acknowledged: list[bool] = []
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"first", on_delivery=lambda error, _message: acknowledged.append(error is None))
    deadline = time.monotonic() + FIRST_ACK_SECONDS
    while not acknowledged and time.monotonic() < deadline:
        producer.poll(0.05)
    if acknowledged != [True]:
        raise TimeoutError(f"{bootstrap} acknowledged nothing in {FIRST_ACK_SECONDS} s")


AnyBroker = TypeVar("AnyBroker", bound=Broker)


def start_and_wait(broker: Broker) -> float:
    """Start a prepared broker; seconds to the first acknowledgement. Raises RuntimeError with the end of its log."""
    started = time.monotonic()
    broker.start()
    try:
        wait_for_first_ack(broker.bootstrap, "first")
    except TimeoutError as error:
        raise RuntimeError(f"{broker.name}: {error}; its log ends:\n{broker.log_tail()}") from None
    return time.monotonic() - started


def tail(path: Path) -> str:
    """The last 2,000 characters of a file; nothing if it is not there."""
    return path.read_text("utf-8", "replace")[-2000:] if path.exists() else ""


def stop_process(process: subprocess.Popen[bytes] | None) -> None:
    """SIGTERM, then SIGKILL after `STOP_SECONDS`; never leaves the process behind."""
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def spawn(
    command: list[str], folder: Path, out: IO[bytes], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that a Ctrl+C reaches only the benchmark."""
    return subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, env=environment, start_new_session=True)


def java_command(jars: Path, folder: Path, *arguments: str, flags: Sequence[str] = JVM_FLAGS) -> list[str]:
    """A command line that runs a class of Kafka's jars with the broker's JVM flags, logging as the folder says."""
    heap = os.environ.get("KAFKA_HEAP_OPTS", "").split()
    logging = f"-Dlog4j2.configurationFile={folder / 'log4j2.yaml'}"
    return ["java", *flags, *heap, logging, "-cp", f"{jars}/*", *arguments]


@dataclass(slots=True)
class KafkaBroker(Watched):
    """Apache Kafka as one KRaft node: controller and broker in one JVM, with the flags of its own scripts."""

    jars: Path
    folder: Path
    name: str = "kafka"
    host: str = "127.0.0.1"
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    tls_port: int = 0
    """Of a second listener with TLS, whose key store is `key_store`; 0 for none."""
    key_store: Path | None = None
    jvm_flags: Sequence[str] = tuple(JVM_FLAGS)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def java(self, *arguments: str) -> list[str]:
        """A command line that runs a class of Kafka's jars with the broker's JVM flags."""
        return java_command(self.jars, self.folder, *arguments, flags=self.jvm_flags)

    def prepare(self) -> None:
        """Write the config and format the storage, as the quick start says. Raises CalledProcessError."""
        self.folder.mkdir(parents=True)
        config = self.folder / "server.properties"
        text = SERVER_PROPERTIES.format(
            host=self.host, port=self.port, controller_port=free_port(), data=self.folder / "data"
        )
        if self.tls_port:
            text = text.replace("listeners=PLAINTEXT", f"listeners=SSL://127.0.0.1:{self.tls_port},PLAINTEXT")
            text = text.replace("protocol.map=", "protocol.map=SSL:SSL,")
            text += f"ssl.keystore.type=PEM\nssl.keystore.location={self.key_store}\n"
        config.write_text(text)
        (self.folder / "log4j2.yaml").write_text(LOG4J2.format(log=self.folder / "server.log"))
        # A leading "-" would be read as an option; Kafka's own Uuid.randomUuid avoids it too.
        cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        format_ = ("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", str(config))
        subprocess.run(self.java(*format_), check=True, capture_output=True)

    def start(self) -> None:
        with (self.folder / "out.log").open("wb") as out:
            command = self.java("kafka.Kafka", str(self.folder / "server.properties"))
            self.process = spawn(command, self.folder, out)

    def pids(self) -> list[int]:
        assert self.process is not None
        return [self.process.pid]

    def log_tail(self) -> str:
        return tail(self.folder / "out.log") + tail(self.folder / "server.log")

    def stop(self) -> None:
        stop_process(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def running(broker: AnyBroker) -> Iterator[AnyBroker]:
    """The broker with fresh data in a folder that does not exist yet; it accepts records.

    Raises RuntimeError when it does not start, CalledProcessError when its storage cannot be formatted.
    """
    try:
        broker.prepare()
        start_and_wait(broker)
        yield broker
    finally:
        broker.stop()
