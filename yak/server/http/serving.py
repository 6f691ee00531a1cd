"""The HTTP port: bound with the Kafka port, so that one in use is told at once; the rest is loaded at the first connection.

Hypercorn's Trio server speaks HTTP on each connection. Around it: bounds on connections for each address and in total, a
deadline for a client that takes nothing, health checks that need no Hypercorn (`quick`), and Kafka's precedence (`fair_share`).
"""

import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from yak.errors import UsageError
from yak.server import listener, log
from yak.server.http import quick
from yak.server.http.fair_share import FairShare

if TYPE_CHECKING:
    from yak.server.http.context import Context, HttpLimits

STREAM: Final = "stream"
"""Under this name the ASGI scope's state has the connection's `PatientStream`."""
_BACKLOG: Final = 256
_ANY_PORT: Final = 0


def bind(host: str, port: int, *, may_move: bool) -> list[socket.socket]:
    """Bind the port, or any free one when it is taken and `may_move`. Raises UsageError."""
    try:
        return listener.bind(host, port)
    except UsageError as error:
        if error.code != "address-in-use":
            raise
        if may_move:
            log.write("info", "http-port-taken", {"port": port})
            return listener.bind(host, _ANY_PORT)
        raise UsageError(
            error.code,
            f"cannot answer HTTP on {host}:{port}",
            why=error.why,
            try_=("yak serve --http-port 0       take any free port", "yak serve --no-http           answer no HTTP"),
        ) from error


class HttpServer:
    """Serves until it is stopped; nothing that a client does ends it."""

    def __init__(self, sockets: Sequence[socket.socket], context: "Context") -> None:
        self._sockets = sockets
        self._context = context
        self._connections = 0
        self._per_ip: dict[str, int] = {}
        self._quick = quick.QuickAnswers(context)
        self._quick_scopes: dict[trio.CancelScope, None] = {}
        self._share = FairShare(context.shell.counters)
        context.parts["fair_share"] = self._share
        self._make: Any = None
        self._loading: trio.Lock | None = None
        self._terminated: Any = None
        self.gave_back = trio.Event()
        """Set once nothing in the cluster is held for clients of HTTP any more, or that took too long."""

    def listen(self) -> None:
        """Let clients connect. Raises UsageError when another process was faster."""
        listener.start_listening(self._sockets, self._context.host)

    async def run(self, stopping: trio.Event) -> None:
        """Accept until `stopping` is set; then answers that are under way get a moment to end."""
        try:
            await self._serve(stopping)
        finally:
            self.gave_back.set()

    async def _serve(self, stopping: trio.Event) -> None:
        self._loading = trio.Lock()
        async with trio.open_nursery() as handlers:
            async with trio.open_nursery() as accepting:
                for sock in self._sockets:
                    listening = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
                    accepting.start_soon(
                        partial(trio.serve_listeners, self._handle, [listening], handler_nursery=handlers)
                    )
                await stopping.wait()
                accepting.cancel_scope.cancel()
            if self._terminated is not None:
                await self._terminated.set()
            for scope in self._quick_scopes:
                scope.cancel()
            await self._give_back()
            handlers.cancel_scope.deadline = trio.current_time() + self._context.limits.graceful_stop_ms / 1000

    async def _give_back(self) -> None:
        with trio.move_on_after(self._context.limits.graceful_stop_ms / 1000):
            async with trio.open_nursery() as nursery:
                for give_back in self._context.at_stop:
                    nursery.start_soon(give_back)
        self.gave_back.set()

    async def _handle(self, stream: trio.SocketStream) -> None:
        limits = self._context.limits
        try:
            ip = str(stream.socket.getpeername()[0])
        except OSError:
            await trio.aclose_forcefully(stream)
            return
        held = self._per_ip.get(ip, 0)
        if self._connections >= limits.connections_max or held >= limits.connections_per_ip_max:
            self._context.shell.counters.bad("http-connections")
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        self._per_ip[ip] = held + 1
        self._share.enter()
        try:
            await self._share.timed(self._serve(stream))
        except Exception as error:  # noqa: BLE001 - one connection's bug must not end the others
            self._note_bug(error)
        finally:
            self._share.leave()
            self._connections -= 1
            self._per_ip[ip] -= 1
            if not self._per_ip[ip]:
                del self._per_ip[ip]
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        limits = self._context.limits
        said = b""
        with trio.CancelScope() as scope:
            self._quick_scopes[scope] = None
            try:
                said = await quick.serve(stream, self._quick, self._share.turn, limits.idle_ms_max / 1000)
            finally:
                del self._quick_scopes[scope]
        if said:
            make = await self._loaded()
            await make(PatientStream(stream, said, limits.send_deadline_ms / 1000, self._share))

    def _note_bug(self, error: BaseException) -> None:
        if _is_only_the_peer(error):
            return
        shell = self._context.shell
        shell.counters.bugs += 1
        shell.rate_limit.write("error", "http-connection-failed", {"what": type(error).__name__}, error=error)

    async def _loaded(self) -> Any:
        """What makes a server of a connection; its modules take a third of a second, so a thread loads them."""
        if self._make is None:
            assert self._loading is not None
            async with self._loading:
                if self._make is None:
                    load = await trio.to_thread.run_sync(_load)
                    self._make, self._terminated = load(self._context, self._share)
        return self._make

    @property
    def connections(self) -> int:
        """How many there are."""
        return self._connections


