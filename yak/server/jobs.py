"""Run jobs of the core in threads: a bounded number of each kind, with a warning for stuck ones."""

import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, TypeVarTuple

import trio

from yak.core.events import DropJob, JobDone, JobKind, Plan, RunJob
from yak.core.jobs import SIDE_BY_SIDE
from yak.errors import LoginRefused, PeerError, ProtocolViolation
from yak.ids import JobId
from yak.ports.disk import Disk
from yak.server import log
from yak.server.clock import Clock
from yak.server.latencies import Histogram

DEADLINE_MS: Final[dict[JobKind, int]] = {
    "flush": 10_000,
    "read": 10_000,
    "checkpoint": 30_000,
    "delete": 120_000,
    "recompress": 30_000,
    "compact": 60_000,
    "image": 10_000,
    "truncate": 10_000,
    "move": 60_000,
    "quorum": 10_000,
    "login": 10_000,
    "key set": 30_000,
}
"""A job that runs longer is stuck: it is logged, and another job may run in its place."""
_STUCK_REPLACED_MAX: Final = 32
_THREAD_RETRY_SECONDS: Final = 1.0
_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")


@dataclass(slots=True)
class _Running:
    """A job in its thread."""

    job: RunJob
    started_ms: int
    stuck: bool = False


class JobRunner:
    """Runs `RunJob` effects; each ends with one `JobDone` for `post`."""

    def __init__(self, nursery: trio.Nursery, post: Callable[[JobDone], None], clock: Clock, disk: Disk) -> None:
        self._nursery = nursery
        self._disk = disk
        self._post = post
        self._clock = clock
        self._limiter = trio.CapacityLimiter(math.inf)
        self._waiting: dict[JobKind, dict[JobId, RunJob]] = {kind: {} for kind in SIDE_BY_SIDE}
        self._workers: dict[JobKind, int] = dict.fromkeys(SIDE_BY_SIDE, 0)
        self._stuck: dict[JobKind, int] = dict.fromkeys(SIDE_BY_SIDE, 0)
        self._running: dict[int, _Running] = {}
        self.durations: dict[JobKind, Histogram] = {kind: Histogram() for kind in SIDE_BY_SIDE}
        """Run times of jobs in their threads."""

    def submit(self, job: RunJob) -> None:
        """Run a job as soon as its kind has a free thread."""
        self._waiting[job.kind][job.job_id] = job
        self._start_worker(job.kind)

    def drop(self, dropped: DropJob) -> None:
        """End a job that has not begun."""
        if self._waiting[dropped.kind].pop(dropped.job_id, None) is not None:
            self._post(JobDone(dropped.job_id, None, None))

    def check_deadlines(self, now_ms: int) -> None:
        """Log jobs past their deadline, once each, and start others in their place."""
        for running in list(self._running.values()):
            kind = running.job.kind
            took_ms = now_ms - running.started_ms
            if not running.stuck and took_ms > DEADLINE_MS[kind]:
                running.stuck = True
                self._stuck[kind] += 1
                fields: dict[str, object] = {"kind": kind, "job": running.job.job_id, "running_ms": took_ms}
                log.write("warning", "job-stuck", fields)
                self._start_worker(kind)

    def _start_worker(self, kind: JobKind) -> None:
        allowed = SIDE_BY_SIDE[kind] + min(self._stuck[kind], _STUCK_REPLACED_MAX)
        if self._waiting[kind] and self._workers[kind] < allowed:
            self._workers[kind] += 1
            self._nursery.start_soon(self._work, kind)

    async def _work(self, kind: JobKind) -> None:
        waiting = self._waiting[kind]
        try:
            while waiting and self._workers[kind] <= SIDE_BY_SIDE[kind] + self._stuck[kind]:
                await self._run(waiting.pop(next(iter(waiting))))
        finally:
            self._workers[kind] -= 1

    async def _run(self, job: RunJob) -> None:
        running = self._running[job.job_id] = _Running(job, self._clock.now_ms())
        try:
            result, failure, took_ns = await run_in_thread(
                _attempt, job.plan, self._disk, limiter=self._limiter, kind=job.kind, job=job.job_id
            )
        finally:
            del self._running[job.job_id]
            if running.stuck:
                self._stuck[job.kind] -= 1
        self.durations[job.kind].note(took_ns)
        if running.stuck:
            took_ms = self._clock.now_ms() - running.started_ms
            log.write("warning", "stuck-job-finished", {"kind": job.kind, "job": job.job_id, "took_ms": took_ms})
        self._post(JobDone(job.job_id, result, failure))


async def run_in_thread(
    work: Callable[[*_Arguments], _T], *args: *_Arguments, limiter: trio.CapacityLimiter | None = None, **fields: object
) -> _T:
    """As trio.to_thread.run_sync, and abandoned when cancelled. `fields` are those of its line in the log.

    It waits while the system starts no thread: others may have reached a limit of processes (cgroups(7)).
    """
    while True:
        try:
            return await trio.to_thread.run_sync(work, *args, abandon_on_cancel=True, limiter=limiter)
        except RuntimeError as error:
            if str(error) != "can't start new thread":
                raise
            log.write("warning", "job-thread-missing", {**fields, "error": str(error)})
        await trio.sleep(_THREAD_RETRY_SECONDS)


def _attempt(plan: Plan, disk: Disk) -> tuple[object, Exception | None, int]:
    """The result of the job or its exception, and the time it took in ns.

    The core handles the exception. A panic of native code is no `Exception`, but is treated as one. A traceback keeps
    the job's frames alive, and through the threads' frames itself. Without `_cut_off`, their objects (a batch of 128
    MiB) would stay until a rare garbage collection.
    """
    started_ns = time.perf_counter_ns()
    try:
        result = plan.run(disk)
    except Exception as error:  # noqa: BLE001
        _cut_off(error)
        return None, error, time.perf_counter_ns() - started_ns
    except BaseException as error:  # noqa: BLE001
        return None, RuntimeError(f"{type(error).__name__}: {error}"), time.perf_counter_ns() - started_ns
    return result, None, time.perf_counter_ns() - started_ns


def _cut_off(error: BaseException) -> None:
    """Detach an exception from its frames.

    An expected error, which a client can provoke, loses its traceback. Other exceptions and their causes keep their
    tracebacks for the log, but the frames lose their local variables.
    """
    if isinstance(error, (LoginRefused, PeerError, ProtocolViolation)):
        error.__traceback__ = error.__cause__ = error.__context__ = None
        return
    found: list[BaseException] = [error]
    for each in found:
        traceback.clear_frames(each.__traceback__)
        found += [
            other
            for other in (each.__cause__, each.__context__)
            if other is not None and all(other is not x for x in found)
        ]
