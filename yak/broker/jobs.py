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
        self._running: dict[int, OnDone] = {}

    def run(self, kind: JobKind, work: Callable[[], object], on_done: OnDone) -> None:
        """Run `work` in a thread; `on_done(result, error)` is called in the step that learns of its end."""
        job_id = self._next_id
        self._next_id += 1
        self._running[job_id] = on_done
        self._broker.emit(RunJob(job_id, kind, work))

    def on_done(self, event: JobDone) -> None:
        """A job ended."""
        self._running.pop(event.job_id)(event.result, event.error)

    def __len__(self) -> int:
        return len(self._running)
