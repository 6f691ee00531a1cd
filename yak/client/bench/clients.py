"""The clients of a load as processes, started together, and their collected results."""

import gc
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NamedTuple

from yak.client.admin import Admin
from yak.client.bench import consume, end_to_end, produce, workload
from yak.client.bench.histogram import Histogram, bucket_top
from yak.client.bench.load import STAMP_BYTES, ClientProgram, ClientResult, Kind, Load, Slice
from yak.client.bench.result import Result
from yak.client.bench.topics import divide, ensure_topic, new_slices, offsets_grown, slices_of
from yak.client.bench.workload import readers_slices
from yak.client.login import ClientLogin, current_login, use_login
from yak.client.security import ClientSecurity, in_force, use
from yak.errors import UsageError, YakError

FIGURES: Final = ("p50_ms", "p99_ms", "max_ms")
SAMPLE_SECONDS: Final = 0.5


class LoadSample(NamedTuple):
    """The records of all clients, and the slowest client's latencies in the last half second; 0.0 where none was
    timed."""

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class RecentLatency:
    """Computes a client's latencies of the last half second, and writes the figures to `shared` from `place` on."""

    __slots__ = ("_before", "_due_s", "_latency", "_place", "_shared")

    def __init__(self, latency: Histogram, shared: Any, place: int) -> None:
        self._latency = latency
        self._shared = shared
        self._place = place
        self._before: dict[int, int] = {}
        self._due_s = time.monotonic() + SAMPLE_SECONDS

    def sample(self) -> None:
        """Update the figures; cheap unless half a second has passed."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + SAMPLE_SECONDS
        counts = self._latency.counts.copy()  # another thread records meanwhile
        grown = {bucket: count - self._before.get(bucket, 0) for bucket, count in counts.items()}
        self._before = counts
        for at, value in enumerate(recent_ms({bucket: count for bucket, count in grown.items() if count})):
            self._shared[self._place + at] = value


def recent_ms(counts: dict[int, int]) -> tuple[float, ...]:
    """Median, p99 and maximum of the buckets in milliseconds; zeros without values."""
    recent = Histogram(counts, sum(counts.values()), max=bucket_top(max(counts, default=0)))
    return tuple(recent.percentile(percent) / 1e6 for percent in (50, 99, 100))


def worst(shared: Sequence[float]) -> tuple[float, float, float]:
    """The maximum of each figure over all clients."""
    count = len(FIGURES)
    p50, p99, longest = (max(shared[at::count], default=0.0) for at in range(count))
    return p50, p99, longest


READY_SECONDS = 120.0
"""If not all clients are connected and warm after this time, the run fails."""
STOP_SECONDS = 5.0

PROGRAMS: dict[Kind, ClientProgram] = {
    "produce": produce.run_client,
    "latency": produce.run_client,
    "consume": consume.run_client,
    "e2e": end_to_end.run_client,
    "workload": workload.run_client,
}


@dataclass(slots=True)
class ProcessSession:
    """The session of one client process: a barrier that the parent shares, and a counter that it reads.

    With `recent`, each client reports its latest latency figures there, for display.
    """

    barrier: Any
    counters: Any
    client: int
    recent: Any = None
    recorder: RecentLatency | None = None
    login: ClientLogin | None = field(default_factory=current_login)
    security: ClientSecurity = field(default_factory=in_force)
    """The login and the TLS of the parent, which the client's process uses too."""

    def start(self) -> None:
        """Wait at the barrier. Raises BrokenBarrierError when another client failed."""
        self.barrier.wait(READY_SECONDS)

    def measuring(self, latency: Histogram) -> None:
        """Report from this histogram periodically, if `recent` is set."""
        if self.recent is not None:
            self.recorder = RecentLatency(latency, self.recent, self.client * len(FIGURES))

    def progress(self, records: int) -> None:
        self.counters[self.client] = records
        if self.recorder is not None:
            self.recorder.sample()


def run_load(
    load: Load,
    shares: Sequence[tuple[Slice, ...]],
    *,
    on_start: Callable[[], None] = lambda: None,
    on_progress: Callable[[int], None] = lambda _records: None,
    on_moment: Callable[[LoadSample], None] | None = None,
) -> list[ClientResult]:
    """Run all clients of the load; call `on_start` when all are ready, `on_progress` with the records so far.

    `on_moment` also gets the latest latencies, at a small cost for the clients; None turns that off. Raises a client's
    error: Unreachable, or YakError (`bench-client`) when one died.
    """
    context = process_context()
    barrier = context.Barrier(load.clients + 1)
    counters = context.Array("Q", load.clients, lock=False)
    recent = None if on_moment is None else context.Array("d", load.clients * len(FIGURES), lock=False)

    def each_moment() -> None:
        on_progress(sum(counters))
        if on_moment is not None:
            on_moment(LoadSample(sum(counters), *worst(recent or ())))

    processes, connections = [], []
    try:
        with interrupts_deferred():
            for client in range(load.clients):
                receiving, sending = context.Pipe(duplex=False)
                session = ProcessSession(barrier, counters, client, recent)
                process = context.Process(target=client_main, args=(load, client, shares[client], session, sending))
                process.daemon = True
                process.start()
                sending.close()
                processes.append(process)
                connections.append(receiving)
        try:
            barrier.wait(READY_SECONDS)
            on_start()
        except threading.BrokenBarrierError:
            pass  # a client failed before the start; its error is in its pipe
        return gather(dict(zip(connections, processes, strict=True)), each_moment)
    except BaseException:
        # After a client's failure, Ctrl+C, or an error of `on_progress` the remaining clients are of no use.
        for process in processes:
            process.terminate()
        raise
    finally:
        for process in processes:
            end_process(process)


