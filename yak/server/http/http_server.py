"""The HTTP server: bound together with the Kafka port, so that a port in use is an error at the start.

Hypercorn's Trio server handles each connection; it is loaded at the first one. Added here: connection limits for each
address and in total, a write timeout, health checks without Hypercorn (`fast_path`), and Kafka's precedence (`fair_share`).
"""

import errno
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from yak.errors import LoginRefused, UsageError
from yak.server import listening_sockets
from yak.server.http import fast_path
from yak.server.http.broker_client import BrokerClient
from yak.server.http.context import Context, HttpLimits
from yak.server.http.fair_share import fair_share
from yak.server.http.timed_stream import TimedStream

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.server.http.route import Route
    from yak.server.http.tls_stream import TlsStream
    from yak.server.options import ServeOptions
    from yak.server.shell import Shell
    from yak.server.tls_listener import ListenerTls

_PEER_GAVE_UP: Final = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM)
_ACCEPT_AGAIN_SECONDS: Final = 0.1
_ANY_PORT: Final = 0
_HEALTH_BEYOND_MAX: Final = 32
_HEALTH_SECONDS: Final = 1.0
_BODY_PIECES_WAITING_MAX: Final = 4
"""Pieces of a body that were read from the socket but not yet by the handler."""


def bind(host: str, port: int, *, may_move: bool) -> list[socket.socket]:
    """Bind the port, or any free one if it is in use and `may_move`. Raises UsageError.

    Two brokers that start at the same time can both bind a port, but only one can listen. So with `may_move` the socket
    listens at once to find out; early clients wait until they are served.
    """
    sockets: list[socket.socket] = []
    try:
        sockets = listening_sockets.bind(host, port)
        if may_move:
            listening_sockets.start_listening(sockets, host)
        return sockets
    except UsageError as error:
        if error.code != "address-in-use":
            raise
        listening_sockets.close(sockets)
        if may_move:
            return listening_sockets.bind(host, _ANY_PORT)
        raise UsageError(
            error.code,
            f"cannot serve HTTP on {host}:{port}",
            why=error.why,
            try_=("yak serve --http-port 0       take any free port", "yak serve --no-http           serve no HTTP"),
        ) from error


