"""Who sends a request: HTTP Basic against the SCRAM credentials of the cluster's users, the token, or a certificate.

`yak.http.authentication` is `none` (passwords are ignored) or `basic` (RFC 7617). A password costs milliseconds,
so a thread checks it, and a login that succeeded is remembered: by a digest under a key of this process, over the
credential that it was checked against. A password or a user that changes is therefore checked again.
"""

import base64
import binascii
import hmac
import os
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import trio

from yak.security import ANONYMOUS, principal_of
from yak.security.hosts import host_of
from yak.security.scram import Mechanism, ScramCredential
from yak.server.http.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from yak.server.http.context import Context

HttpAuthentication = Literal["none", "basic"]
TOKEN_PRINCIPAL: Final = principal_of("yak-http-token")
"""The principal of requests with the token."""


class Caller(NamedTuple):
    """The principal of a request, and its Authorization header, which goes with the requests to other brokers."""

    principal: str = ANONYMOUS
    authorization: str | None = None
    peer: str = "in-process"
    """The client's `address:port`."""

    @property
    def host(self) -> str:
        """The client's address, as ACLs name it."""
        return host_of(self.peer)


CALLER: Final[ContextVar[Caller]] = ContextVar("caller", default=Caller())  # noqa: B039 - it is immutable
"""The caller of the request that a task serves."""
Credentials = Callable[[str], tuple[Mechanism, ScramCredential]]
"""The credential of a user by name; one that no password fits for an unknown user."""
_REMEMBERED_MAX: Final = 1_000
_CHECKS_AT_ONCE: Final = 2
"""Threads that hash passwords: more would take the processor from Kafka's clients."""
_LOGGED_USER_MAX: Final = 100


class BasicLogins:
    """Checks user and password, and remembers the logins that succeeded."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._key = os.urandom(32)
        self._remembered: OrderedDict[bytes, None] = OrderedDict()
        self._limiter = trio.CapacityLimiter(_CHECKS_AT_ONCE)

    async def is_right(self, user: str, password: str) -> bool:
        """Whether it is the user's password."""
        mechanism, credential = self._credentials(user)
        digest = self._digest(user, password, credential.to_text())
        if digest in self._remembered:
            self._remembered.move_to_end(digest)
            return True
        if not await trio.to_thread.run_sync(credential.is_password, mechanism, password, limiter=self._limiter):
            return False
        self._remembered[digest] = None
        if len(self._remembered) > _REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return True

    def _digest(self, *parts: str) -> bytes:
        joined = b"".join(len(each.encode()).to_bytes(4, "big") + each.encode() for each in parts)
        return hmac.digest(self._key, joined, "sha256")


async def authenticate(context: "Context", request: "Request", certified: str = ANONYMOUS) -> str:
    """The principal of a request; ANONYMOUS without a login. `certified` is that of a client certificate.

    Raises Problem 401 `login-failed` for a wrong password.
    """
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and has_token(context, given):
        return TOKEN_PRINCIPAL
    if scheme.lower() != "basic" or context.authentication != "basic":
        return certified
    user, password = user_and_password(given)
    logins = context.part(_basic_logins)
    if await logins.is_right(user, password):
        return principal_of(user)
    await slow_down(context, request, user=user[:_LOGGED_USER_MAX])
    raise login_needed("login-failed", "user or password is wrong")


async def slow_down(context: "Context", request: "Request", **about: object) -> None:
    """Log a wrong password or token, and wait before it is refused."""
    fields: dict[str, object] = {"peer": request.client.host if request.client else "", **about}
    context.shell.rate_limit.write("warning", "http-login-refused", fields)
    await trio.sleep(context.broker.config.connection_failed_authentication_delay_ms / 1000)


def has_token(context: "Context", given: str) -> bool:
    """Whether this is the token. Starlette decodes headers as Latin-1; curl sends the terminal's encoding."""
    token = context.token
    return token is not None and hmac.compare_digest(given.strip().encode("latin-1"), token.encode())


def login_needed(error: str, message: str) -> Problem:
    """401 with the schemes that a client may use."""
    hint = "curl -u USER, or Authorization: Bearer TOKEN with the broker's YAK_HTTP_TOKEN"
    return Problem(
        401, error, message, hint, headers={"www-authenticate": 'Basic realm="yak", charset="UTF-8", Bearer'}
    )


def _basic_logins(context: "Context") -> BasicLogins:
    return BasicLogins(context.broker.logins.password_credential)


def user_and_password(given: str) -> tuple[str, str]:
    """What the scheme Basic has. Raises Problem 401 `login-failed`."""
    try:
        user, colon, password = base64.b64decode(given.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        colon = ""
    if not colon:
        raise login_needed("login-failed", "the Authorization header is no user and password (RFC 7617)")
    return user, password
