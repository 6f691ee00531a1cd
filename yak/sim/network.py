"""The network: connections between brokers, clients and the store, with delays, blocks and losses.

A connection is as in TCP: two streams, each in order. Its fate follows from the two ends and the directions between
them:

- A direction that is *cut* delays everything; when it heals, all data arrives in order, as TCP retransmits it. A
  connect that does not get through for two seconds ends with `timeout`.
- A process that ends has its connections closed or reset at once. A machine that loses power sends nothing; data sent
  to it after its restart gets a `reset`.
- A paused process (SIGSTOP) still has a kernel that accepts connections and data.

Parties are named: `n1` for broker 1, `clients`, `store`. A `Way` is one direction between two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from yak.sim.line import Line
from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.core.events import PeerEnd
    from yak.sim.line import Stream
    from yak.sim.node import SimNode

CONNECT_TIMEOUT_US = 2_000_000
Way = tuple[str, str]


class Caller(Protocol):
    """The end of a connection that opened it."""

    def connected(self, line: Line) -> None:
        """The other end accepted."""

    def answered(self, frames: list[bytes]) -> None:
        """Whole responses arrived, with their length prefixes."""

    def lost(self, how: PeerEnd, reason: str) -> None:
        """The connection ended, or could not be made."""


class Dial:
    """A pending connect; `line` is set once the other end accepted."""

    __slots__ = ("is_abandoned", "line")

    def __init__(self) -> None:
        self.line: Line | None = None
        self.is_abandoned = False

    def close(self) -> None:
        """Abandon or close the connection; no callback follows."""
        self.is_abandoned = True
        if self.line is not None:
            self.line.close()


class Network:
    """All parties and connections."""

    def __init__(self, world: World, rng: SeededRandom) -> None:
        self.world = world
        self.is_rough = False
        """Whether some messages take tens of milliseconds."""
        self.on_heal: list[Callable[[], None]] = []
        self._rng = rng
        self._nodes: dict[str, SimNode] = {}
        self._parties: dict[str, SimNode] = {}
        self._cuts: dict[Way, int] = {}
        self._slow: dict[Way, int] = {}
        self._held: dict[Way, list[Stream]] = {}
        self._lines: dict[Line, None] = {}

    def add(self, node: SimNode) -> None:
        """Add a broker, reachable by its host name."""
        self._nodes[node.host] = node
        self._parties[node.party] = node

    # ---------------------------------------------------------------------------------------------- connections

    def connect(self, source: str, host: str, port: int, caller: Caller) -> Dial:
        """Begin to connect; `caller` gets the result."""
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
            elif not node.is_powered and self._rng.chance(50):
                self._fail(dial, caller, "unreachable", self._rng.between(1_000, 500_000))
            else:
                # the kernel repeats its SYN after a second
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
        """The kernel closes or resets a process's connections."""
        for line in self._lines_of(party):
            line.end_dies(party, self._rng.choice(("reset", "reset", "closed")))

    def power_lost(self, party: str) -> None:
        """A machine is gone; its connections get no close or reset."""
        for line in self._lines_of(party):
            line.end_vanishes(party)

    def is_powered(self, party: str) -> bool:
        """Whether the machine runs; clients' and the store's always do."""
        node = self._parties.get(party)
        return node is None or node.is_powered

    def break_connections(self, one: str, other: str, percent: int) -> int:
        """Reset about `percent` of the connections between two parties; returns how many."""
        broken = 0
        for line in self._lines_of(one):
            if other in (line.source, line.node.party) and self._rng.chance(percent):
                line.reset()
                broken += 1
        return broken

    def _lines_of(self, party: str) -> list[Line]:
        return [line for line in self._lines if party in (line.source, line.node.party)]

    # ----------------------------------------------------------------------------------------------- directions

    def delay(self, source: str, target: str) -> int:
        """The delay of a message, in µs."""
        rng = self._rng
        delay_us = rng.between(30, 800)
        if self.is_rough and rng.chance(3):
            delay_us += rng.between(0, 60_000)
        slow_us = self._slow.get((source, target))
        return delay_us if slow_us is None else delay_us + rng.between(slow_us // 2, slow_us)

    def is_cut(self, way: Way) -> bool:
        """Whether this direction is blocked."""
        return way in self._cuts

    def cut(self, source: str, target: str) -> None:
        """Block this direction. Blocks add up."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        """Undo one block; delayed data arrives now."""
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
        """Slow down this direction; 0 ends it."""
        if delay_us:
            self._slow[source, target] = delay_us
        else:
            self._slow.pop((source, target), None)

    def hold(self, stream: Stream) -> None:
        """Keep a stream until its direction heals."""
        self._held.setdefault(stream.way, []).append(stream)
