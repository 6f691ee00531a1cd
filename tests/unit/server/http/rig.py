"""An HTTP server in this process, with routes and bounds of a test, and no broker behind it."""

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import trio
from starlette.requests import Request

from yak.acls.bindings import Operation, ResourceType
from yak.server import listening_sockets
from yak.server.clock import Clock
from yak.server.http.context import Context, HttpLimits
from yak.server.http.http_server import HttpServer
from yak.server.http.route import Route
from yak.server.shell import Counters


@dataclass
class Log:
    """What was written, instead of a log."""

    lines: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)

    def write(self, level: str, event: str, fields: dict[str, object], *, error: BaseException | None = None) -> None:
        self.lines.append((level, event, {**fields, "raised": error}))


@dataclass
class Rig:
    """The server that runs, and what it was given."""

    server: HttpServer
    context: Context
    port: int
    stopping: trio.Event
    log: Log
    ended: trio.Event

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def ask(self, data: bytes) -> bytes:
        """One connection: what is sent, and all that comes back until the other side closes."""
        stream = await self.connect()
        async with stream:
            await stream.send_all(data)
            return await read_all(stream)

    async def until_alone(self) -> None:
        with trio.fail_after(5):
            while self.context.connections:  # noqa: ASYNC110 - what it looks at sets no event
                await trio.sleep(0.005)


async def read_all(stream: trio.SocketStream, seconds: float = 5.0) -> bytes:
    """Until the other side closes; fails when it does not."""
    received = bytearray()
    with trio.fail_after(seconds):
        try:
            while more := await stream.receive_some(65536):
                received += more
        except trio.BrokenResourceError:
            received += b"(reset)"
    return bytes(received)


def make_request(
    query: str = "", headers: Mapping[str, str] | None = None, body: bytes = b"", **scope: object
) -> Request:
    """A GET of `/` from 10.0.0.9, if `scope` says nothing else; its body comes at once, and its client stays."""
    unread = [body]

    async def receive() -> dict[str, object]:
        if not unread:
            await trio.sleep_forever()
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    usual: dict[str, object] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "path_params": {},
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in (headers or {}).items()],
        "client": ("10.0.0.9", 50000),
        "server": ("127.0.0.1", 8080),
    }
    return Request(usual | scope, receive)


NO_AUTHORIZER: Any = SimpleNamespace(is_active=False, authorize=lambda *_request: True)
"""The authorization of a broker without ACLs."""


class Acls:
    """The authorization of a broker on which `allowed` is what User:ann at 10.0.0.9 may do."""

    is_active = True

    def __init__(self, *allowed: tuple[Operation, ResourceType, str]) -> None:
        self.allowed = allowed
        self.denied: list[tuple[Operation, ResourceType]] = []

    def authorize(self, principal: str, host: str, *access: object) -> bool:
        assert (principal, host) == ("User:ann", "10.0.0.9")
        return access in self.allowed

    def count_denied(self, operation: Operation, kind: ResourceType) -> None:
        self.denied.append((operation, kind))


def make_context(limits: HttpLimits | None = None, *, token: str | None = None, **more: Any) -> Context:
    """A context whose shell only counts and logs."""
    shell: Any = SimpleNamespace(counters=Counters(), rate_limit=Log(), clock=Clock())
    config = SimpleNamespace(connection_failed_authentication_delay_ms=0)
    broker: Any = SimpleNamespace(node_id=1, authorization=NO_AUTHORIZER, config=config)
    broker_client: Any = SimpleNamespace()
    given: dict[str, Any] = {"http_port": 8080, "host": "127.0.0.1", "advertised_host": "broker-1.example", **more}
    return Context(
        shell=shell, broker=broker, broker_client=broker_client, token=token, limits=limits or HttpLimits(), **given
    )


@asynccontextmanager
async def serving(routes: Sequence[Route], limits: HttpLimits | None = None, **more: Any) -> AsyncIterator[Rig]:
    """A server with these routes, and `more` for its context; it is stopped at the end and must end in time."""
    sockets = listening_sockets.bind("127.0.0.1", 0)
    context = make_context(limits, **more)
    server = HttpServer(sockets, context, routes)
    server.listen()
    stopping, ended = trio.Event(), trio.Event()

    async def run() -> None:
        await server.run(stopping)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        log: Any = context.shell.rate_limit
        try:
            yield Rig(server, context, listening_sockets.bound_port(sockets), stopping, log, ended)
            stopping.set()
            with trio.fail_after(context.limits.graceful_stop_ms / 1000 + 3):
                await ended.wait()
        finally:
            nursery.cancel_scope.cancel()


def refused(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0
