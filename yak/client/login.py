"""The login of this process's connections to brokers: librdkafka's and its own (`RawConnection`).

A process talks to one cluster, so it has one login: `use_login` sets it when the settings are known. Settings that a
caller gives to a librdkafka handle take precedence.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

from yak.client.security import in_force
from yak.errors import LoginRefused, Unreachable, UsageError
from yak.limits import TOKEN_TIME_MAX_S
from yak.security.oauth_messages import OAUTHBEARER, TokenMessage, status_of
from yak.security.plain import PlainToken
from yak.security.scram import MECHANISMS, NONCE_BYTES, ScramClient

_USED_SHARE: Final = 0.8
"""Share of a token's life after which the next one is requested (Kafka's sasl.login.refresh.window.factor)."""
_JWT_SECTIONS: Final = 3


class TokenSource:
    """Gives the token of a login. Its `repr` hides the secret. librdkafka calls it from a thread of its own."""

    def __init__(
        self, url: str, client_id: str | None = None, secret: str | None = None, scope: str | None = None
    ) -> None:
        """Raises UsageError (`login-settings`) for a URL without a token, or without what the endpoint requires."""
        self.url, self._client_id, self._secret, self._scope = url, client_id, secret, scope
        self._is_file = urlsplit(url).scheme == "file"
        if not self._is_file and urlsplit(url).scheme not in ("http", "https"):
            raise _bad_settings(f"{url!r} is no file:, http: or https: URL")
        if not self._is_file and not (client_id and secret):
            missing = "sasl_password" if client_id else "sasl_username"
            raise _bad_settings(f"{missing} is not set: the token endpoint requires a client id and its secret")
        self._lock = threading.Lock()
        self._token, self._expires_s, self._renew_s = "", 0.0, 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process of this program makes its own source from, without the token."""
        return type(self), (self.url, self._client_id, self._secret, self._scope)

    def __repr__(self) -> str:
        return f"TokenSource({self.url!r})"

    @property
    def name(self) -> str:
        """What a message calls the user of the login."""
        return f"of {self.url}" if self._is_file else str(self._client_id)

    def get(self) -> tuple[str, float]:
        """The token and its end, in seconds since the epoch. Raises Unreachable (`token-unavailable`)."""
        with self._lock:
            now_s = time.time()
            if now_s >= self._renew_s:
                self._token, self._expires_s = self._read_file() if self._is_file else self._fetch(now_s)
                self._renew_s = 0 if self._is_file else now_s + _USED_SHARE * (self._expires_s - now_s)
            return self._token, self._expires_s

    def _read_file(self) -> tuple[str, float]:
        path = unquote(urlsplit(self.url).path)
        try:
            with open(path, encoding="ascii") as file:
                token = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _unavailable(self.url, str(error)) from None
        expires_s = _expiry_of(token)
        if expires_s is None:
            raise _unavailable(self.url, "its content is no JWT with an expiration time (exp)")
        return token, expires_s

    def _fetch(self, now_s: float) -> tuple[str, float]:
        from yak.http_fetch import fetch

        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        credentials = base64.b64encode(f"{self._client_id}:{self._secret}".encode()).decode()
        headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            answer = json.loads(fetch(self.url, data=urlencode(form).encode(), headers=headers))
        except (OSError, ValueError, RecursionError) as error:
            raise _unavailable(self.url, str(error)) from None
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
            raise _unavailable(self.url, "its answer has no access_token")
        lifetime_s = answer.get("expires_in")
        expires_s = _expiry_of(token)
        if expires_s is None and isinstance(lifetime_s, int | float) and 0 <= lifetime_s < TOKEN_TIME_MAX_S:
            expires_s = now_s + lifetime_s
        if expires_s is None:
            raise _unavailable(self.url, "its answer does not say when the token expires")
        return token, expires_s


