"""A follower's return: how fast it rejoins the ISR, and what its return costs the clients.

While all replicas are in sync, a client writes at full speed to one topic: this is the speed before. Then the follower
is stopped in order, and another topic that it replicates grows by so many bytes. The client writes to its own topic
again, and the follower is started. It has to keep up with the client's topic too.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from yak.client.admin import Admin
from yak.client.bench.load import Load
from yak.client.bench.result import Result
from yak.client.bench.run import run_benchmark
from yak.client.bench.topics import fresh_topic, wait_whole
from yak.errors import YakError
from yak.local.bench.fleet import Fleet

RECOVERY_SECONDS = 180.0
LIVE_SIZE_BYTES = 1000
AWAY_SIZE_BYTES = 1000
LIVE_WARM_UP_SECONDS = 0.5
SAMPLE_SECONDS_MIN = 0.5


@dataclass(frozen=True, slots=True)
class CatchUpSettings:
    """`away_bytes`: the data that the follower misses. `before_s`: how long the speed before is measured."""

    away_bytes: int = 1_000_000_000
    before_s: float = 4.0
    partitions: int = 1
    replication_factor: int = 3


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
    def clients_kept(self) -> float:
        """The clients' speed during the catch-up as a share of the speed before."""
        return self.meanwhile_per_s / self.before_per_s if self.before_per_s else 0.0


@dataclass(slots=True)
class Progress:
    """Samples of a load's progress: (time, records so far)."""

    samples: list[tuple[float, int]] = field(default_factory=list)

    def note(self, records: int) -> None:
        """Add a sample."""
        self.samples.append((time.monotonic(), records))

    def per_s(self, from_s: float, until_s: float) -> float:
        """Records per second between two moments; 0 with fewer than two samples between them."""
        return rate_between(self.samples, from_s, until_s)


def rate_between(samples: Sequence[tuple[float, int]], from_s: float, until_s: float) -> float:
    """Records per second from (time, records so far) samples between two moments; 0 with fewer than two of them."""
    inside = [sample for sample in samples if from_s <= sample[0] <= until_s]
    if len(inside) < 2:
        return 0.0
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


def run_catch_up(fleet: Fleet, settings: CatchUpSettings, name: str = "bench-away") -> CatchUp:
    """Measure one return of the last broker. Raises YakError."""
    admin = Admin(fleet.bootstrap)
    nodes = sorted(admin.metadata().brokers)
    follower, others = nodes[-1], nodes[:-1]
    row = [*others, follower][-settings.replication_factor :]
    factor = len(row)
    minimum = {"min.insync.replicas": str(max(1, factor - 1))}
    shape = [row] * settings.partitions
    with (
        fresh_topic(admin, f"{name}-missed", settings.partitions, assignment=shape, configs=minimum) as missed,
        fresh_topic(admin, f"{name}-live", settings.partitions, assignment=shape, configs=minimum) as live,
    ):
        before = run_benchmark(_live(fleet, live, settings.before_s))
        _check(before)
        fleet.stop_node(follower)
        missing = settings.away_bytes // AWAY_SIZE_BYTES
        fill = Load("produce", fleet.bootstrap, missed, messages=missing, size_bytes=AWAY_SIZE_BYTES, warm_up_s=0)
        _check(run_benchmark(fill))
        return _come_back(fleet, admin, settings, follower, missed, live, before.records_per_s)


def _live(fleet: Fleet, topic: str, seconds: float) -> Load:
    """The clients' load at full speed."""
    return Load(
        "produce",
        fleet.bootstrap,
        topic,
        duration_s=seconds,
        size_bytes=LIVE_SIZE_BYTES,
        warm_up_s=LIVE_WARM_UP_SECONDS,
    )


def _check(result: Result) -> None:
    """Raise YakError (`bench-errors`) when records failed."""
    if result.errors:
        raise YakError("bench-errors", f"{result.errors} records of the load failed", why=result.first_error)


def _come_back(
    fleet: Fleet,
    admin: Admin,
    settings: CatchUpSettings,
    follower: int,
    missed: str,
    live: str,
    before_per_s: float,
) -> CatchUp:
    """Start the clients, then the follower, and measure both."""
    progress, enough = Progress(), threading.Event()
    load = _live(fleet, live, RECOVERY_SECONDS)
    thread = threading.Thread(target=_live_load, args=(load, progress, enough), daemon=True)
    thread.start()
    try:
        _wait_for_samples(progress, thread)
        started_s = time.monotonic()
        fleet.restart(follower)
        ready_s = time.monotonic()
        wait_whole(admin, missed, settings.partitions, seconds=RECOVERY_SECONDS, poll_s=0.05)
        whole_s = time.monotonic()
        time.sleep(max(0.0, SAMPLE_SECONDS_MIN - (whole_s - ready_s)))
    finally:
        enough.set()
        thread.join(30.0)
    meanwhile_per_s = progress.per_s(ready_s, max(whole_s, ready_s + SAMPLE_SECONDS_MIN))
    seconds = max(whole_s - ready_s, 1e-3)
    return CatchUp(settings.away_bytes, ready_s - started_s, seconds, before_per_s, meanwhile_per_s)


class _Enough(Exception):
    """Ends the load."""


def _live_load(load: Load, progress: Progress, enough: threading.Event) -> None:
    """Run the load until `enough` is set: its progress call-back ends it."""

    def note(records: int) -> None:
        progress.note(records)
        if enough.is_set():
            raise _Enough

    try:
        run_benchmark(load, on_progress=note)
    except _Enough:
        return


def _wait_for_samples(progress: Progress, thread: threading.Thread) -> None:
    deadline_s = time.monotonic() + 30.0
    while not any(records for _, records in progress.samples):
        if time.monotonic() > deadline_s or not thread.is_alive():
            raise YakError("bench-client", "the clients of the catch-up benchmark did not start")
        time.sleep(0.05)
