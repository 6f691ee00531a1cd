"""Apache Kafka's Java client with the methods of confluent_kafka, for the clients of a chaos run: a JVM for each of them."""

import base64
import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from yak.local.chaos.members import Library

SOURCE = Path(__file__).parent / "TransactionalClient.java"
JVM_FLAGS = ("-Xmx192M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=INFO")
COMMON = ("bootstrap.servers", "client.id", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms")
"""Settings that both libraries have, and take from the run."""
OF_PRODUCER = (*COMMON, "transactional.id", "transaction.timeout.ms", "delivery.timeout.ms", "linger.ms")
OF_CONSUMER = (
    *(*COMMON, "group.id", "enable.auto.commit", "auto.offset.reset", "isolation.level"),
    *("session.timeout.ms", "heartbeat.interval.ms"),
)
MORE_OF_PRODUCER = {"max.block.ms": 10_000, "request.timeout.ms": 5_000}
MORE_OF_CONSUMER = {"default.api.timeout.ms": 10_000, "request.timeout.ms": 10_000, "fetch.max.wait.ms": 100}


class Jvm:
    """One program of TransactionalClient.java, and its orders."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.is_killed = False
        self.on_rebalance: Callable[[str, list[Any]], None] = lambda _how, _partitions: None
        self._on_delivery: dict[int, Callable[[Any, Any], None]] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()

    def perform(self, do: str, **more: Any) -> dict[str, Any]:
        """Give an order; return its answer. Raises KafkaException with the client's error, or when the JVM has ended."""
        with self._lock:
            self._write(do, **more)
            while True:
                line = self._read()
                error = error_of(line)
                if "delivered" in line:
                    self._on_delivery.pop(line["delivered"])(error, Message("", -1, line.get("offset", -1)))
                elif "rebalanced" in line:
                    self.on_rebalance(line["rebalanced"], partitions_of(line))
                    self._write("resume")
                elif error is not None:
                    raise KafkaException(error)
                else:
                    return line

    def number_of(self, on_delivery: Callable[[Any, Any], None]) -> int:
        """The number of a record, with which its delivery is reported."""
        number = next(self._numbers)
        self._on_delivery[number] = on_delivery
        return number

    def kill(self) -> None:
        """Kill it in the middle of whatever it does."""
        self.is_killed = True
        self.process.kill()
        self.process.wait()

    def _write(self, do: str, **more: Any) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise has_ended() from error

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise has_ended()
        return dict(json.loads(line))


class Producer:
    """A KafkaProducer with a transactional id. A second one of the same JVM replaces the first."""

    def __init__(self, jvm: Jvm, config: Mapping[str, Any]) -> None:
        self._jvm = jvm
        self._config = {name: str(config[name]) for name in OF_PRODUCER} | MORE_OF_PRODUCER
        self._is_new = True

    def init_transactions(self, _seconds: float) -> None:
        if self._is_new:
            self._jvm.perform("new producer", config=self._config)
            self._is_new = False
        self._jvm.perform("init")

    def begin_transaction(self) -> None:
        self._jvm.perform("begin")

    def produce(
        self, topic: str, value: bytes, key: bytes | None, *, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        content = {"key": None if key is None else base64_of(key), "value": base64_of(value)}
        number = self._jvm.number_of(on_delivery)
        self._jvm.perform("produce", topic=topic, partition=partition, number=number, **content)

    def send_offsets_to_transaction(self, offsets: Iterable[Any], _metadata: None, _seconds: float) -> None:
        self._jvm.perform("offsets", offsets=offsets_of(offsets))

    def flush(self, _seconds: float) -> int:
        self._jvm.perform("flush")
        return 0

    def commit_transaction(self, _seconds: float) -> None:
        self._jvm.perform("commit")

    def abort_transaction(self, _seconds: float) -> None:
        self._jvm.perform("abort")

    def purge(self, **_what: bool) -> None:
        """Nothing: its successor closes it."""


class Consumer:
    """A KafkaConsumer in a group. When its JVM was killed, it reads nothing more."""

    def __init__(self, jvm: Jvm, config: Mapping[str, Any]) -> None:
        self._jvm = jvm
        self._config = {name: str(config[name]) for name in OF_CONSUMER} | MORE_OF_CONSUMER

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[["Consumer", list[Any]], None]) -> None:
        self._jvm.on_rebalance = lambda how, partitions: callbacks[f"on_{how}"](self, partitions)
        self._perform("subscribe", topics=topics, config=self._config)

    def consume(self, _count: int, seconds: float) -> list["Message"]:
        """The records of a poll; as ends, the offsets where the next one goes on: behind a transaction's marker, too."""
        found = self._perform("poll", ms=int(seconds * 1000))
        records = [Message(*place, base64.b64decode(value)) for *place, value in found.get("records", ())]
        ends = [Message(*place, error=KafkaError(KafkaError._PARTITION_EOF)) for place in found.get("next", ())]
        return records + ends

    def assignment(self) -> list[Any]:
        return partitions_of(self._perform("assignment"))

    def committed(self, partitions: Sequence[Any], timeout: float) -> list[Any]:
        """The group's committed offsets. A KafkaConsumer's program cannot go on without them: it asks again."""
        while True:
            try:
                found = self._perform("committed", offsets=offsets_of(partitions))
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return [TopicPartition(*place, OFFSET_INVALID if offset < 0 else offset)
                        for *place, offset in found.get("offsets", ())]  # fmt: skip

    def assign(self, partitions: Sequence[Any]) -> None:
        """Go on at these offsets, or at the beginning where the group has committed none."""
        known = [each for each in partitions if each.offset >= 0]
        unknown = [each for each in partitions if each.offset < 0]
        self._perform("seek", offsets=offsets_of(known))
        self._perform("seek to beginning", offsets=offsets_of(unknown))

    def consumer_group_metadata(self) -> None:
        """None: the JVM sends its own consumer's."""

    def close(self) -> None:
        self._perform("close")

    def _perform(self, do: str, **more: Any) -> dict[str, Any]:
        try:
            return self._jvm.perform(do, **more)
        except KafkaException:
            if self._jvm.is_killed:
                return {}
            raise


class Message:
    """A record, or an end of a partition, with the methods of confluent_kafka's."""

    def __init__(self, topic: str, partition: int, offset: int, value: bytes = b"", error: Any = None) -> None:
        self.topic = lambda: topic
        self.partition = lambda: partition
        self.offset = lambda: offset
        self.value = lambda: value
        self.error = lambda: error


class Jvms:
    """The libraries of all clients of a run. A test may bring a faulty producer or consumer."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command, self._folder = command, folder
        self.producer: type[Producer] = Producer
        self.consumer: type[Consumer] = Consumer
        self.all: list[Jvm] = []

    def library(self) -> Library:
        """A JVM for another client."""
        jvm = Jvm(self._command, self._folder / f"jvm-{len(self.all)}.log")
        self.all.append(jvm)
        return Library(partial(self.producer, jvm), partial(self.consumer, jvm), jvm.kill)


def error_of(line: Mapping[str, Any]) -> Any:
    if "error" not in line:
        return None
    return KafkaError(line["error"], line["words"], fatal=line["fatal"], retriable=line.get("retriable", False))


def has_ended() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FATAL, "the JVM has ended", fatal=True))


def partitions_of(line: Mapping[str, Any]) -> list[Any]:
    return [TopicPartition(*place) for place in line.get("partitions", ())]


def offsets_of(partitions: Iterable[Any]) -> list[tuple[str, int, int]]:
    """As the program reads them; without an offset 0, which it then ignores."""
    return [(each.topic, each.partition, max(0, each.offset)) for each in partitions]


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()
