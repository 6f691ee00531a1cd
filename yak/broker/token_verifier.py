"""Verifies the access tokens of OAUTHBEARER, and keeps the keys for that: a JSON Web Key Set that is read again in time.

The key set is read when the broker starts, every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names an
unknown key, for the issuer may have a new one (Kafka's RefreshingHttpsJwks). The login with that token waits for the new
set. A set that cannot be read leaves the old one in force. Imported by brokers with OAUTHBEARER only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from yak.core.context import Context
from yak.core.events import Plan
from yak.errors import LoginRefused
from yak.ids import JobId
from yak.limits import KEY_SET_READ_MS_MIN
from yak.ports.disk import Disk
from yak.security.oauth_settings import AccessToken, Expectations, OAuthSettings, UnknownKey

OnVerified: TypeAlias = Callable[[AccessToken | None, str], None]
"""Gets the verified token, or None and the reason of the refusal."""
FetchWeb: TypeAlias = Callable[[str], Plan]
"""Makes the plan that fetches a document over HTTP; its `run` returns the bytes or raises OSError."""
_DOUBLINGS_MAX: Final = 20
_NO_JOB: Final = 0


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """A plan to verify a token. Its `repr` hides the token."""

    token: str = field(repr=False)
    document: bytes | None = field(repr=False)
    """The key set; None for the unsecured validator."""
    expected: Expectations
    now_ms: int

    def run(self, disk: Disk) -> AccessToken:  # noqa: ARG002
        """What the token says. Raises LoginRefused."""
        from yak.security.access_tokens import read_unsecured, verify

        if self.document is None:
            return read_unsecured(self.token, self.expected, self.now_ms)
        return verify(self.token, self.document, self.expected, self.now_ms)


@dataclass(frozen=True, slots=True)
class KeySetRead:
    """A plan to read a key set: from a file, or by another plan from the web."""

    path: str
    web: Plan | None

    def run(self, disk: Disk) -> tuple[bytes, int]:
        """The document and the number of its keys. Raises OSError, and ValueError for a document without keys."""
        from yak.security.access_tokens import key_set

        document = disk.read_file(self.path) if self.web is None else self.web.run(disk)
        assert isinstance(document, bytes)
        return document, len(key_set(document))


class TokenVerifier:
    """Verifies tokens by the settings of one listener, or of several with the same."""

    def __init__(self, context: Context, settings: OAuthSettings, fetch_web: FetchWeb | None) -> None:
        """`fetch_web` is None where there is no web: in the simulator."""
        self._context, self._settings, self._fetch_web = context, settings, fetch_web
        self._document: bytes | None = None
        self._is_reading = False
        self._read_ms: int | None = None
        """When the key set was last read, or could not be."""
        self._failures_count = 0
        self._waiting: dict[OnVerified, str] = {}
        """Tokens that wait for the next key set."""
        self._checks: dict[OnVerified, JobId] = {}

    def start(self) -> None:
        """Read the key set for the first time."""
        if not self._settings.is_unsecured:
            self._read()

    def verify(self, token: str, done: OnVerified) -> None:
        """Verify a token in a job: signatures cost processor time. `done` is called once, in a later step."""
        if self._document is None and not self._settings.is_unsecured:
            self._waiting[done] = token  # a read is under way, or planned after the last one failed
            return
        self._check(token, done, may_wait=True)

    def forget(self, done: OnVerified) -> None:
        """The login is over: do not keep its token, which may be large, until the issuer answers."""
        self._waiting.pop(done, None)
        self._context.jobs.drop(self._checks.pop(done, _NO_JOB))

    def _check(self, token: str, done: OnVerified, *, may_wait: bool) -> None:
        def checked(found: AccessToken | None, error: BaseException | None) -> None:
            if self._checks.pop(done, None) is None:
                return
            if error is None:
                done(found, "")
            elif may_wait and isinstance(error, UnknownKey) and self._may_read():
                self._waiting[done] = token
                self._read()
            elif isinstance(error, LoginRefused):
                done(None, str(error))
            else:
                self._context.notice("error", "token-check-failed", what=type(error).__name__)
                done(None, "the token could not be checked")

        now_ms = self._context.clock.wall_ms
        plan = TokenCheck(token, self._document, self._settings.expectations, now_ms)
        self._checks[done] = self._context.jobs.run("login", plan, checked)

    # -------------------------------------------------------------------------------------------------- the key set

    def _may_read(self) -> bool:
        """Whether a token with an unknown key may cause a read: any client can send such tokens."""
        return self._read_ms is None or self._context.clock.now_ms >= self._read_ms + KEY_SET_READ_MS_MIN

    def _read(self) -> None:
        if self._is_reading:
            return
        url = self._settings.jwks_url
        if urlsplit(url).scheme == "file":
            plan = KeySetRead(unquote(urlsplit(url).path), None)
        elif self._fetch_web is not None:
            plan = KeySetRead("", self._fetch_web(url))
        else:
            self._end_reading("there is no web here")
            return
        self._is_reading = True
        self._context.jobs.run("key set", plan, self._was_read)

    def _was_read(self, found: tuple[bytes, int] | None, error: BaseException | None) -> None:
        self._is_reading = False
        if found is None:
            self._end_reading(str(error) or type(error).__name__)
            return
        document, keys_count = found
        if document != self._document:
            self._context.notice("info", "key-set-read", url=self._display_url, keys=keys_count)
        self._document, self._failures_count = document, 0
        self._end_reading("")

    def _end_reading(self, problem: str) -> None:
        """Check the tokens that waited, and plan the next read; `problem` is why this one failed."""
        settings, now_ms = self._settings, self._context.clock.now_ms
        self._read_ms, pause_ms = now_ms, settings.refresh_ms
        if problem:
            doubled_ms = settings.retry_backoff_ms << min(self._failures_count, _DOUBLINGS_MAX)
            pause_ms = min(settings.retry_backoff_max_ms, doubled_ms)
            self._failures_count += 1
            self._context.notice("warning", "key-set-unreadable", url=self._display_url, reason=problem)
        self._context.after(("key set", settings), pause_ms, self._read)
        waiting, self._waiting = self._waiting, {}
        for done, token in waiting.items():
            if self._document is None:
                done(None, f"the keys of {self._display_url} could not be read: {problem}")
            else:
                self._check(token, done, may_wait=False)

    @property
    def _display_url(self) -> str:
        """The URL without a user, a password and a query, which may be secrets."""
        parts = urlsplit(self._settings.jwks_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


class TokenVerifiers:
    """The verifiers of a broker's listeners."""

    def __init__(self, context: Context, fetch_web: FetchWeb | None) -> None:
        self._context, self._fetch_web = context, fetch_web
        self._by_settings: dict[OAuthSettings, TokenVerifier] = {}

    def of_listener(self, name: str) -> TokenVerifier:
        """The verifier of a listener; its first use starts it. Raises UsageError (`oauth-config`)."""
        settings = OAuthSettings.of_listener(name, self._context.config.static)
        verifier = self._by_settings.get(settings)
        if verifier is None:
            self._by_settings[settings] = verifier = TokenVerifier(self._context, settings, self._fetch_web)
            verifier.start()
        return verifier
