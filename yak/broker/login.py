"""The logins of clients on listeners with SASL: the handshake, the mechanism's exchange, the end of a login, a new one.

Before its login a connection may send ApiVersions, SaslHandshake and SaslAuthenticate only, in this order; any other
request closes it. A failed login is answered after a delay, and then the connection is closed. The rules and the texts
that clients get are those of Kafka's SaslServerAuthenticator and KafkaChannel, re-authentication is KIP-368.

After SaslHandshake v0 the frames of a login are bare tokens, without the header and the fields of SaslAuthenticate. So are
the answers, and a failed login gets none (SaslServerAuthenticator.handleSaslToken).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from yak.broker.call import Call, Encoded, Fields, Later, Now, Outcome
from yak.broker.connections import Connection, Login, LoginState
from yak.broker.delayed_answers import DelayedAnswer
from yak.core.context import Context
from yak.core.events import LoggedIn, MuteConnection, Notice, OwnUsersChanged, UnmuteConnection
from yak.errors import ErrorCode, LoginRefused
from yak.limits import LOGIN_MS_MAX
from yak.ports.disk import Disk
from yak.protocol.codec import framed
from yak.protocol.versions import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from yak.security import principal_of
from yak.security.oauth_messages import ERROR_SEEN, INVALID_TOKEN, OAUTHBEARER, TokenMessage, encode_error
from yak.security.plain import PlainToken
from yak.security.scram import (
    ITERATIONS_MIN,
    MECHANISMS,
    NONCE_BYTES,
    SCRAM_SHA_256,
    Mechanism,
    ScramCredential,
    ScramServer,
)

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.delegation_tokens import DelegationTokens
    from yak.broker.token_verifier import FetchWeb, TokenVerifiers
    from yak.config.listeners import Listener
    from yak.security.oauth_settings import AccessToken

_REAUTHENTICATION_MS_MIN: Final = 1_000
"""Between two re-authentications of a connection (KafkaChannel.maybeBeginServerReauthentication). The first one may follow
the login at once: a client with a token of less than a second begins it that early.
"""
_FRAMED_VERSION: Final = 1
"""Before v1 of SaslHandshake, the tokens have no Kafka header (KIP-152)."""


_EXPECTED: Final[Mapping[LoginState, tuple[int, ...]]] = {
    LoginState.HANDSHAKE: (API_VERSIONS, SASL_HANDSHAKE),
    LoginState.AUTHENTICATE: (SASL_AUTHENTICATE,),
    LoginState.ANSWERING: (),
}


class Logins:
    """All logins of this broker's connections. Only connections of listeners with SASL have one."""

    def __init__(
        self, broker: Broker, own_users: Mapping[str, Mapping[str, str]], verifiers: TokenVerifiers | None
    ) -> None:
        """`own_users` are this broker's users beside those of the metadata. `verifiers` are None without OAUTHBEARER."""
        self._broker, self._context, self._rng = broker, broker.context, broker.rng
        self._purgatory, self._close = broker.purgatory, broker.close_connection
        self._own_users, self._verifiers = own_users, verifiers
        self._first_of: tuple[Mapping[str, Mapping[str, str]], ...] = ({}, {})
        """The users of which `_first` has the first ones."""
        self._first: dict[str, Mapping[str, str]] = {}
        self.delegation_tokens: DelegationTokens | None = None
        """None when they are not enabled."""

    def on_own_users(self, event: OwnUsersChanged) -> None:
        """Use the changed users of this broker alone from the next login on; open connections stay."""
        self._own_users = event.users

    def begin(self, connection: Connection) -> None:
        """A client connected to a listener with SASL: it must log in in time."""
        connection.login = Login()
        self._context.after(("login", connection.connection_id), LOGIN_MS_MAX, partial(self._expire, connection))

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
        if not self._fits(connection, frame_bytes):
            return False
        if api_key in _EXPECTED[login.state]:
            return True
        self._close(connection, f"a request with API key {api_key} before the login")
        return False

    def _fits(self, connection: Connection, frame_bytes: int) -> bool:
        """Whether a frame before the login is small enough; if not, the connection is closed."""
        is_small = frame_bytes <= self._context.config.sasl_server_max_receive_size
        if not is_small:
            self._close(connection, f"a request of {frame_bytes} bytes before the login")
        return is_small

    # ----------------------------------------------------------------------------------------------- the exchange

    def handshake(self, call: Call, login: Login) -> Outcome:
        """Choose a mechanism, for the first login of a connection or for a new one before the old one expires."""
        enabled, name, now_ms = self._context.config.sasl_enabled_mechanisms, call.request.mechanism, call.now_ms
        if login.state is LoginState.DONE:
            last_ms = login.reauthenticated_ms
            is_early = last_ms is not None and now_ms < last_ms + _REAUTHENTICATION_MS_MIN
            if login.expires_ms is None or is_early:
                return Now({"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []})
            login.reauthenticated_ms = now_ms
            enabled = (login.mechanism,)
        if name not in enabled:
            message = f"mechanism {name[:40]!r} is not enabled"
            answer = {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": list(enabled)}
            return self._refuse(call, login, answer, message)
        login.state, login.mechanism = LoginState.AUTHENTICATE, name
        login.scram, login.token_error, login.is_bare = None, b"", call.version < _FRAMED_VERSION
        mechanism = MECHANISMS.get(name)
        if mechanism is not None:
            login.scram = ScramServer(mechanism, self._credential, self._rng.secret_bytes(NONCE_BYTES))
        return Now({"error_code": ErrorCode.none, "mechanisms": list(enabled)})

    def authenticate_bare(self, connection: Connection, login: Login, frame: memoryview) -> tuple[Call, Outcome] | None:
        """Answer a token without a Kafka header; None when it closed the connection."""
        if not self._fits(connection, len(frame)):
            return None
        if login.state is LoginState.ANSWERING:
            self._close(connection, "a token before the answer to the last one")
            return None
        call = Call(connection, SASL_AUTHENTICATE, 0, 0, None, self._context.clock.now_ms)
        return call, self.authenticate(call, login, bytes(frame))

    def authenticate(self, call: Call, login: Login, token: bytes) -> Outcome:
        """Answer a token of the chosen mechanism."""
        scram = login.scram
        try:
            if login.mechanism == OAUTHBEARER:
                return self._check_token(call, login, token)
            if scram is None:
                return self._check_password(call, login, PlainToken.decode(token))
            if not scram.has_begun:
                return _answer(login, scram.first(token))
            proof = scram.final(token)
            if scram.is_token:
                assert self.delegation_tokens is not None, "`_credential` refused the token otherwise"
                owner, expires_ms = self.delegation_tokens.owner_of(scram.user)
                return self._accept(call, login, owner, proof, expires_ms=expires_ms, is_by_token=True)
            return self._accept(call, login, scram.user, proof)
        except LoginRefused as refusal:
            return self._fail(call, login, refusal, "" if scram is None else scram.user)

    def _check_password(self, call: Call, login: Login, token: PlainToken) -> Outcome:
        """Check a password in a job: its many rounds of hashing would delay all other connections."""
        self._hold(call, login)
        checked = self._release_after(call, login, partial(self._checked, call, login, token.user))
        too_late = LoginRefused("too many passwords wait to be checked")
        jobs = self._context.jobs
        waiting = DelayedAnswer(
            self._purgatory, call, LOGIN_MS_MAX, partial(checked, too_late), lambda: jobs.drop(job_id)
        )

        def done(is_right: bool | None, error: BaseException | None) -> None:
            wrong = LoginRefused("Authentication failed: Invalid username or password", is_public=True)
            waiting.complete_with(partial(checked, None if error is None and is_right else wrong))

        mechanism, credential = self.password_credential(token.user)
        job_id = jobs.run("login", PasswordCheck(mechanism, credential, token.password), done)
        return Later(waiting)

    def _checked(self, call: Call, login: Login, user: str, refusal: LoginRefused | None) -> Outcome:
        if refusal is not None:
            return self._fail(call, login, refusal, user)
        try:
            return self._accept(call, login, user, b"")
        except LoginRefused as late_refusal:
            return self._fail(call, login, late_refusal, user)

    def _check_token(self, call: Call, login: Login, token: bytes) -> Outcome:
        """Verify an access token in a job, or end an exchange whose token was refused. Raises LoginRefused."""
        if login.token_error:
            if token != ERROR_SEEN:
                raise LoginRefused("Invalid OAUTHBEARER message after an error: expected one byte 01")
            raise LoginRefused(login.token_error.decode(), is_public=True)
        message = TokenMessage.decode(token)
        assert self._verifiers is not None, "OAUTHBEARER is enabled"
        self._hold(call, login)
        checked = self._release_after(call, login, partial(self._token_checked, call, login, message))
        too_late = LoginRefused("the token was not checked in time")
        verifier = self._verifiers.of_listener(call.connection.listener.name)
        waiting = DelayedAnswer(
            self._purgatory, call, LOGIN_MS_MAX, partial(checked, too_late), lambda: verifier.forget(done)
        )

        def done(found: AccessToken | None, reason: str) -> None:
            waiting.complete_with(partial(checked, LoginRefused(reason) if found is None else found))

        verifier.verify(message.token, done)
        return Later(waiting)

    def _token_checked(
        self, call: Call, login: Login, message: TokenMessage, found: AccessToken | LoginRefused
    ) -> Outcome:
        """Answer a token: a refused one with JSON, which the client acknowledges (Kafka's OAuthBearerSaslServer)."""
        if isinstance(found, LoginRefused):
            self._note_refusal(call, login, str(found), "")
            login.state, login.token_error = LoginState.AUTHENTICATE, encode_error(INVALID_TOKEN)
            return _answer(login, login.token_error)
        try:
            if message.authorization_id not in ("", found.user):
                raise LoginRefused(
                    f"Authentication failed: Client requested an authorization id ({message.authorization_id[:100]}) "
                    f"that is different from the token's principal name ({found.user})",
                    is_public=True,
                )
            return self._accept(call, login, found.user, b"", expires_ms=found.expires_ms)
        except LoginRefused as refusal:
            return self._fail(call, login, refusal, found.user)

    def _accept(
        self,
        call: Call,
        login: Login,
        user: str,
        token: bytes,
        *,
        expires_ms: int | None = None,
        is_by_token: bool = False,
    ) -> Outcome:
        """End a login, which is valid until `expires_ms` of the wall clock at most: it ends with its token.

        Raises LoginRefused when an earlier login of the connection was another user's.
        """
        if login.user not in (None, user):
            change = f"from User.{login.user}: User.{user}"
            raise LoginRefused(f"Cannot change principals during re-authentication {change}", is_public=True)
        lifetimes_ms = [limit_ms for limit_ms in (self._context.config.connections_max_reauth_ms,) if limit_ms]
        if expires_ms is not None:
            lifetimes_ms.append(max(0, expires_ms - self._context.clock.wall_ms))
        lifetime_ms = min(lifetimes_ms, default=0)
        login.state, login.scram, login.user = LoginState.DONE, None, user
        login.is_by_token = is_by_token
        login.expires_ms = call.now_ms + lifetime_ms if lifetimes_ms else None
        connection = call.connection
        connection.principal = principal_of(user)
        self._context.timers.disarm(("login", connection.connection_id))
        self._context.emit(LoggedIn(connection.connection_id))
        return _answer(login, token, lifetime_ms=lifetime_ms)

    def _fail(self, call: Call, login: Login, refusal: LoginRefused, user: str) -> Outcome:
        """Refuse a token. The client learns the reason only where that helps no guess at users or passwords."""
        reason, which = str(refusal), "authentication" if login.user is None else "re-authentication"
        message = (
            f"Authentication failed during {which} due to invalid credentials with SASL mechanism {login.mechanism}"
        )
        answer = {"error_code": ErrorCode.sasl_authentication_failed, "auth_bytes": b""}
        answer["error_message"] = reason if refusal.is_public else message
        return self._refuse(call, login, None if login.is_bare else answer, reason, user)

    def _refuse(self, call: Call, login: Login, answer: Fields | None, reason: str, user: str = "") -> Outcome:
        """Answer after the delay, which slows down guessing; then the connection is closed. A bare token has no answer."""
        self._hold(call, login)
        login.scram = None
        if not login.token_error:  # its refusal was noted when the client got the error
            self._note_refusal(call, login, reason, user)
        delay_ms = self._context.config.connection_failed_authentication_delay_ms
        return Later(DelayedAnswer(self._purgatory, call, delay_ms, partial(self._refused, call.connection, answer)))

    def _refused(self, connection: Connection, answer: Fields | None) -> Outcome:
        """The delayed answer to a failed login; the connection is closed behind it."""
        self._close_soon(connection)
        return None if answer is None else Now(answer)

    def _hold(self, call: Call, login: Login) -> None:
        """Leave the client's next requests in the socket until this one is answered.

        A client may send requests behind its password without waiting: Kafka's SaslServerAuthenticator reads one at a time.
        """
        login.state = LoginState.ANSWERING
        self._context.emit(MuteConnection(call.connection.connection_id))

    def _release_after(self, call: Call, login: Login, build: Callable[[Any], Outcome]) -> Callable[[Any], Outcome]:
        """`build`, and then read the client's next requests, unless the connection is about to be closed."""

        def answer(result: Any) -> Outcome:
            outcome = build(result)
            if login.state is not LoginState.ANSWERING:
                self._context.emit(UnmuteConnection(call.connection.connection_id))
            return outcome

        return answer

    def _note_refusal(self, call: Call, login: Login, reason: str, user: str) -> None:
        fields: dict[str, object] = {"peer": call.connection.peer, "mechanism": login.mechanism, "reason": reason}
        if user:
            fields["user"] = user[:_LOGGED_USER_MAX]
        self._context.emit(Notice("warning", "login-refused", fields, is_provoked=True))

    def _close_soon(self, connection: Connection) -> None:
        """Close the connection behind the answer, which is sent in this step."""
        key, now_ms = ("login-refused", connection.connection_id), self._context.clock.now_ms
        self._context.timers.arm(key, now_ms, partial(self._close, connection, "the login failed"))

    # ------------------------------------------------------------------------------------------------ credentials

    def _secret(self) -> bytes:
        """The secret from which the salts of unknown users come: all brokers have the same."""
        secret = self._broker.peers.secret
        assert secret is not None, "a broker that serves clients is registered"
        return secret.derive("salts of unknown users")

    def _texts(self, user: str) -> Mapping[str, str]:
        return self._own_users.get(user) or self._context.image.user_credentials.get(user, {})

    def _credential(self, mechanism: Mechanism, user: str, *, is_token: bool = False) -> ScramCredential:
        """The credential of a user, or of a delegation token by its id. Raises LoginRefused without delegation tokens."""
        if not is_token:
            text = self._texts(user).get(mechanism.name, "")
        elif self.delegation_tokens is None:
            raise LoginRefused("Token Authentication failed: delegation.token.secret.key is not set")
        else:
            text = self.delegation_tokens.credential(mechanism, user)
        found = ScramCredential.parse(text)
        if found is not None:
            return found
        iterations = ITERATIONS_MIN
        if not is_token and (
            usual := ScramCredential.parse(self._texts_of_any(mechanism.name).get(mechanism.name, ""))
        ):
            iterations = usual.iterations
        return ScramCredential.unknown(mechanism, user, self._secret(), iterations)

    def password_credential(self, user: str) -> tuple[Mechanism, ScramCredential]:
        """The credential to check a user's password against; no password fits that of an unknown user."""
        texts = self._texts(user) or self._texts_of_any()
        mechanism = next((each for each in MECHANISMS.values() if each.name in texts), SCRAM_SHA_256)
        return mechanism, self._credential(mechanism, user)

    def _texts_of_any(self, mechanism_name: str = "") -> Mapping[str, str]:
        """The credentials of the first user by name, with this mechanism: an unknown user is like that one everywhere.

        They are looked for once after each change of the users: a search in each login of an unknown user would tell it
        from a known one by its time.
        """
        sources = self._context.image.user_credentials, self._own_users
        if not all(map(is_, sources, self._first_of)):
            self._first_of, self._first = sources, _first_texts(sources)
        return self._first.get(mechanism_name, {})


def _first_texts(sources: Iterable[Mapping[str, Mapping[str, str]]]) -> dict[str, Mapping[str, str]]:
    """Mechanism, or the empty name for any -> the credentials of the first user by name that has it."""
    first: dict[str, Mapping[str, str]] = {}
    for users in sources:
        of_source: dict[str, Mapping[str, str]] = {}
        for name in sorted(users):
            for mechanism_name in ("", *users[name]):
                of_source.setdefault(mechanism_name, users[name])
        first = of_source | first
    return first


_LOGGED_USER_MAX: Final = 100
"""Characters of a user's name in the log: a client sends any name."""


def _answer(login: Login, token: bytes, *, lifetime_ms: int = 0) -> Now | Encoded:
    if login.is_bare:
        return [framed(token)]
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


def token_verifiers(
    context: Context, listeners: Iterable[Listener], fetch_web: FetchWeb | None
) -> TokenVerifiers | None:
    """The verifiers of access tokens, None without OAUTHBEARER: most brokers do not import them.

    Their keys are read from the start. `fetch_web` is None where there is no web: in the simulator.
    """
    if OAUTHBEARER not in context.config.sasl_enabled_mechanisms:
        return None
    from yak.broker.token_verifier import TokenVerifiers

    verifiers = TokenVerifiers(context, fetch_web)
    for each in listeners:
        if each.security_protocol.uses_sasl:
            verifiers.of_listener(each.name)
    return verifiers
