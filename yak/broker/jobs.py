"""Work that runs off the loop: each job is remembered with what to do when it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.broker.events import JobDone, JobKind, RunJob

if TYPE_CHECKING:
    from yak.broker.broker import Broker

OnDone: TypeAlias = Callable[[Any, BaseException | None], None]


class Jobs:
    """Jobs under way, by id."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next_id = 1
        self._running: dict[int, tuple[JobKind, OnDone]] = {}
        self._when_idle: tuple[tuple[JobKind, ...], Callable[[], None]] | None = None

    def run(self, kind: JobKind, work: Callable[[], object], on_done: OnDone) -> None:
        """Run `work` in a thread; `on_done(result, error)` is called in the step that learns of its end."""
        job_id = self._next_id
        self._next_id += 1
        self._running[job_id] = (kind, on_done)
        self._broker.emit(RunJob(job_id, kind, work))

    def on_done(self, event: JobDone) -> None:
        """A job ended."""
        try:
            self._running.pop(event.job_id)[1](event.result, event.error)
        finally:
            self._act_when_idle()

    def when_idle(self, kinds: tuple[JobKind, ...], action: Callable[[], None]) -> None:
        """Call `action`, once, as soon as no job of these kinds is under way."""
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
