"""The workload of `yak ui --demo`: orders and payments at a steady rate, and a group of two that reads them.

A header of each record holds its number in the partition, so that `LiveLedger` can count lost, duplicated and reordered
records at any time. The clients are ordinary: acks=all, idempotent, a consumer group with committed offsets.
"""

import json
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from yak.client.connection import IMPATIENT, base_config
from yak.client.errors import name_of
from yak.ids import TopicPartition
from yak.local.demo.live_ledger import Counts, LiveLedger

HEADER: Final = "yak-demo"
"""The record's number in its partition, in decimal."""
GROUP: Final = "billing"
MEMBERS: Final = 2
PAUSE_TOLD_MS: Final = 40.0
"""Pauses are reported from here on: several times a normal acknowledgement latency."""
_CUSTOMERS: Final = 200
_CITIES: Final = ("Oslo", "Lima", "Kyoto", "Accra", "Porto", "Quito", "Hanoi", "Tunis")
_POLL_SECONDS: Final = 0.05
_FLUSH_SECONDS: Final = 3.0
_GONE: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID")
_HANGING: Final[dict[str, int]] = {"socket.timeout.ms": 1000, "topic.metadata.refresh.interval.ms": 250}
"""A paused broker resets no connection: requests must time out, and look for another leader."""


@dataclass(frozen=True, slots=True)
class FlowTopic:
    """A topic of the workload, and its records per second."""

    name: str
    partitions: int
    rate: float


TOPICS: Final = (FlowTopic("orders", 3, 400.0), FlowTopic("payments", 2, 100.0))


@dataclass(frozen=True, slots=True)
class Pause:
    """A partition had no acknowledgement for so long while records were in flight. Times are `time.time()` in ms."""

    topic: str
    partition: int
    from_ms: float
    until_ms: float


def order_of(topic: str, number: int) -> tuple[bytes, bytes]:
    """Key and JSON value of the record with this number in its topic; deterministic."""
    mixed = zlib.crc32(b"%s-%d" % (topic.encode(), number))
    customer = f"c-{mixed % _CUSTOMERS:03}"
    order: dict[str, object] = {"order": f"o-{number:07}", "customer": customer, "city": _CITIES[mixed % len(_CITIES)]}
    if topic == "payments":
        order = {"payment": f"p-{number:07}", "customer": customer, "method": ("card", "cash", "transfer")[mixed % 3]}
    order["total"] = (mixed >> 8) % 50_000 / 100
    order["currency"] = ("EUR", "USD", "JPY")[(mixed >> 5) % 3]
    return customer.encode(), json.dumps(order, separators=(",", ":")).encode()


