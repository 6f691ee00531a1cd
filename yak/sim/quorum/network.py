"""The network between the nodes: TCP connections as the kernels at both ends see them.

A connection carries the requests of one API from one process to one address, in order, and their responses in order.

* A process that ends resets its connections: requests under way get `done(None)` after a delay.
* A machine without power resets nothing: its peers wait for their time-out, or until a process there refuses their bytes.
* A stopped process accepts connections and bytes, and reads them when it goes on.
* A cut holds what is on its way, as TCP sends it again later; after a time-out of the sender it may still arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from yak.ids import NodeId
from yak.protocol.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World

if TYPE_CHECKING:
    from yak.quorum.transport import Address
    from yak.sim.quorum.node import QuorumNode

_LENGTH_BYTES = 4
Respond = Callable[[Any], None]


class Endpoint(Protocol):
    """A process that opens connections."""

    node_id: NodeId
    incarnation: int
    """Changes when the process ends."""

    def deliver(self, incarnation: int, action: Callable[[], None], source: object = None) -> None:
        """Run `action` in a step of this process; when it goes on, if it is stopped; never after its end.

        What comes from one `source` keeps its order.
        """


class Payload(Protocol):
    """What a request does at the other end, and how its response is read."""

    def serve(self, node: QuorumNode, respond: Respond) -> None:
        """Hand the request to the node; `respond` gets the response as it crosses the network."""

    def read(self, response: Any) -> Any:
        """What `done` gets."""


@dataclass(slots=True, frozen=True)
class Frame:
    """A request of Kafka's protocol, encoded."""

    api_key: int
    version: int
    data: bytes

    @classmethod
    def of(cls, api_key: int, version: int, fields: dict[str, Any]) -> Frame:
        return cls(api_key, version, encode_request(api_key, version, 1, "quorum", fields))

    def serve(self, node: QuorumNode, respond: Respond) -> None:
        """Decode it, and hand it to the node's quorum."""
        view = memoryview(self.data)
        request = decode_request(self.api_key, self.version, view, read_request_header(view).body_offset)

        log_end = node.log_end

        def answer(fields: dict[str, Any]) -> None:
            node.observe_response(self.api_key, request, fields, log_end)
            encoded = b"".join(map(bytes, encode_response(self.api_key, self.version, 1, fields)))
            respond(encoded[_LENGTH_BYTES:])

        node.handle(self.api_key, request, answer)

    def read(self, response: Any) -> Any:
        return decode_response(self.api_key, self.version, response)


@dataclass(slots=True, eq=False)
class _Call:
    payload: Payload
    done: Callable[[Any | None], None]
    response: Any = None
    is_answered: bool = False


@dataclass(slots=True, eq=False)
class Connection:
    """One connection, as its client sees it (`is_open`, `calls`) and as its server does (`server_*`)."""

    client: Endpoint
    incarnation: int
    server_id: NodeId
    port: int
    is_open: bool = True
    calls: deque[_Call] = field(default_factory=deque)
    """Requests without a response, oldest first."""
    server_incarnation: int | None = None
    served: deque[_Call] = field(default_factory=deque)
    """Requests that arrived and have no response yet, oldest first."""
    arrives_us: dict[str, int] = field(default_factory=dict)
    """By direction: when the newest bytes arrive, which later ones do not overtake."""


@dataclass(slots=True, eq=False)
class _DelayedAction:
    connection: Connection
    action: Callable[[], None]


