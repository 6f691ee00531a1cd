"""The logins of clients on listeners with SASL: the handshake, SCRAM or PLAIN, the end of a login, and a new one.

Before its login a connection may ask for ApiVersions, SaslHandshake and SaslAuthenticate only, in this order; any other
request closes it. A failed login is answered after a delay, and then the connection is closed. The rules are those of
Kafka's SaslServerAuthenticator and KafkaChannel, re-authentication is KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from yak.broker.call import Call, DelayedOperation, Fields, Later, Now, Outcome
from yak.core.context import Context
from yak.core.events import LoggedIn, Notice, OwnUsersChanged
from yak.errors import ErrorCode, LoginRefused
from yak.limits import LOGIN_MS_MAX
from yak.ports.disk import Disk
from yak.ports.random_source import RandomSource
from yak.protocol.versions import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from yak.security import principal_of
from yak.security.plain import PLAIN, PlainToken
from yak.security.scram import MECHANISMS, NONCE_BYTES, SCRAM_SHA_256, Mechanism, ScramCredential, ScramServer

if TYPE_CHECKING:
    from yak.broker.connections import Connection
    from yak.broker.purgatory import Purgatory

_REAUTHENTICATION_MS_MIN: Final = 1_000
"""A client may log in again after this time (KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS)."""
_FRAMED_VERSION: Final = 1
"""Before v1 of SaslHandshake, the tokens have no Kafka header (KIP-152)."""


class LoginState(Enum):
    """The next request that a login expects."""

    HANDSHAKE = auto()
    """ApiVersions or SaslHandshake."""
    AUTHENTICATE = auto()
    """SaslAuthenticate."""
    ANSWERING = auto()
    """None: a password is checked, or the answer to a failed login is delayed."""
    DONE = auto()
    """Any request: the client is logged in."""


_EXPECTED: Final[Mapping[LoginState, tuple[int, ...]]] = {
    LoginState.HANDSHAKE: (API_VERSIONS, SASL_HANDSHAKE),
    LoginState.AUTHENTICATE: (SASL_AUTHENTICATE,),
    LoginState.ANSWERING: (),
}


class Login:
    """The login of one connection."""

    __slots__ = ("begun_ms", "expires_ms", "mechanism", "scram", "state", "user")

    def __init__(self) -> None:
        self.state = LoginState.HANDSHAKE
        self.mechanism = ""
        self.scram: ScramServer | None = None
        """The exchange under way, except for PLAIN."""
        self.user: str | None = None
        """The user that has proven who it is; a later login of the connection must be the same one's."""
        self.begun_ms = 0
        self.expires_ms: int | None = None
        """When the client must have logged in again; None: never."""


