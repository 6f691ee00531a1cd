"""One HTTP connection: Hypercorn's server and protocol, made stricter and with timeouts that they lack.

- A request's head must be complete within `head_deadline_ms` of its first byte; the first, of the connection's start.
- Whatever h11 refuses is answered with a problem in JSON.
- HTTP/2 and WebSockets are not supported: no route needs them, and they would bypass the limits on heads.
- A body that no handler reads does not block the connection (Hypercorn waits for ever to deliver it). An answer before
  the end of the body has `connection: close`, because the connection ends and a further request would be lost.
- Before it closes, the connection reads and discards input for a moment: closing a socket with unread bytes resets the
  connection, and the peer would lose the answer.
"""

import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from typing import Any, Final, NoReturn

import h11
import trio
from h11 import _readers
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Response
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from hypercorn.utils import parse_socket_addr

from yak.server.http.context import HttpLimits
from yak.server.http.problems import Problem, body_of
from yak.server.http.timed_stream import STREAM, TimedStream

RECEIVE_BYTES: Final = 16 * 1024
_LINGER_SECONDS: Final = 1.0
_REST_OF_BODY_SECONDS: Final = 0.1
"""How long an answer waits for the end of a body that the handler did not read: clients send head and body apart."""
_LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
_LONE_LINE_END: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_BLANK_LINES: Final = re.compile(rb"(?:\r\n)+")
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]+)([^#]*)", re.IGNORECASE)
_END: Final = b"\r\n\r\n"
_HEADER_OVERHEAD: Final = 4
_VERSIONS: Final = (b"1.1", b"1.0")


# h11's pattern has blanks, a value that may be empty, and blanks: a line of n blanks with a byte that no value may have
# took n^2 steps. The first blanks are taken for good here, which matches the same lines.
_readers.header_field_re = re.compile(_readers.header_field_re.pattern.replace(rb":[ \t]*(", rb":[ \t]*+("))


class HttpConnection(TCPServer):
    """Serves one peer until one side ends the connection."""

    protocol: "StrictProtocol"  # type: ignore[assignment]
    stream: TimedStream  # type: ignore[assignment]

    def __init__(
        self, limits: HttpLimits, app: AppWrapper, config: Config, worker: WorkerContext, stream: TimedStream
    ) -> None:
        super().__init__(app, config, worker, ConnectionState({STREAM: stream}), stream)  # type: ignore[arg-type]
        self._limits = limits
        self._is_ending = False
        self._head_since: float | None = trio.current_time()
        self._reading = trio.CancelScope()

    async def run(self) -> None:
        """Serve; the stream is closed at the end."""
        try:
            socket = self.stream.socket
            client = parse_socket_addr(socket.family, socket.getpeername())
            server = parse_socket_addr(socket.family, socket.getsockname())
            async with _Tasks() as tasks:
                self._task_group = tasks
                self.protocol = StrictProtocol(
                    self.app,
                    self.config,
                    self.context,
                    tasks,
                    ConnectionState(self.state),
                    self.stream.is_secure,
                    client,
                    server,
                    self.protocol_send,
                )
                await self.idle_task.restart(tasks, self._idle_timeout)
                with self._reading:
                    await self._read_data()
                await self.idle_task.stop()
                await self.protocol.handle(Closed())
        except OSError:
            pass
        finally:
            self.stream.drop()

    async def protocol_send(self, event: Event) -> None:
        """Like Hypercorn's, but a send can be cancelled: a peer that does not read must not delay the broker's stop."""
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        async with self.send_lock:
            try:
                await self.stream.send_all(event.data)
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                # busy: the end of another answer is closing the connection without the lock
                await self.protocol.handle(Closed())

    async def _read_data(self) -> None:
        thrown_away = 0
        while thrown_away <= _LINGER_BYTES_MAX:
            try:
                with trio.fail_at(self._head_deadline()):
                    data = await self.stream.receive_some(RECEIVE_BYTES)
            except trio.TooSlowError:
                await self._head_is_late()
                continue
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                data = b""
            if self._is_ending:
                thrown_away += len(data)
            else:
                await self.protocol.handle(RawData(data))
            if not data:
                return

    def _head_deadline(self) -> float:
        if self._is_ending or self.protocol.connection.their_state is not h11.IDLE:
            self._head_since = None
            return inf
        if self._head_since is None:
            if not self.protocol.connection.is_within_head:
                return inf
            self._head_since = trio.current_time()
        return self._head_since + self._limits.head_deadline_ms / 1000

    async def _head_is_late(self) -> None:
        if self.protocol.connection.is_within_head:
            seconds = self._limits.head_deadline_ms / 1000
            problem = Problem(408, "head-too-slow", f"the request head was incomplete after {seconds:g} s", "")
            await self.protocol.send_problem(problem)
        await self._close()

    async def _close(self) -> None:
        """Send nothing more. For a moment the reading task discards what the peer still sends."""
        if self._is_ending:
            return
        self._is_ending = True
        self._reading.deadline = trio.current_time() + _LINGER_SECONDS
        try:
            await self.stream.send_eof()
        except (trio.BrokenResourceError, trio.BusyResourceError, trio.ClosedResourceError):
            self.stream.drop()

    async def _initiate_server_close(self) -> None:
        await self.protocol.handle(Closed())
        await self._close()


class StrictProtocol(H11Protocol):
    """HTTP/1.1 only; errors are answered as problems."""

    connection: "StrictConnection"

    def __init__(self, app: AppWrapper, config: Config, *more: Any) -> None:
        super().__init__(app, config, *more)
        self.connection = StrictConnection(config.h11_max_incomplete_size)
        self._body_is_whole = trio.Event()

    async def stream_send(self, event: StreamEvent) -> None:
        """Like Hypercorn's, but announces `connection: close` when the body is incomplete (RFC 9112 section 9.6)."""
        if isinstance(event, Response) and self.connection.their_state is h11.SEND_BODY:
            with trio.move_on_after(_REST_OF_BODY_SECONDS):
                await self._body_is_whole.wait()
            if not self._body_is_whole.is_set():
                event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        await super().stream_send(event)

    async def _create_stream(self, request: h11.Request) -> None:
        self._body_is_whole = trio.Event()
        self.connection.when_body_is_whole = self._body_is_whole.set
        await super()._create_stream(in_origin_form(request))

    async def send_problem(self, problem: Problem) -> None:
        """Answer with a problem instead of a handler's response."""
        self.connection.problem = problem
        await self._send_error_response(problem.status)

    async def _send_error_response(self, status_code: int) -> None:
        problem = self.connection.explain(status_code)
        body, headers = body_of(problem)
        headers += [("connection", "close"), ("content-length", str(len(body)))]
        await self._send_h11_event(
            h11.Response(
                status_code=problem.status,
                headers=[
                    *((name.encode(), value.encode("latin-1")) for name, value in headers),
                    *self.config.response_headers("h11"),
                ],
            )
        )
        if self.connection.method != b"HEAD":
            await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())

    async def _check_protocol(self, event: h11.Request) -> None:
        """Ignore an upgrade to h2c, as RFC 9110 section 7.8 allows: curl --http2 then continues with HTTP/1.1."""


def in_origin_form(request: h11.Request) -> h11.Request:
    """The request with a path as its target. A target `http://HOST/PATH`, as proxies get it, names the host.

    The Host header counts for nothing then (RFC 9112 section 3.2.2).
    """
    found = _ABSOLUTE.fullmatch(request.target)
    if found is None:
        return request
    host, target = found.groups()
    headers = [(b"host", host), *((name, value) for name, value in request.headers if name != b"host")]
    target = target if target.startswith(b"/") else b"/" + target
    return h11.Request(method=request.method, headers=headers, target=target, http_version=request.http_version)


class StrictConnection(h11.Connection):
    """The server side of h11, which refuses heads that are ambiguous, too large, or of another protocol.

    h11 accepts a missing carriage return and prefers Transfer-Encoding over Content-Length (RFC 9112 sections 2.2 and
    6.1 allow to refuse both). A proxy in front may parse these differently, and one request for the proxy would be two
    for the broker. Invalid input raises h11's error, and `problem` is the answer for the peer.
    """

    def __init__(self, head_bytes_max: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=head_bytes_max)
        self._head_bytes_max = head_bytes_max
        self.problem: Problem | None = None
        self.method = b""
        self.when_body_is_whole: Callable[[], None] = lambda: None

    @property
    def is_within_head(self) -> bool:
        """Whether a request has begun and its head is incomplete."""
        return self.their_state is h11.IDLE and bool(self.trailing_data[0])

    def next_event(self) -> Any:
        """Like h11's, with stricter checks. Raises h11.RemoteProtocolError."""
        if self.their_state is h11.IDLE:
            # blank lines in front of a request are ignored (RFC 9112 section 2.2)
            if blank := _BLANK_LINES.match(self.trailing_data[0]):
                self._receive_buffer.maybe_extract_at_most(blank.end())
            if self.trailing_data == (b"\r", False):
                return h11.NEED_DATA
            self._check_line_ends(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.method = event.method
            self._check_head(event)
        elif isinstance(event, h11.EndOfMessage):
            self.when_body_is_whole()
        return event

    def _check_line_ends(self, received: bytes) -> None:
        head = received.partition(_END)[0]
        if b"\n" in head or b"\r" in head:
            found = _LONE_LINE_END.search(head)
            if found is not None:
                message = "a line of the request ends with CR or LF alone"
                self._refuse(Problem(400, "bad-request", message, "end lines with CR LF"))

    def _check_head(self, request: h11.Request) -> None:
        headers = list(request.headers)
        names = [name for name, _ in headers]
        size = len(request.target) + sum(len(name) + len(value) + _HEADER_OVERHEAD for name, value in headers)
        if request.http_version not in _VERSIONS:
            message = "only HTTP/1.1 and HTTP/1.0 are supported"
            self._refuse(Problem(505, "http-version", message, "curl --http1.1"))
        if size > self._head_bytes_max:
            self._refuse(self._head_too_large())
        if request.method != request.method.upper():  # Hypercorn would take it for the other method
            message = f"there is no method {request.method.decode()}"
            self._refuse(
                Problem(501, "unknown-method", message, f"methods are in capitals: {request.method.upper().decode()}")
            )
        if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
            message = "the body's length is given twice, or in a form that HTTP/1.0 does not have"
            self._refuse(Problem(400, "bad-request", message))
        if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers):
            hint = "use server-sent events: curl -N, or EventSource in a browser"
            self._refuse(Problem(400, "no-websockets", "WebSockets are not supported", hint))

    def explain(self, status: int) -> Problem:
        """The problem for the error that was raised last."""
        if self.problem is not None:
            return self.problem
        if status == 431:
            return self._head_too_large()
        return Problem(status, "bad-request", "the request is not valid HTTP", "GET /docs lists all routes")

    def _head_too_large(self) -> Problem:
        message = f"request line and headers may have at most {self._head_bytes_max} bytes"
        return Problem(431, "head-too-large", message, "send less")

    def _refuse(self, problem: Problem) -> NoReturn:
        self.problem = problem
        raise h11.RemoteProtocolError(problem.message, error_status_hint=problem.status)


class _Tasks(TaskGroup):
    """Hypercorn's task group, with an inbox for each handler that can be closed."""

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Any, send: Callable[[Any], Awaitable[None]]
    ) -> Callable[[Any], Awaitable[None]]:
        assert self._nursery is not None
        inbox = _Inbox(config.max_app_queue_size)
        self._nursery.start_soon(_run, app, scope, inbox, send)
        return inbox.put


class _Inbox:
    """The ASGI messages for a handler. After a disconnect no put blocks, and the handler is notified at once."""

    def __init__(self, size: int) -> None:
        self._put, self._take = trio.open_memory_channel[Any](size)

    async def put(self, message: Any) -> None:
        if message["type"] == "http.disconnect":
            self._put.close()
            return
        try:
            await self._put.send(message)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return

    async def take(self) -> Any:
        try:
            return await self._take.receive()
        except trio.EndOfChannel:
            return {"type": "http.disconnect"}

    def close(self) -> None:
        self._take.close()


async def _run(app: AppWrapper, scope: Any, inbox: _Inbox, send: Callable[[Any], Awaitable[None]]) -> None:
    try:
        await app(scope, inbox.take, send, trio.to_thread.run_sync, trio.from_thread.run)
    except Exception:  # noqa: BLE001, S110 - the application has written it to the log and raised it again for us to see
        pass
    finally:
        inbox.close()
        # a handler cancelled between its answer's head and Hypercorn's record of that head would send a second head
        with contextlib.suppress(h11.LocalProtocolError):
            await send(None)
