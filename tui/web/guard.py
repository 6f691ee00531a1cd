"""Who may ask: checked before any handler runs, for pages, files, sockets and uploads alike.

- **Host**: a page of somebody else must not reach us under a name of its own (DNS rebinding), so the name asked for is an
  address, this machine's name, or the one of `--host`. Who has the token is no such page and may use any name.
- **Token**: where there is one, nothing at all is given without it. It comes once in the address, and from then on as a
  cookie; the page takes it out of the address. The cookie holds a secret of this server's run and not the token: a
  browser sends a cookie to every port of a host, so other servers there see it.
- **Origin**: browsers let every page open a websocket to us and post to us, and say whose page it is.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from yak.server.http.hosts import host_name, is_name_here
from yak.tui.web.options import WebOptions

_READING: Final = ("GET", "HEAD")
_ITS_OWN: Final = ("same-origin", "none")
"""What browsers say of a request by a page of ours, or by a person (Fetch Metadata)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused: its HTTP status, a slug, and words for a person."""

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
        """None when the request may be handled."""
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
        """Give the browser the cookie when the token came in the address."""
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
        if origin is None:  # no browser, or one that says it in another way
            return request.headers.get("Sec-Fetch-Site", "none") in _ITS_OWN
        return urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()

    def _cookie(self, request: web.BaseRequest) -> str:
        """Browsers keep cookies by host and not by port: two servers on this machine need two names."""
        _, colon, port = request.headers.get("Host", "").rpartition(":")
        return f"yak_ui_{port}" if colon and port.isdigit() else "yak_ui"


def _are_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
