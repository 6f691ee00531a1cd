"""The faults of a run and their times, drawn from a seed. Pure.

Two faults may overlap when they touch different resources: no broker is paused and killed at once, and only one fault
at a time changes the connections. All faults end before the run does. The run records when a fault was really injected,
since the machine's timing varies by milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from yak.local.chaos.faults import FaultKind
from yak.sim.seeded_random import SeededRandom

QUIET_START_SECONDS: Final = 2.0
_GAP_SECONDS: Final = (0.5, 5.0)
_OVERLAP_PERCENT: Final = 35
_SEVERAL_PERCENT: Final = 25
_WHOLE_RUN: Final = 0.5
"""The share of the remaining time that a fault may last at most."""
_WHICH_MAX: Final = 100
DELAYS_SECONDS: Final = (0.05, 0.2, 0.5, 1.0)
RATES_BYTES: Final = (2_000, 8_000, 30_000)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault: `at_s` after the load began, for `for_s`, on these nodes, with the parameters `how`."""

    number: int
    kind: str
    at_s: float
    for_s: float
    nodes: tuple[int, ...] = ()
    how: dict[str, Any] = field(default_factory=dict)

    @property
    def end_s(self) -> float:
        """When the fault is repaired."""
        return self.at_s + self.for_s

    def words(self) -> str:
        """A description for people."""
        where = f" {','.join(map(str, self.nodes))}" if self.nodes else ""
        how = " ".join(f"{name}={value}" for name, value in self.how.items())
        return f"{self.kind}{where}{f' ({how})' if how else ''}"


def plan(seed: int, kinds: Sequence[FaultKind], nodes: Sequence[int], duration_s: float) -> tuple[PlannedFault, ...]:
    """All faults of a run of this duration, by their start."""
    rng = SeededRandom(f"chaos:{seed}")
    planned: list[PlannedFault] = []
    busy: dict[str, float] = {}
    now = QUIET_START_SECONDS
    weighted = [kind for kind in kinds for _ in range(kind.weight)]
    while weighted and now < duration_s - 1.0:
        kind = rng.choice(weighted)
        chosen = _nodes(rng, kind, nodes)
        things = _things(kind, chosen)
        if all(busy.get(thing, 0.0) <= now for thing in things):
            low, high = kind.seconds
            lasts = round(min(_between(rng, low, high), max(low, (duration_s - now) * _WHOLE_RUN)), 2)
            fault = PlannedFault(
                len(planned) + 1, kind.name, round(now, 2), lasts, chosen, _how(rng, kind, nodes, chosen)
            )
            planned.append(fault)
            busy |= dict.fromkeys(things, fault.end_s + _GAP_SECONDS[0])
            now = now + 0.3 if rng.chance(_OVERLAP_PERCENT) else fault.end_s
        now += _between(rng, *_GAP_SECONDS)
    return tuple(planned)


def _between(rng: SeededRandom, low: float, high: float) -> float:
    return rng.between(int(low * 100), int(high * 100)) / 100.0


def _nodes(rng: SeededRandom, kind: FaultKind, nodes: Sequence[int]) -> tuple[int, ...]:
    if kind.touches in ("store", "metadata", "clients") or not nodes:
        return ()
    first = rng.choice(nodes)
    if kind.name != "kill" or not rng.chance(_SEVERAL_PERCENT):
        return (first,)
    count = rng.between(2, len(nodes)) if len(nodes) > 1 else 1
    others = [node for node in nodes if node != first]
    while len(others) > count - 1:
        others.remove(rng.choice(others))
    return (first, *others)


def _things(kind: FaultKind, nodes: Sequence[int]) -> list[str]:
    return [f"node-{node}" for node in nodes] if kind.touches == "node" else [kind.touches]


def _how(rng: SeededRandom, kind: FaultKind, nodes: Sequence[int], chosen: Sequence[int]) -> dict[str, Any]:
    """The parameters of a fault, drawn at random."""
    others = [f"node-{node}" for node in nodes if node not in chosen]
    places = [*others, "clients", "store"]
    if kind.name == "cut":
        from_ = rng.choice(["others", "others+store", "store", "clients", "all"])
        return {"from": from_, "by": rng.choice(["silence", "reset"])}
    if kind.name == "oneway":
        return {"peer": rng.choice(places), "lost": rng.choice(["to", "from"])}
    if kind.name == "delay":
        return {"seconds": rng.choice(DELAYS_SECONDS), "peers": rng.choice(["others", "clients", "store", "all"])}
    if kind.name == "slow":
        return {"bytes_per_second": rng.choice(RATES_BYTES), "peers": rng.choice(["others", "clients", "all"])}
    if kind.name == "redis-empty":
        return {"by": rng.choice(["FLUSHALL", "restart"])}
    if kind.name == "clients":
        return {"who": rng.choice(["writer", "reader", "member"]), "which": rng.below(_WHICH_MAX)}
    return {}
