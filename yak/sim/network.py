"""The network: connections between brokers, clients and the store, with delays, blocks and losses.

A connection is as in TCP: two streams, each in order. Its fate follows from the two ends and the directions between
them:

- A direction that is *cut* delays everything; when it reconnects, all data arrives in order, as TCP retransmits it. A
  connect that does not get through for two seconds ends with `timeout`.
- A process that ends has its connections closed or reset at once. A machine that loses power sends nothing; data sent
  to it after its restart gets a `reset`.
- A paused process (SIGSTOP) still has a kernel that accepts connections and data.

Parties are named: `n1` for broker 1, `clients`, `store`. A `Way` is one direction between two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.core.events import PeerEnd

End: TypeAlias = Literal["reset", "closed"]
Item: TypeAlias = bytes | str
"""A frame, or the sender's end of the connection; the accepting side sends "accepted" first."""
ACCEPTED = "accepted"
REPEAT_US = 1_000_000
"""How often a kernel retransmits unacknowledged data."""


class Server(Protocol):
    """A process that listens, and its machine."""

    party: str
    host: str
    port: int
    is_powered: bool

    @property
    def is_listening(self) -> bool:
        """Whether the kernel accepts connections for the process, also while it is paused."""

    def accept(self, line: Line) -> int:
        """A connection is open; returns its id."""

    def receive(self, connection_id: int, frames: list[bytes]) -> None:
        """Whole requests arrived."""

    def disconnect(self, connection_id: int) -> None:
        """The caller has ended the connection."""


class Stream:
    """One direction: items arrive in order, after a delay, and not while the network blocks it."""

    __slots__ = ("_deliver", "_due", "_network", "_pumping", "_waiting", "way")

    def __init__(self, network: Network, source: str, target: str, deliver: Callable[[list[Item]], None]) -> None:
        self.way = (source, target)
        self._network = network
        self._deliver = deliver
        self._waiting: deque[tuple[int, Item]] = deque()
        self._due = 0
        self._pumping = False

    def put(self, item: Item) -> None:
        world = self._network.world
        self._due = max(self._due, world.now_us + self._network.delay(*self.way))
        self._waiting.append((self._due, item))
        if not self._pumping:
            self._pumping = True
            world.after(self._due - world.now_us, self.pump)

    def drop(self) -> None:
        self._waiting.clear()

    def pump(self) -> None:
        """Deliver the items that have arrived, as one read."""
        network = self._network
        self._pumping = False
        if not self._waiting:
            return
        if network.is_cut(self.way):
            self._pumping = True
            network.hold(self)
            return
        now_us = network.world.now_us
        items = []
        while self._waiting and self._waiting[0][0] <= now_us:
            items.append(self._waiting.popleft()[1])
        if self._waiting:
            self._pumping = True
            network.world.after(self._waiting[0][0] - now_us, self.pump)
        if items:
            self._deliver(items)


