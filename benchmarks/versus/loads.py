"""What is measured: the loads, and one run of each against one broker."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from versus.brokers import Broker

from yak.client.admin import Admin
from yak.client.bench.load import NO_COMPRESSION, Load
from yak.client.bench.result import Result
from yak.client.bench.topics import fresh_topic
from yak.local.bench.replication import BulkLoad
from yak.local.bench.replication import measure as measure_load

BULK_LINGER_MS = 5.0
PIPELINE = {"batch.num.messages": "1", "queue.buffering.max.messages": "1000"}
"""One record a request; librdkafka sends the next without waiting for the last one's answer, up to 1,000."""


@dataclass(frozen=True, slots=True)
class Measured:
    per_s: float
    cpu_s: float
    gigabytes: float
    client_limited: bool
    result: Result | None = None

    @property
    def cpu_s_per_gb(self) -> float:
        """Broker CPU seconds for a gigabyte (10^9 bytes) of values."""
        return self.cpu_s / self.gigabytes


def send(producer: confluent_kafka.Producer, topic: str, value: bytes | None, **more: Any) -> None:
    """Pass a record to a producer, once its queue has room."""
    while True:
        try:
            return producer.produce(topic, value, **more)
        except BufferError:
            producer.poll(0.1)


def cells(scale: float, *, quick: bool) -> list[BulkLoad]:
    """All combinations of size, partitions and clients; the two corners of each size in a quick run."""
    records = {100: int(4_000_000 * scale), 1000: int(800_000 * scale)}
    shapes = [(1, 1), (8, 1), (64, 1), (1, 20), (8, 20), (64, 20)]
    return [
        BulkLoad(size, partitions, count, clients)
        for size, count in records.items()
        for partitions, clients in ([shapes[0], shapes[-1]] if quick else shapes)
    ]


def measure(broker: Broker, load: Load) -> Measured:
    """Run the load and read the broker's CPU clock around it. Raises YakError when records failed."""
    found = measure_load(load, lambda: {broker.name: broker.cpu_seconds()})
    return Measured(found.per_s, found.cpu_total_s, found.gigabytes, found.client_limited, found.result)


def have_pages(size_bytes: int) -> None:
    """Write and remove a file that is a little larger, so that the page cache gets pages that this machine has.

    A virtual machine may give free pages back to its host within seconds. To get one again costs ten times the write of
    it: 2.2 s of processor time a GB and 0.22 without, on the machine of docs/benchmarks.md. Whichever side wrote after a
    pause would pay for it.
    """
    piece = bytes(2**20)
    with tempfile.TemporaryFile() as file:
        for _ in range(size_bytes * 5 // 4 // len(piece)):
            os.write(file.fileno(), piece)


class Topics:
    """Fresh topics on one broker, deleted after use so that neither side's disk decides."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._made = 0

    def use(self, partitions: int, body: Callable[[str], None]) -> None:
        self._made += 1
        with fresh_topic(Admin(self._broker.bootstrap), f"bench-{self._made}", partitions) as topic:
            body(topic)


def bulk_produce(broker: Broker, topic: str, cell: BulkLoad, compression: str = NO_COMPRESSION) -> Measured:
    """acks=all, linger.ms=5."""
    load = Load(
        "produce",
        broker.bootstrap,
        topic,
        clients=cell.clients,
        messages=cell.records,
        size_bytes=cell.size_bytes,
        linger_ms=BULK_LINGER_MS,
        compression=compression,
        warm_up_s=0.3,
    )
    have_pages(cell.records * cell.size_bytes)
    return measure(broker, load)


def bulk_consume(broker: Broker, topic: str, cell: BulkLoad, warm_up_s: float = 0.2) -> Measured:
    """The records of `bulk_produce`, divided among the clients."""
    load = Load(
        "consume",
        broker.bootstrap,
        topic,
        clients=cell.clients,
        messages=cell.records,
        size_bytes=cell.size_bytes,
        warm_up_s=warm_up_s,
    )
    return measure(broker, load)


def pipelined(broker: Broker, topic: str, requests: int) -> Measured:
    """One-record requests, as many in flight as librdkafka likes."""
    load = Load("produce", broker.bootstrap, topic, messages=requests, linger_ms=0, warm_up_s=0.3, properties=PIPELINE)
    return measure(broker, load)


def ack_latency(broker: Broker, topic: str, seconds: float, size_bytes: int = 100) -> Measured:
    """1,000 records a second, linger 0, each acknowledged by itself."""
    load = Load(
        "latency",
        broker.bootstrap,
        topic,
        size_bytes=size_bytes,
        rate=1000.0,
        duration_s=seconds,
        linger_ms=0,
        warm_up_s=0.5,
    )
    return measure(broker, load)
