"""One broker's connections to other brokers: carries out the peer effects, and returns responses as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.core import events
from yak.errors import ErrorCode

if TYPE_CHECKING:
    from yak.sim.network import Dial, Line, Network
    from yak.sim.node import SimNode

_ERROR_CODE = slice(13, 15)
"""In a Fetch response: after the length, the correlation id, no tags, and the throttle time."""


class Peers:
    """The connections of one incarnation of a broker."""

    def __init__(self, node: SimNode, network: Network) -> None:
        self._node = node
        self._network = network
        self._peers: dict[int, _Peer] = {}
        self._last_id = 0
        self.sessions_lost = 0

    def connect(self, peer_id: int, host: str, port: int) -> None:
        assert peer_id > self._last_id, f"peer id {peer_id} comes after {self._last_id}"
        self._last_id = peer_id
        self._node.world.trace("dial", f"{peer_id} {host}:{port}".encode())
        peer = self._peers[peer_id] = _Peer(self, self._node, peer_id)
        peer.dial = self._network.connect(self._node.party, host, port, peer)

    def send(self, peer_id: int, frame: bytes) -> None:
        """Send one whole request with its length prefix; does nothing if the peer is lost."""
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4, "the request's length prefix is wrong"
        self._node.world.trace("ask", frame)
        peer = self._peers.get(peer_id)
        if peer is not None:
            assert peer.line is not None, "sent before the peer was connected"
            peer.line.send(frame[4:])

    def count_lost_session(self, frame: bytes) -> None:
        """Count the fetch sessions that the other end no longer knows."""
        if int.from_bytes(frame[_ERROR_CODE], "big") == ErrorCode.fetch_session_id_not_found:
            self.sessions_lost += 1

    def close(self, peer_id: int) -> None:
        peer = self._peers.pop(peer_id, None)
        if peer is not None and peer.dial is not None:
            peer.dial.close()

    def forget(self, peer_id: int) -> None:
        self._peers.pop(peer_id, None)

    def end(self) -> None:
        """The process is gone; the network has ended its connections already."""
        for peer in self._peers.values():
            if peer.dial is not None:
                peer.dial.is_abandoned = True
        self._peers.clear()
        self._last_id = 0

    def is_open(self, peer: _Peer) -> bool:
        """Whether the broker has not closed or lost this connection."""
        return self._peers.get(peer.peer_id) is peer


class _Peer:
    """The calling end of one connection."""

    def __init__(self, peers: Peers, node: SimNode, peer_id: int) -> None:
        self.peer_id = peer_id
        self.dial: Dial | None = None
        self.line: Line | None = None
        self._peers = peers
        self._node = node

    def connected(self, line: Line) -> None:
        def deliver() -> None:
            if self._peers.is_open(self):
                self.line = line
                self._node.post(events.PeerConnected(self.peer_id))

        self._node.enter(deliver)

    def answered(self, frames: list[bytes]) -> None:
        def deliver() -> None:
            for frame in frames:
                if self._peers.is_open(self):
                    self._peers.count_lost_session(frame)
                    self._node.post(events.PeerAnswered(self.peer_id, memoryview(frame)[4:]))

        self._node.enter(deliver)

    def lost(self, how: events.PeerEnd, reason: str) -> None:
        def deliver() -> None:
            if self._peers.is_open(self):
                self._peers.forget(self.peer_id)
                self._node.post(events.PeerLost(self.peer_id, how, reason))

        self._node.enter(deliver)
