"""Connections to other brokers: opened for an owner (a broker channel, the failure watch) and proven.

The failure watch uses no channel: how a connect fails tells it whether a broker is dead, and its pauses follow from that.

Both ends prove that they hold the cluster's secret before the owner gets any answer (`yak.protocol.peer_proof`). The
owner may send once this broker's proof is sent: its first request travels with the proof. No answer is delivered before
the other broker's proof is checked. So the proof costs one round trip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from yak.cluster.image import BrokerInfo
from yak.config.listeners import PLAINTEXT_LISTENER, Listener, bracketed
from yak.core import events
from yak.core.context import Context
from yak.errors import ErrorCode, ProtocolViolation
from yak.ids import BrokerEpoch, NodeId, PeerId
from yak.ports.disk import Part
from yak.ports.random_source import RandomSource
from yak.protocol.codec import decode_response, encode_request, framed
from yak.protocol.peer_proof import MECHANISM, NONCE_BYTES, ClusterSecret, Exchange, Hello, Incarnation
from yak.protocol.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE

CLIENT_ID: Final = "yak-peer"
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 1
UNREACHED_MS: Final = 10_000
"""Longer than a dead broker stays unfenced with the default session; a broker that starts listens sooner."""


class Address(Protocol):
    """A node to connect to: a registered broker, or a node of the metadata quorum with broker epoch 0."""

    @property
    def node_id(self) -> NodeId:
        """The node that must answer there."""

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The oldest incarnation that may answer."""

    @property
    def host(self) -> str:
        """The host to connect to."""

    @property
    def port(self) -> int:
        """The port to connect to."""


class PeerOwner(Protocol):
    """The part of the broker that opened a connection and receives its events."""

    def on_connected(self, peer_id: PeerId) -> None:
        """The other broker's kernel accepted the connection; nothing may be sent yet."""

    def on_proven(self, peer_id: PeerId) -> None:
        """Requests may be sent from now on."""

    def on_answer(self, peer_id: PeerId, frame: memoryview) -> None:
        """One whole answer; the view is valid only during the step."""

    def on_lost(self, peer_id: PeerId, how: events.PeerEnd, reason: str) -> None:
        """The connection ended, was never established, or one end failed its proof."""


_ANSWERS: Final = 3
"""To the handshake, to the hello, and to the proof of this broker."""


@dataclass(slots=True, eq=False)
class _Peer:
    """One connection, and the progress of its proof."""

    owner: PeerOwner
    node_id: NodeId
    broker_epoch: BrokerEpoch
    """The other broker's epoch in the image when the connection was opened."""
    address: str
    is_connected: bool = False
    is_held: bool = False
    """Connected, but this broker's own registration is missing: the proof cannot begin."""
    hello: bytes = b""
    exchange: Exchange | None = None
    answers: int = _ANSWERS
    """Answers of the proof that are outstanding."""


@dataclass(slots=True)
class _Unreached:
    """An address to which every connect has failed since then."""

    since_ms: int
    last_ms: int
    is_logged: bool = False


