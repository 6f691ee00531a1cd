"""The fast path: answers health checks before any HTTP library is loaded.

Hypercorn and Starlette take 0.8 ms of the loop for a request, and Kafka's clients share that loop. A monitor repeats
the same few bytes: each such request is parsed once and then answered from a table. A connection that sends any other
request, in any other form, is passed to Hypercorn for good, together with the bytes already read.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

import trio

from yak.server.http.guard import is_own_name
from yak.server.http.problems import json_bytes
from yak.views.health import Health, HealthView

if TYPE_CHECKING:
    from yak.server.http.context import Context
    from yak.server.http.tls_stream import TlsStream

_FRESH_MS: Final = 10
"""An answer is reused for this long: at 1,500 requests a second, computing it cost more than all the rest."""
_READ_BYTES: Final = 64 * 1024
_KNOWN_MAX: Final = 64
"""Requests remembered, as bytes: monitors are few and do not vary."""
_HARMLESS: Final = frozenset(("host", "user-agent", "accept", "accept-encoding", "accept-language", "connection"))
_VALUE: Final = re.compile(r"[ -~]*", re.ASCII)
"""Linear: a pattern with the blanks around the value would try them in every combination."""
_REASONS: Final = {200: "OK", 503: "Service Unavailable"}


class FastAnswers:
    """The fast path's answers of one broker."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._health = context.part(HealthAnswers)
        self._paths: dict[bytes, str] = {}
        self._answers: dict[str, tuple[tuple[int, bytes], bytes]] = {}
        """By path: status and body, and the whole answer."""

    def answer(self, request: bytes) -> bytes | None:
        """The whole answer; None unless the bytes are exactly one plain GET of a health path."""
        path = self._paths.get(request)
        if path is None:
            path = path_of(self._context, request)
            if path is None:
                return None
            if len(self._paths) >= _KNOWN_MAX:
                self._paths.clear()
            self._paths[request] = path
        made = self._health.get(path)
        known = self._answers.get(path)
        if known is None or known[0] is not made:
            known = self._answers[path] = made, self._whole(*made)
        return known[1]

    def _whole(self, status: int, body: bytes) -> bytes:
        date = formatdate(self._context.shell.clock.wall_ms() // 1000, usegmt=True)
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-length: {len(body)}\r\n"
            "content-type: application/json\r\nx-content-type-options: nosniff\r\ncache-control: no-store\r\n"
            f"date: {date}\r\n\r\n"
        )
        return head.encode() + body


def path_of(context: "Context", request: bytes) -> str | None:
    """The path of one whole plain GET that the fast path may answer; None for any other request."""
    if not request.startswith(b"GET /health") or request.find(b"\r\n\r\n") != len(request) - 4:
        return None
    first, *lines = request[:-4].decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    path, _, version = rest.partition(" ")
    if (method, version) != ("GET", "HTTP/1.1") or path not in PATHS:
        return None
    is_guarded = context.authentication == "basic" or context.broker.authorization.is_active
    if is_guarded and path not in OPEN_PATHS:
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if name not in _HARMLESS or name in headers or not _VALUE.fullmatch(value):
            return None
        headers[name] = value
    if headers.get("connection", "keep-alive").lower() != "keep-alive" or "host" not in headers:
        return None
    return path if is_own_name(context, headers["host"]) else None


async def serve(
    stream: "trio.SocketStream | TlsStream",
    answers: FastAnswers,
    turn: Callable[[], Awaitable[None]],
    first_seconds: float,
    idle_seconds: float,
) -> bytes:
    """Answer until a request is not for the fast path, and return its bytes; empty after a disconnect or a timeout.

    The timeout is `first_seconds` for the first request, `idle_seconds` for each later one, and covers the sending of
    the answer. `turn` is awaited before each answer. Raises OSError and trio.BrokenResourceError.
    """
    patience = first_seconds
    while True:
        with trio.move_on_after(patience):
            request = bytes(await stream.receive_some(_READ_BYTES))
            answer = answers.answer(request) if request else None
            if answer is None:
                return request
            await turn()
            await stream.send_all(answer)
            patience = idle_seconds
            continue
        return b""


class HealthAnswers:
    """Health answers by path; each is computed at most every `_FRESH_MS`."""

    def __init__(self, context: "Context") -> None:
        self._shell = context.shell
        self._view = HealthView(context.broker)
        self._made: dict[str, tuple[int, tuple[int, bytes]]] = {}

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body. Raises KeyError for a path outside `PATHS`."""
        now_ms = self._shell.clock.now_ms()
        made_ms, answer = self._made.get(path, (-_FRESH_MS, (0, b"")))
        if now_ms - made_ms >= _FRESH_MS:
            answer = PATHS[path](self._view)
            self._made[path] = (now_ms, answer)
        return answer


def _all(view: HealthView) -> tuple[int, bytes]:
    found = view.present()
    return 503 if found.reasons else 200, json_bytes(found.as_json())


def _live(_view: HealthView) -> tuple[int, bytes]:
    return 200, json_bytes({"status": "ok", "reasons": []})


def _ready(view: HealthView) -> tuple[int, bytes]:
    found: Health = view.present()
    body = {"status": "ok" if found.is_ready else "unhealthy", "reasons": found.own_reasons}
    return 200 if found.is_ready else 503, json_bytes(body)


OPEN_PATHS: Final = ("/health/live", "/health/ready")
"""Without a login on every broker: load balancers and supervisors have none, and these reveal nothing of the cluster."""
PATHS: Final[Mapping[str, Callable[[HealthView], tuple[int, bytes]]]] = {
    "/health": _all,
    "/health/live": _live,
    "/health/ready": _ready,
}