class OrderFlow:
    """Writes and reads from `start` to `stop`. Its counts are thread-safe."""

    def __init__(
        self, bootstrap: str, topics: Sequence[FlowTopic], on_pause: Callable[[Pause], None], *, rate: float = 1.0
    ) -> None:
        self._bootstrap = bootstrap
        self._topics = [FlowTopic(each.name, each.partitions, each.rate * rate) for each in topics]
        self._on_pause = on_pause
        self._lock = threading.Lock()
        self._ledger = LiveLedger()
        self._enough_written, self._enough_read = threading.Event(), threading.Event()
        self._sent: dict[str, int] = {each.name: 0 for each in topics}
        self._numbers: dict[TopicPartition, int] = {}
        self._under_way: dict[TopicPartition, int] = {}
        self._last_ack_ms: dict[TopicPartition, float] = {}
        self.gone: set[str] = set()
        """Deleted topics: nothing is sent to them any more."""
        self.last_error = ""
        self._writer = threading.Thread(target=self._write, name="order-writer", daemon=True)
        self._readers = [
            threading.Thread(target=self._read, args=(number,), name=f"order-reader-{number}", daemon=True)
            for number in range(1, MEMBERS + 1)
        ]

    def start(self) -> None:
        """Start writing and reading."""
        for thread in (self._writer, *self._readers):
            thread.start()

    def counts(self) -> Counts:
        """The counts of acknowledged and read records so far."""
        with self._lock:
            return self._ledger.counts(time.time() * 1000.0)

    def stop(self, settle_seconds: float) -> Counts:
        """Stop writing, read the rest for at most so long, and return the final counts."""
        self._enough_written.set()
        self._writer.join(settle_seconds + 1.0)
        deadline = time.monotonic() + settle_seconds
        while self.counts().waiting and time.monotonic() < deadline:
            time.sleep(0.02)
        self._enough_read.set()
        for reader in self._readers:
            reader.join(1.0)
        return self.counts()

    # ---------------------------------------------------------------------------------------------------- writing

    def _write(self) -> None:
        began = time.monotonic()
        due = [began] * len(self._topics)
        producer = self._new_producer()
        while not self._enough_written.is_set():
            now = time.monotonic()
            for at, topic in enumerate(self._topics):
                while due[at] <= now:
                    # Missed records are not caught up: the rate after a pause is the rate before it.
                    due[at] = due[at] + 1.0 / topic.rate if now - due[at] < 1.0 else now + 1.0 / topic.rate
                    producer = self._send(producer, topic)
            producer.poll(min(max(min(due) - time.monotonic(), 0.0), _POLL_SECONDS))
        producer.flush(_FLUSH_SECONDS)

    def _new_producer(self) -> Any:
        import confluent_kafka

        return confluent_kafka.Producer(
            base_config(self._bootstrap)
            | IMPATIENT
            | _HANGING
            | {
                "client.id": "yak-demo-shop",
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 300_000,
                "allow.auto.create.topics": False,
            }
        )

    def _send(self, producer: Any, topic: FlowTopic) -> Any:
        """Send one record; return the producer to go on with, a new one after a fatal error."""
        import confluent_kafka

        if topic.name in self.gone:
            return producer
        key, value = order_of(topic.name, self._sent[topic.name])
        place = TopicPartition(topic.name, zlib.crc32(key) % topic.partitions)
        with self._lock:
            number = self._numbers.get(place, 0)
            if not self._under_way.get(place):
                self._last_ack_ms[place] = time.time() * 1000.0

        def delivered(error: Any, message: Any) -> None:
            self._delivered(place, number, error, message)

        try:
            producer.produce(topic.name, value, key, place.partition, delivered, headers=[(HEADER, b"%d" % number)])
        except BufferError:
            return producer
        except confluent_kafka.KafkaException as error:
            # After a fatal sequence error an idempotent producer refuses every record.
            self.last_error = str(error.args[0].str())
            producer.purge()
            producer.flush(_FLUSH_SECONDS)
            return self._new_producer()
        with self._lock:
            self._numbers[place] = number + 1
            self._under_way[place] = self._under_way.get(place, 0) + 1
        self._sent[topic.name] += 1
        return producer

    def _delivered(self, place: TopicPartition, number: int, error: Any, message: Any) -> None:
        now_ms = time.time() * 1000.0
        pause = None
        with self._lock:
            self._under_way[place] -= 1
            if error is not None:
                self._ledger.note_failed()
                self.last_error = str(error.str())
                self._note_gone(place.topic, error)
                return
            offset = message.offset()
            known = offset if offset is not None and offset >= 0 else None
            self._ledger.note_acknowledged(place, number, known, now_ms)
            before_ms, self._last_ack_ms[place] = self._last_ack_ms[place], now_ms
            if now_ms - before_ms >= PAUSE_TOLD_MS:
                pause = Pause(place.topic, place.partition, before_ms, now_ms)
        if pause is not None:
            self._on_pause(pause)

    def _note_gone(self, topic: str, error: Any) -> None:
        if name_of(error) in _GONE:
            self.gone.add(topic)

    # ---------------------------------------------------------------------------------------------------- reading

    def _read(self, number: int) -> None:
        import confluent_kafka

        consumer = confluent_kafka.Consumer(
            base_config(self._bootstrap)
            | IMPATIENT
            | _HANGING
            | {
                "client.id": f"yak-demo-billing-{number}",
                "group.id": GROUP,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": 6_000,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1_000,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 5,
                "allow.auto.create.topics": False,
            }
        )
        try:
            consumer.subscribe([topic.name for topic in self._topics])
            while not self._enough_read.is_set():
                self._take(consumer.poll(_POLL_SECONDS))
        finally:
            consumer.close()

    def _take(self, message: Any) -> None:
        if message is None:
            return
        if message.error() is not None:
            self._note_gone(message.topic() or "", message.error())
            return
        number = number_of(message.headers())
        with self._lock:
            if number is None:
                self._ledger.note_strange()
            else:
                self._ledger.note_read(TopicPartition(message.topic(), message.partition()), number, message.offset())


def number_of(headers: Sequence[tuple[str, bytes | None]] | None) -> int | None:
    """The record's number in its partition; None for a foreign record."""
    for name, value in headers or ():
        if name == HEADER and value is not None and value.isdigit():
            return int(value)
    return None