class Line:
    """A connection from `source` to a broker."""

    def __init__(self, network: Network, source: str, node: Server, caller: Caller) -> None:
        self.source = source
        self.node = node
        self._network = network
        self._caller = caller
        self._up = Stream(network, source, node.party, self._at_node)
        self._down = Stream(network, node.party, source, self._at_caller)
        self.connection_id = 0
        self._caller_lives = True
        self._node_lives = True

    def accept(self) -> None:
        self.connection_id = self.node.accept(self)
        self._down.put(ACCEPTED)

    # ------------------------------------------------------------------------------------------ the caller's end

    def send(self, frame: bytes) -> None:
        """Send a request, without its length prefix."""
        if self._caller_lives:
            self._up.put(frame)

    def close(self) -> None:
        """The caller closes the connection after its last request; it receives nothing more."""
        self._caller_ends("closed")

    def _at_caller(self, items: list[Item]) -> None:
        if not self._caller_lives:
            self._answer_for_the_dead(self.source, self._up, items, self._at_caller)
            return
        frames: list[bytes] = []
        for item in items:
            if isinstance(item, bytes):
                frames.append(item)
            elif item == ACCEPTED:
                self._caller.connected(self)
            else:
                if frames:
                    self._caller.answered(frames)
                self._notify_caller("reset" if item == "reset" else "closed")
                return
        if frames:
            self._caller.answered(frames)

    def _notify_caller(self, how: PeerEnd) -> None:
        if self._caller_lives:
            self._caller_lives = False
            self._forget_if_over()
            self._caller.lost(how, f"simulated: {how}")

    def _caller_ends(self, how: End | None) -> None:
        if self._caller_lives:
            self._caller_lives = False
            if how is not None and self._node_lives:
                self._up.put(how)
            self._forget_if_over()

    # -------------------------------------------------------------------------------------------- the node's end

    def reply(self, frame: bytes) -> None:
        """Send a response, with its length prefix."""
        if self._node_lives:
            self._down.put(frame)

    def node_closes(self) -> None:
        """The broker closes the connection after its last response."""
        self._node_ends("closed")

    def _at_node(self, items: list[Item]) -> None:
        if not self._node_lives:
            self._answer_for_the_dead(self.node.party, self._down, items, self._at_node)
            return
        frames = [item for item in items if isinstance(item, bytes)]
        if frames:
            self.node.receive(self.connection_id, frames)
        if len(frames) < len(items) and self._node_lives:
            self._node_lives = False
            self._forget_if_over()
            self.node.disconnect(self.connection_id)

    def _node_ends(self, how: End | None) -> None:
        if self._node_lives:
            self._node_lives = False
            if how is not None and self._caller_lives:
                self._down.put(how)
            self._forget_if_over()

    # ---------------------------------------------------------------------------------------------------- faults

    def end_dies(self, party: str, how: End) -> None:
        """The process at one end is gone; a reset may overtake what it sent before."""
        if party == self.source:
            self._caller_ends(how)
        if party == self.node.party:
            self._node_ends(how)

    def end_vanishes(self, party: str) -> None:
        """The machine at one end is gone, with everything that it had in flight."""
        if party == self.source:
            self._up.drop()
            self._caller_ends(None)
        if party == self.node.party:
            self._down.drop()
            self._node_ends(None)

    def reset(self) -> None:
        """The network breaks the connection: both ends get a reset, and everything in flight is lost."""
        self._up.drop()
        self._down.drop()
        if self._caller_lives:
            self._down.put("reset")
        if self._node_lives:
            self._up.put("reset")

    def _answer_for_the_dead(
        self, party: str, back: Stream, items: list[Item], again: Callable[[list[Item]], None]
    ) -> None:
        """A kernel resets data for an unknown connection; without power there is no kernel to do so."""
        network = self._network
        if not any(isinstance(item, bytes) or item == ACCEPTED for item in items):
            return
        if network.is_powered(party):
            back.put("reset")
        else:
            network.world.after(REPEAT_US, lambda: again(items))

    def _forget_if_over(self) -> None:
        if not self._caller_lives and not self._node_lives:
            self._network.forget(self)


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
        self.on_reconnect: list[Callable[[], None]] = []
        self._rng = rng
        self._nodes: dict[str, Server] = {}
        self._parties: dict[str, Server] = {}
        self._cuts: dict[Way, int] = {}
        self._slow: dict[Way, int] = {}
        self._held: dict[Way, list[Stream]] = {}
        self._lines: dict[Line, None] = {}

    def add(self, node: Server) -> None:
        self._nodes[node.host] = node
        self._parties[node.party] = node

    # ---------------------------------------------------------------------------------------------- connections

    def connect(self, source: str, host: str, port: int, caller: Caller) -> Dial:
        dial = Dial()
        node = self._nodes.get(host)
        if node is None or port != node.port:
            self._fail(dial, caller, "unreachable", self.delay(source, "nowhere"))
            return dial
        begun_us = self.world.now_us
        self.world.after(self.delay(source, node.party), lambda: self._arrive(dial, source, node, caller, begun_us))
        return dial

    def _arrive(self, dial: Dial, source: str, node: Server, caller: Caller, begun_us: int) -> None:
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
        def fail() -> None:
            if not dial.is_abandoned:
                caller.lost(how, f"simulated: {how}")

        self.world.after(delay_us, fail)

    def forget(self, line: Line) -> None:
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
        slow_us = self._slow.get((source, target)) if self._slow else None
        return delay_us if slow_us is None else delay_us + rng.between(slow_us // 2, slow_us)

    def is_cut(self, way: Way) -> bool:
        return way in self._cuts

    def cut(self, source: str, target: str) -> None:
        """Block this direction. Blocks add up."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def reconnect(self, source: str, target: str) -> None:
        """Undo one block; delayed data arrives now."""
        way = (source, target)
        self._cuts[way] -= 1
        if self._cuts[way]:
            return
        del self._cuts[way]
        for stream in self._held.pop(way, ()):
            stream.pump()
        for reconnect in self.on_reconnect:
            reconnect()

    def slow_down(self, source: str, target: str, delay_us: int) -> None:
        """Slow down this direction; 0 ends it."""
        if delay_us:
            self._slow[source, target] = delay_us
        else:
            self._slow.pop((source, target), None)

    def hold(self, stream: Stream) -> None:
        """Keep a stream until its direction reconnects."""
        self._held.setdefault(stream.way, []).append(stream)
