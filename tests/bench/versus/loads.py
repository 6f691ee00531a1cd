"""What is measured: the loads, and one run of each against one broker."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from versus.brokers import Broker

from yak.client.admin import Admin
from yak.client.bench.load import Load
from yak.client.bench.result import Result
from yak.client.bench.run import run_benchmark

BULK_LINGER_MS = 5.0
PIPELINE = {"batch.num.messages": "1", "queue.buffering.max.messages": "1000"}
"""One record a request; librdkafka sends the next without waiting for the last one's answer, up to 1,000."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Bulk records of one size into, and out of, a topic of so many partitions, by so many client processes."""

    size_bytes: int
    partitions: int
    clients: int
    records: int

    @property
    def name(self) -> str:
        """For the table."""
        size = "100 B" if self.size_bytes == 100 else "1 KB"
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{size}, {partitions}, {self.clients} client" + ("s" if self.clients > 1 else "")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run."""

    per_s: float
    cpu_s: float
    gigabytes: float
    client_limited: bool
    result: Result | None = None

    @property
    def cpu_s_per_gb(self) -> float:
        """Broker CPU seconds for a gigabyte (10^9 bytes) of values."""
        return self.cpu_s / self.gigabytes


def cells(scale: float, *, quick: bool) -> list[Cell]:
    """All combinations of size, partitions and clients; the two corners of each size in a quick run."""
    records = {100: int(4_000_000 * scale), 1000: int(800_000 * scale)}
    shapes = [(1, 1), (8, 1), (64, 1), (1, 20), (8, 20), (64, 20)]
    return [
        Cell(size, partitions, clients, count)
        for size, count in records.items()
        for partitions, clients in ([shapes[0], shapes[-1]] if quick else shapes)
    ]


def measure(broker: Broker, load: Load) -> Measured:
    """Run the load and read the broker's CPU clock around it. Raises RuntimeError when records failed."""
    before: list[float] = []
    result = run_benchmark(load, on_start=lambda: before.append(broker.cpu_seconds()))
    cpu_s = broker.cpu_seconds() - before[0]
    if result.errors:
        raise RuntimeError(f"{broker.name}: {result.errors} of {load.messages} records failed: {result.first_error}")
    return Measured(result.records_per_s, cpu_s, result.bytes / 1e9, bool(result.client_limit()), result)


class Topics:
    """Fresh topics on one broker, deleted after use so that neither side's disk decides."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._made = 0

    def use(self, partitions: int, body: Callable[[str], None]) -> None:
        """Run the body with a new topic. File deletion is not put off for a minute, which both brokers do else."""
        self._made += 1
        topic = f"bench-{self._made}"
        admin = Admin(self._broker.bootstrap)
        admin.create_topic(topic, partitions=partitions, configs={"file.delete.delay.ms": "1000"})
        wait_for_topic(admin, topic, partitions)
        try:
            body(topic)
        finally:
            admin.delete_topic(topic)


def wait_for_topic(admin: Admin, topic: str, partitions: int) -> None:
    """Return when all partitions have a leader; both brokers answer a creation before that. Raises TimeoutError."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = admin.metadata().topics.get(topic)
        if found and len(found.partitions) == partitions and all(each.leader >= 0 for each in found.partitions):
            return
        time.sleep(0.02)
    raise TimeoutError(f"{topic} has no leaders after 10 s")


def bulk_produce(broker: Broker, topic: str, cell: Cell) -> Measured:
    """acks=all, linger.ms=5, no compression."""
    load = Load(
        "produce",
        broker.bootstrap,
        topic,
        clients=cell.clients,
        messages=cell.records,
        size_bytes=cell.size_bytes,
        linger_ms=BULK_LINGER_MS,
        warm_up_s=0.3,
    )
    return measure(broker, load)


def bulk_consume(broker: Broker, topic: str, cell: Cell) -> Measured:
    """The records of `bulk_produce`, divided among the clients."""
    load = Load(
        "consume",
        broker.bootstrap,
        topic,
        clients=cell.clients,
        messages=cell.records,
        size_bytes=cell.size_bytes,
        warm_up_s=0.2,
    )
    return measure(broker, load)


def pipelined(broker: Broker, topic: str, requests: int) -> Measured:
    """One-record requests, as many in flight as librdkafka likes."""
    load = Load("produce", broker.bootstrap, topic, messages=requests, linger_ms=0, warm_up_s=0.3, properties=PIPELINE)
    return measure(broker, load)


def ack_latency(broker: Broker, topic: str, seconds: float) -> Measured:
    """1,000 records a second, linger 0, each acknowledged by itself."""
    load = Load("latency", broker.bootstrap, topic, rate=1000.0, duration_s=seconds, linger_ms=0, warm_up_s=0.5)
    return measure(broker, load)
