"""Fast failure detection: a dead broker's idle connection breaks, and its port refuses connects.

Every broker keeps a connection to every other. The kernel of a killed process closes its connections at once. A broker is
suspected when this connection, or one over which this broker fetches, is closed or reset after it was established. It
counts as dead when two connects in a row, 20 to 50 ms apart, are refused. Only the brokers that act on it find that
out: the controller for all other brokers, and these for the controller. A connect that times out, or a broker that was
never reached, proves nothing: then session expiry decides.

Liveness probes use the same connections: is a broker alive, and its image as new as ours? A killed process no longer
runs when the first of its connections is closed. So a broker that answers a probe sent after a client's request had
closed no connection at that time. A broker that does not answer loses its connection a moment later, and becomes
suspected. Either way the client gets a correct answer.

The probe carries the offset of this broker's image, and is answered once the other image is as new. So a client that is
sent to a new leader finds a broker that knows it leads.

One probe is under way at a time. Later requests wait for the next one: this answer may have left before they came. A
probe is an ApiVersions request (key 18) with the offset in place of the client's software version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from yak.cluster.image import BrokerInfo, Delta
from yak.cluster.records import BrokerState
from yak.core.context import Context
from yak.core.events import PeerEnd
from yak.core.peers import Peers
from yak.ids import BrokerEpoch, MetadataOffset, NodeId, PeerId
from yak.ports.random_source import RandomSource

WATCH_CLIENT_ID = b"yak-watch"
WATCH_SOFTWARE = WATCH_CLIENT_ID.decode()
PROBE_MS_MAX = 100
"""A killed broker is noticed within a few ms. A busy one, or one that syncs the same metadata, answers within tens. A
broker that is silent for longer is hung: its session decides, and no request waits for it until it answers."""
SUSPECTED_MS_MAX = 2_000
"""A broker that is not fenced by then is left to its session: perhaps only this broker cannot reach it."""
REFUSED_PAUSE_MS, REFUSED_PAUSE_SPREAD_MS = 20, 31
"""Shortest pause after a refused connect, and what is drawn on top: two refusals are 20 to 50 ms apart."""
REFUSALS_MAX = 2
RECONNECT_FIRST_MS, RECONNECT_MS = 20, 500
"""First and longest pause between connects to a broker not reached yet: it is registered a moment before it listens."""
ALIVE = (BrokerState.ACTIVE, BrokerState.STOPPING)
_API_VERSIONS, _VERSION = 18, 3
_HEADER = struct.Struct(f">hhih{len(WATCH_CLIENT_ID)}sx")
_CORRELATION_ID = struct.Struct(">i")
_NUMBER_MAX = 2**31 - 1


class ProbeWaiter(Protocol):
    """A request that waits for the result of a liveness probe."""

    def on_probed(self, node_id: NodeId, *, lives: bool) -> None:
        """The broker answered a probe sent after the request came; or its connection is lost, which proves nothing."""


class LivenessProbes:
    """The liveness probes of one broker over one connection, and the requests that wait for them."""

    __slots__ = ("_context", "_next", "_number", "_peer_id", "_peers", "_sent_ms", "_waiting", "node_id")

    def __init__(self, context: Context, peers: Peers, node_id: NodeId) -> None:
        self.node_id = node_id
        self._context = context
        self._peers = peers
        self._peer_id: PeerId | None = None
        self._number = 0
        self._sent_ms: int | None = None
        """When the probe under way was sent."""
        self._waiting: dict[ProbeWaiter, None] = {}
        self._next: dict[ProbeWaiter, None] = {}

    def begin(self, peer_id: PeerId) -> None:
        """The connection is established."""
        self._peer_id = peer_id

    def end(self) -> None:
        """The connection is lost. If that makes the broker suspected, the caller suspects it first."""
        self._peer_id = self._sent_ms = None
        waiters = [*self._waiting, *self._next]
        self._waiting, self._next = {}, {}
        for each in waiters:
            each.on_probed(self.node_id, lives=False)

    @property
    def is_connected(self) -> bool:
        """Whether a probe can be sent."""
        return self._peer_id is not None

    def is_prompt(self) -> bool:
        """Whether an answer can be expected: there is a connection, and no probe on it is overdue."""
        if self._peer_id is None:
            return False
        return self._sent_ms is None or self._context.clock.now_ms - self._sent_ms < PROBE_MS_MAX

    def send(self, waiter: ProbeWaiter) -> None:
        """Notify `waiter` of the answer to a probe that is sent from now on. Only while connected."""
        if self._sent_ms is None:
            self._waiting[waiter] = None
            self._send_next()
        else:
            self._next[waiter] = None

    def forget(self, waiter: ProbeWaiter) -> None:
        """Remove a request from the waiters."""
        self._waiting.pop(waiter, None)
        self._next.pop(waiter, None)

    def on_answer(self, frame: memoryview) -> None:
        """The broker was alive when the probe reached it. The content does not matter."""
        if len(frame) < _CORRELATION_ID.size or _CORRELATION_ID.unpack_from(frame)[0] != self._number:
            return
        waiters, self._waiting, self._next = list(self._waiting), self._next, {}
        self._sent_ms = None
        if self._waiting:
            self._send_next()
        for each in waiters:
            each.on_probed(self.node_id, lives=True)

    def _send_next(self) -> None:
        assert self._peer_id is not None
        self._number = self._number % _NUMBER_MAX + 1
        self._sent_ms = self._context.clock.now_ms
        self._peers.send(self._peer_id, [probe_request(self._number, self._context.image.offset)])


def probe_request(number: int, offset: MetadataOffset) -> bytes:
    """The framed request: ApiVersions v3 by the software `yak-watch`, with the offset as its version."""
    header = _HEADER.pack(_API_VERSIONS, _VERSION, number, len(WATCH_CLIENT_ID), WATCH_CLIENT_ID)
    body = b"".join(_compact(text) for text in (WATCH_CLIENT_ID, b"%d" % offset)) + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def _compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


class UndecidedRequest(Protocol):
    """A request whose answer depends on suspected brokers, or on a newer image."""

    def is_done(self) -> bool:
        """Whether it can be answered now."""


W = TypeVar("W", bound=UndecidedRequest)


class SuspectedBrokers(Generic[W]):
    """Brokers whose connection to this broker broke, and the requests that wait for the outcome.

    A suspected broker is not fenced yet by the cluster. `complete` is called with each request that is done.
    """

    def __init__(self, context: Context, complete: Callable[[W], None]) -> None:
        self._context = context
        self._complete = complete
        self._since: dict[NodeId, tuple[BrokerEpoch, int]] = {}
        self._waiting: dict[W, None] = {}

    def add(self, node_id: NodeId) -> None:
        """Suspect a broker whose connection broke, for the full time if an earlier suspicion is over."""
        info = self._context.image.brokers.get(node_id)
        if info is not None and not self.has(node_id):
            self._since[node_id] = (info.broker_epoch, self._context.clock.now_ms)

    def clear(self, node_id: NodeId) -> None:
        """Clear a broker that answered."""
        if self._since.pop(node_id, None) is not None:
            self.wake()

    def has(self, node_id: NodeId) -> bool:
        """Whether this broker, in its current incarnation, is suspected."""
        held = self._since.get(node_id) if self._since else None
        if held is None:
            return False
        broker_epoch, since_ms = held
        info = self._context.image.brokers.get(node_id)
        if (
            info is None
            or info.broker_epoch != broker_epoch
            or self._context.clock.now_ms - since_ms >= SUSPECTED_MS_MAX
        ):
            del self._since[node_id]
            return False
        return True

    def lead(self, leaders: Callable[[], Container[NodeId]]) -> bool:
        """Whether a suspected broker is one of these leaders."""
        suspected = [node_id for node_id in list(self._since) if self.has(node_id)]
        return bool(suspected) and any(map(leaders().__contains__, suspected))

    def wake(self) -> None:
        """Complete decided requests, after a new image or an answer of a suspected broker."""
        for waiting in list(self._waiting):
            if waiting.is_done():
                self._complete(waiting)

    def wait(self, waiting: W) -> None:
        """Register a request for `wake`."""
        self._waiting[waiting] = None

    def forget(self, waiting: W) -> None:
        """Remove a request from the waiters."""
        self._waiting.pop(waiting, None)


class _State(Enum):
    CONNECTING = "connecting"
    ESTABLISHED = "established"
    RECONNECTING = "reconnecting"


@dataclass(slots=True, eq=False)
class _Watched:
    """One incarnation of a broker, and the connection to it."""

    info: BrokerInfo
    probes: LivenessProbes
    broker_epoch: BrokerEpoch
    peer_id: PeerId | None = None
    state: _State = _State.CONNECTING
    refusals: int = 0
    pause_ms: int = RECONNECT_FIRST_MS
    since_ms: int = 0
    """When the connection was established, or when it broke, in ms."""


class FailureWatch:
    """The watched connections. `on_dead` fences a dead broker, or elects a controller after a dead one."""

    def __init__(
        self,
        context: Context,
        node_id: NodeId,
        peers: Peers,
        rng: RandomSource,
        suspected_brokers: SuspectedBrokers[Any],
        on_dead: Callable[[NodeId, BrokerEpoch], None],
    ) -> None:
        self._context = context
        self._node_id = node_id
        self._peers = peers
        self._rng = rng
        self._suspected_brokers = suspected_brokers
        self._on_dead = on_dead
        self._watched: dict[NodeId, _Watched] = {}

    def image_changed(self, delta: Delta) -> None:
        """Brokers or the controller changed: update the set of watched brokers."""
        if not delta.brokers_changed and not delta.controller_changed:
            return
        wanted = self._wanted()
        for node_id in [n for n, w in self._watched.items() if n not in wanted]:
            self._unwatch(node_id)
        for node_id, info in wanted.items():
            held = self._watched.get(node_id)
            if held is not None and held.broker_epoch == info.broker_epoch:
                held.info = info
                continue
            if held is not None:
                self._unwatch(node_id)
            watched = self._watched[node_id] = _Watched(
                info, LivenessProbes(self._context, self._peers, node_id), info.broker_epoch
            )
            self._connect(watched)
        if delta.controller_changed:
            for watched in self._watched.values():
                if watched.state is _State.CONNECTING and watched in self._context.timers and self._is_for_us(watched):
                    self._connect(watched)

    def _wanted(self) -> dict[NodeId, BrokerInfo]:
        if self._context.is_stopping:
            return {}
        return {
            node_id: info
            for node_id, info in self._context.image.brokers.items()
            if node_id != self._node_id and info.state in ALIVE
        }

    def _is_for_us(self, watched: _Watched) -> bool:
        """Whether this broker may declare the watched one dead: one of the two is the controller."""
        return self._context.image.controller_id in (self._node_id, watched.info.node_id)

    def probes(self, node_ids: Iterable[NodeId]) -> list[LivenessProbes]:
        """The liveness probes of these brokers, without those that will not answer soon."""
        watched = [self._watched[node_id] for node_id in node_ids if node_id in self._watched]
        return [each.probes for each in watched if each.probes.is_prompt()]

    def suspect(self, node_id: NodeId) -> None:
        """Another connection to this broker broke: suspect it until it answers a liveness probe."""
        if self._context.is_stopping:
            return
        self._suspected_brokers.add(node_id)
        watched = self._watched.get(node_id)
        if watched is not None and watched.probes.is_connected:
            watched.probes.send(self)

    def on_probed(self, node_id: NodeId, *, lives: bool) -> None:
        """A liveness probe ended: a broker that lives is no longer suspected."""
        if lives:
            self._suspected_brokers.clear(node_id)

    def stop(self) -> None:
        """Close all watched connections, and watch no more: this broker is stopping."""
        for node_id in list(self._watched):
            self._unwatch(node_id)

    def _unwatch(self, node_id: NodeId) -> None:
        watched = self._watched.pop(node_id)
        self._context.timers.disarm(watched)
        if watched.peer_id is not None:
            self._peers.close(watched.peer_id)
        watched.probes.end()

    def _connect(self, watched: _Watched) -> None:
        self._context.timers.disarm(watched)
        watched.peer_id = self._peers.open(watched.info, self)

    def _connect_after(self, watched: _Watched, pause_ms: int) -> None:
        self._context.after(watched, pause_ms, partial(self._connect, watched))

    def _find(self, peer_id: PeerId) -> _Watched | None:
        return next((each for each in self._watched.values() if each.peer_id == peer_id), None)

    # ------------------------------------------------------------------------------------------------------ events

    def on_connected(self, peer_id: PeerId) -> None:
        """A connect succeeded. That proves no life: the kernel accepts connects for a process that is being killed."""
        watched = self._find(peer_id)
        if watched is not None:
            watched.state, watched.refusals, watched.since_ms = _State.ESTABLISHED, 0, self._context.clock.now_ms

    def on_proven(self, peer_id: PeerId) -> None:
        """This broker has sent its proof of identity: send a liveness probe behind it."""
        watched = self._find(peer_id)
        if watched is not None:
            watched.pause_ms = RECONNECT_FIRST_MS
            watched.probes.begin(peer_id)
            watched.probes.send(self)

    def on_answer(self, peer_id: PeerId, frame: memoryview) -> None:
        """Pass an answer to the broker's liveness probe."""
        watched = self._find(peer_id)
        if watched is not None:
            watched.probes.on_answer(frame)

    def on_lost(self, peer_id: PeerId, how: PeerEnd, reason: str) -> None:  # noqa: ARG002
        """A connection broke or failed: suspect the broker, declare it dead, or retry later."""
        watched = self._find(peer_id)
        if watched is None:
            return
        now_ms = self._context.clock.now_ms
        watched.peer_id = None
        if watched.state is _State.ESTABLISHED and how in ("reset", "closed"):
            lasted_ms = now_ms - watched.since_ms
            watched.state, watched.refusals, watched.since_ms = _State.RECONNECTING, 0, now_ms
            self._suspected_brokers.add(watched.info.node_id)
            if lasted_ms < RECONNECT_MS:
                # a load balancer may accept and drop connections for a broker that is gone: avoid a busy loop
                self._connect_after(watched, self._pause_ms())
            else:
                self._connect(watched)
            watched.probes.end()
        elif how == "refused" and self._is_for_us(watched) and self._is_suspected(watched):
            if watched.state is not _State.RECONNECTING:
                watched.state, watched.refusals, watched.since_ms = _State.RECONNECTING, 0, now_ms
            watched.refusals += 1
            if watched.refusals < REFUSALS_MAX:
                self._connect_after(watched, self._pause_ms())
            else:
                self._is_dead(watched)
        else:
            watched.state = _State.CONNECTING
            self._connect_after(watched, watched.pause_ms)
            watched.pause_ms = min(2 * watched.pause_ms, RECONNECT_MS)
            watched.probes.end()

    def _is_suspected(self, watched: _Watched) -> bool:
        return watched.state is _State.RECONNECTING or self._suspected_brokers.has(watched.info.node_id)

    def _pause_ms(self) -> int:
        return REFUSED_PAUSE_MS + self._rng.below(REFUSED_PAUSE_SPREAD_MS)

    def _is_dead(self, watched: _Watched) -> None:
        watched.state = _State.CONNECTING
        self._connect_after(watched, RECONNECT_MS)
        self._context.notice(
            "warning",
            "broker-dead",
            node_id=watched.info.node_id,
            broker_epoch=watched.broker_epoch,
            detected_ms=self._context.clock.now_ms - watched.since_ms,
        )
        self._on_dead(watched.info.node_id, watched.broker_epoch)
