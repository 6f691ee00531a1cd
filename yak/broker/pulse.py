"""Whether another broker lives now and knows what we know: a tiny question over the watch's idle connection to it.

A process that was killed runs no more when the first of its connections is closed. So who answers a question that was sent
after a client asked us had closed none of its connections when the client asked; and who does not answer has its
connection broken a moment later, which makes it a suspect. Either way the client is told what is true.

The question names the offset of our image, and is answered when the other's is as new. So a client that is told of a new
leader finds one that knows it leads, and is not sent away again.

One question is under way at a time. Whoever comes meanwhile waits for the next one: the answer to this one may have left
before they came. It is an ApiVersions request (key 18) that says how far we are where a client says its own version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from yak.broker.call import Call, Outcome, Waiting
from yak.ids import MetadataOffset, NodeId, PeerId

if TYPE_CHECKING:
    from yak.broker.broker import Broker

WATCH_CLIENT_ID = b"yak-watch"
PULSE_MS_MAX = 100
"""A broker that is killed is noticed within a few ms; one that is busy, or syncs the metadata that we have already, answers
within tens. One that is silent for longer hangs: its session decides, and until it answers nobody waits for it any more."""
WATCH_SOFTWARE = WATCH_CLIENT_ID.decode()
CATCH_UP_MS_MAX = 5_000
"""A broker that is behind for longer is cut off from the metadata; nobody waits for its answer any more."""
_API_VERSIONS, _VERSION = 18, 3
_HEADER = struct.Struct(f">hhih{len(WATCH_CLIENT_ID)}sx")
_CORRELATION_ID = struct.Struct(">i")
_NUMBER_MAX = 2**31 - 1


class Hearer(Protocol):
    """Who waits for a sign of life."""

    def heard(self, node_id: NodeId, *, lives: bool) -> None:
        """It lived after the question for it came; or its connection to us is lost, which says nothing."""


class Pulse:
    """What is asked of one broker over one connection, and who waits for the answer."""

    __slots__ = ("_asked_ms", "_broker", "_next", "_number", "_peer_id", "_waiting", "node_id")

    def __init__(self, broker: Broker, node_id: NodeId) -> None:
        self.node_id = node_id
        self._broker = broker
        self._peer_id: PeerId | None = None
        self._number = 0
        self._asked_ms: int | None = None
        """Since when a question is under way."""
        self._waiting: dict[Hearer, None] = {}
        self._next: dict[Hearer, None] = {}

    def begin(self, peer_id: PeerId) -> None:
        """The connection is there."""
        self._peer_id = peer_id

    def end(self) -> None:
        """The connection is lost. If that makes a suspect, it must be one already."""
        self._peer_id = self._asked_ms = None
        hearers = [*self._waiting, *self._next]
        self._waiting, self._next = {}, {}
        for each in hearers:
            each.heard(self.node_id, lives=False)

    @property
    def is_connected(self) -> bool:
        """Whether a question can be asked."""
        return self._peer_id is not None

    def is_prompt(self) -> bool:
        """Whether an answer is to be expected: there is a connection, and no question on it is overdue."""
        if self._peer_id is None:
            return False
        return self._asked_ms is None or self._broker.now_ms - self._asked_ms < PULSE_MS_MAX

    def feel(self, hearer: Hearer) -> None:
        """Tell this one of the answer to a question that is asked from now on. Only while connected."""
        if self._asked_ms is None:
            self._waiting[hearer] = None
            self._ask()
        else:
            self._next[hearer] = None

    def forget(self, hearer: Hearer) -> None:
        """It waits no more."""
        self._waiting.pop(hearer, None)
        self._next.pop(hearer, None)

    def on_answer(self, frame: memoryview) -> None:
        """An answer came: the broker lived when the question reached it. What it says is of no interest."""
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
    """The request with its length: ApiVersions v3 by the software `yak-watch` in the version that is the offset."""
    header = _HEADER.pack(_API_VERSIONS, _VERSION, number, len(WATCH_CLIENT_ID), WATCH_CLIENT_ID)
    body = b"".join(_compact(text) for text in (WATCH_CLIENT_ID, b"%d" % offset)) + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def _compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


class CatchUpWaiting(Waiting):
    """Another broker's question for a sign of life, until our image is as new as its own."""

    __slots__ = ("_answer", "_broker", "_offset")

    def __init__(self, broker: Broker, call: Call, offset: MetadataOffset, answer: Callable[[], Outcome]) -> None:
        super().__init__(call, CATCH_UP_MS_MAX)
        self._broker = broker
        self._offset = offset
        self._answer = answer
        broker.suspects.wait(self)

    def is_done(self) -> bool:
        """Whether we are as far."""
        return self._broker.image.offset >= self._offset

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """We live, and know."""
        return self._answer()

    def on_expiry(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """We live, at least."""
        return self._answer()

    def leave(self, broker: Broker) -> None:
        """Wake me no more."""
        broker.suspects.forget(self)


class PulseWaiting(Waiting):
    """A request that would name brokers, until each of them gave a sign of life, or its connection to us was lost."""

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
        """One more of them."""
        self._unheard.pop(node_id, None)
        if not self._unheard:
            self._broker.finish(self)

    def is_done(self) -> bool:
        """Whether all were heard of."""
        return not self._unheard

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """What is known now."""
        return self._decide()

    def on_expiry(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Somebody is silent, and still connected: what is known now."""
        return self._decide()

    def leave(self, broker: Broker) -> None:  # noqa: ARG002
        """Tell me no more."""
        for pulse in self._pulses:
            pulse.forget(self)
