"""The cost of replication: rates, CPU, acknowledgement latency, idle partitions, a follower's catch-up."""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from yak.client.admin import Admin
from yak.client.bench.cpu import listeners, process_cpu_seconds, used_between
from yak.client.bench.load import Load
from yak.client.bench.measured import Measured, measure
from yak.client.bench.topics import fresh_topic
from yak.errors import YakError
from yak.local.bench.catch_up import CatchUp, CatchUpSettings, run_catch_up
from yak.local.bench.fleet import Fleet

SIZES = {100: "100 B", 1000: "1 KB"}
LINGER_MS = 5.0
ACK_RATE = 500.0
QUIET_SECONDS_MAX = 15.0
QUIET_CORES = 0.1
SETTLE_SECONDS = 3.0
"""From the creation of the idle topic to the start of the measurement."""


class Measurable(Protocol):
    """A cluster under load: its address, and the CPU clocks of its processes, as far as they are visible."""

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""

    def cpu_seconds(self) -> Mapping[str, float]:
        """CPU seconds so far by process name."""


class RunningCluster:
    """An external cluster: CPU is known for the brokers that run on this machine."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        brokers = Admin(bootstrap).metadata().brokers
        self._pids = listeners({f"node {each.node_id}": (each.host, each.port) for each in brokers.values()})

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds of the brokers on this machine."""
        return {name: process_cpu_seconds(pid) for name, pid in self._pids.items()}


@dataclass(frozen=True, slots=True)
class Shape:
    """One bulk load: records of one size into a topic of so many partitions."""

    size_bytes: int
    partitions: int
    records: int
    clients: int = 1

    @property
    def name(self) -> str:
        """The display name."""
        return f"{self.load}, {self.clients} client{'s' if self.clients > 1 else ''}"

    @property
    def load(self) -> str:
        """The name without the clients."""
        size = SIZES.get(self.size_bytes, f"{self.size_bytes} B")
        return f"{size}, {self.partitions} partition{'s' if self.partitions > 1 else ''}"


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """The extent of the measurements. All writes use acks=all and topics with these replicas."""

    shapes: tuple[Shape, ...]
    ack_s: float = 10.0
    idle_partitions: int = 1000
    idle_s: float = 10.0
    away_bytes: int = 1_000_000_000
    replication_factor: int = 3
    min_insync_replicas: int = 2


def shapes(scale: float, clients: tuple[int, ...] = (1,)) -> tuple[Shape, ...]:
    """100 B and 1 KB, 1 and 16 partitions; 4 million and 500,000 records at scale 1.

    That is 1.5 GB on three disks: beyond about 2 GB, the kernel throttles writers to the disk's speed.
    """
    counts = {100: int(4_000_000 * scale), 1000: int(500_000 * scale)}
    return tuple(
        Shape(size, partitions, counts[size], number) for size in SIZES for partitions in (1, 16) for number in clients
    )


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result. `limited`: the client could not have gone faster."""

    name: str
    value: float
    unit: str
    limited: bool = False

    def as_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {"name": self.name, "value": self.value, "unit": self.unit, "client_limited": self.limited}


class ReplicationBench:
    """The measurements, one after another, each on its own topics."""

    def __init__(
        self,
        cluster: Measurable,
        settings: ReplicationSettings,
        on_figure: Callable[[Figure], None] = lambda _figure: None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._admin = Admin(cluster.bootstrap, timeout_ms=30_000)
        self._on_figure = on_figure
        self._run = uuid.uuid4().hex[:6]
        self.figures: list[Figure] = []
        brokers = len(self._admin.metadata().brokers)
        if brokers < settings.replication_factor:
            raise YakError(
                "bench-brokers",
                f"{brokers} brokers are not enough for replication factor {settings.replication_factor}",
            )

    def run(self, fleet: Fleet | None) -> list[Figure]:
        """Run everything; the follower's return only with a fleet. Raises YakError."""
        wait_quiet(self._cluster)
        for shape in self._settings.shapes:
            self.produce(shape)
        self.acks()
        if self._settings.idle_partitions and self._settings.idle_s:
            self.idle()
        if fleet is not None and self._settings.away_bytes:
            self.catch_up(fleet)
        return self.figures

    def produce(self, shape: Shape) -> None:
        """Measure the rate, and the CPU per gigabyte of all brokers and of each."""
        measured = measure_produce(self._cluster, self._admin, self._topic("produce"), shape, self._configs())
        name = f"produce {shape.name}"
        self._add(name, measured.per_s, "records/s", limited=measured.client_limited)
        self._add(f"{name}: rate", measured.result.mb_per_s, "MB/s", limited=measured.client_limited)
        self._cpu(name, {each: used / measured.gigabytes for each, used in measured.cpu_s.items()}, "CPU s/GB")

    def acks(self) -> None:
        """Measure the median and p99 at 500 records per second, one record per request."""
        measured = measure_acks(self._cluster, self._admin, self._topic("acks"), self._settings.ack_s, self._configs())
        latency = measured.result.latency
        name = f"ack at {ACK_RATE:.0f} records/s"
        self._add(f"{name}: median", latency.percentile(50) / 1e6, "ms")
        self._add(f"{name}: p99", latency.percentile(99) / 1e6, "ms")
        each = {of: used / measured.result.records * 1e6 for of, used in measured.cpu_s.items()}
        self._cpu(name, each, "CPU us/record")

    def idle(self) -> None:
        """Measure each process's CPU, in per cent of a core, while there is no load."""
        count, topic = self._settings.idle_partitions, self._topic("idle")
        found = measure_idle(self._cluster, self._admin, topic, count, self._settings.idle_s, self._configs())
        for of, used in found.items():
            self._add(f"{count} idle partitions: {of}", used * 100, "% of a core")

    def catch_up(self, fleet: Fleet) -> None:
        """Measure the catch-up of a follower that missed `away_bytes`."""
        settings = CatchUpSettings(self._settings.away_bytes, replication_factor=self._factor)
        found: CatchUp = run_catch_up(fleet, settings, self._topic("away"))
        name = f"follower back after {self._settings.away_bytes / 1e9:g} GB"
        self._add(f"{name}: start", found.start_s, "s")
        self._add(f"{name}: until in sync", found.seconds, "s")
        self._add(f"{name}: caught up", found.mb_per_s, "MB/s")
        self._add(f"{name}: clients before", found.before_per_s, "records/s")
        self._add(f"{name}: clients meanwhile", found.clients_kept * 100, "% of before")

    @property
    def _factor(self) -> int:
        return self._settings.replication_factor

    def _topic(self, what: str) -> str:
        return f"yak-bench-{what}-{self._run}-{len(self.figures)}"

    def _configs(self) -> dict[str, str]:
        return {"min.insync.replicas": str(self._settings.min_insync_replicas)}

    def _cpu(self, name: str, each: Mapping[str, float], unit: str) -> None:
        if each:
            self._add(f"{name}: all processes", sum(each.values()), unit)
        for of, used in each.items():
            self._add(f"{name}: {of}", used, unit)

    def _add(self, name: str, value: float, unit: str, *, limited: bool = False) -> None:
        figure = Figure(name, value, unit, limited)
        self.figures.append(figure)
        self._on_figure(figure)


