"""Requests to one other broker and their answers (Kafka's InterBrokerSendThread and its NetworkClient).

A channel connects when its user has something to send, and again after each loss, with growing pauses. The other broker
answers the requests of one connection in order, so a request behind a waiting fetch would wait too: each user has a channel
of its own. The channel repeats no requests; after a loss its user sends them again, or begins a new session.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Final, Literal, NamedTuple, Protocol

from yak.core.context import Context
from yak.core.events import PeerEnd
from yak.core.peers import Address, Peers
from yak.ids import NodeId, PeerId

RECONNECT_FIRST_MS, RECONNECT_LONGEST_MS = 10, 1_000
USUAL_REFUSALS = 3
REFUSALS_LOGGED: Final = 8
"""After so many in a row, warnings become rarer: at 16, 32 and so on."""
ANSWER_MS_MAX = 30_000
"""Longest wait for an answer, if the user names none; then the channel reconnects (Kafka's replica.socket.timeout.ms)."""
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_MAX: Final = 2**31 - 1


class ChannelEvents(NamedTuple):
    """The names of a channel's log events."""

    lost: str
    unanswered: str
    broken: str


class ChannelUser(Protocol):
    """The part of the broker whose requests a channel sends."""

    def send_due(self) -> None:
        """The connection is proven: send the requests that are due."""

    def on_answer(self, frame: memoryview) -> None:
        """The answer to the oldest request in flight; `BrokerChannel.give_up` rejects it. Valid only during the step."""

    def on_disconnected(self) -> None:
        """The connection ended, or this broker closed it: no request in flight will be answered. It may `open` again."""


class BrokerChannel:
    """The channel of one user to one broker."""

    def __init__(
        self,
        context: Context,
        peers: Peers,
        node_id: NodeId,
        user: ChannelUser,
        events: ChannelEvents,
        address: Address | None = None,
        *,
        answer_ms_max: int = ANSWER_MS_MAX,
        reconnects: bool = True,
    ) -> None:
        """`address` is that of a node which need not be registered; without it, the image has the address.

        `reconnects` is false for a user that calls `open` or `open_at_once` with each request.
        """
        self._context, self._peers, self._node_id, self._address = context, peers, node_id, address
        self._user, self._events, self._answer_ms_max = user, events, answer_ms_max
        self._reconnects = reconnects
        self.in_flight: deque[int] = deque()
        """Correlation ids of the requests without an answer, in the order in which they were sent."""
        self.next_correlation_id = 1
        self._peer_id: PeerId | None = None
        self._boot_id = ""
        """The other broker's incarnation in the image when the connection was opened."""
        self._is_connected = self.is_proven = False
        """Whether requests may be sent."""
        self._awaited_since_ms = 0
        """Since when the next answer is awaited: the connect, the last answer, or the first request behind it."""
        self._refusals = 0
        self._pause_ms = RECONNECT_FIRST_MS
        self.overdue = 0
        """How many answers did not arrive in time; later ones that take less than a quarter of it count against them."""

    def send(self, frame: bytes) -> None:
        """Send one whole request, which has the next correlation id. Only while the connection is proven."""
        assert self._peer_id is not None
        if not self.in_flight:
            self._awaited_since_ms = self._context.clock.now_ms
        self.in_flight.append(self.next_correlation_id)
        self.next_correlation_id = self.next_correlation_id % _CORRELATION_ID_MAX + 1
        self._peers.send(self._peer_id, [frame])

    # ------------------------------------------------------------------------------------------------- the connection

    def open(self) -> None:
        """Connect, unless there is a connection, or a pause before the next attempt."""
        if self._peer_id is None and (self, "connect") not in self._context.timers:
            self._connect()

    def open_at_once(self) -> None:
        """Connect, unless there is a connection, without a pause: for a user that limits its attempts itself."""
        if self._peer_id is None:
            self._context.timers.disarm((self, "connect"))
            self._connect()

    def close(self) -> None:
        """Close the connection, and do not connect again by itself."""
        self._disconnect()
        self._user.on_disconnected()

    def _disconnect(self) -> None:
        if self._peer_id is not None:
            self._peers.close(self._peer_id)
        self._peer_id, self._is_connected, self.is_proven = None, False, False
        for timer in ("answer", "connect"):
            self._context.timers.disarm((self, timer))
        self.in_flight.clear()

    def restart(self) -> None:
        """Reconnect at once, after this broker or the other one registered a new incarnation."""
        self._disconnect()
        self._pause_ms = RECONNECT_FIRST_MS
        self._connect()
        self._user.on_disconnected()

    def hurry(self) -> None:
        """Reconnect at once if the other broker has a new incarnation, or if this channel pauses after a loss."""
        broker = self._context.image.brokers.get(self._node_id)
        is_stale = self._peer_id is not None and broker is not None and broker.boot_id != self._boot_id
        # The other broker's old machine may have failed without closing this connection.
        if is_stale or (self, "connect") in self._context.timers:
            self.restart()

    def give_up(self, event: str, reason: str) -> None:
        """Log this event, and close the connection after an answer that is no use, or none; reconnect after a pause."""
        self._refusals += 1
        # A broker with a slightly older image does not know this broker's incarnation yet. A hung one may lack it for long.
        is_rare = self._refusals <= REFUSALS_LOGGED or not self._refusals & (self._refusals - 1)
        level: Literal["debug", "warning"] = "warning" if self._refusals > USUAL_REFUSALS and is_rare else "debug"
        self._context.notice(level, event, leader=self._node_id, reason=reason)
        self._back_off()

    def _connect(self) -> None:
        broker = self._context.image.brokers.get(self._node_id)
        address = self._address or broker
        if address is None:
            self._context.after((self, "connect"), RECONNECT_LONGEST_MS, self._connect)
        else:
            self._boot_id = "" if broker is None else broker.boot_id
            self._peer_id = self._peers.open(address, self)

    def _back_off(self) -> None:
        """Close the connection, and reconnect after a pause, which a user that sends again at once does not shorten."""
        self._disconnect()
        if self._reconnects:
            self._context.after(
                (self, "connect"), self._pause_ms + self._peers.rng.below(self._pause_ms), self._connect
            )
            self._pause_ms = min(2 * self._pause_ms, RECONNECT_LONGEST_MS)
        self._user.on_disconnected()

    def _check_answers(self) -> None:
        """Reconnect when an answer is overdue. Only the connection arms this timer, so that no request has to."""
        now_ms = self._context.clock.now_ms
        due_ms = now_ms + self._answer_ms_max
        if self.in_flight or not self.is_proven:
            due_ms = self._awaited_since_ms + self._answer_ms_max
        if due_ms > now_ms:
            self._context.timers.arm((self, "answer"), due_ms, self._check_answers)
        else:
            self.overdue += 1
            self.give_up(self._events.unanswered, f"the leader sent no response for {self._answer_ms_max // 1000} s")

    # ---------------------------------------------------------------------------------------------------- events

    def on_connected(self, peer_id: PeerId) -> None:  # noqa: ARG002
        """The other broker's kernel accepted the connection."""
        self._is_connected, self._awaited_since_ms = True, self._context.clock.now_ms
        self._check_answers()

    def on_proven(self, peer_id: PeerId) -> None:  # noqa: ARG002
        """Requests may be sent."""
        self.is_proven = True
        self._user.send_due()

    def on_answer(self, peer_id: PeerId, frame: memoryview) -> None:
        """Pass an answer to the user."""
        now_ms = self._context.clock.now_ms
        if self.overdue and now_ms - self._awaited_since_ms < self._answer_ms_max // 4:
            self.overdue -= 1
        self._awaited_since_ms = now_ms
        awaited = self.in_flight.popleft() if self.in_flight else None
        if len(frame) < _CORRELATION_ID.size or _CORRELATION_ID.unpack_from(frame)[0] != awaited:
            self.give_up(self._events.broken, "the response does not match the request")
            return
        self._user.on_answer(frame)
        if self._peer_id == peer_id:
            self._pause_ms, self._refusals = RECONNECT_FIRST_MS, 0

    def on_lost(self, peer_id: PeerId, how: PeerEnd, reason: str) -> None:  # noqa: ARG002
        """The connection ended: reconnect after a pause, and suspect a broker that ended an established one."""
        if self._is_connected and not self._context.is_stopping:
            self._context.notice("info", self._events.lost, leader=self._node_id, how=how, reason=reason)
            if how in ("reset", "closed"):
                self._peers.suspect(self._node_id)
        self._back_off()