class Peers:
    """All connections to other brokers. An id is never reused, so a late event finds no owner.

    `incarnation` returns node id, broker epoch and incarnation id of this broker. `suspect` is called with a broker that
    closed or reset a channel.
    """

    def __init__(
        self,
        context: Context,
        rng: RandomSource,
        incarnation: Callable[[], Incarnation],
        suspect: Callable[[NodeId], None],
        cluster_id: str | None = None,
        listener: Listener = PLAINTEXT_LISTENER,
    ) -> None:
        """`listener` is this broker's inter-broker listener: others are reached at theirs of the same name (KIP-103)."""
        self._context, self._cluster_id, self._listener = context, cluster_id, listener
        self.rng = rng
        self.incarnation = incarnation
        self.suspect = suspect
        self._peers: dict[PeerId, _Peer] = {}
        self._last_id = 0
        self.secret: ClusterSecret | None = None
        """None until this broker is registered."""
        self._failures: dict[NodeId, str] = {}
        """The last reason why the proof with a broker failed: each reason is logged once."""
        self._unreached: dict[str, _Unreached] = {}

    def open(self, address: Address, owner: PeerOwner) -> PeerId:
        """Begin to connect to this broker; the owner receives the result as an event."""
        self._last_id += 1
        host, port = address.host, address.port
        if isinstance(address, BrokerInfo):
            host, port = address.endpoint_for(self._listener)
        where = f"{bracketed(host)}:{port}"
        self._peers[self._last_id] = _Peer(owner, address.node_id, address.broker_epoch, where)
        self._context.emit(events.ConnectPeer(self._last_id, host, port))
        return self._last_id

    def send(self, peer_id: PeerId, parts: list[Part]) -> None:
        """Send one whole request."""
        self._context.emit(events.SendPeer(peer_id, parts))

    def close(self, peer_id: PeerId) -> None:
        """Close a connection; its owner receives no further event."""
        if self._peers.pop(peer_id, None) is not None:
            self._context.emit(events.ClosePeer(peer_id))

    @property
    def cluster_id(self) -> str:
        """The cluster id that the proofs cover. The nodes of a quorum know it before they know any metadata."""
        return self._cluster_id or self._context.image.cluster_id

    def agree_on(self, secret: ClusterSecret) -> None:
        """Take the cluster's secret after registration, and begin the proof of the connections that wait for it."""
        self.secret = secret
        for peer_id, peer in list(self._peers.items()):
            if peer.is_held:
                peer.is_held = False
                self._greet(peer_id, peer)

    # ---------------------------------------------------------------------------------------------------- events

    def on_connected(self, event: events.PeerConnected) -> None:
        """Notify the owner, and begin the proof."""
        peer = self._peers.get(event.peer_id)
        if peer is None:
            return
        peer.is_connected = True
        self._unreached.pop(peer.address, None)
        peer.owner.on_connected(event.peer_id)
        if self._peers.get(event.peer_id) is not peer:
            return
        if self.secret is None:
            peer.is_held = True
        else:
            self._greet(event.peer_id, peer)

    def on_answered(self, event: events.PeerAnswered) -> None:
        """Deliver the answer to the owner, once both ends are proven."""
        peer = self._peers.get(event.peer_id)
        if peer is None:
            return
        if not peer.answers:
            peer.owner.on_answer(event.peer_id, event.frame)
            return
        peer.answers -= 1
        try:
            self._take_proof(event.peer_id, peer, event.frame)
        except ProtocolViolation as violation:
            self._fail(event.peer_id, peer, str(violation))

    def on_lost(self, event: events.PeerLost) -> None:
        """Notify the owner for the last time."""
        peer = self._peers.pop(event.peer_id, None)
        if peer is not None:
            if not peer.is_connected:
                self._note_failed_connect(peer, event.reason)
            peer.owner.on_lost(event.peer_id, event.how, event.reason)

    def _note_failed_connect(self, peer: _Peer, reason: str) -> None:
        """Log once that a broker cannot be reached: a wrong advertised address or a firewall has no other symptom here."""
        now_ms = self._context.clock.now_ms
        for address in [each for each, held in self._unreached.items() if now_ms - held.last_ms >= UNREACHED_MS]:
            del self._unreached[address]
        held = self._unreached.setdefault(peer.address, _Unreached(now_ms, now_ms))
        held.last_ms = now_ms
        if not held.is_logged and now_ms - held.since_ms >= UNREACHED_MS:
            held.is_logged = True
            fields = {"node_id": peer.node_id, "address": peer.address, "reason": reason}
            self._context.notice("warning", "peer-connect-failed", **fields)

    # ------------------------------------------------------------------------------------------------- the proof

    def _greet(self, peer_id: PeerId, peer: _Peer) -> None:
        peer.hello = Hello(self.incarnation(), self.rng.secret_bytes(NONCE_BYTES)).encode()
        handshake = _framed(SASL_HANDSHAKE, _HANDSHAKE_VERSION, {"mechanism": MECHANISM})
        self.send(peer_id, [handshake])
        self.send(peer_id, [_framed(SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, {"auth_bytes": peer.hello})])

    def _take_proof(self, peer_id: PeerId, peer: _Peer, frame: memoryview) -> None:
        """Raises ProtocolViolation when the other end refuses the proof, or is not the expected broker."""
        secret = self.secret
        assert secret is not None
        is_handshake = peer.answers == _ANSWERS - 1
        key, version = (
            (SASL_HANDSHAKE, _HANDSHAKE_VERSION) if is_handshake else (SASL_AUTHENTICATE, _AUTHENTICATE_VERSION)
        )
        answer = decode_response(key, version, bytes(frame))
        if answer.error_code != ErrorCode.none:
            raise ProtocolViolation(f"broker {peer.node_id} rejected this broker's authentication")
        if is_handshake:
            return
        if peer.exchange is None:
            self._check_hello(peer, answer.auth_bytes)
            peer.exchange = Exchange(self.cluster_id, peer.hello, answer.auth_bytes)
            proof = secret.caller_proof(peer.exchange)
            self.send(peer_id, [_framed(SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, {"auth_bytes": proof})])
            peer.owner.on_proven(peer_id)
            return
        if not secret.is_server(answer.auth_bytes, peer.exchange):
            raise ProtocolViolation(
                f"the process at the address of broker {peer.node_id} is not a broker of this cluster"
            )
        self._failures.pop(peer.node_id, None)

    def _check_hello(self, peer: _Peer, raw: bytes) -> None:
        there = Hello.decode(raw).broker
        if there.node_id != peer.node_id:
            # Otherwise a process could forward our proof to another broker.
            raise ProtocolViolation(
                f"the process at the address of broker {peer.node_id} reports node id {there.node_id}"
            )
        if there.broker_epoch < peer.broker_epoch:
            raise ProtocolViolation(f"the process at the address of broker {peer.node_id} is an earlier incarnation")

    def _fail(self, peer_id: PeerId, peer: _Peer, reason: str) -> None:
        if self._failures.get(peer.node_id) != reason:
            self._failures[peer.node_id] = reason
            self._context.notice("warning", "peer-proof-failed", node_id=peer.node_id, reason=reason)
        self.close(peer_id)
        peer.owner.on_lost(peer_id, "unreachable", reason)


def _framed(api_key: int, version: int, fields: dict[str, object]) -> bytes:
    return framed(encode_request(api_key, version, 0, CLIENT_ID, fields))
