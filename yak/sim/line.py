"""One connection: two ordered streams between a caller and a broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from yak.core.events import PeerEnd
    from yak.sim.network import Caller, Network
    from yak.sim.node import SimNode

End: TypeAlias = Literal["reset", "closed"]
Item: TypeAlias = bytes | str
"""A frame, or the sender's end of the connection; the accepting side sends "accepted" first."""
ACCEPTED = "accepted"
REPEAT_US = 1_000_000
"""How often a kernel retransmits unacknowledged data."""


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
        """Send an item."""
        world = self._network.world
        self._due = max(self._due, world.now_us + self._network.delay(*self.way))
        self._waiting.append((self._due, item))
        if not self._pumping:
            self._pumping = True
            world.after(self._due - world.now_us, self.pump)

    def drop(self) -> None:
        """Lose everything in flight."""
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

    def __init__(self, network: Network, source: str, node: SimNode, caller: Caller) -> None:
        self.source = source
        self.node = node
        self._network = network
        self._caller = caller
        self._up = Stream(network, source, node.party, self._at_node)
        self._down = Stream(network, node.party, source, self._at_caller)
        self._connection_id = 0
        self._caller_lives = True
        self._node_lives = True

    def accept(self) -> None:
        """The broker's kernel accepts the connection."""
        self._connection_id = self.node.accept(self)
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
                self._caller_is_told("reset" if item == "reset" else "closed")
                return
        if frames:
            self._caller.answered(frames)

    def _caller_is_told(self, how: PeerEnd) -> None:
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
            self.node.receive(self._connection_id, frames)
        if len(frames) < len(items) and self._node_lives:
            self._node_lives = False
            self._forget_if_over()
            self.node.disconnect(self._connection_id)

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
