"""Fast failure detection: a dead broker's idle connection breaks, and its port refuses connects.

Every broker keeps a connection to every other. The kernel of a killed process closes its connections at once. A broker is
suspected when this connection, or one over which this broker fetches, is closed or reset after it was established. It counts as
dead when two connects in a row, 20 to 50 ms apart, are refused. Only the brokers that act on it find that out: the controller
for all other brokers, and these for the controller. A connect that times out, or a broker that was never reached, proves
nothing: then session expiry decides.

The liveness probes use the same connections (`yak.broker.pulse`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from yak.broker.pulse import Pulse
from yak.cluster.image import BrokerInfo, Delta
from yak.cluster.records import BrokerState
from yak.core.events import PeerEnd
from yak.ids import NodeId, PeerId

if TYPE_CHECKING:
    from yak.broker.broker import Broker

PROBE_PAUSE_FIRST_MS, PROBE_PAUSE_SPREAD_MS = 20, 31
REFUSALS_MAX = 2
RECONNECT_FIRST_MS, RECONNECT_MS = 20, 500
"""First and longest pause between connects to a broker not reached yet: it is registered a moment before it listens."""
ALIVE = (BrokerState.ACTIVE, BrokerState.STOPPING)


class _State(Enum):
    CONNECTING = "connecting"
    ESTABLISHED = "established"
    PROBING = "probing"


class _Watched:
    """One incarnation of a broker, and the connection to it."""

    __slots__ = ("broker_epoch", "info", "pause_ms", "peer_id", "pulse", "refusals", "since_ms", "state")

    def __init__(self, info: BrokerInfo, pulse: Pulse) -> None:
        self.info = info
        self.pulse = pulse
        self.broker_epoch = info.broker_epoch
        self.peer_id: PeerId | None = None
        self.state = _State.CONNECTING
        self.refusals = 0
        self.pause_ms = RECONNECT_FIRST_MS
        self.since_ms = 0
        """Start of the connection, or of the probing, in ms."""


class FailureWatch:
    """The watched connections. The metadata component fences a dead broker, or elects a controller after a dead one."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._watched: dict[NodeId, _Watched] = {}

    def image_changed(self, delta: Delta) -> None:
        """Brokers or the controller changed: update the set of watched brokers."""
        if not delta.brokers_changed and not delta.controller_changed:
            return
        wanted = self._wanted()
        for node_id in [n for n, w in self._watched.items() if n not in wanted]:
            self._let_go(node_id)
        for node_id, info in wanted.items():
            held = self._watched.get(node_id)
            if held is not None and held.broker_epoch == info.broker_epoch:
                held.info = info
                continue
            if held is not None:
                self._let_go(node_id)
            watched = self._watched[node_id] = _Watched(info, Pulse(self._broker, node_id))
            self._connect(watched)
        if delta.controller_changed:
            for watched in self._watched.values():
                if watched.state is _State.CONNECTING and watched in self._broker.timers and self._is_for_us(watched):
                    self._connect(watched)

    def _wanted(self) -> dict[NodeId, BrokerInfo]:
        broker = self._broker
        if broker.maintenance.is_stopping:
            return {}
        return {
            node_id: info
            for node_id, info in broker.image.brokers.items()
            if node_id != broker.node_id and info.state in ALIVE
        }

    def _is_for_us(self, watched: _Watched) -> bool:
        """Whether this broker may declare the watched one dead: one of the two is the controller."""
        return self._broker.image.controller_id in (self._broker.node_id, watched.info.node_id)

    def pulses(self, node_ids: Iterable[NodeId]) -> list[Pulse]:
        """The liveness probes of these brokers, without those that will not answer soon."""
        watched = [self._watched[node_id] for node_id in node_ids if node_id in self._watched]
        return [each.pulse for each in watched if each.pulse.is_prompt()]

    def suspect(self, node_id: NodeId) -> None:
        """Another connection to this broker broke: suspect it until it answers a liveness probe."""
        self._broker.suspects.add(node_id)
        watched = self._watched.get(node_id)
        if watched is not None and watched.pulse.is_connected:
            watched.pulse.feel(self)

    def heard(self, node_id: NodeId, *, lives: bool) -> None:
        """A liveness probe ended: a broker that lives is no longer suspected."""
        if lives:
            self._broker.suspects.clear(node_id)

    def stop(self) -> None:
        """Close all watched connections."""
        for node_id in list(self._watched):
            self._let_go(node_id)

    def _let_go(self, node_id: NodeId) -> None:
        watched = self._watched.pop(node_id)
        self._broker.timers.disarm(watched)
        if watched.peer_id is not None:
            self._broker.peers.close(watched.peer_id)
        watched.pulse.end()

    def _connect(self, watched: _Watched) -> None:
        self._broker.timers.disarm(watched)
        watched.peer_id = self._broker.peers.open(watched.info, self)

    def _connect_after(self, watched: _Watched, pause_ms: int) -> None:
        self._broker.timers.arm(watched, self._broker.now_ms + pause_ms, partial(self._connect, watched))

    def _find(self, peer_id: PeerId) -> _Watched | None:
        return next((each for each in self._watched.values() if each.peer_id == peer_id), None)

    # ------------------------------------------------------------------------------------------------------ events

    def on_connected(self, peer_id: PeerId) -> None:
        """A connect succeeded. That proves no life: the kernel accepts connects for a process that is being killed."""
        watched = self._find(peer_id)
        if watched is not None:
            watched.state, watched.refusals, watched.since_ms = _State.ESTABLISHED, 0, self._broker.now_ms

    def on_proven(self, peer_id: PeerId) -> None:
        """This broker has sent its proof of identity: send a liveness probe behind it."""
        watched = self._find(peer_id)
        if watched is not None:
            watched.pause_ms = RECONNECT_FIRST_MS
            watched.pulse.begin(peer_id)
            watched.pulse.feel(self)

    def on_answer(self, peer_id: PeerId, frame: memoryview) -> None:
        """Pass an answer to the broker's liveness probe."""
        watched = self._find(peer_id)
        if watched is not None:
            watched.pulse.on_answer(frame)

    def on_lost(self, peer_id: PeerId, how: PeerEnd, reason: str) -> None:  # noqa: ARG002
        """A connection broke or failed: suspect the broker, declare it dead, or retry later."""
        watched = self._find(peer_id)
        if watched is None:
            return
        now_ms = self._broker.now_ms
        watched.peer_id = None
        if watched.state is _State.ESTABLISHED and how in ("reset", "closed"):
            lasted_ms = now_ms - watched.since_ms
            watched.state, watched.refusals, watched.since_ms = _State.PROBING, 0, now_ms
            self._broker.suspects.add(watched.info.node_id)
            if lasted_ms < RECONNECT_MS:
                # a load balancer may accept and drop connections for a broker that is gone: avoid a busy loop
                self._connect_after(watched, self._pause_ms())
            else:
                self._connect(watched)
            watched.pulse.end()
        elif how == "refused" and self._is_for_us(watched) and self._is_suspected(watched):
            if watched.state is not _State.PROBING:
                watched.state, watched.refusals, watched.since_ms = _State.PROBING, 0, now_ms
            watched.refusals += 1
            if watched.refusals < REFUSALS_MAX:
                self._connect_after(watched, self._pause_ms())
            else:
                self._is_dead(watched)
        else:
            watched.state = _State.CONNECTING
            self._connect_after(watched, watched.pause_ms)
            watched.pause_ms = min(2 * watched.pause_ms, RECONNECT_MS)
            watched.pulse.end()

    def _is_suspected(self, watched: _Watched) -> bool:
        return watched.state is _State.PROBING or self._broker.suspects.has(watched.info.node_id)

    def _pause_ms(self) -> int:
        return PROBE_PAUSE_FIRST_MS + self._broker.dice.below(PROBE_PAUSE_SPREAD_MS)

    def _is_dead(self, watched: _Watched) -> None:
        broker = self._broker
        watched.state = _State.CONNECTING
        self._connect_after(watched, RECONNECT_MS)
        broker.notice(
            "warning",
            "broker-dead",
            node_id=watched.info.node_id,
            broker_epoch=watched.broker_epoch,
            detected_ms=broker.now_ms - watched.since_ms,
        )
        broker.metadata.peer_is_dead(watched.info.node_id, watched.broker_epoch)
