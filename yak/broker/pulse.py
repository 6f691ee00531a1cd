"""Liveness probes over the failure watch's idle connection: is a broker alive, and its image as new as ours?

A killed process no longer runs when the first of its connections is closed. So a broker that answers a probe sent after
a client's request had closed no connection at that time. A broker that does not answer loses its connection a moment
later, and becomes suspected. Either way the client gets a correct answer.

The probe carries the offset of this broker's image, and is answered once the other image is as new. So a client that is
sent to a new leader finds a broker that knows it leads.

One probe is under way at a time. Later requests wait for the next one: this answer may have left before they came. A
probe is an ApiVersions request (key 18) with the offset in place of the client's software version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from yak.broker.call import Call, DelayedOperation, Outcome
from yak.ids import MetadataOffset, NodeId, PeerId

if TYPE_CHECKING:
    from yak.broker.broker import Broker

WATCH_CLIENT_ID = b"yak-watch"
PULSE_MS_MAX = 100
"""A killed broker is noticed within a few ms. A busy one, or one that syncs the same metadata, answers within tens. A
broker that is silent for longer hangs: its session decides, and no request waits for it until it answers."""
WATCH_SOFTWARE = WATCH_CLIENT_ID.decode()
CATCH_UP_MS_MAX = 5_000
"""A broker that lags for longer is cut off from the metadata; no request waits for its answer."""
_API_VERSIONS, _VERSION = 18, 3
_HEADER = struct.Struct(f">hhih{len(WATCH_CLIENT_ID)}sx")
_CORRELATION_ID = struct.Struct(">i")
_NUMBER_MAX = 2**31 - 1


class Hearer(Protocol):
    """A request that waits for the result of a liveness probe."""

    def heard(self, node_id: NodeId, *, lives: bool) -> None:
        """The broker answered a probe sent after the request came; or its connection is lost, which proves nothing."""


class Pulse:
    """The liveness probes of one broker over one connection, and the requests that wait for them."""

    __slots__ = ("_asked_ms", "_broker", "_next", "_number", "_peer_id", "_waiting", "node_id")

    def __init__(self, broker: Broker, node_id: NodeId) -> None:
        self.node_id = node_id
        self._broker = broker
        self._peer_id: PeerId | None = None
        self._number = 0
        self._asked_ms: int | None = None
        """When the probe under way was sent."""
        self._waiting: dict[Hearer, None] = {}
        self._next: dict[Hearer, None] = {}

    def begin(self, peer_id: PeerId) -> None:
        """The connection is established."""
        self._peer_id = peer_id

    def end(self) -> None:
        """The connection is lost. If that makes the broker suspected, the caller adds it to the suspects first."""
        self._peer_id = self._asked_ms = None
        hearers = [*self._waiting, *self._next]
        self._waiting, self._next = {}, {}
        for each in hearers:
            each.heard(self.node_id, lives=False)

    @property
    def is_connected(self) -> bool:
        """Whether a probe can be sent."""
        return self._peer_id is not None

    def is_prompt(self) -> bool:
        """Whether an answer can be expected: there is a connection, and no probe on it is overdue."""
        if self._peer_id is None:
            return False
        return self._asked_ms is None or self._broker.now_ms - self._asked_ms < PULSE_MS_MAX

    def feel(self, hearer: Hearer) -> None:
        """Notify `hearer` of the answer to a probe that is sent from now on. Only while connected."""
        if self._asked_ms is None:
            self._waiting[hearer] = None
            self._ask()
        else:
            self._next[hearer] = None

    def forget(self, hearer: Hearer) -> None:
        """Remove a request from the waiters."""
        self._waiting.pop(hearer, None)
        self._next.pop(hearer, None)

    def on_answer(self, frame: memoryview) -> None:
        """The broker was alive when the probe reached it. The content does not matter."""
        if len(frame) < _CORRELATION_ID.size or _CORRELATION_ID.unpack_from(frame)[0] != self._number:
            return
        hearers, self._waiting, self._next = list(self._waiting), self._next, {}
        self._asked_ms = None
        if self._waiting:
            self._ask()
        for each in hearers:
            each.heard(self.node_id, lives=True)

    def _ask(self) -> None:
        assert self._peer_id is not None
        self._number = self._number % _NUMBER_MAX + 1
        self._asked_ms = self._broker.now_ms
        self._broker.peers.send(self._peer_id, [question(self._number, self._broker.image.offset)])


def question(number: int, offset: MetadataOffset) -> bytes:
    """The framed request: ApiVersions v3 by the software `yak-watch`, with the offset as its version."""
    header = _HEADER.pack(_API_VERSIONS, _VERSION, number, len(WATCH_CLIENT_ID), WATCH_CLIENT_ID)
    body = b"".join(_compact(text) for text in (WATCH_CLIENT_ID, b"%d" % offset)) + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def _compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


class CatchUpWaiting(DelayedOperation):
    """Another broker's probe, delayed until this broker's image is as new as the prober's."""

    __slots__ = ("_answer", "_broker", "_offset")

    def __init__(self, broker: Broker, call: Call, offset: MetadataOffset, answer: Callable[[], Outcome]) -> None:
        super().__init__(call, CATCH_UP_MS_MAX)
        self._broker = broker
        self._offset = offset
        self._answer = answer
        broker.suspects.wait(self)

    def is_done(self) -> bool:
        """Whether the image is as new."""
        return self._broker.image.offset >= self._offset

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Alive, and up to date."""
        return self._answer()

    def on_expiration(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Alive at least."""
        return self._answer()

    def leave(self, broker: Broker) -> None:
        """Remove this probe from the waiters."""
        broker.suspects.forget(self)


class PulseWaiting(DelayedOperation):
    """A request whose answer names brokers, delayed until each answered a probe or lost its connection."""

    __slots__ = ("_broker", "_decide", "_pulses", "_unheard")

    def __init__(self, broker: Broker, call: Call, pulses: list[Pulse], decide: Callable[[], Outcome]) -> None:
        super().__init__(call, PULSE_MS_MAX)
        self._broker = broker
        self._decide = decide
        self._pulses = pulses
        self._unheard = {pulse.node_id: None for pulse in pulses}
        for pulse in pulses:
            pulse.feel(self)

    def heard(self, node_id: NodeId, *, lives: bool) -> None:  # noqa: ARG002
        """One broker answered, or lost its connection."""
        self._unheard.pop(node_id, None)
        if not self._unheard:
            self._broker.purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether no probe is outstanding."""
        return not self._unheard

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Answer from the current state."""
        return self._decide()

    def on_expiration(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """A connected broker is silent: answer from the current state."""
        return self._decide()

    def leave(self, broker: Broker) -> None:  # noqa: ARG002
        """Remove this request from the probes."""
        for pulse in self._pulses:
            pulse.forget(self)
