"""Jobs: plans that run in threads, each with a callback for its end.

The callback `on_done` handles the errors that a job raises on purpose (a disk failure, a refusal). Any other exception is a
bug in YAK: in a job that changes state it stops the broker (`yak.fail_stop`), in any other job `on_done` handles it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from yak.core.events import DropJob, Effect, JobDone, JobKind, Plan, RunJob
from yak.errors import FailStop, LogDirectoryFailure, PeerError, ProtocolViolation
from yak.ids import JobId
from yak.ports.disk import Disk

OnDone: TypeAlias = Callable[[Any, BaseException | None], None]
SIDE_BY_SIDE: Final[dict[JobKind, int]] = {
    "flush": 8,
    "read": 8,
    "checkpoint": 2,
    "delete": 1,
    "recompress": 2,
    "compact": 1,
    "image": 2,
    "truncate": 8,
    "move": 1,
    "quorum": 2,
    "login": 2,
    "key set": 1,
}
"""How many jobs of a kind run at a time: a stuck kind (a sync of a dying disk) leaves the other kinds their threads."""
_CHANGE_STATE: Final[tuple[JobKind, ...]] = ("flush", "checkpoint", "image", "truncate", "move", "quorum")
_ON_PURPOSE: Final = (OSError, LogDirectoryFailure, PeerError, ProtocolViolation)


@dataclass(frozen=True, slots=True)
class CombinedPlan:
    """Several plans as one job. Its result is a list: the result of each plan, or the error that it raised on purpose."""

    plans: tuple[Plan, ...]

    def run(self, disk: Disk) -> list[object]:
        """Run each plan, also after one that failed."""
        return [_attempt(plan, disk) for plan in self.plans]


def _attempt(plan: Plan, disk: Disk) -> object:
    try:
        return plan.run(disk)
    except _ON_PURPOSE as error:
        return error


class Jobs:
    """Jobs under way, by id."""

    def __init__(self, emit: Callable[[Effect], None]) -> None:
        self._emit = emit
        self._next_id = 1
        self._running: dict[int, tuple[JobKind, OnDone]] = {}
        self._when_idle: tuple[tuple[JobKind, ...], Callable[[], None]] | None = None

    def run(self, kind: JobKind, plan: Plan, on_done: OnDone) -> JobId:
        """Run `plan` in a thread; the step of its `JobDone` calls `on_done(result, error)`. Returns an id for `drop`."""
        job_id = self._next_id
        self._next_id += 1
        self._running[job_id] = (kind, on_done)
        self._emit(RunJob(job_id, kind, plan))
        return job_id

    def drop(self, job_id: JobId) -> None:
        """The request that waits for a job is gone, and the requests of others wait behind it: do not begin it."""
        held = self._running.get(job_id)
        if held is not None:
            self._emit(DropJob(job_id, held[0]))

    def on_done(self, event: JobDone) -> None:
        """Call the callback of a job that ended. Raises FailStop for a bug in a job that changes state."""
        kind, on_done = self._running.pop(event.job_id)
        if event.error is not None and kind in _CHANGE_STATE and not isinstance(event.error, _ON_PURPOSE):
            raise FailStop(f"a job: {kind}") from event.error
        on_done(event.result, event.error)
        self._act_when_idle()

    def when_idle(self, kinds: tuple[JobKind, ...], action: Callable[[], None]) -> None:
        """Call `action` once, as soon as no job of these kinds is under way."""
        self._when_idle = (kinds, action)
        self._act_when_idle()

    def _act_when_idle(self) -> None:
        if self._when_idle is None:
            return
        kinds, action = self._when_idle
        if not any(kind in kinds for kind, _on_done in self._running.values()):
            self._when_idle = None
            action()

    def __len__(self) -> int:
        return len(self._running)
