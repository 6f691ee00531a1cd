"""The workload of `yak ui --demo`: orders and payments at a steady rate, and a group of two that reads them.

A header of each record holds its number in the partition, so that `DeliveryStatistics` can count lost, duplicated and
reordered records at any time. The clients are ordinary: acks=all, idempotent, a consumer group with committed offsets.
"""

import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from yak.client.connection import IMPATIENT, base_config
from yak.client.consumer import headers_of
from yak.client.errors import name_of
from yak.ids import TopicPartition
from yak.local.demo.delivery_statistics import Counts, DeliveryStatistics, Pause
from yak.local.load import LibrdkafkaLoad
from yak.local.seed_topics import SeedTopic

HEADER: Final = "yak-demo"
"""The record's number in its partition, in decimal."""
GROUP: Final = "billing"
MEMBERS: Final = 2
PAUSE_REPORTED_MS: Final = 40.0
"""Pauses are reported from here on: several times a normal acknowledgement latency."""
_CUSTOMERS: Final = 200
_CITIES: Final = ("Oslo", "Lima", "Kyoto", "Accra", "Porto", "Quito", "Hanoi", "Tunis")
_POLL_SECONDS: Final = 0.05
_GONE: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID")
_HANGING: Final[dict[str, int]] = {"socket.timeout.ms": 1000, "topic.metadata.refresh.interval.ms": 250}
"""A paused broker resets no connection: requests must time out, and find another leader."""
_DELETED: Final[dict[str, int]] = {"topic.metadata.propagation.max.ms": 5_000}
"""The producer takes a topic for deleted after so long without it: every broker has a new topic much sooner."""


ORDERS: Final = SeedTopic("orders", 3)
PAYMENTS: Final = SeedTopic("payments", 2)
TOPICS: Final = (ORDERS, PAYMENTS)
RECORDS_PER_SECOND: Final = 200
_TURNS: Final = (ORDERS, ORDERS, ORDERS, ORDERS, PAYMENTS)
"""The topics of successive records."""


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


class OrderFlow(LibrdkafkaLoad):
    """Writes and reads from `start` to `settle`. Its counts are thread-safe."""

    def __init__(self, bootstrap: str, on_pause: Callable[[Pause], None]) -> None:
        config = {**_HANGING, **_DELETED, "delivery.timeout.ms": 300_000, "allow.auto.create.topics": False}
        super().__init__(bootstrap, "yak-demo-shop", RECORDS_PER_SECOND, **config)
        self._bootstrap = bootstrap
        self._on_pause = on_pause
        self._lock = threading.Lock()
        self._statistics = DeliveryStatistics()
        self._enough_read = threading.Event()
        self._sent: Counter[str] = Counter()
        self._numbers: Counter[TopicPartition] = Counter()
        self._in_flight: Counter[TopicPartition] = Counter()
        self._last_ack_ms: dict[TopicPartition, float] = {}
        self.gone: set[str] = set()
        """Topics that the producer found to be deleted: nothing is sent to them any more.

        A reader's error does not count: librdkafka reports a topic of a subscription as unknown at the first answer of a
        broker that has not applied its creation yet.
        """
        self._readers = [
            threading.Thread(target=self._read, args=(number,), name=f"order-reader-{number}", daemon=True)
            for number in range(1, MEMBERS + 1)
        ]

    def start(self) -> None:
        super().start()
        for reader in self._readers:
            reader.start()

    def counts(self) -> Counts:
        with self._lock:
            return self._statistics.counts(time.time() * 1000.0)

    def settle(self, seconds: float) -> Counts:
        """Stop writing, read the rest for at most so long, and return the final counts."""
        deadline = time.monotonic() + seconds
        self.finish(seconds)
        while self.counts().waiting and time.monotonic() < deadline:
            time.sleep(0.02)
        self._enough_read.set()
        for reader in self._readers:
            reader.join(1.0)
        return self.counts()

    # ---------------------------------------------------------------------------------------------------- writing

    def send(self, number: int) -> None:
        topic = _TURNS[number % len(_TURNS)]
        if topic.name in self.gone:
            return
        key, value = order_of(topic.name, self._sent[topic.name])
        partition = TopicPartition(topic.name, zlib.crc32(key) % topic.partitions)
        with self._lock:
            position = self._numbers[partition]
            if not self._in_flight[partition]:
                self._last_ack_ms[partition] = time.time() * 1000.0
            self._in_flight[partition] += 1
        delivered, headers = partial(self._delivered, partition, position), [(HEADER, b"%d" % position)]
        if self.produce(topic.name, value, delivered, key=key, partition=partition.partition, headers=headers):
            self._numbers[partition] += 1
            self._sent[topic.name] += 1
        else:
            self._in_flight[partition] -= 1

    def _delivered(self, partition: TopicPartition, number: int, error: Any, message: Any) -> None:
        now_ms = time.time() * 1000.0
        with self._lock:
            self._in_flight[partition] -= 1
            if error is not None:
                self._statistics.note_failed()
                self.last_error = str(error.str())
                self.on_refused(partition.topic, error)
                return
            offset = message.offset()
            known = offset if offset is not None and offset >= 0 else None
            self._statistics.note_acknowledged(partition, number, known, now_ms)
            before_ms, self._last_ack_ms[partition] = self._last_ack_ms[partition], now_ms
        if now_ms - before_ms >= PAUSE_REPORTED_MS:
            self._on_pause(Pause(f"{partition.topic}-{partition.partition}", before_ms, now_ms))

    def on_refused(self, topic: str, error: Any) -> None:
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
            consumer.subscribe([topic.name for topic in TOPICS])
            while not self._enough_read.is_set():
                self._take(consumer.poll(_POLL_SECONDS))
        finally:
            consumer.close()

    def _take(self, message: Any) -> None:
        if message is None or message.error() is not None:
            return
        number = number_of(headers_of(message))
        with self._lock:
            if number is None:
                self._statistics.note_strange()
            else:
                self._statistics.note_read(
                    TopicPartition(message.topic(), message.partition()), number, message.offset()
                )


def number_of(headers: Sequence[tuple[str, bytes | None]] | None) -> int | None:
    """The record's number in its partition; None for a foreign record."""
    for name, value in headers or ():
        if name == HEADER and value is not None and value.isdigit():
            return int(value)
    return None
