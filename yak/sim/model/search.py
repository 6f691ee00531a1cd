"""Breadth-first search over every state of the model within bounds."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from yak.sim.model.rules import Rules, Step
from yak.sim.model.state import Budget, State, canonical, first_state, tidy


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the steps. `elections` counts fencings too, `changes` the ISR changes that leaders propose."""

    records: int = 2
    crashes: int = 1
    outages: int = 0
    elections: int = 2
    changes: int = 1
    min_isr: int = 2

    def left(self) -> Budget:
        """The budget of the first state."""
        return Budget(self.records, self.crashes, self.outages, self.elections, self.changes)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result. `is_complete`: no state within the bounds was left out."""

    states: int
    steps: int
    depth: int
    is_complete: bool
    violation: str
    path: tuple[Step, ...]
    """The shortest path to the violation."""


def search(
    bounds: Bounds,
    *,
    lacks: str = "",
    states_max: int | None = None,
    on_level: Callable[[int, int, int], None] | None = None,
) -> SearchResult:
    """Visit every state; ends at the first violation, which is the nearest to the first state.

    Visited states are known by 128-bit digests. `states_max` ends the search early (then `is_complete` is False).
    `on_level` gets the depth, the states so far, and the number of next states.
    """
    rules = Rules(bounds.min_isr, lacks)
    first = canonical(first_state(bounds.left()))
    seen: dict[bytes, tuple[bytes, Step] | None] = {_digest(first): None}
    level, depth, steps = [first], 0, 0
    while level:
        if on_level is not None:
            on_level(depth, len(seen), len(level))
        following: list[State] = []
        for state in level:
            for step, after in rules.steps(state):
                steps += 1
                new = canonical(tidy(after))
                digest = _digest(new)
                if digest in seen:
                    continue
                seen[digest] = (_digest(state), step) if lacks else None
                violation = rules.violation(new)
                if violation:
                    return SearchResult(len(seen), steps, depth + 1, False, violation, _path(seen, digest))
                following.append(new)
            if states_max is not None and len(seen) >= states_max:
                return SearchResult(len(seen), steps, depth + 1, False, "", ())
        level = following
        depth += 1
    return SearchResult(len(seen), steps, depth, True, "", ())


def _digest(state: State) -> bytes:
    return hashlib.blake2b(marshal.dumps(_plain(state), 0), digest_size=16).digest()


def _plain(state: State) -> Any:
    """Named tuples as tuples: marshal accepts nothing else."""
    brokers = tuple(
        (*broker[:6], None if broker.pending is None else tuple(broker.pending), broker.known)
        for broker in state.brokers
    )
    history, calls = tuple(map(tuple, state.history)), tuple(map(tuple, state.calls))
    return (brokers, history, state.registered, state.acks, calls, state.is_up, state.committed, tuple(state.left))


def _path(seen: dict[bytes, tuple[bytes, Step] | None], digest: bytes) -> tuple[Step, ...]:
    """The steps to a state; names of brokers are those of each state's own canonical form."""
    steps: list[Step] = []
    while (entry := seen[digest]) is not None:
        digest, step = entry
        steps.append(step)
    return tuple(reversed(steps))
