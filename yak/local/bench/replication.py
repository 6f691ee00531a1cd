"""The cost of replication: rates, CPU, acknowledgement latency, idle partitions, a follower's catch-up."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from yak.client.admin import Admin
from yak.client.bench.clients import run_benchmark
from yak.client.bench.load import Load
from yak.client.bench.result import Result
from yak.client.bench.topics import fresh_topic, wait_whole
from yak.errors import YakError
from yak.local.bench.fleet import Fleet, listeners, process_cpu_seconds, used_between


@dataclass(frozen=True, slots=True)
class ReplicationRun:
    """One run. `cpu_s` is by process name, from the clients' start to their end; empty when not measurable."""

    result: Result
    cpu_s: Mapping[str, float]

    @property
    def per_s(self) -> float:
        return self.result.records_per_s

    @property
    def cpu_total_s(self) -> float:
        return sum(self.cpu_s.values())

    @property
    def gigabytes(self) -> float:
        """Gigabytes (10^9 bytes) of values."""
        return self.result.bytes / 1e9

    @property
    def client_limited(self) -> bool:
        """Whether the clients could not have gone faster."""
        return bool(self.result.client_limit())


def measure(load: Load, cpu_seconds: Callable[[], Mapping[str, float]]) -> ReplicationRun:
    """Run the load and read the CPU clocks before and after.

    Raises YakError (`bench-errors` when records failed), or the load's errors.
    """
    before: dict[str, float] = {}
    result = run_benchmark(load, on_start=lambda: before.update(cpu_seconds()))
    used = used_between(before, cpu_seconds())
    if result.errors:
        raise YakError(
            "bench-errors", f"{result.errors} records of the load on {load.topic} failed", why=result.first_error
        )
    return ReplicationRun(result, used)


RECOVERY_SECONDS = 180.0
LIVE_SIZE_BYTES = 1000
AWAY_SIZE_BYTES = 1000
LIVE_WARM_UP_SECONDS = 0.5
SAMPLE_SECONDS_MIN = 0.5
BEFORE_SECONDS = 4.0
"""How long the clients' speed before is measured."""
REPLICAS = 3
MIN_ISR = 2
CONFIGS = {"min.insync.replicas": str(MIN_ISR)}
"""The replicas and the configs of all topics, which are written with acks=all."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The result. `start_s`: from the start of the follower's process until it answers."""

    bytes: int
    start_s: float
    seconds: float
    before_per_s: float
    meanwhile_per_s: float

    @property
    def mb_per_s(self) -> float:
        """Catch-up rate in MB (10^6 bytes) per second, from the follower's first answer until it is in sync."""
        return self.bytes / self.seconds / 1e6

    @property
    def clients_share(self) -> float:
        """The clients' speed during the catch-up as a share of the speed before."""
        return self.meanwhile_per_s / self.before_per_s if self.before_per_s else 0.0


Samples = list[tuple[float, int]]
"""A load's progress: (time, records so far)."""


def rate_between(samples: Samples, from_s: float, until_s: float) -> float:
    """Records per second from (time, records so far) samples between two moments; 0 with fewer than two of them."""
    inside = [sample for sample in samples if from_s <= sample[0] <= until_s]
    if len(inside) < 2:
        return 0.0
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


def run_catch_up(fleet: Fleet, away_bytes: int, name: str) -> CatchUp:
    """Measure one return of the last broker, which misses `away_bytes` of data. Raises YakError."""
    admin = Admin(fleet.bootstrap)
    nodes = sorted(admin.metadata().brokers)
    follower, others = nodes[-1], nodes[:-1]
    shape = [[*others, follower][-REPLICAS:]]
    with (
        fresh_topic(admin, f"{name}-missed", 1, assignment=shape, configs=CONFIGS) as missed,
        fresh_topic(admin, f"{name}-live", 1, assignment=shape, configs=CONFIGS) as live,
    ):
        before = measure(_live(fleet, live, BEFORE_SECONDS), dict)
        fleet.stop_node(follower)
        missing = away_bytes // AWAY_SIZE_BYTES
        fill = Load("produce", fleet.bootstrap, missed, messages=missing, size_bytes=AWAY_SIZE_BYTES, warm_up_s=0)
        measure(fill, dict)
        return _come_back(fleet, admin, away_bytes, follower, missed, live, before.per_s)


def _live(fleet: Fleet, topic: str, seconds: float) -> Load:
    return Load(
        "produce",
        fleet.bootstrap,
        topic,
        duration_s=seconds,
        size_bytes=LIVE_SIZE_BYTES,
        warm_up_s=LIVE_WARM_UP_SECONDS,
    )


