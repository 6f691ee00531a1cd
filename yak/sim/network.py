"""The network: connections between brokers, clients and the store, with delays, cuts and losses.

A connection is what TCP gives: two streams, each in order. What happens to them follows from what happens to the two
ends and to the way between them:

- a way that is *cut* holds everything back; when it heals, what was sent comes after all, in order, as TCP repeats it.
  A connect that cannot get through for two seconds ends with `timeout`;
- a process that ends has its connections closed or reset at once, a machine that loses power says nothing: whoever
  sends to it later, when it is back, is told `reset`;
- a process that is stopped (SIGSTOP) still has a kernel that accepts connections and takes in what is sent.

Parties are named: `n1` for broker 1, `clients`, `store`. Ways have a direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from yak.sim.dice import SeededDice
from yak.sim.line import Line
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.broker.events import PeerEnd
    from yak.sim.line import Stream
    from yak.sim.node import SimNode

CONNECT_TIMEOUT_US = 2_000_000
Way = tuple[str, str]


class Caller(Protocol):
    """The end of a connection that asked for it."""

    def connected(self, line: Line) -> None:
        """The other end accepted."""

    def answered(self, frames: list[bytes]) -> None:
        """Whole answers came, with their length prefixes."""

    def lost(self, how: PeerEnd, reason: str) -> None:
        """The connection ended, or could not be made."""


class Dial:
    """A connect under way; `line` is there once the other end accepted."""

    __slots__ = ("is_abandoned", "line")

    def __init__(self) -> None:
        self.line: Line | None = None
        self.is_abandoned = False

    def close(self) -> None:
        """Give up, or close; nothing more is told."""
        self.is_abandoned = True
        if self.line is not None:
            self.line.close()


class Network:
    """All ways and all connections."""

    def __init__(self, world: World, dice: SeededDice) -> None:
        self.world = world
        self.is_rough = False
        """Whether some messages take tens of milliseconds."""
        self.on_heal: list[Callable[[], None]] = []
        self._dice = dice
        self._nodes: dict[str, SimNode] = {}
        self._parties: dict[str, SimNode] = {}
        self._cuts: dict[Way, int] = {}
        self._slow: dict[Way, int] = {}
        self._held: dict[Way, list[Stream]] = {}
        self._lines: dict[Line, None] = {}

    def add(self, node: SimNode) -> None:
        """A broker, reachable by its host's name."""
        self._nodes[node.host] = node
        self._parties[node.party] = node

    # ---------------------------------------------------------------------------------------------- connections

    def connect(self, source: str, host: str, port: int, caller: Caller) -> Dial:
        """Begin to connect; `caller` hears of it."""
        dial = Dial()
        node = self._nodes.get(host)
        if node is None or port != node.port:
            self._fail(dial, caller, "unreachable", self.delay(source, "nowhere"))
            return dial
        begun_us = self.world.now_us
        self.world.after(self.delay(source, node.party), lambda: self._arrive(dial, source, node, caller, begun_us))
        return dial

    def _arrive(self, dial: Dial, source: str, node: SimNode, caller: Caller, begun_us: int) -> None:
        if dial.is_abandoned:
            return
        there, back = (source, node.party), (node.party, source)
        waited_us = self.world.now_us - begun_us
        if self.is_cut(there) or self.is_cut(back) or not node.is_powered:
            if waited_us >= CONNECT_TIMEOUT_US // 2:
                self._fail(dial, caller, "timeout", CONNECT_TIMEOUT_US - waited_us)
            elif not node.is_powered and self._dice.chance(50):
                self._fail(dial, caller, "unreachable", self._dice.between(1_000, 500_000))
            else:
                # the kernel repeats its first packet after a second
                again_us = CONNECT_TIMEOUT_US // 2 - waited_us
                self.world.after(again_us, lambda: self._arrive(dial, source, node, caller, begun_us))
            return
        if not node.is_listening:
            self._fail(dial, caller, "refused", self.delay(*back))
            return
        dial.line = line = Line(self, source, node, caller)
        self._lines[line] = None
        line.accept()

    def _fail(self, dial: Dial, caller: Caller, how: PeerEnd, delay_us: int) -> None:
        def tell() -> None:
            if not dial.is_abandoned:
                caller.lost(how, f"simulated: {how}")

        self.world.after(delay_us, tell)

    def forget(self, line: Line) -> None:
        """Both ends of a connection are gone."""
        self._lines.pop(line, None)

    def process_ended(self, party: str) -> None:
        """The kernel closes or resets what a process had open."""
        for line in self._lines_of(party):
            line.end_dies(party, self._dice.choice(("reset", "reset", "closed")))

    def power_lost(self, party: str) -> None:
        """A machine is gone without a word."""
        for line in self._lines_of(party):
            line.end_vanishes(party)

    def is_powered(self, party: str) -> bool:
        """Whether the machine runs; clients' and the store's always do."""
        node = self._parties.get(party)
        return node is None or node.is_powered

    def break_connections(self, one: str, other: str, percent: int) -> int:
        """Reset about so many percent of the connections between two parties; how many it were."""
        broken = 0
        for line in self._lines_of(one):
            if other in (line.source, line.node.party) and self._dice.chance(percent):
                line.reset()
                broken += 1
        return broken

    def _lines_of(self, party: str) -> list[Line]:
        return [line for line in self._lines if party in (line.source, line.node.party)]

    # ----------------------------------------------------------------------------------------------------- ways

    def delay(self, source: str, target: str) -> int:
        """How long a message takes, in µs."""
        dice = self._dice
        delay_us = dice.between(30, 800)
        if self.is_rough and dice.chance(3):
            delay_us += dice.between(0, 60_000)
        slow_us = self._slow.get((source, target))
        return delay_us if slow_us is None else delay_us + dice.between(slow_us // 2, slow_us)

    def is_cut(self, way: Way) -> bool:
        """Whether nothing gets through now."""
        return way in self._cuts

    def cut(self, source: str, target: str) -> None:
        """Let nothing through in this direction. Cuts add up."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        """Take one cut back; what waited comes now."""
        way = (source, target)
        self._cuts[way] -= 1
        if self._cuts[way]:
            return
        del self._cuts[way]
        for stream in self._held.pop(way, ()):
            stream.pump()
        for heal in self.on_heal:
            heal()

    def slow_down(self, source: str, target: str, delay_us: int) -> None:
        """Make this way slow; 0 ends it."""
        if delay_us:
            self._slow[source, target] = delay_us
        else:
            self._slow.pop((source, target), None)

    def hold(self, stream: Stream) -> None:
        """A stream cannot go on before its way heals."""
        self._held.setdefault(stream.way, []).append(stream)
