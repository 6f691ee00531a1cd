"""The faults of a run and their times, drawn from a seed. Pure.

Two faults may overlap when they touch different resources: no broker is paused and killed at once, and only one fault
at a time changes the connections. All faults end before the run does. The run records when a fault was really injected,
since the machine's timing varies by milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from yak.errors import UsageError
from yak.local.quorum import BOTH, REDIS
from yak.sim.seeded_random import SeededRandom


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault.

    `weight` is the relative frequency, `seconds` the range of the duration. `touches` names the resource that it needs
    exclusively: a `node`, the `nodes`, the `routes` between all, the `store`, or the `clients`. `by_clients`: the fault
    also works on an external cluster.
    """

    name: str
    description: str
    number: str
    touches: str
    weight: int
    seconds: tuple[float, float]
    by_clients: bool = False


KINDS: Final = (
    FaultKind("kill", "kill -9 of one broker or several", "F1", "node", 5, (0.3, 8.0)),
    FaultKind("pause", "SIGSTOP of a broker, then SIGCONT", "F3", "node", 4, (0.5, 12.0)),
    FaultKind("restart", "an orderly stop and start", "F4", "node", 3, (0.2, 3.0)),
    FaultKind("cut", "a broker cut off from others, from the store or from clients", "F5", "routes", 4, (1.0, 12.0)),
    FaultKind("oneway", "one direction of a connection silent", "F6", "routes", 3, (1.0, 10.0)),
    FaultKind("delay", "every message late", "F7", "routes", 2, (2.0, 10.0)),
    FaultKind("slow", "connections of a few kilobytes a second", "F7", "routes", 2, (2.0, 10.0)),
    FaultKind("disk", "a broker's disk is full", "F11", "node", 2, (1.0, 8.0)),
    FaultKind("redis-kill", "kill -9 of Redis, and a start on its data", "F13", "store", 3, (0.5, 10.0)),
    FaultKind("redis-pause", "SIGSTOP of Redis, then SIGCONT", "F14", "store", 3, (0.5, 8.0)),
    FaultKind("redis-empty", "Redis loses everything", "F16", "store", 2, (0.2, 3.0)),
    FaultKind("move", "the metadata are moved to the other store", "F24", "metadata", 4, (0.5, 4.0)),
    FaultKind("clients", "a client is killed, and another takes its place", "F21", "clients", 3, (0.1, 0.2), True),
)
BY_NAME: Final = {kind.name: kind for kind in KINDS}
ALL: Final = "all"
NONE: Final = "none"


def _is_possible(kind: FaultKind, metadata: str) -> bool:
    """Whether this can happen where the metadata are in Redis, in a quorum, or are moved. A move needs all of them."""
    if metadata == BOTH:
        return kind.name != "redis-empty"
    return kind.name != "move" and (metadata == REDIS or kind.touches != "store")


def parse_faults(text: str, *, own_processes: bool, metadata: str = REDIS) -> tuple[FaultKind, ...]:
    """The kinds of a list such as `kill,pause`, of `all`, of `none`, or of `all,-disk`.

    Raises UsageError (`unknown-fault`, `fault-needs-processes`, `fault-needs-redis`). On an external cluster, `all` means
    the kinds that need no own processes; else those that are possible with the metadata where they are.
    """
    possible = [kind for kind in KINDS if (own_processes or kind.by_clients) and _is_possible(kind, metadata)]
    chosen: list[FaultKind] = []
    for word in (part.strip() for part in text.split(",")):
        if word == ALL:
            chosen += [kind for kind in possible if kind not in chosen]
        elif word.startswith("-") and word[1:] in BY_NAME:
            chosen = [kind for kind in chosen if kind.name != word[1:]]
        elif word in BY_NAME:
            if not _is_possible(BY_NAME[word], metadata):
                raise UsageError(
                    "fault-needs-redis",
                    f"{word} cannot be done with --metadata {metadata}",
                    why="a fault of Redis needs Redis, and a move of the metadata needs both stores",
                    try_=(
                        f"yak chaos run --metadata {metadata} --faults all",
                        "yak chaos run --metadata both --faults move",
                    ),
                )
            if BY_NAME[word] not in possible:
                raise UsageError(
                    "fault-needs-processes",
                    f"{word} cannot be injected into a cluster that yak chaos run did not start",
                    why="with --bootstrap a run injects faults into clients only",
                    try_=("yak chaos run --bootstrap ADDRESS --faults clients", f"yak chaos run --faults {word}"),
                )
            chosen += [BY_NAME[word]] if BY_NAME[word] not in chosen else []
        elif word not in (NONE, ""):
            raise UsageError(
                "unknown-fault",
                f"{word} is no fault",
                why=f"faults are {', '.join(BY_NAME)}, all, none, and -NAME after all",
                try_=("yak chaos faults", "yak chaos run --faults all,-disk"),
            )
    return tuple(chosen)


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

    def description(self) -> str:
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
    others = [f"node-{node}" for node in nodes if node not in chosen]
    peers = [*others, "clients", "store"]
    if kind.name == "cut":
        from_ = rng.choice(["others", "others+store", "store", "clients", "all"])
        return {"from": from_, "by": rng.choice(["silence", "reset"])}
    if kind.name == "oneway":
        return {"peer": rng.choice(peers), "lost": rng.choice(["to", "from"])}
    if kind.name == "delay":
        return {"seconds": rng.choice(DELAYS_SECONDS), "peers": rng.choice(["others", "clients", "store", "all"])}
    if kind.name == "slow":
        return {"bytes_per_second": rng.choice(RATES_BYTES), "peers": rng.choice(["others", "clients", "all"])}
    if kind.name == "redis-empty":
        return {"by": rng.choice(["FLUSHALL", "restart"])}
    if kind.name == "clients":
        return {"who": rng.choice(["writer", "reader", "member"]), "which": rng.below(_WHICH_MAX)}
    return {}
