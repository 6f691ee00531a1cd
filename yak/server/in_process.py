"""Requests of this process, such as the HTTP API, to its own core: a frame in, a frame out, as for every client.

Each request has a connection of its own, so a long poll delays no other request. A cancelled request closes its
connection.
"""

import itertools
from typing import TYPE_CHECKING, Final

import trio

from yak.core.events import ConnectionClosed, ConnectionOpened, Event, FrameReceived
from yak.ids import ConnectionId
from yak.ports.disk import Part
from yak.security import ANONYMOUS

if TYPE_CHECKING:
    from yak.server.shell import Shell

_PEER: Final = "in-process"


class ClosedByBroker(Exception):
    """The core closed the connection instead of answering; the message has the reason."""


class _Question:
    __slots__ = ("answer", "failure", "settled")

    def __init__(self) -> None:
        self.settled = trio.Event()
        self.answer = b""
        self.failure: str | None = None


class InProcess:
    """The pending requests, by connection. Ids are negative, those of sockets positive."""

    def __init__(self, shell: "Shell") -> None:
        self._shell = shell
        self._ids = itertools.count(-1, -1)
        self._questions: dict[ConnectionId, _Question] = {}

    async def ask(self, frame: bytes, peer: str = _PEER, principal: str = ANONYMOUS) -> bytes:
        """Step the core with one request and wait for the response, both without length prefix.

        `peer` names the caller in logs and client ids; `principal` is its authenticated user. A request without response
        (acks=0) needs `send`. Raises ClosedByBroker when the core refuses the frame.
        """
        question = _Question()
        connection_id = self._open(frame, peer, principal, question)
        try:
            await question.settled.wait()
        finally:
            del self._questions[connection_id]
            self._shell.post(ConnectionClosed(connection_id))
        if question.failure is not None:
            raise ClosedByBroker(question.failure)
        return question.answer

    def send(self, frame: bytes, peer: str = _PEER, principal: str = ANONYMOUS) -> None:
        """Step the core with a request that has no response. Raises ClosedByBroker when the core refuses the frame."""
        question = _Question()
        connection_id = self._open(frame, peer, principal, question)
        del self._questions[connection_id]
        self._shell.post(ConnectionClosed(connection_id))
        if question.failure is not None:
            raise ClosedByBroker(question.failure)

    def _open(self, frame: bytes, peer: str, principal: str, question: _Question) -> ConnectionId:
        shell = self._shell
        connection_id = next(self._ids)
        self._questions[connection_id] = question
        busy_ns = shell.counters.busy_ns
        now_ms = shell.begin_turn()
        shell.last_served = None
        events: tuple[Event, ...] = (
            ConnectionOpened(connection_id, peer, is_in_process=True, principal=principal),
            FrameReceived(connection_id, memoryview(frame)),
        )
        for event in events:
            effects = shell.step(event, now_ms)
            if effects:
                shell.carry_out(effects)
        shell.end_turn()
        shell.counters.busy_ns = busy_ns
        return connection_id

    def answered(self, connection_id: ConnectionId, parts: list[Part]) -> None:
        """Deliver the response, as a copy: the core reuses its buffers."""
        question = self._questions.get(connection_id)
        if question is not None and not question.settled.is_set():
            whole = b"".join(map(bytes, parts))
            question.answer = whole[4:]
            question.settled.set()

    def closed(self, connection_id: ConnectionId, reason: str) -> None:
        """Fail the request, since the core closed its connection."""
        question = self._questions.get(connection_id)
        if question is not None and not question.settled.is_set():
            question.failure = reason
            question.settled.set()