class HttpServer:
    """Accepts and serves connections until it is stopped; no client error ends it."""

    def __init__(
        self, sockets: Sequence[socket.socket], context: Context, routes: "Sequence[Route] | None" = None
    ) -> None:
        self._sockets = sockets
        self._context = context
        self._routes = routes
        self._per_ip: dict[str, int] = {}
        self._fast_answers = fast_path.FastAnswers(context)
        self._beyond = 0
        """Connections beyond the limits that may ask for the health."""
        self._fast_scopes: dict[trio.CancelScope, None] = {}
        self._share = context.part(fair_share)
        self._make: Any = None
        self._loading = trio.Lock()
        self._terminated: Any = None
        self.released = trio.Event()
        """Set once HTTP clients hold nothing in the cluster any more, or releasing it timed out."""

    def listen(self) -> None:
        """Start to listen. Raises UsageError if another process took the port meanwhile."""
        listening_sockets.start_listening(self._sockets, self._context.host)

    async def run(self, stopping: trio.Event) -> None:
        """Accept until `stopping` is set; then pending answers get `graceful_stop_ms` to complete."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._release, stopping)
                await self._accept(stopping)
        finally:
            self.released.set()

    async def _accept(self, stopping: trio.Event) -> None:
        async with trio.open_nursery() as handlers:
            async with trio.open_nursery() as accepting:
                for sock in self._sockets:
                    accepting.start_soon(self._accept_all, sock, handlers)
                await stopping.wait()
                accepting.cancel_scope.cancel()
            if self._terminated is not None:
                await self._terminated.set()
            for scope in self._fast_scopes:
                scope.cancel()
            handlers.cancel_scope.deadline = trio.current_time() + self._context.limits.graceful_stop_ms / 1000

    async def _release(self, stopping: trio.Event) -> None:
        await stopping.wait()
        with trio.move_on_after(self._context.limits.release_ms / 1000):
            async with trio.open_nursery() as nursery:
                for end in self._context.at_stop:
                    nursery.start_soon(end)
        self.released.set()

    async def _accept_all(self, listening: socket.socket, handlers: trio.Nursery) -> None:
        with listening:
            while True:
                await trio.lowlevel.wait_readable(listening)
                try:
                    sock, _ = listening.accept()
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno not in _PEER_GAVE_UP:
                        await self._accept_failed(error)
                    continue
                sock.setblocking(False)
                handlers.start_soon(self._handle, self._stream_of(sock))

    def _stream_of(self, sock: socket.socket) -> "trio.SocketStream | TlsStream":
        tls = self._context.tls
        if tls is None:
            return trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        from yak.server.http.tls_stream import TlsStream

        return TlsStream(sock, tls)

    async def _accept_failed(self, error: OSError) -> None:
        """Most likely no file handles are left: pending connections are accepted when some are free again."""
        shell = self._context.shell
        shell.counters.bad("http-accept-failed")
        fields: dict[str, object] = {"error": error.strerror, "connections": self._context.connections}
        shell.rate_limit.write("error", "http-accept-failed", fields)
        await trio.sleep(_ACCEPT_AGAIN_SECONDS)

    async def _handle(self, stream: "trio.SocketStream | TlsStream") -> None:
        context, limits = self._context, self._context.limits
        try:
            ip = str(stream.socket.getpeername()[0])
        except OSError:
            await trio.aclose_forcefully(stream)
            return
        held = self._per_ip.get(ip, 0)
        if context.connections >= limits.connections_max or held >= limits.connections_per_ip_max:
            context.shell.counters.bad("http-connections")
            with suppress(OSError, trio.BrokenResourceError):
                await self._answer_health(stream)
            await trio.aclose_forcefully(stream)
            return
        context.connections += 1
        self._per_ip[ip] = held + 1
        self._share.enter()
        try:
            if isinstance(stream, trio.SocketStream) or await self._shake_hands(stream):
                await self._share.timed(self._serve(stream))
        except Exception as error:  # noqa: BLE001 - one connection's bug must not end the others
            self._note_bug(error)
        finally:
            self._share.leave()
            context.connections -= 1
            self._per_ip[ip] -= 1
            if not self._per_ip[ip]:
                del self._per_ip[ip]
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _answer_health(self, stream: "trio.SocketStream | TlsStream") -> None:
        """Clients that keep every connection must not make the broker look dead: a few more get a health check each."""
        if isinstance(stream, trio.SocketStream) and self._beyond < _HEALTH_BEYOND_MAX:
            self._beyond += 1
            try:
                await fast_path.serve(stream, self._fast_answers, self._share.turn, _HEALTH_SECONDS, 0)
            finally:
                self._beyond -= 1

    async def _shake_hands(self, stream: "TlsStream") -> bool:
        try:
            await stream.handshake(self._context.limits.head_deadline_ms / 1000)
        except LoginRefused as refused:
            shell = self._context.shell
            shell.counters.bad("http-tls-refused")
            shell.rate_limit.write("warning", "http-tls-refused", {"why": str(refused)})
            return False
        return True

    async def _serve(self, stream: "trio.SocketStream | TlsStream") -> None:
        limits = self._context.limits
        received = b""
        with trio.CancelScope() as scope:
            self._fast_scopes[scope] = None
            try:
                first_seconds, idle_seconds = limits.head_deadline_ms / 1000, limits.idle_ms_max / 1000
                received = await fast_path.serve(
                    stream, self._fast_answers, self._share.turn, first_seconds, idle_seconds
                )
            finally:
                del self._fast_scopes[scope]
        if received:
            make = await self._loaded()
            await make(TimedStream(stream, limits.send_deadline_ms / 1000, received, self._share.turn))

    def _note_bug(self, error: BaseException) -> None:
        if is_only_the_peer(error):
            return
        shell = self._context.shell
        shell.counters.bugs += 1
        shell.rate_limit.write("error", "http-connection-failed", {"what": type(error).__name__}, error=error)

    async def _loaded(self) -> Any:
        """The function that serves a connection. A thread loads its modules, which takes a third of a second."""
        async with self._loading:
            if self._make is None:
                given = self._context, self._routes
                self._make, self._terminated = await trio.to_thread.run_sync(_load, *given)
            return self._make


def make_http_server(
    sockets: Sequence[socket.socket],
    shell: "Shell",
    broker: "Broker",
    options: "ServeOptions",
    http_port: int,
    limits: HttpLimits,
    tls: "ListenerTls | None",
    inter_broker_tls: "ListenerTls | None",
) -> HttpServer:
    """Listen; the caller runs `run` as a task. Raises UsageError if the port is in use after all."""
    context = Context(
        shell=shell,
        broker=broker,
        broker_client=BrokerClient(broker, shell.in_process, shell.rate_limit, inter_broker_tls),
        http_port=http_port,
        host=options.host,
        advertised_host=options.advertised(0)[0],
        token=options.http_token,
        authentication=options.http_authentication,
        tls=tls,
        limits=limits,
        started_ms=shell.clock.now_ms(),
    )
    server = HttpServer(sockets, context)
    server.listen()
    return server


def _load(context: Context, routes: "Sequence[Route] | None") -> tuple[Any, Any]:
    """The function that serves a connection, and the event that ends idle connections."""
    from hypercorn.config import Config
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.utils import wrap_app

    from yak.server.http.app import make_app
    from yak.server.http.connection import HttpConnection

    config = _config(Config(), context.limits)
    worker = WorkerContext(None)
    answer: Any = make_app(context, routes)
    share = context.part(fair_share)

    async def application(*arguments: Any) -> None:
        await share.timed(answer(*arguments))

    app = wrap_app(application, config.wsgi_max_body_size, "asgi")
    return partial(HttpConnection, context.limits, app, config, worker), worker.terminated


def _config(config: Any, limits: HttpLimits) -> Any:
    config.errorlog = config.accesslog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = limits.header_bytes_max
    config.keep_alive_timeout = limits.idle_ms_max / 1000
    config.keep_alive_max_requests = 1_000_000
    config.max_app_queue_size = _BODY_PIECES_WAITING_MAX
    return config


def is_only_the_peer(error: BaseException) -> bool:
    """Whether the error only means that the peer disconnected."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_only_the_peer, error.exceptions))
    return isinstance(error, (OSError, trio.BrokenResourceError, trio.ClosedResourceError))
