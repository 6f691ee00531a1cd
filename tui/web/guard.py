"""Access checks for every request, before any handler runs: pages, files, sockets and uploads.

- **Host**: a foreign page must not reach this server under a name of its own (DNS rebinding). So the Host must be an
  address, this machine's name, or that of `--host`. A request with the token may use any name.
- **Token**: if one is set, every request needs it. It comes once in the address, and then as a cookie; the page removes
  it from the address. The cookie holds a secret of this server's run instead of the token: a browser sends cookies to
  every port of a host, so other servers there see them.
- **Origin**: browsers let any page open a websocket to this server and post to it, but they name the page's origin.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from yak.server.http.guard import host_name, is_name_here
from yak.tui.web.options import WebOptions

_READING: Final = ("GET", "HEAD")
_ITS_OWN: Final = ("same-origin", "none")
"""What browsers send for a request by our own page, or by the user (Fetch Metadata)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused: HTTP status, slug, and a message."""

    status: int
    code: str
    message: str
    try_: str


@dataclass(slots=True)
class Guard:
    """The checks of one server."""

    options: WebOptions
    _secret: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def refuse(self, request: web.BaseRequest) -> Refusal | None:
        """The refusal, or None if the request is allowed."""
        has_token = self._has_token(request)
        host = request.headers.get("Host", "")
        if not has_token and not is_name_here(host, self.options.host):
            return Refusal(
                421,
                "wrong-host",
                f"this server is not {host_name(host)[:64]!r}",
                "open it by its address or by this machine's name",
            )
        if self.options.token is not None and not has_token:
            return Refusal(
                401,
                "token-needed",
                "the token is not the right one" if "token" in request.query else "this needs the token",
                "open the address with ?token=… that yak ui printed when it started",
            )
        if not self._is_own_page(request):
            return Refusal(403, "foreign-origin", "a page of another site asked for this", "open the address yourself")
        return None

    def remember(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Set the cookie if the token came in the address."""
        if self.options.token is not None and "token" in request.query and not response.prepared:
            response.set_cookie(
                self._cookie(request), self._secret, httponly=True, samesite="Strict", secure=request.secure, path="/"
            )

    def _has_token(self, request: web.BaseRequest) -> bool:
        if self.options.token is None:
            return False
        given = request.query.get("token")
        if given is not None:
            return _are_equal(given, self.options.token)
        return _are_equal(request.cookies.get(self._cookie(request), ""), self._secret)

    def _is_own_page(self, request: web.BaseRequest) -> bool:
        origin = request.headers.get("Origin")
        opens_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        if request.method in _READING and not opens_socket:
            return True
        if origin is None:  # not a browser, or one that uses Fetch Metadata instead
            return request.headers.get("Sec-Fetch-Site", "none") in _ITS_OWN
        return urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()

    def _cookie(self, request: web.BaseRequest) -> str:
        """The cookie's name, with the port: browsers share cookies between all ports of a host."""
        _, colon, port = request.headers.get("Host", "").rpartition(":")
        return f"yak_ui_{port}" if colon and port.isdigit() else "yak_ui"


def _are_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