def _come_back(
    fleet: Fleet,
    admin: Admin,
    away_bytes: int,
    follower: int,
    missed: str,
    live: str,
    before_per_s: float,
) -> CatchUp:
    samples: Samples = []
    enough = threading.Event()
    load = _live(fleet, live, RECOVERY_SECONDS)
    thread = threading.Thread(target=_live_load, args=(load, samples, enough), daemon=True)
    thread.start()
    try:
        _wait_for_samples(samples, thread)
        started_s = time.monotonic()
        fleet.restart(follower)
        ready_s = time.monotonic()
        wait_whole(admin, missed, 1, seconds=RECOVERY_SECONDS, poll_s=0.05)
        whole_s = time.monotonic()
        time.sleep(max(0.0, SAMPLE_SECONDS_MIN - (whole_s - ready_s)))
    finally:
        enough.set()
        thread.join(30.0)
    meanwhile_per_s = rate_between(samples, ready_s, max(whole_s, ready_s + SAMPLE_SECONDS_MIN))
    seconds = max(whole_s - ready_s, 1e-3)
    return CatchUp(away_bytes, ready_s - started_s, seconds, before_per_s, meanwhile_per_s)


class _LoadEnd(Exception):
    """Ends the load."""


def _live_load(load: Load, samples: Samples, enough: threading.Event) -> None:
    """Run the load until `enough` is set: its progress call-back ends it."""

    def note(records: int) -> None:
        samples.append((time.monotonic(), records))
        if enough.is_set():
            raise _LoadEnd

    try:
        run_benchmark(load, on_progress=note)
    except _LoadEnd:
        return


def _wait_for_samples(samples: Samples, thread: threading.Thread) -> None:
    deadline_s = time.monotonic() + 30.0
    while not any(records for _, records in samples):
        if time.monotonic() > deadline_s or not thread.is_alive():
            raise YakError("bench-client", "the clients of the catch-up benchmark did not start")
        time.sleep(0.05)


SIZES = {100: "100 B", 1000: "1 KB"}
LINGER_MS = 5.0
ACK_RATE = 500.0
QUIET_SECONDS_MAX = 15.0
QUIET_CORES = 0.1
SETTLE_SECONDS = 3.0
"""From the creation of the idle topic to the start of the measurement."""


class RunningCluster:
    """An external cluster: CPU is known for the brokers that run on this machine."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        brokers = Admin(bootstrap).metadata().brokers
        self._pids = listeners({f"node {each.node_id}": (each.host, each.port) for each in brokers.values()})

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds of the brokers on this machine."""
        return {name: process_cpu_seconds(pid) for name, pid in self._pids.items()}


Measurable: TypeAlias = Fleet | RunningCluster
"""A cluster under load: its address, and the CPU clocks of its processes, as far as they are visible."""


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """One bulk load: records of one size into a topic of so many partitions."""

    size_bytes: int
    partitions: int
    records: int
    clients: int = 1

    @property
    def name(self) -> str:
        return f"{self.load}, {self.clients} client{'s' if self.clients > 1 else ''}"

    @property
    def load(self) -> str:
        """The name without the clients."""
        size = SIZES.get(self.size_bytes, f"{self.size_bytes} B")
        return f"{size}, {self.partitions} partition{'s' if self.partitions > 1 else ''}"


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """The extent of the measurements."""

    shapes: tuple[BulkLoad, ...]
    ack_s: float = 10.0
    idle_partitions: int = 1000
    idle_s: float = 10.0
    away_bytes: int = 1_000_000_000