def _expiry_of(token: str) -> float | None:
    """The expiration time that a JWT claims; None without one. The broker verifies the token, not its client."""
    sections = token.split(".")
    if len(sections) != _JWT_SECTIONS:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(sections[1] + "=" * (-len(sections[1]) % 4)))
        expires_s = float(claims["exp"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
    return expires_s if 0 <= expires_s < TOKEN_TIME_MAX_S else None


def _bad_settings(why: str) -> UsageError:
    return UsageError(
        "login-settings",
        "sasl_mechanism is OAUTHBEARER, and no token can be requested",
        why=why,
        try_=(
            "export YAK_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL=file:///run/token",
            "yak help login-settings",
        ),
    )


def _unavailable(url: str, why: str) -> Unreachable:
    return Unreachable(
        "token-unavailable",
        f"no access token from {url}",
        why=why,
        try_=("yak config show    shows the URL and where it comes from",),
    )


Ask = Callable[[int, int, bytes], bytes]
"""Sends a request by API key, version and body, and returns the body of the response. Raises OSError."""
_SASL_HANDSHAKE, _SASL_AUTHENTICATE, _VERSION = 17, 36, 1
_ILLEGAL_SASL_STATE: Final = 34


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """A user's login. Its `repr` hides the password."""

    mechanism: str
    user: str
    password: str = field(repr=False)
    tokens: TokenSource | None = None
    """Set for OAUTHBEARER, which needs no password."""

    def librdkafka(self) -> dict[str, Any]:
        """The login as settings of librdkafka."""
        settings: dict[str, Any] = {
            "security.protocol": "SASL_SSL" if in_force().uses_tls else "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
        }
        if self.tokens is not None:
            tokens = self.tokens
            return settings | {"oauth_cb": lambda _config: tokens.get()}
        return settings | {"sasl.username": self.user, "sasl.password": self.password}


class _Process:
    """The login of this process; None where brokers need none."""

    login: ClientLogin | None = None


def use_login(login: ClientLogin | None) -> None:
    """Log in with this from now on."""
    _Process.login = login


def current_login() -> ClientLogin | None:
    """The login of this process."""
    return _Process.login


def login_of(
    protocol: str,
    mechanism: str,
    user: str | None,
    password: str | None,
    token_url: str | None = None,
    scope: str | None = None,
) -> ClientLogin | None:
    """The login that these settings describe; None without SASL. Raises UsageError (`login-settings`).

    For OAUTHBEARER user and password are the client's id and secret at the token endpoint.
    """
    if not protocol.startswith("SASL"):
        return None
    if mechanism == OAUTHBEARER:
        tokens = TokenSource(token_url or "", user, password, scope)
        return ClientLogin(mechanism, tokens.name, "", tokens)
    if not user or not password:
        missing = "sasl_password" if user else "sasl_username"
        raise UsageError(
            "login-settings",
            f"security_protocol is {protocol}, and {missing} is not set",
            why="a login needs a user and a password",
            try_=(
                "export YAK_SASL_USERNAME=USER YAK_SASL_PASSWORD=...",
                "yak context add NAME --login USER -b HOST:PORT",
            ),
        )
    for name, value in (("sasl_username", user), ("sasl_password", password)):
        if value[0].isspace():
            raise UsageError(
                "login-settings",
                f"{name} begins with white space",
                why="librdkafka, which yak uses, removes it, and the login fails",
                try_=("yak users add USER   sets another password, as another user",),
            )
    return ClientLogin(mechanism, user, password)


def log_in(login: ClientLogin, ask: Ask, address: str) -> None:
    """Log in on a new connection. Raises Unreachable (`login-failed`, `token-unavailable`), and OSError from `ask`.

    The two requests are written by hand: to import kio takes longer than a broker waits for the first bytes of a client
    on a loaded machine.
    """

    def send(token: bytes) -> bytes:
        raw = ask(_SASL_AUTHENTICATE, _VERSION, struct.pack(">i", len(token)) + token)
        error_code, message, answered = _read_answer(raw)
        if error_code:
            raise _failed(login, address, message)
        return answered

    name = login.mechanism.encode()
    error_code, enabled = _read_handshake(ask(_SASL_HANDSHAKE, _VERSION, struct.pack(">h", len(name)) + name))
    if error_code == _ILLEGAL_SASL_STATE:
        plain = "SSL" if in_force().uses_tls else "PLAINTEXT"
        raise _failed(login, address, f"the listener there has no SASL: set security_protocol to {plain}")
    if error_code:
        raise _failed(login, address, f"{login.mechanism} is not enabled there; enabled: {enabled or 'none'}")
    if login.tokens is not None:
        token, _expires_s = login.tokens.get()
        if refused := send(TokenMessage(token).encode()):
            raise _failed(login, address, f"the broker refuses the token: {status_of(refused)}")
        return
    if login.mechanism not in MECHANISMS:
        send(PlainToken(login.user, login.password).encode())
        return
    scram = ScramClient(MECHANISMS[login.mechanism], login.user, login.password, os.urandom(NONCE_BYTES))
    try:
        scram.check(send(scram.final(send(scram.first()))))
    except LoginRefused as refused:
        raise _failed(login, address, str(refused)) from None


def _read_handshake(raw: bytes) -> tuple[int, str]:
    """Error code and enabled mechanisms. Raises OSError."""
    try:
        error_code, count = struct.unpack_from(">hi", raw)
        names, at = [], 6
        for _ in range(count):
            (length,) = struct.unpack_from(">h", raw, at)
            names.append(raw[at + 2 : at + 2 + length].decode())
            at += 2 + length
    except (struct.error, UnicodeDecodeError) as error:
        raise OSError(f"an answer that is no SaslHandshake: {error}") from None
    return error_code, ", ".join(names)


def _read_answer(raw: bytes) -> tuple[int, str, bytes]:
    """Error code, message and token of SaslAuthenticate. Raises OSError."""
    try:
        error_code, length = struct.unpack_from(">hh", raw)
        at = 4 + max(length, 0)
        message = raw[4:at].decode()
        (size,) = struct.unpack_from(">i", raw, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise OSError(f"an answer that is no SaslAuthenticate: {error}") from None
    return error_code, message or f"error {error_code}", raw[at + 4 : at + 4 + size]


def _failed(login: ClientLogin, address: str, why: str) -> Unreachable:
    return Unreachable(
        "login-failed",
        f"user {login.user} could not log in at {address}",
        why=why,
        try_=("yak config show    shows the user and where it comes from", "yak users list     as another user"),
    )