def _load() -> Any:
    from hypercorn.config import Config
    from hypercorn.trio.tcp_server import TCPServer
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.typing import ConnectionState
    from hypercorn.utils import wrap_app

    from yak.server.http.app import make_app

    def make(context: "Context", share: FairShare) -> tuple[Any, Any]:
        config = _config(Config(), context.limits)
        worker = WorkerContext(None)
        answer: Any = make_app(context)

        async def application(*arguments: Any) -> None:
            await share.timed(answer(*arguments))

        app = wrap_app(application, config.wsgi_max_body_size, "asgi")

        def serve(stream: Any) -> Any:
            # a handler that sends for long finds its stream in the scope
            return TCPServer(app, config, worker, ConnectionState({STREAM: stream}), stream)

        return serve, worker.terminated

    return make


def _config(config: Any, limits: "HttpLimits") -> Any:
    config.alpn_protocols = ["http/1.1"]
    config.errorlog = config.accesslog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = limits.header_bytes_max
    config.keep_alive_timeout = limits.idle_ms_max / 1000
    config.keep_alive_max_requests = 1_000_000
    config.graceful_timeout = limits.graceful_stop_ms / 1000
    return config


class PatientStream:
    """A stream that begins with what was `said` already, and gives up on a peer that takes nothing: Hypercorn sends without a
    deadline, and shields it. What comes is handed on when it is HTTP's turn."""

    def __init__(self, stream: trio.SocketStream, said: bytes, deadline_seconds: float, share: FairShare) -> None:
        self._stream = stream
        self._said = said
        self._deadline_seconds = deadline_seconds
        self._share = share
        self.socket = stream.socket

    async def send_all(self, data: bytes) -> None:
        """As of the stream. Raises BrokenResourceError when the peer took nothing in time."""
        with trio.move_on_after(self._deadline_seconds) as scope:
            await self._stream.send_all(data)
        if scope.cancelled_caught:
            await trio.aclose_forcefully(self._stream)
            raise trio.BrokenResourceError("the peer took nothing")

    def send_now(self, data: bytes | memoryview) -> int:
        """Send what the kernel takes at once, past whoever sends otherwise; gives how much. Raises OSError."""
        descriptor = self.socket.fileno()
        if descriptor < 0:
            raise BrokenPipeError("the connection is closed")
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0

    async def receive_some(self, max_bytes: int) -> bytes:
        """As of the stream."""
        if self._said:
            said, self._said = self._said, b""
        else:
            said = bytes(await self._stream.receive_some(max_bytes))
        if said:
            await self._share.turn()
        return said

    async def send_eof(self) -> None:
        """As of the stream."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """As of the stream."""
        await self._stream.aclose()


def _is_only_the_peer(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_only_the_peer, error.exceptions))
    return isinstance(error, (OSError, trio.BrokenResourceError, trio.ClosedResourceError))