def shapes(scale: float, clients: tuple[int, ...] = (1,)) -> tuple[BulkLoad, ...]:
    """100 B and 1 KB, 1 and 16 partitions; 4 million and 500,000 records at scale 1.

    That is 1.5 GB on three disks: beyond about 2 GB, the kernel throttles writers to the disk's speed.
    """
    counts = {100: int(4_000_000 * scale), 1000: int(500_000 * scale)}
    return tuple(
        BulkLoad(size, partitions, counts[size], number)
        for size in SIZES
        for partitions in (1, 16)
        for number in clients
    )


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result. `limited`: the client could not have gone faster."""

    name: str
    value: float
    unit: str
    limited: bool = False

    def as_json(self) -> dict[str, Any]:
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
        if brokers < REPLICAS:
            raise YakError("bench-brokers", f"{brokers} brokers are not enough for replication factor {REPLICAS}")

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

    def produce(self, shape: BulkLoad) -> None:
        """Measure the rate, and the CPU per gigabyte of all brokers and of each."""
        measured = measure_produce(self._cluster, self._admin, self._topic("produce"), shape)
        name = f"produce {shape.name}"
        self._add(name, measured.per_s, "records/s", limited=measured.client_limited)
        self._add(f"{name}: rate", measured.result.mb_per_s, "MB/s", limited=measured.client_limited)
        self._cpu(name, {each: used / measured.gigabytes for each, used in measured.cpu_s.items()}, "CPU s/GB")

    def acks(self) -> None:
        """Measure the median and p99 at 500 records per second, one record per request."""
        measured = measure_acks(self._cluster, self._admin, self._topic("acks"), self._settings.ack_s)
        latency = measured.result.latency
        name = f"ack at {ACK_RATE:.0f} records/s"
        self._add(f"{name}: median", latency.percentile(50) / 1e6, "ms")
        self._add(f"{name}: p99", latency.percentile(99) / 1e6, "ms")
        each = {of: used / measured.result.records * 1e6 for of, used in measured.cpu_s.items()}
        self._cpu(name, each, "CPU us/record")

    def idle(self) -> None:
        """Measure each process's CPU, in per cent of a core, while there is no load."""
        count, topic = self._settings.idle_partitions, self._topic("idle")
        found = measure_idle(self._cluster, self._admin, topic, count, self._settings.idle_s)
        for of, used in found.items():
            self._add(f"{count} idle partitions: {of}", used * 100, "% of a core")

    def catch_up(self, fleet: Fleet) -> None:
        """Measure the catch-up of a follower that missed `away_bytes`."""
        found = run_catch_up(fleet, self._settings.away_bytes, self._topic("away"))
        name = f"follower back after {self._settings.away_bytes / 1e9:g} GB"
        self._add(f"{name}: start", found.start_s, "s")
        self._add(f"{name}: until in sync", found.seconds, "s")
        self._add(f"{name}: caught up", found.mb_per_s, "MB/s")
        self._add(f"{name}: clients before", found.before_per_s, "records/s")
        self._add(f"{name}: clients meanwhile", found.clients_share * 100, "% of before")

    def _topic(self, what: str) -> str:
        return f"yak-bench-{what}-{self._run}-{len(self.figures)}"

    def _cpu(self, name: str, each: Mapping[str, float], unit: str) -> None:
        if each:
            self._add(f"{name}: all processes", sum(each.values()), unit)
        for of, used in each.items():
            self._add(f"{name}: {of}", used, unit)

    def _add(self, name: str, value: float, unit: str, *, limited: bool = False) -> None:
        figure = Figure(name, value, unit, limited)
        self.figures.append(figure)
        self._on_figure(figure)


def wait_quiet(cluster: Measurable, *, patience_s: float = QUIET_SECONDS_MAX, poll_s: float = 0.5) -> bool:
    """Wait until the processes are nearly idle: brokers that just started still load modules.

    False on a timeout; the benchmark then goes on all the same.
    """
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        before, began_s = cluster.cpu_seconds(), time.monotonic()
        time.sleep(poll_s)
        used = sum(used_between(before, cluster.cpu_seconds()).values())
        if used < QUIET_CORES * (time.monotonic() - began_s):
            return True
    return False


def measure_produce(cluster: Measurable, admin: Admin, topic: str, shape: BulkLoad) -> ReplicationRun:
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
    with fresh_topic(admin, topic, shape.partitions, replication_factor=REPLICAS, configs=CONFIGS):
        return measure(load, cluster.cpu_seconds)


def measure_acks(cluster: Measurable, admin: Admin, topic: str, seconds: float) -> ReplicationRun:
    """500 records per second, linger 0, to one partition. Raises YakError."""
    load = Load("latency", cluster.bootstrap, topic, rate=ACK_RATE, duration_s=seconds, linger_ms=0, warm_up_s=0.5)
    with fresh_topic(admin, topic, 1, replication_factor=REPLICAS, configs=CONFIGS):
        return measure(load, cluster.cpu_seconds)


def measure_idle(cluster: Measurable, admin: Admin, topic: str, partitions: int, seconds: float) -> dict[str, float]:
    """Cores that each process uses with a topic of so many unused partitions. Raises YakError."""
    with fresh_topic(admin, topic, partitions, replication_factor=REPLICAS, configs=CONFIGS):
        time.sleep(SETTLE_SECONDS)
        before, began_s = cluster.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        used, took_s = used_between(before, cluster.cpu_seconds()), time.monotonic() - began_s
    return {of: each / took_s for of, each in used.items()}


def document(figures: list[Figure], machine: Mapping[str, object]) -> dict[str, Any]:
    """The JSON of a run."""
    return {
        "benchmark": "replication",
        "replication_factor": REPLICAS,
        "min_insync_replicas": MIN_ISR,
        "acks": "all",
        "figures": [each.as_json() for each in figures],
        "machine": dict(machine),
    }
