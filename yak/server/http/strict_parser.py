"""The strict parser: refuses heads that h11 accepts but that are ambiguous, too large, or of another protocol.

h11 accepts a missing carriage return and prefers Transfer-Encoding over Content-Length (RFC 9112 sections 2.2 and 6.1
allow to refuse both). A proxy in front may parse these differently, and one request for the proxy would be two for the
broker.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import h11

from yak.server.http.problems import Problem

_LONE_LINE_END: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_END: Final = b"\r\n\r\n"
_HEADER_OVERHEAD: Final = 4
_VERSIONS: Final = (b"1.1", b"1.0")


class StrictConnection(h11.Connection):
    """The server side of h11. Invalid input raises h11's error, and `problem` is the answer for the peer."""

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
                self._refuse(
                    400, "bad-request", "a line of the request ends with CR or LF alone", "end lines with CR LF"
                )

    def _check_head(self, request: h11.Request) -> None:
        headers = list(request.headers)
        names = [name for name, _ in headers]
        size = len(request.target) + sum(len(name) + len(value) + _HEADER_OVERHEAD for name, value in headers)
        if request.http_version not in _VERSIONS:
            self._refuse(505, "http-version", "only HTTP/1.1 and HTTP/1.0 are supported", "curl --http1.1")
        if size > self._head_bytes_max:
            self._refuse_size()
        if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
            self._refuse(
                400, "bad-request", "the body's length is given twice, or in a form that HTTP/1.0 does not have", ""
            )
        if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers):
            hint = "use server-sent events: curl -N, or EventSource in a browser"
            self._refuse(400, "no-websockets", "WebSockets are not supported", hint)

    def explain(self, status: int) -> Problem:
        """The problem for the error that was raised last."""
        if self.problem is not None:
            return self.problem
        if status == 431:
            return head_too_large(self._head_bytes_max)
        return Problem(status, "bad-request", "the request is not valid HTTP", "GET /docs lists all routes")

    def _refuse_size(self) -> None:
        self.problem = head_too_large(self._head_bytes_max)
        raise h11.RemoteProtocolError(self.problem.message, error_status_hint=431)

    def _refuse(self, status: int, slug: str, message: str, hint: str) -> None:
        self.problem = Problem(status, slug, message, hint)
        raise h11.RemoteProtocolError(message, error_status_hint=status)


def head_too_large(bytes_max: int) -> Problem:
    """The problem for too large a head."""
    return Problem(431, "head-too-large", f"request line and headers may have at most {bytes_max} bytes", "send less")
