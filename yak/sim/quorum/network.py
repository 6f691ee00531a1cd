"""The requests between the nodes of a quorum, over the connections of `yak.sim.network`.

A lane carries the requests of some APIs from one process to one address, and their responses, in order. After a time-out its
client closes the connection, and opens another one for the next request; what was sent may still arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from yak.protocol.codec import decode_request, decode_response, encode_request, encode_response
from yak.protocol.request_header import read_request_header
from yak.protocol.versions import FETCH
from yak.quorum.transport import ENVELOPE, FETCH_SNAPSHOT

if TYPE_CHECKING:
    from yak.core.events import PeerEnd
    from yak.quorum.transport import Address
    from yak.sim.network import Line, Network
    from yak.sim.quorum.node import QuorumNode

_LANES = {FETCH: "fetches", FETCH_SNAPSHOT: "fetches", ENVELOPE: "commands"}
_LENGTH_BYTES = 4
Done = Callable[[Any | None], None]


class Client(Protocol):
    """A process that sends requests."""

    party: str
    incarnation: int
    """Changes when the process ends."""

    def deliver(self, incarnation: int, action: Callable[[], None], source: object = None) -> None:
        """Run `action` in a step of this process; when it goes on, if it is stopped; never after its end.

        What comes from one `source` keeps its order.
        """


@dataclass(slots=True, eq=False)
class _Call:
    """A request without a response."""

    api_key: int
    version: int
    done: Done


class Requests:
    """The lanes of one process, over all its incarnations."""

    def __init__(self, network: Network, client: Client, timeout_ms: int) -> None:
        self.network, self.client, self.timeout_us = network, client, timeout_ms * 1000
        self.sent_count = self.timed_out_count = 0
        self._lanes: dict[tuple[Address, str], _Lane] = {}

    def send(self, address: Address, api_key: int, version: int, fields: dict[str, Any], done: Done) -> None:
        """Send a request; `done` gets its response, or None if the connection is lost first."""
        key = address, _LANES.get(api_key, "votes")
        lane = self._lanes.get(key)
        if lane is None or not lane.is_open:
            lane = self._lanes[key] = _Lane(self, address)
        self.sent_count += 1
        lane.send(_Call(api_key, version, done), encode_request(api_key, version, 1, "quorum", fields))

    def forget(self, address: Address, api_key: int) -> None:
        """Close the connection of that API; its requests are not answered any more."""
        lane = self._lanes.pop((address, _LANES.get(api_key, "votes")), None)
        if lane is not None:
            lane.close()

    def end(self) -> None:
        """The process is gone; the network has ended its connections already."""
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()


class _Lane:
    """The calling end of one connection."""

    def __init__(self, requests: Requests, address: Address) -> None:
        self.is_open = True
        self._requests = requests
        self._incarnation = requests.client.incarnation
        self._calls: deque[_Call] = deque()
        self._line: Line | None = None
        self._unsent: list[bytes] = []
        self._dial = requests.network.connect(requests.client.party, address.host, address.port, self)

    def send(self, call: _Call, frame: bytes) -> None:
        self._calls.append(call)
        self._requests.network.world.after(self._requests.timeout_us, lambda: self._time_out(call))
        if self._line is None:
            self._unsent.append(frame)
        else:
            self._line.send(frame)

    def close(self) -> None:
        self.is_open = False
        self._calls.clear()
        self._dial.close()

    def _time_out(self, call: _Call) -> None:
        if call in self._calls:
            self._requests.timed_out_count += 1
            self._dial.close()
            self.lost("timeout", "")

    def _deliver(self, action: Callable[[], None]) -> None:
        self._requests.client.deliver(self._incarnation, action, self)

    def connected(self, line: Line) -> None:
        def send() -> None:
            self._line = line
            for frame in self._unsent:
                line.send(frame)

        self._deliver(send)

    def answered(self, frames: list[bytes]) -> None:
        for frame in frames:
            if self._calls:
                call = self._calls.popleft()
                self._requests.network.world.trace(f"response {self._requests.client.party}", frame)
                self._deliver(partial(_answer, call, frame))

    def lost(self, how: PeerEnd, reason: str) -> None:  # noqa: ARG002
        self.is_open = False
        calls, self._calls = self._calls, deque()
        for call in calls:
            self._deliver(partial(call.done, None))


def _answer(call: _Call, frame: bytes) -> None:
    call.done(decode_response(call.api_key, call.version, frame[_LENGTH_BYTES:]))


class Served:
    """The answering end of one connection of a node: it answers the requests in order."""

    def __init__(self, node: QuorumNode, line: Line) -> None:
        self._node, self._line = node, line
        self._waiting: deque[list[bytes]] = deque()
        """The response of each request, empty before."""

    def receive(self, frame: bytes) -> None:
        """A request arrived; the process serves it when it reads it."""
        response: list[bytes] = []
        self._waiting.append(response)
        self._node.deliver(self._node.incarnation, lambda: self._serve(frame, response), self)

    def _serve(self, frame: bytes, response: list[bytes]) -> None:
        node, view = self._node, memoryview(frame)
        header = read_request_header(view)
        api_key, version = header.api_key, header.api_version
        request = decode_request(api_key, version, view, header.body_offset)
        log_end = node.log_end

        def respond(fields: dict[str, Any]) -> None:
            assert not response, "a request is answered twice"
            node.observe_response(api_key, request, fields, log_end)
            response.append(b"".join(map(bytes, encode_response(api_key, version, 1, fields))))
            node.after_step(self._reply)

        node.handle(api_key, request, respond)

    def _reply(self) -> None:
        while self._waiting and self._waiting[0]:
            self._line.reply(self._waiting.popleft()[0])
