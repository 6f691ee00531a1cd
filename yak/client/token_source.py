"""Access tokens for this process's logins by OAUTHBEARER: from a file, or from an issuer's token endpoint (KIP-768).

An issuer's endpoint gives tokens for a client id and a secret (RFC 6749, section 4.4). A token is used again until most of
its life is over. A file is read each time, for another program renews the token in it.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

from yak.errors import Unreachable, UsageError

_USED_SHARE: Final = 0.8
"""Share of a token's life after which the next one is requested (Kafka's sasl.login.refresh.window.factor)."""
_JWT_SECTIONS: Final = 3


class TokenSource:
    """Gives the token of a login. Its `repr` hides the secret. librdkafka calls it from a thread of its own."""

    def __init__(
        self, url: str, client_id: str | None = None, secret: str | None = None, scope: str | None = None
    ) -> None:
        """Raises UsageError (`login-settings`) for a URL without a token, and without what the endpoint asks for."""
        self.url, self._client_id, self._secret, self._scope = url, client_id, secret, scope
        self._is_file = urlsplit(url).scheme == "file"
        if not self._is_file and urlsplit(url).scheme not in ("http", "https"):
            raise _bad_settings(f"{url!r} is no file:, http: or https: URL")
        if not self._is_file and not (client_id and secret):
            missing = "sasl_password" if client_id else "sasl_username"
            raise _bad_settings(f"{missing} is not set: the token endpoint asks for a client id and its secret")
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
        if expires_s is None and isinstance(lifetime_s, int | float):
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
        return float(claims["exp"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


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
