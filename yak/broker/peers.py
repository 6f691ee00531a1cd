"""Connections to other brokers, by whom they are for: replica fetchers, the watch over the controller, probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from yak.broker import events
from yak.ids import PeerId
from yak.seams.disk import Part

if TYPE_CHECKING:
    from yak.broker.broker import Broker


class PeerOwner(Protocol):
    """Who opened a connection, and is told what becomes of it."""

    def on_connected(self, peer_id: PeerId) -> None:
        """The other broker took the connection."""

    def on_answer(self, peer_id: PeerId, frame: memoryview) -> None:
        """One whole answer; the view is valid only during the step."""

    def on_lost(self, peer_id: PeerId, how: events.PeerEnd, reason: str) -> None:
        """It ended, or was never made."""


class Peers:
    """Who owns which connection. Ids are never used twice, so what comes late finds nobody."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._owners: dict[PeerId, PeerOwner] = {}
        self._last_id = 0

    def open(self, host: str, port: int, owner: PeerOwner) -> PeerId:
        """Begin to connect; the owner is told how it went."""
        self._last_id += 1
        self._owners[self._last_id] = owner
        self._broker.emit(events.ConnectPeer(self._last_id, host, port))
        return self._last_id

    def send(self, peer_id: PeerId, parts: list[Part]) -> None:
        """Send one whole request."""
        self._broker.emit(events.SendPeer(peer_id, parts))

    def close(self, peer_id: PeerId) -> None:
        """Let a connection go; its owner hears nothing more of it."""
        if self._owners.pop(peer_id, None) is not None:
            self._broker.emit(events.ClosePeer(peer_id))

    def on_connected(self, event: events.PeerConnected) -> None:
        """Tell the owner."""
        owner = self._owners.get(event.peer_id)
        if owner is not None:
            owner.on_connected(event.peer_id)

    def on_answered(self, event: events.PeerAnswered) -> None:
        """Hand the answer to the owner."""
        owner = self._owners.get(event.peer_id)
        if owner is not None:
            owner.on_answer(event.peer_id, event.frame)

    def on_lost(self, event: events.PeerLost) -> None:
        """Tell the owner, for the last time."""
        owner = self._owners.pop(event.peer_id, None)
        if owner is not None:
            owner.on_lost(event.peer_id, event.how, event.reason)
