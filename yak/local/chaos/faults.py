"""The kinds of faults in a run, by name. The numbers are those of the fault model in docs/reliability.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from yak.errors import UsageError
from yak.local.quorum import BOTH, REDIS


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault.

    `weight` is the relative frequency, `seconds` the range of the duration. `touches` names the resource that it needs
    exclusively: a `node`, the `nodes`, the `routes` between all, the `store`, or the `clients`. `by_clients`: the fault
    also works on an external cluster.
    """

    name: str
    words: str
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
    FaultKind(
        "clients", "a client dies without a word, another takes its place", "F21", "clients", 3, (0.1, 0.2), True
    ),
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
                    f"{word} cannot be done to a cluster that was not started here",
                    why="with --bootstrap only clients are broken",
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


def names(kinds: Sequence[FaultKind]) -> str:
    """The kinds as the command line takes them."""
    return ",".join(kind.name for kind in kinds) or NONE
