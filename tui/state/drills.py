"""All failovers of a session, and the cluster's reactions to each in milliseconds after it. Pure.

A drill is an action on the cluster that was begun here, or a failover that was only observed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from yak.local.demo.delivery_statistics import Pause
from yak.tui.state.activity import Line
from yak.tui.state.elections import first
from yak.tui.state.picture import Partition, Picture

Action = Literal["kill", "pause", "restart", "failover", "seen"]
"""`seen`: a failover that was observed, not caused from here."""

WATCHED_MS: Final = 60_000
"""Later events are not counted as effects of the drill."""
_BEFORE_MS: Final = 50
"""Tolerance between clocks: ours dates the action, the brokers' date the events. Both count whole milliseconds."""
FIRST_SIGNS: Final[Mapping[Action, str]] = {
    "kill": "kill -9",
    "pause": "SIGSTOP",
    "restart": "SIGTERM",
    "failover": "requested",
    "seen": "first sign",
}


@dataclass(frozen=True, slots=True)
class Drill:
    """One action. `led`: partitions that the broker led, or that are to be moved."""

    action: Action
    node_id: int | None
    began_ms: float
    title: str
    command: str = ""
    led: frozenset[str] = frozenset()
    was_controller: bool = False
    request: Mapping[str, object] | None = field(default=None, compare=False)
    """The request of a planned failover, saved to repeat it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, and its time after the beginning."""

    name: str
    after_ms: float


@dataclass(slots=True)
class MovedLeadership:
    """A leadership that moved to another broker. `to_node` is None while the partition has no leader."""

    partition: str
    from_node: int | None
    to_node: int | None
    leader_epoch: int
    after_ms: float


@dataclass(slots=True)
class Timeline:
    """The course of a drill. Times count from its beginning; None: did not happen, or not observed yet."""

    drill: Drill
    detected_ms: float | None = None
    fenced_ms: float | None = None
    controller_ms: float | None = None
    elected_ms: float | None = None
    """When the last of the partitions has a leader again."""
    first_write_ms: float | None = None
    is_written: bool = False
    """Whether a client was seen to write to the moved partitions before the drill."""
    moved: dict[str, MovedLeadership] = field(default_factory=dict)
    truncated: list[str] = field(default_factory=list)
    longest: Pause | None = None
    """The longest pause of writes to the moved partitions, as the demo's clients measured it."""

    @property
    def leaderless(self) -> list[str]:
        """Partitions that the broker led and that have no leader yet."""
        return sorted(name for name, each in self.moved.items() if each.to_node is None)

    def steps(self) -> list[Step]:
        """The steps in order; steps at the same moment in causal order."""
        elected = "moved" if self.drill.action == "failover" else "elected"
        named = (
            (FIRST_SIGNS[self.drill.action], 0.0),
            ("detected", self.detected_ms),
            ("fenced", self.fenced_ms),
            ("new controller", self.controller_ms),
            (elected, self.elected_ms),
            ("first write", self.first_write_ms),
        )
        return sorted((Step(name, at) for name, at in named if at is not None), key=lambda step: round(step.after_ms))


def timeline(
    drill: Drill,
    lines: Iterable[Line],
    pauses: Iterable[Pause],
    partitions: Mapping[tuple[str, int], Partition],
    *,
    until_ms: float | None = None,
) -> Timeline:
    """The timeline of a drill, from the events. `until_ms`: when the next drill began."""
    found = Timeline(drill)
    end_ms = min(drill.began_ms + WATCHED_MS, until_ms if until_ms is not None else float("inf"))
    for line in lines:
        if drill.began_ms - _BEFORE_MS <= line.time_ms < end_ms:
            _take(found, line, max(line.time_ms - drill.began_ms, 0.0))
    done = [each.after_ms for each in found.moved.values() if each.to_node is not None]
    if done and not found.leaderless:
        found.elected_ms = max(done)
    _writes(found, pauses, partitions, end_ms)
    return found


def _take(found: Timeline, line: Line, after_ms: float) -> None:
    event, drill = line.event, found.drill
    kind, broker = line.kind, event.get("broker")
    if kind == "leader-changed":
        _take_leader(found, event, after_ms)
    elif kind == "controller-changed" and drill.was_controller and event.get("to") not in (None, drill.node_id):
        found.controller_ms = first(found.controller_ms, after_ms)
    elif kind == "log-truncated":
        found.truncated.append(line.message)
    elif drill.node_id is None or broker != drill.node_id:
        return
    elif kind == "broker-dead":
        found.detected_ms = first(found.detected_ms, after_ms)
    elif kind in ("broker-fenced", "broker-stopping") and drill.action != "failover":
        found.fenced_ms = first(found.fenced_ms, after_ms)


