"""A producer that keeps writing in a thread, and remembers what was acknowledged; a reader of everything."""

import threading
import time
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition


class SteadyLoad:
    """Writes `<name>:<number>` to partitions in turn, idempotent, until stopped. A context manager."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int = 1,
        name: str = "load",
        pause_seconds: float = 0.005,
        **settings: Any,
    ) -> None:
        self.acknowledged: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
        self.offsets: dict[int, list[int | None]] = {partition: [] for partition in range(partitions)}
        self.failed: list[str] = []
        self.last_error = ""
        self.slowest_ack_seconds = 0.0
        self._topic = topic
        self._partitions = partitions
        self._name = name
        self._pause = pause_seconds
        self._stopping = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 25,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "message.timeout.ms": 60_000,
                "log_level": 0,
                "error_cb": self._erred,
                **settings,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Write no more, and wait until everything is acknowledged or failed."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join(30)
            left = self._producer.flush(60)
            assert left == 0, f"{left} messages neither acknowledged nor failed"

    def pause(self) -> None:
        """Write nothing until `go_on`, and wait until everything is acknowledged or failed."""
        self._going.clear()
        assert self._producer.flush(60) == 0

    def go_on(self) -> None:
        """Write again."""
        self._going.set()

    def wait_for(self, count: int, seconds: float = 60) -> None:
        """Wait until so many more messages than now are acknowledged."""
        goal = self.total + count
        deadline = time.monotonic() + seconds
        while self.total < goal:
            assert time.monotonic() < deadline, (
                f"{goal - self.total} acknowledgements missing after {seconds} s; {len(self._producer)} messages wait,"
                f" {len(self.failed)} failed ({self.failed[-1:]}); the client's last error: {self.last_error!r}"
            )
            time.sleep(0.01)

    @property
    def total(self) -> int:
        """Messages acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            if not self._going.wait(0.05):
                continue
            partition = number % self._partitions
            value = f"{self._name}:{number}".encode()
            try:
                self._producer.produce(
                    self._topic, value, partition=partition, on_delivery=self._reporter(time.monotonic())
                )
                number += 1
            except BufferError:
                time.sleep(0.05)
            self._producer.poll(0)
            time.sleep(self._pause)

    def _erred(self, error: Any) -> None:
        self.last_error = str(error)

    def _reporter(self, sent_at: float) -> Any:
        def report(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acknowledged[message.partition()].append(message.value())
                self.offsets[message.partition()].append(message.offset())
                self.slowest_ack_seconds = max(self.slowest_ack_seconds, time.monotonic() - sent_at)

        return report


def read_messages(
    bootstrap: str,
    topic: str,
    partition: int = 0,
    offset: int = 0,
    *,
    count_max: int | None = None,
    seconds: float = 30,
) -> list[Message]:
    """Every message of a partition from an offset on; while somebody writes there is no end, so say how many."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0}
    consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        found: list[Message] = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append(message)
            if len(found) == count_max:
                return found
        raise AssertionError(f"no end of {topic}-{partition} in {seconds} s: {len(found)} read, {count_max} wanted")
    finally:
        consumer.close()


def read_all(
    bootstrap: str, topic: str, partition: int = 0, offset: int = 0, *, count_max: int | None = None
) -> list[bytes | None]:
    """The value of each of them."""
    return [each.value() for each in read_messages(bootstrap, topic, partition, offset, count_max=count_max)]


def check_complete(load: SteadyLoad, bootstrap: str, topic: str) -> None:
    """Every acknowledged message is there once, in the order of its producer, where it was said to be."""
    assert load.failed == []
    for partition, acknowledged in load.acknowledged.items():
        found = read_all(bootstrap, topic, partition)
        assert len(set(found)) == len(found), "a message is there twice"
        ours = set(acknowledged)
        assert [value for value in found if value in ours] == acknowledged
        # A repeat of what was taken before is acknowledged, and where that was may not be known any more.
        told = [(at, value) for at, value in zip(load.offsets[partition], acknowledged, strict=True) if at is not None]
        assert [at for at, _value in told] == sorted(at for at, _value in told)
        assert all(found[at] == value for at, value in told)