def wait_quiet(cluster: Measurable, *, patience_s: float = QUIET_SECONDS_MAX, look_s: float = 0.5) -> bool:
    """Wait until the processes are nearly idle: brokers that just started still load modules.

    False on a timeout; the benchmark then goes on all the same.
    """
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        before, began_s = cluster.cpu_seconds(), time.monotonic()
        time.sleep(look_s)
        used = sum(used_between(before, cluster.cpu_seconds()).values())
        if used < QUIET_CORES * (time.monotonic() - began_s):
            return True
    return False


def measure_produce(
    cluster: Measurable,
    admin: Admin,
    topic: str,
    shape: Shape,
    configs: Mapping[str, str],
    *,
    replication_factor: int = 3,
) -> Measured:
    """acks=all, linger.ms=5, no compression, to a new topic. Raises YakError."""
    load = Load(
        "produce",
        cluster.bootstrap,
        topic,
        clients=shape.clients,
        messages=shape.records,
        size_bytes=shape.size_bytes,
        linger_ms=LINGER_MS,
        warm_up_s=0.5,
    )
    with fresh_topic(admin, topic, shape.partitions, replication_factor=replication_factor, configs=configs):
        return measure(load, cluster.cpu_seconds)


def measure_acks(
    cluster: Measurable,
    admin: Admin,
    topic: str,
    seconds: float,
    configs: Mapping[str, str],
    *,
    replication_factor: int = 3,
) -> Measured:
    """500 records per second, linger 0, to one partition. Raises YakError."""
    load = Load("latency", cluster.bootstrap, topic, rate=ACK_RATE, duration_s=seconds, linger_ms=0, warm_up_s=0.5)
    with fresh_topic(admin, topic, 1, replication_factor=replication_factor, configs=configs):
        return measure(load, cluster.cpu_seconds)


def measure_idle(
    cluster: Measurable,
    admin: Admin,
    topic: str,
    partitions: int,
    seconds: float,
    configs: Mapping[str, str],
    *,
    replication_factor: int = 3,
) -> dict[str, float]:
    """Cores that each process uses with a topic of so many unused partitions. Raises YakError."""
    with fresh_topic(admin, topic, partitions, replication_factor=replication_factor, configs=configs):
        time.sleep(SETTLE_SECONDS)
        before, began_s = cluster.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        used, took_s = used_between(before, cluster.cpu_seconds()), time.monotonic() - began_s
    return {of: each / took_s for of, each in used.items()}


def document(figures: list[Figure], settings: ReplicationSettings, machine: Mapping[str, object]) -> dict[str, Any]:
    """The JSON of a run."""
    return {
        "benchmark": "replication",
        "replication_factor": settings.replication_factor,
        "min_insync_replicas": settings.min_insync_replicas,
        "acks": "all",
        "figures": [each.as_json() for each in figures],
        "machine": dict(machine),
    }
