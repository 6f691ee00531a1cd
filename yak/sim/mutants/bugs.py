"""Mutants of the fail-stop on internal bugs (`yak.fail_stop`)."""

from __future__ import annotations

from typing import Any

from yak.broker.broker import Broker
from yak.core import jobs
from yak.errors import FailStop
from yak.sim.mutants.mutant import Mutant, Swaps

_BUGS = ("bug", "kill")


def _go_on(swaps: Swaps) -> None:
    real = Broker.step

    def step(self: Any, event: Any, now_ms: int) -> list[Any]:
        try:
            return real(self, event, now_ms)
        except FailStop:
            self._failure = None
            effects: list[Any] = self._effects
            self._effects = []
            return effects

    swaps.put(Broker, "step", step)


def _take_for_the_disks_fault(swaps: Swaps) -> None:
    swaps.put(jobs, "_CHANGE_STATE", ())


MUTANTS = (
    Mutant(
        "half-changed-state-used",
        "a bug in the middle of a change of replicated state stops the broker",
        _go_on,
        seeds=20,
        faults=_BUGS,
    ),
    Mutant(
        "half-changed-state-used-alone",
        "a bug in the middle of a change of replicated state stops the broker",
        _go_on,
        seeds=20,
        brokers=1,
        faults=_BUGS,
    ),
    Mutant(
        "broken-job-taken-for-a-failed-one",
        "a bug in a job that changes state stops the broker",
        _take_for_the_disks_fault,
        seeds=30,
        faults=_BUGS,
    ),
)