def _take_leader(found: Timeline, event: Mapping[str, object], after_ms: float) -> None:
    name, drill = f"{event['topic']}-{event['partition']}", found.drill
    taken = _number(event.get("from"))
    known = found.moved.get(name)
    is_ours = name in drill.led or (drill.node_id is not None and taken == drill.node_id)
    if not is_ours or (known is not None and known.to_node is not None):
        return  # a later preferred leader election, which is not part of the drill
    from_node = taken if known is None else known.from_node
    epoch = event["leader_epoch"]
    assert isinstance(epoch, int)
    found.moved[name] = MovedLeadership(name, from_node, _number(event.get("to")), epoch, after_ms)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _writes(
    found: Timeline, pauses: Iterable[Pause], partitions: Mapping[tuple[str, int], Partition], end_ms: float
) -> None:
    """The first write after the election: as the demo's clients measured it, else from the high watermarks."""
    if found.elected_ms is None:
        return
    began_ms, elected_ms = found.drill.began_ms, found.drill.began_ms + found.elected_ms
    moved_ones = [each for each in partitions.values() if each.name in found.moved]
    found.is_written = any(at < began_ms for each in moved_ones for at in each.first_writes_ms.values())
    stood = [
        each
        for each in pauses
        if each.partition in found.moved and began_ms <= each.until_ms < end_ms and each.from_ms <= elected_ms
    ]
    if stood:
        found.longest = max(stood, key=lambda each: each.length_ms)
        after = [each.until_ms - began_ms for each in stood if each.until_ms >= elected_ms - _BEFORE_MS]
        if after:
            found.first_write_ms = max(min(after), found.elected_ms)
            return
    seen = [
        at
        for partition in moved_ones
        if (at := partition.first_writes_ms.get(found.moved[partition.name].leader_epoch)) is not None
    ]
    if seen and min(seen) < end_ms:
        found.first_write_ms = max(min(seen) - began_ms, found.elected_ms)


DRILLS_MAX: Final = 50
_SAME_MS: Final = 15_000
SETTLED_MS: Final = 5_000
"""How long after the first write its figures may still grow: the clients report their waits once a second."""


class Drills:
    """The drills of a session. Timelines of finished ones are computed once."""

    def __init__(self) -> None:
        self._done: list[Drill] = []
        self._over: dict[Drill, Timeline] = {}

    @property
    def last(self) -> Drill | None:
        return self._done[-1] if self._done else None

    def add(self, drill: Drill) -> None:
        self._done = [*self._done[-DRILLS_MAX + 1 :], drill]

    def forget(self, drill: Drill) -> None:
        self._done = [each for each in self._done if each is not drill]

    def timelines(self, picture: Picture, pauses: Sequence[Pause], now_ms: float) -> list[Timeline]:
        """The timelines of all drills, oldest first."""
        drills = sorted([*self._done, *self._seen(picture)], key=lambda drill: drill.began_ms)[-DRILLS_MAX:]
        found: list[Timeline] = []
        for at, drill in enumerate(drills):
            known = self._over.get(drill)
            if known is None:
                until = drills[at + 1].began_ms if at + 1 < len(drills) else None
                known = timeline(drill, picture.activity.lines, pauses, picture.partitions, until_ms=until)
                if is_settled(known, now_ms):
                    self._over[drill] = known
            found.append(known)
        return found

    def _seen(self, picture: Picture) -> Iterable[Drill]:
        """Brokers that failed without a drill from here."""
        for each in picture.elections.failovers:
            if each.node_id is None or any(_is_of(drill, each.node_id, each.began_ms) for drill in self._done):
                continue
            title = f"broker {each.node_id} was lost"
            yield Drill("seen", each.node_id, each.began_ms, title, was_controller=True)


def is_settled(found: Timeline, now_ms: float) -> bool:
    """Whether its figures are final: the first write is some seconds ago, or the drill is no longer watched.

    Later events belong to the return of the broker, or to the next drill.
    """
    after_ms = now_ms - found.drill.began_ms
    is_written = found.first_write_ms is not None and not found.leaderless
    return after_ms > WATCHED_MS or (is_written and after_ms > (found.first_write_ms or 0.0) + SETTLED_MS)


def _is_of(drill: Drill, node_id: int, began_ms: float) -> bool:
    """Whether an observed failover belongs to this drill.

    A pause is detected late, when the broker's session expires.
    """
    return drill.node_id == node_id and -_SAME_MS < began_ms - drill.began_ms < WATCHED_MS
