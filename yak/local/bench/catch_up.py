"""A follower that was away: how fast it is in sync again, and what its return costs the clients.

It is stopped in order, a topic that it has replicas of grows by so many bytes, and it is started again. Meanwhile, and
for a while before, a client writes as fast as it can to another topic; the follower has to keep up with that one too.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from yak.client.admin import Admin
from yak.client.bench.load import Load
from yak.client.bench.run import run_benchmark
from yak.client.bench.topics import fresh_topic, wait_whole
from yak.errors import YakError
from yak.local.bench.fleet import Fleet

RECOVERY_SECONDS = 180.0
LIVE_SIZE_BYTES = 1000
AWAY_SIZE_BYTES = 1000
SAMPLE_SECONDS_MIN = 0.5


@dataclass(frozen=True, slots=True)
class CatchUpSettings:
    """`away_bytes`: what the follower misses. `before_s`: how long the clients' speed is taken before it comes back."""

    away_bytes: int = 1_000_000_000
    before_s: float = 4.0
    partitions: int = 1
    replication_factor: int = 3
    live_rate: float | None = None
    """Records a second of the clients meanwhile; None: as fast as they can."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What came of it. `start_s`: from the start of its process until it answered."""

    bytes: int
    start_s: float
    seconds: float
    before_per_s: float
    meanwhile_per_s: float

    @property
    def mb_per_s(self) -> float:
        """Megabytes (10^6) a second of what it had missed, from when it answered to when it was in sync."""
        return self.bytes / self.seconds / 1e6

    @property
    def clients_kept(self) -> float:
        """The clients' speed meanwhile as a part of what it was before."""
        return self.meanwhile_per_s / self.before_per_s if self.before_per_s else 0.0


@dataclass(slots=True)
class Progress:
    """How far a load was at which moments."""

    samples: list[tuple[float, int]] = field(default_factory=list)

    def note(self, records: int) -> None:
        """As many by now."""
        self.samples.append((time.monotonic(), records))

    def per_s(self, from_s: float, until_s: float) -> float:
        """Records a second between two moments; 0 where there are no two samples between them."""
        return rate_between(self.samples, from_s, until_s)


def rate_between(samples: Sequence[tuple[float, int]], from_s: float, until_s: float) -> float:
    """Records a second from (time, records so far) samples between two moments; 0 where there are no two of them."""
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
        fleet.stop_node(follower)
        _fill(fleet.bootstrap, missed, settings.away_bytes)
        return _come_back(fleet, admin, settings, follower, missed, live)


def _fill(bootstrap: str, topic: str, size: int) -> None:
    load = Load("produce", bootstrap, topic, messages=size // AWAY_SIZE_BYTES, size_bytes=AWAY_SIZE_BYTES, warm_up_s=0)
    result = run_benchmark(load)
    if result.errors:
        raise YakError("bench-errors", f"{result.errors} records of the load failed", why=result.first_error)


def _come_back(fleet: Fleet, admin: Admin, settings: CatchUpSettings, follower: int, missed: str, live: str) -> CatchUp:
    """Start the clients, then the follower, and watch both."""
    progress = Progress()
    load = Load(
        "produce",
        fleet.bootstrap,
        live,
        duration_s=settings.before_s + RECOVERY_SECONDS,
        size_bytes=LIVE_SIZE_BYTES,
        rate=settings.live_rate,
        warm_up_s=0.5,
    )
    enough = threading.Event()
    thread = threading.Thread(target=_live_load, args=(load, progress, enough), daemon=True)
    thread.start()
    try:
        _wait_for_samples(progress, thread)
        begin_s = time.monotonic()
        time.sleep(settings.before_s)
        started_s = time.monotonic()
        fleet.restart(follower)
        ready_s = time.monotonic()
        wait_whole(admin, missed, settings.partitions, seconds=RECOVERY_SECONDS, poll_s=0.05)
        whole_s = time.monotonic()
        time.sleep(max(0.0, SAMPLE_SECONDS_MIN - (whole_s - ready_s)))
    finally:
        enough.set()
        thread.join(30.0)
    return CatchUp(
        settings.away_bytes,
        ready_s - started_s,
        max(whole_s - ready_s, 1e-3),
        progress.per_s(begin_s, started_s),
        progress.per_s(ready_s, max(whole_s, ready_s + SAMPLE_SECONDS_MIN)),
    )


class _Enough(Exception):
    """The load has run for long enough."""


def _live_load(load: Load, progress: Progress, enough: threading.Event) -> None:
    """Run the load until told to stop: its progress call-back ends it."""

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