class QuorumNetwork:
    """All connections of a run."""

    def __init__(self, world: World, rng: SeededRandom, timeout_ms: int) -> None:
        self._world, self._rng = world, rng
        self.timeout_us = timeout_ms * 1000
        self.nodes: dict[NodeId, QuorumNode] = {}
        self._connections: dict[tuple[NodeId, NodeId, int, str], Connection] = {}
        self.cuts: dict[tuple[NodeId, NodeId], None] = {}
        """Directed links that deliver nothing."""
        self.slow_us: dict[tuple[NodeId, NodeId], int] = {}
        """Directed links with a longer delay."""
        self._held: dict[tuple[NodeId, NodeId], list[_DelayedAction]] = {}
        self.counts = {"requests": 0, "connections reset": 0, "requests timed out": 0}

    # ---------------------------------------------------------------------------------------------------- client

    def send(
        self, client: Endpoint, address: Address, lane: str, payload: Payload, done: Callable[[Any | None], None]
    ) -> None:
        """Send a request; `done` gets what `payload.read` makes of the response, or None."""
        key = (client.node_id, address.node_id, address.port, lane)
        connection = self._connections.get(key)
        if connection is None or not connection.is_open or connection.incarnation != client.incarnation:
            connection = Connection(client, client.incarnation, address.node_id, address.port)
            self._connections[key] = connection
        call = _Call(payload, done)
        connection.calls.append(call)
        self.counts["requests"] += 1
        self._world.after(self.timeout_us, lambda: self._time_out(connection, call))
        self._transmit(connection, "to server", lambda: self._arrive(connection, call))

    def forget(self, client: Endpoint, address: Address, lane: str) -> None:
        """Close a connection. Its requests are not answered any more; what was sent may still arrive."""
        connection = self._connections.pop((client.node_id, address.node_id, address.port, lane), None)
        if connection is not None:
            connection.is_open = False
            connection.calls.clear()

    def _time_out(self, connection: Connection, call: _Call) -> None:
        if connection.is_open and call in connection.calls:
            self.counts["requests timed out"] += 1
            self._fail(connection)

    def _fail(self, connection: Connection) -> None:
        """The client learns that the connection is lost."""
        if not connection.is_open:
            return
        connection.is_open = False
        calls = list(connection.calls)
        connection.calls.clear()
        for call in calls:
            connection.client.deliver(connection.incarnation, lambda call=call: call.done(None), connection)  # type: ignore[misc]

    # ---------------------------------------------------------------------------------------------------- links

    def _transmit(self, connection: Connection, direction: str, action: Callable[[], None]) -> None:
        link = (connection.client.node_id, connection.server_id)
        if direction == "to client":
            link = (link[1], link[0])
        delay_us = self.slow_us.get(link, 0)
        delay_us = self._rng.between(delay_us // 2, delay_us) if delay_us else 0
        delay_us += 0 if link[0] == link[1] else self._rng.between(60, 900)
        due_us = max(self._world.now_us + delay_us, connection.arrives_us.get(direction, 0))
        connection.arrives_us[direction] = due_us

        def arrive() -> None:
            if link in self.cuts or self._held.get(link):
                self._held.setdefault(link, []).append(_DelayedAction(connection, action))
            else:
                action()

        self._world.after(due_us - self._world.now_us, arrive)

    def cut(self, link: tuple[NodeId, NodeId]) -> None:
        self.cuts[link] = None

    def reconnect(self, link: tuple[NodeId, NodeId]) -> None:
        """End the cut of a link: most of what it held arrives, also what its sender does not wait for any more."""
        self.cuts.pop(link, None)
        held, delay_us = self._held.pop(link, []), 0
        for each in held:
            if not each.connection.is_open and self._rng.chance(50):
                continue
            delay_us += self._rng.between(10, 2_000)
            self._world.after(delay_us, each.action)

    def reconnect_all(self) -> None:
        self.slow_us.clear()
        for link in list(self.cuts):
            self.reconnect(link)

    def reset_some(self, link: tuple[NodeId, NodeId]) -> None:
        """Reset six in ten connections from one node to another."""
        for connection in list(self._connections.values()):
            if (connection.client.node_id, connection.server_id) != link or not connection.is_open:
                continue
            if self._rng.chance(60):
                self.counts["connections reset"] += 1
                # the server's end is closed as well: what arrives later is refused
                connection.server_incarnation = -1
                self._fail(connection)

    # ---------------------------------------------------------------------------------------------------- server

    def _arrive(self, connection: Connection, call: _Call) -> None:
        node = self.nodes.get(connection.server_id)
        if node is None or not node.has_power:
            return
        if connection.server_incarnation is None and node.is_running and node.port == connection.port:
            connection.server_incarnation = node.incarnation
        if not node.is_running or connection.server_incarnation != node.incarnation:
            self._transmit(connection, "to client", lambda: self._fail(connection))
            return
        connection.served.append(call)
        incarnation = node.incarnation

        def respond(response: Any) -> None:
            node.after_step(lambda: answer(response))

        def answer(response: Any) -> None:
            assert not call.is_answered, "a request is answered twice"
            call.response, call.is_answered = response, True
            while connection.served and connection.served[0].is_answered:
                first = connection.served.popleft()
                self._transmit(connection, "to client", lambda first=first: self._on_response(connection, first))  # type: ignore[misc]

        node.deliver(incarnation, lambda: call.payload.serve(node, respond), connection)

    def _on_response(self, connection: Connection, call: _Call) -> None:
        if not connection.is_open or call not in connection.calls:
            return
        connection.calls.remove(call)
        if isinstance(call.response, bytes):
            self._world.trace(f"response {connection.server_id} {connection.client.node_id}", call.response)
        connection.client.deliver(
            connection.incarnation, lambda: call.done(call.payload.read(call.response)), connection
        )

    def process_ended(self, node: QuorumNode, incarnation: int, *, resets: bool) -> None:
        """A process is gone. Its peers get resets, unless its machine lost power."""
        for key, connection in list(self._connections.items()):
            if connection.client is node:
                connection.is_open = False
                connection.calls.clear()
                del self._connections[key]
            elif resets and connection.server_id == node.node_id and connection.server_incarnation == incarnation:
                self._transmit(connection, "to client", lambda lost=connection: self._fail(lost))  # type: ignore[misc]
