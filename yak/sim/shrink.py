"""Shrink a failing run: fewer brokers, faults, kinds of clients, topics, producers and values, with the same failure.

Delta debugging (Zeller's ddmin) reduces the faults; everything else is removed one by one, or halved. A run has the
same failure if the same check, or the same assertion, ends it. The result is a `Spec`, and its command replays it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from yak.sim.seed_report import SeedReport
from yak.sim.spec import Spec
from yak.sim.trial import run_spec

TRIES_MAX = 400
PRODUCERS_MOST, VALUES_MOST = 16, 60
"""The most producers of any run, and the most values of any producer."""
NODE_SEEDS = 20
"""A seed draws everything differently with fewer brokers: so many seeds from it on are tried for the same failure."""


class NothingToShrink(Exception):
    """The run does not fail."""


@dataclass(slots=True)
class Shrunk:
    """The result. Both reports are failures of the same check."""

    before: SeedReport
    after: SeedReport
    tries: int


class Shrinker:
    """Keeps the smallest run so far. `on_try` gets the number of tries and the smallest run.

    Raises NothingToShrink if the run does not fail.
    """

    def __init__(self, spec: Spec, on_try: Callable[[int, Spec], None]) -> None:
        self._on_try = on_try
        self._tries = 1
        self._best = self._before = run_spec(spec)
        if self._before.error is None:
            raise NothingToShrink(spec.command())

    def run(self) -> Shrunk:
        self._fewer_brokers()
        while True:
            before = self._best.spec
            self._fewer_faults()
            self._fewer_parts()
            self._fewer(lambda spec, most: replace(spec, producers_max=most), before.producers_max or PRODUCERS_MOST)
            self._fewer(lambda spec, most: replace(spec, values_max=most), before.values_max or VALUES_MOST)
            if self._best.spec == before or self._tries >= TRIES_MAX:
                return Shrunk(self._before, self._best, self._tries)

    def _fails(self, spec: Spec) -> bool:
        """Whether this run fails in the same way; then it is the smallest so far."""
        if self._tries >= TRIES_MAX:
            return False
        self._tries += 1
        report = run_spec(spec)
        self._on_try(self._tries, self._best.spec)
        if report.error is None or report.found_by != self._before.found_by:
            return False
        self._best = report
        return True

    def _fewer_brokers(self) -> None:
        spec = self._best.spec
        for brokers in range(2, spec.brokers):
            for seed in range(spec.seed, spec.seed + NODE_SEEDS):
                if self._fails(replace(spec, brokers=brokers, seed=seed)):
                    return

    def _fewer_faults(self) -> None:
        """ddmin: leave out ever smaller subsets of the remaining faults."""
        faults = (
            list(self._best.spec.keep) if self._best.spec.keep is not None else list(range(1, self._best.strikes + 1))
        )
        size = len(faults)
        while faults and size:
            for start in range(0, len(faults), size):
                fewer = faults[:start] + faults[start + size :]
                if self._fails(replace(self._best.spec, keep=tuple(fewer))):
                    faults = fewer
                    break
            else:
                size = size // 2 if size > 1 else 0
                continue
            size = min(size, len(faults))

    def _fewer_parts(self) -> None:
        for part in self._best.parts:
            spec = self._best.spec
            if not spec.leaves_out(part):
                self._fails(replace(spec, without=(*spec.without, part)))

    def _fewer(self, bounded: Callable[[Spec, int], Spec], now: int) -> None:
        """Find the smallest bound, doubling from 1 on, with which the run still fails."""
        bound = 1
        while bound < now and not self._fails(bounded(self._best.spec, bound)):
            bound *= 2
