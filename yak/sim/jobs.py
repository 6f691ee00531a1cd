"""The jobs of one simulated broker: their durations, how many run side by side, and pauses between their disk calls.

A job of a real broker runs in a thread while steps and other jobs go on. Here some jobs pause before some of their disk
calls, and after syncs: what is written during a sync may not be covered by it. The other events of the world happen
meanwhile: steps of the same broker, other jobs, the end of the process.

Such a job runs in a thread of its own, but never beside another thread: `_Thread.resume` waits for the job's next pause or
its end. So a run stays reproducible.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from yak.core.events import JobDone, JobKind, Plan, RunJob
from yak.core.jobs import SIDE_BY_SIDE
from yak.ids import JobId
from yak.sim.disk import GONE, ProcessEnded, SimDisk
from yak.sim.seeded_random import SeededRandom

MARKS_US: Final = 500
"""From a broker's readiness until it has recorded the machine's boot id in its directories."""
PAUSES: Final = "pauses"
"""The pauses of jobs, which may be left out of a run."""
_PAUSING_PERCENT: Final = 50
"""How many jobs of an interleaved run pause at all: threads cost time."""
_PAUSE_PERCENT: Final = (10, 30, 100)
"""How many disk calls of one job have a pause before them."""
_PAUSE_US: Final = (1_000, 10_000, 200_000)
"""The longest pause of one job."""
_PAUSES_US_MAX: Final = 400_000
"""Once a job has paused so long in all, it goes on without pauses: the close of all logs makes a hundred disk calls."""


class Jobs:
    """The jobs of one process under way."""

    def __init__(
        self,
        disk: SimDisk,
        rng: SeededRandom,
        later: Callable[[int, Callable[[], object]], None],
        post: Callable[[JobDone], None],
        counts: Counter[str],
    ) -> None:
        """`counts` gets the pauses, and the interrupted jobs: the process ended between two of their disk calls."""
        self._disk, self._rng, self._later, self._post, self.counts = disk, rng, later, post, counts
        self.delays_us: Mapping[str, int] = {}
        """Fixed times from a job's effect to its begin, by kind; other times come from the random source."""
        self.pauses: SeededRandom | None = None
        """Draws the pauses; without it every job runs in one piece."""
        self._running: dict[JobId, tuple[JobKind, _Thread]] = {}
        self._idle: list[_Thread] = []
        self._waiting: dict[JobKind, deque[RunJob]] = {kind: deque() for kind in SIDE_BY_SIDE}

    def start(self, effect: RunJob) -> None:
        self._later(self._delay_us(effect.kind), lambda: self._begin(effect))

    def end(self) -> None:
        """The process ended: its jobs make no further disk call."""
        for waiting in self._waiting.values():
            waiting.clear()
        for _kind, thread in self._running.values():
            if not thread.is_over:
                self.counts["jobs interrupted"] += 1
            self._disk.writing = GONE
            # the process may end inside of a step, and the cleanup of a job is no call of that step
            self._disk.on_call = None
            thread.interrupt()
            self._idle.append(thread)
        self._running.clear()

    def close(self) -> None:
        self.end()
        while self._idle:
            self._idle.pop().close()

    def _delay_us(self, kind: JobKind) -> int:
        """One job in twenty is slow."""
        if kind in self.delays_us:
            return self.delays_us[kind]
        slow = self._rng.chance(5)
        if kind in ("flush", "truncate"):
            return self._rng.between(100, 200_000 if slow else 4_000)
        return self._rng.between(50, 50_000 if slow else 1_000)

    def _begin(self, effect: RunJob) -> None:
        if sum(kind == effect.kind for kind, _thread in self._running.values()) >= SIDE_BY_SIDE[effect.kind]:
            self._waiting[effect.kind].append(effect)
        elif self.pauses is not None and self.pauses.chance(_PAUSING_PERCENT):
            thread = self._idle.pop() if self._idle else _Thread()
            thread.take(effect.plan, self._disk, self.pauses)
            self._running[effect.job_id] = (effect.kind, thread)
            self._resume(effect, thread)
        else:
            result: object = None
            error: Exception | None = None
            try:
                result = effect.plan.run(self._disk)
            except Exception as raised:  # noqa: BLE001  (any exception of a job goes to the core, as in the shell)
                error = raised
            self._done(effect, result, error)

    def _resume(self, effect: RunJob, thread: _Thread) -> None:
        self._disk.on_call = thread.called
        try:
            thread.resume()
        finally:
            self._disk.on_call = None
        if not thread.is_over:
            self.counts["pauses of jobs"] += 1
            self._later(thread.pause_us(), lambda: self._resume(effect, thread))
            return
        del self._running[effect.job_id]
        self._idle.append(thread)
        self._done(effect, thread.result, thread.error)

    def _done(self, effect: RunJob, result: object, error: Exception | None) -> None:
        self._later(self._rng.between(20, 2_000), lambda: self._post(JobDone(effect.job_id, result, error)))
        if self._waiting[effect.kind]:
            waiting = self._waiting[effect.kind].popleft()
            self._later(0, lambda: self._begin(waiting))


class _Thread:
    """Runs jobs that pause, one after the other. It and the run's own thread take turns: exactly one of them runs."""

    def __init__(self) -> None:
        self.is_over = True
        """Whether it has no job, or its job has ended."""
        self.result: object = None
        self.error: Exception | None = None
        self._job: tuple[Plan, SimDisk] | None = None
        self._rng = SeededRandom(0)
        self._pause_percent = 0
        self._pause_us_max = 0
        self._paused_us = 0
        self._has_ended_process = False
        self._is_interrupted = False
        self._turn, self._handed_back = threading.Lock(), threading.Lock()
        self._turn.acquire()
        self._handed_back.acquire()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def take(self, plan: Plan, disk: SimDisk, rng: SeededRandom) -> None:
        """Get a job, which `resume` begins."""
        self._job, self._rng = (plan, disk), rng
        self._pause_percent, self._pause_us_max = rng.choice(_PAUSE_PERCENT), rng.choice(_PAUSE_US)
        self._paused_us = 0
        self.is_over = self._has_ended_process = self._is_interrupted = False
        self.result = self.error = None

    def resume(self) -> None:
        """Run to the job's next pause, or to its end. Raises ProcessEnded."""
        self._turn.release()
        self._handed_back.acquire()
        if self._has_ended_process:
            raise ProcessEnded

    def pause_us(self) -> int:
        pause_us = self._rng.between(20, self._pause_us_max)
        self._paused_us += pause_us
        return pause_us

    def called(self, call: str, path: str) -> None:  # noqa: ARG002
        """In the job's thread: a disk call begins, or a sync ends. Raises ProcessEnded."""
        if self._paused_us < _PAUSES_US_MAX and self._rng.chance(self._pause_percent):
            self._handed_back.release()
            self._turn.acquire()
            if self._is_interrupted:
                raise ProcessEnded

    def interrupt(self) -> None:
        if not self.is_over:
            self._is_interrupted = True
            with suppress(ProcessEnded):
                self.resume()

    def close(self) -> None:
        self._job = None
        self._turn.release()
        self._thread.join()

    def _work(self) -> None:
        while True:
            self._turn.acquire()
            if self._job is None:
                return
            plan, disk = self._job
            try:
                self.result = plan.run(disk)
            except ProcessEnded:
                self._has_ended_process = True
            except Exception as error:  # noqa: BLE001  (any exception of a job goes to the core, as in the shell)
                self.error = error
            self.is_over = True
            self._handed_back.release()