class Logins:
    """All logins of this broker's connections. Only connections of listeners with SASL have one."""

    def __init__(
        self,
        context: Context,
        rng: RandomSource,
        purgatory: Purgatory,
        close: Callable[[Connection, str], None],
        secret: Callable[[], bytes],
        own_users: Mapping[str, Mapping[str, str]],
    ) -> None:
        """`secret` makes the salts of unknown users. `own_users` are this broker's users beside those of the metadata."""
        self._context, self._rng, self._purgatory = context, rng, purgatory
        self._close, self._secret, self._own_users = close, secret, own_users

    def on_own_users(self, event: OwnUsersChanged) -> None:
        """Use the changed users of this broker alone from the next login on; open connections stay."""
        self._own_users = event.users

    def begin(self, connection: Connection) -> None:
        """A client connected to a listener with SASL: it must log in in time."""
        connection.login = Login()
        due_ms = self._context.clock.now_ms + LOGIN_MS_MAX
        self._context.timers.arm(("login", connection.connection_id), due_ms, partial(self._expire, connection))

    def forget(self, connection: Connection) -> None:
        """The connection is closed, or another broker's that has proven itself: it needs no login."""
        if connection.login is not None:
            connection.login = None
            self._context.timers.disarm(("login", connection.connection_id))

    def _expire(self, connection: Connection) -> None:
        self._close(connection, "no login in time")

    def admits(self, connection: Connection, login: Login, api_key: int, frame_bytes: int) -> bool:
        """Whether a request may be served; if not, the connection is closed."""
        if login.state is LoginState.DONE:
            if login.expires_ms is None or self._context.clock.now_ms < login.expires_ms or api_key == SASL_HANDSHAKE:
                return True
            self._close(connection, "the login has expired")
            return False
        if frame_bytes > self._context.config.sasl_server_max_receive_size:
            self._close(connection, f"a request of {frame_bytes} bytes before the login")
            return False
        if api_key in _EXPECTED[login.state]:
            return True
        self._close(connection, f"a request with API key {api_key} before the login")
        return False

    # ----------------------------------------------------------------------------------------------- the exchange

    def handshake(self, call: Call, login: Login) -> Outcome:
        """Choose a mechanism, for the first login of a connection or for a new one before the old one expires."""
        enabled, name, now_ms = self._context.config.sasl_enabled_mechanisms, call.request.mechanism, call.now_ms
        if login.state is LoginState.DONE:
            if login.expires_ms is None or now_ms < login.begun_ms + _REAUTHENTICATION_MS_MIN:
                return Now({"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []})
            enabled = (login.mechanism,)
        if name not in enabled or call.version < _FRAMED_VERSION:
            words = f"mechanism {name[:40]!r} of SaslHandshake v{call.version}"
            answer = {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": list(enabled)}
            return self._refuse(call, login, answer, words)
        login.state, login.mechanism, login.begun_ms = LoginState.AUTHENTICATE, name, now_ms
        mechanism = MECHANISMS.get(name)
        if mechanism is not None:
            login.scram = ScramServer(mechanism, self._credential, self._rng.secret_bytes(NONCE_BYTES))
        return Now({"error_code": ErrorCode.none, "mechanisms": list(enabled)})

    def authenticate(self, call: Call, login: Login) -> Outcome:
        """Answer a token of the chosen mechanism."""
        token, scram = bytes(call.request.auth_bytes), login.scram
        try:
            if scram is None:
                return self._check_password(call, login, PlainToken.decode(token))
            if not scram.has_begun:
                return _answer(scram.first(token))
            return self._accept(call, login, scram.user, scram.final(token))
        except LoginRefused as refusal:
            return self._fail(call, login, str(refusal), "" if scram is None else scram.user)

    def _check_password(self, call: Call, login: Login, token: PlainToken) -> Outcome:
        """Check a password in a job: its many rounds of hashing would delay all other connections."""
        login.state = LoginState.ANSWERING
        operation = _PasswordChecking(call, partial(self._checked, call, login, token.user))

        def done(is_right: bool | None, error: BaseException | None) -> None:
            operation.is_right = error is None and bool(is_right)
            self._purgatory.complete(operation)

        mechanism, credential = self.password_credential(token.user)
        self._context.jobs.run("login", PasswordCheck(mechanism, credential, token.password), done)
        return Later(operation)

    def _checked(self, call: Call, login: Login, user: str, is_right: bool) -> Outcome:
        if not is_right:
            return self._fail(call, login, "Invalid username or password", user)
        try:
            return self._accept(call, login, user, b"")
        except LoginRefused as refusal:
            return self._fail(call, login, str(refusal), user)

    def _accept(self, call: Call, login: Login, user: str, token: bytes) -> Outcome:
        """Raises LoginRefused when an earlier login of the connection was another user's."""
        if login.user not in (None, user):
            raise LoginRefused(f"Cannot change principals during re-authentication from {login.user} to {user}")
        lifetime_ms = self._context.config.connections_max_reauth_ms
        login.state, login.scram, login.user = LoginState.DONE, None, user
        login.expires_ms = call.now_ms + lifetime_ms if lifetime_ms else None
        connection = call.connection
        connection.principal = principal_of(user)
        self._context.timers.disarm(("login", connection.connection_id))
        self._context.emit(LoggedIn(connection.connection_id))
        return _answer(token, lifetime_ms=lifetime_ms)

    def _fail(self, call: Call, login: Login, reason: str, user: str) -> Outcome:
        """Refuse a token. The client does not learn why: it could be a user's name that it guessed."""
        words = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {login.mechanism}"
        if login.mechanism == PLAIN:
            words = "Authentication failed: Invalid username or password"
        answer = {"error_code": ErrorCode.sasl_authentication_failed, "error_message": words, "auth_bytes": b""}
        return self._refuse(call, login, answer, reason, user)

    def _refuse(self, call: Call, login: Login, answer: Fields, reason: str, user: str = "") -> Outcome:
        """Answer after the delay, which slows down guessing; then the connection is closed."""
        login.state, login.scram = LoginState.ANSWERING, None
        fields: dict[str, object] = {"peer": call.connection.peer, "mechanism": login.mechanism, "reason": reason}
        if user:
            fields["user"] = user[:_LOGGED_USER_MAX]
        self._context.emit(Notice("warning", "login-refused", fields, is_provoked=True))
        delay_ms = self._context.config.connection_failed_authentication_delay_ms
        return Later(_Refusal(call, delay_ms, answer, partial(self._close_soon, call.connection)))

    def _close_soon(self, connection: Connection) -> None:
        """Close the connection behind the answer, which is sent in this step."""
        key, now_ms = ("login-refused", connection.connection_id), self._context.clock.now_ms
        self._context.timers.arm(key, now_ms, partial(self._close, connection, "the login failed"))

    # ------------------------------------------------------------------------------------------------ credentials

    def _texts(self, user: str) -> Mapping[str, str]:
        return self._own_users.get(user) or self._context.image.user_credentials.get(user, {})

    def _credential(self, mechanism: Mechanism, user: str) -> ScramCredential:
        found = ScramCredential.parse(self._texts(user).get(mechanism.name, ""))
        return found or ScramCredential.unknown(mechanism, user, self._secret())

    def password_credential(self, user: str) -> tuple[Mechanism, ScramCredential]:
        """The credential to check a user's password against; no password fits that of an unknown user."""
        texts = self._texts(user)
        mechanism = next((each for each in MECHANISMS.values() if each.name in texts), SCRAM_SHA_256)
        return mechanism, self._credential(mechanism, user)


_LOGGED_USER_MAX: Final = 100
"""Characters of a user's name in the log: a client sends any name."""


def _answer(token: bytes, *, lifetime_ms: int = 0) -> Now:
    fields = {"error_code": ErrorCode.none, "error_message": None, "auth_bytes": token}
    return Now(fields | {"session_lifetime": lifetime_ms})


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    """A plan to check a password, which takes milliseconds. Its `repr` hides the password."""

    mechanism: Mechanism
    credential: ScramCredential
    password: str = field(repr=False)

    def run(self, disk: Disk) -> bool:  # noqa: ARG002
        """Whether it is the user's."""
        return self.credential.is_password(self.mechanism, self.password)


class _PasswordChecking(DelayedOperation):
    """The answer to a token of PLAIN, after its password was checked."""

    __slots__ = ("_build", "is_right")

    def __init__(self, call: Call, build: Callable[[bool], Outcome]) -> None:
        super().__init__(call, LOGIN_MS_MAX)
        self._build = build
        self.is_right: bool | None = None

    def is_done(self) -> bool:
        """Whether the job ended."""
        return self.is_right is not None

    def answer(self) -> Outcome:
        """A login, or a delayed refusal."""
        return self._build(bool(self.is_right))

    def on_expiration(self) -> Outcome:
        """A refusal: too many passwords wait to be checked."""
        return self._build(False)


class _Refusal(DelayedOperation):
    """The delayed answer to a failed login."""

    __slots__ = ("_answer", "_close")

    def __init__(self, call: Call, delay_ms: int, answer: Fields, close: Callable[[], None]) -> None:
        super().__init__(call, delay_ms)
        self._answer, self._close = answer, close

    def is_done(self) -> bool:
        """False: only its time completes it."""
        return False

    def answer(self) -> Outcome:
        """The answer; the connection is closed behind it."""
        return self.on_expiration()

    def on_expiration(self) -> Outcome:
        """The answer; the connection is closed behind it."""
        self._close()
        return Now(self._answer)