def process_context() -> Any:
    """The start method of clients: forked from a server process without librdkafka handles (Linux), or spawned.

    A child forked from a process with handles inherits them without their threads, and crashes when one is destroyed:
    never fork from this process.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Defer Ctrl+C while processes start: one that imports, or whose start is cut off, would print a traceback."""
    resource_tracker.ensure_running()  # a process would start it, which unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the processes inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def client_main(load: Load, client: int, share: tuple[Slice, ...], session: ProcessSession, out: Connection) -> None:
    """The body of a client process: sends its result, or the error that ended it, into the pipe.

    The garbage collector is off: a client creates no cycles, and a collection would disturb the measurement.
    """
    gc.freeze()
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    use_login(session.login)
    use(session.security)
    try:
        out.send(PROGRAMS[load.kind](load, client, share, session))
    except threading.BrokenBarrierError:
        out.send(None)
    except YakError as error:
        out.send((type(error), error.code, error.message, error.why, error.try_))
        session.barrier.abort()
    except Exception as error:
        out.send((YakError, "bench-client", "a benchmark client failed", f"{type(error).__name__}: {error}", ()))
        session.barrier.abort()
        raise
    finally:
        out.close()


def gather(processes: Mapping[Connection, Any], each_moment: Callable[[], None]) -> list[ClientResult]:
    """One result from each process' pipe. Raises the first error found there."""
    results: list[ClientResult] = []
    failure: YakError | None = None
    open_ = list(processes)
    while open_:
        each_moment()
        for ready in wait(open_, 0.1):
            assert isinstance(ready, Connection)
            open_.remove(ready)
            try:
                answer = ready.recv()
            except EOFError:
                failure = failure or died(processes[ready])
                continue
            if isinstance(answer, ClientResult):
                results.append(answer)
            elif answer is not None:
                kind, code, message, why, try_ = answer
                failure = kind(code, message, why=why, try_=try_)
    if failure is not None:
        raise failure
    return sorted(results, key=lambda result: result.client)


def died(process: Any) -> YakError:
    """The error for a client that ended without a result."""
    process.join(STOP_SECONDS)
    code = process.exitcode
    why = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return YakError("bench-client", "a benchmark client died before it was done", why=why)


def end_process(process: Any) -> None:
    """Join a client; one that does not end is terminated."""
    process.join(0 if process.exitcode is not None else STOP_SECONDS)
    if process.is_alive():
        process.terminate()
        process.join(STOP_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


def run_benchmark(
    load: Load,
    partitions: int | None = None,
    *,
    on_start: Callable[[], None] = lambda: None,
    on_progress: Callable[[int], None] = lambda _records: None,
    on_moment: Callable[[LoadSample], None] | None = None,
) -> Result:
    """Create or find the topic, run the clients, and count.

    Raises Unreachable, UsageError (`bench-partitions`, `bench-empty`, `bench-size`), YakError.
    """
    if load.kind == "e2e" and load.size_bytes < STAMP_BYTES:
        raise UsageError(
            "bench-size",
            f"end-to-end records need {STAMP_BYTES} bytes or more",
            why="each carries its sender's name and the time it was due",
            try_=(f"--size {STAMP_BYTES}",),
        )
    admin = Admin(load.bootstrap_servers)
    if load.kind == "consume":
        before = slices_of(admin, load.topic)
    else:
        ensure_topic(admin, load.topic, partitions)
        before = new_slices(admin, load.topic)
    shares = shares_of(load, before)
    results = run_load(load, shares, on_start=on_start, on_progress=on_progress, on_moment=on_moment)
    if load.kind in ("consume", "e2e"):
        return Result(load, results)
    stored = offsets_grown(admin, load.topic, before) - sum(each.warm_up_records for each in results)
    producers = load.clients - load.readers
    return Result(load, results[:producers], stored, results[producers:])


def shares_of(load: Load, slices: tuple[Slice, ...]) -> list[tuple[Slice, ...]]:
    """The slices for each client to read. Raises UsageError (`bench-empty`) when there are none."""
    if load.kind == "e2e":
        return [(slices[client % len(slices)],) for client in range(load.clients)]
    if load.kind != "consume":
        return [()] * (load.clients - load.readers) + readers_slices(slices, load.readers)
    there = sum(each.records for each in slices)
    if there == 0 or (load.messages is not None and load.messages > there):
        raise UsageError(
            "bench-empty",
            f"topic {load.topic} holds {there} records" + (f", not {load.messages}" if load.messages else ""),
            try_=(f"yak bench produce --topic {load.topic} --msgs {load.messages or 1000000}",),
        )
    return divide(slices, load.clients, load.messages)
