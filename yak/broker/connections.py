"""Connections in the core: requests are stepped in order and answered in order.

Kafka's clients match answers by order, so an answer that is ready early waits for the earlier ones. A delayed Produce
does not stop the next request from being stepped, and the next answer ends the wait of a delayed Fetch.
"""

from __future__ import annotations

from collections import deque
from dataclasses import KW_ONLY, InitVar, dataclass, field
from enum import Enum, auto

from yak.broker.call import Call
from yak.config.listeners import PLAINTEXT_LISTENER, Listener
from yak.core.events import Effect, Reply
from yak.ids import ConnectionId
from yak.limits import FETCH_ANSWER_AIM_BYTES, FETCH_ANSWER_AIM_FAR_BYTES
from yak.ports.disk import Part
from yak.protocol.peer_proof import Exchange, Incarnation
from yak.protocol.repeated_produce import RepeatedProduce
from yak.replication.fetch_sessions import FollowerSession
from yak.security import ANONYMOUS
from yak.security.hosts import host_of
from yak.security.scram import ScramServer


class LoginState(Enum):
    """The next request that a login expects."""

    HANDSHAKE = auto()
    """ApiVersions or SaslHandshake."""
    AUTHENTICATE = auto()
    """SaslAuthenticate."""
    ANSWERING = auto()
    """None: a password or a token is checked, or the answer to a failed login is delayed."""
    DONE = auto()
    """Any request: the client is logged in."""


@dataclass(slots=True, eq=False, repr=False)
class Login:
    """The login of one connection."""

    state: LoginState = LoginState.HANDSHAKE
    mechanism: str = ""
    is_bare: bool = False
    """Whether the tokens of the exchange have no Kafka header: the handshake was v0."""
    scram: ScramServer | None = None
    """The exchange of SCRAM under way."""
    token_error: bytes = b""
    """The error that a client of OAUTHBEARER got for its token, and must acknowledge (RFC 7628, section 3.2.3)."""
    is_by_token: bool = False
    """Whether the client logged in with a delegation token (KafkaPrincipal.tokenAuthenticated)."""
    user: str | None = None
    """The authenticated user; a later login of the connection must be the same one's."""
    reauthenticated_ms: int | None = None
    """When the last re-authentication began; None: there was none."""
    expires_ms: int | None = None
    """When the client must have logged in again; None: never."""

    @property
    def takes_bare_tokens(self) -> bool:
        """Whether the next frame is a token, and no request."""
        return self.is_bare and self.state in (LoginState.AUTHENTICATE, LoginState.ANSWERING)


@dataclass(slots=True, eq=False)
class PeerProofState:
    """The state of another broker's proof of identity on a connection (`yak.broker.apis.sasl`)."""

    exchange: Exchange | None = None
    """None until the caller's hello arrives."""
    caller: Incarnation | None = None


@dataclass(slots=True, eq=False)
class HeldAnswers:
    """The bytes of the answers that wait for earlier ones, of all connections."""

    held_bytes: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Connection:
    """One client connection: its unanswered calls, oldest first."""

    connection_id: ConnectionId
    peer: str
    round_trip_ms: InitVar[int] = 0
    _: KW_ONLY
    is_in_process: bool = False
    principal: str = ANONYMOUS
    """The authenticated user, `User:ANONYMOUS` without authentication (Kafka's KafkaPrincipal)."""
    listener: Listener = PLAINTEXT_LISTENER
    """Answers with a broker's address give that broker's endpoint of this listener (KIP-103)."""
    held_answers: HeldAnswers = field(default_factory=HeldAnswers)
    host: str = field(init=False)
    """The address of the other end, as ACLs name it."""
    fetch_aim_bytes: int = field(init=False)
    """Size to which a fetch answer may grow: more for a distant client, where round trips limit the throughput."""
    is_open: bool = True
    calls: deque[Call] = field(default_factory=deque)
    answer_bytes: int = 0
    """Bytes of its answers that wait for earlier ones."""
    _held: dict[Call, int] = field(default_factory=dict)
    client_software: str = ""
    delayed_partitions: int = 0
    """Number of partitions in its delayed fetches."""
    login: Login | None = None
    """The state of the client's login; None where none is needed: the listener is without SASL, or a broker proved itself."""
    proving: PeerProofState | None = None
    proven: Incarnation | None = None
    """The broker at the other end, once it has proven its identity."""
    fetch_rotation: int = 0
    """Picks the partition at which the next fetch of many starts reading, so that none of them starves."""
    frames_behind_large: list[bytes] | None = None
    """Requests that came after a large one (`yak.broker.large_requests`); None while no large one is under way."""
    replica_session: FollowerSession | None = None
    """Set while a follower fetches over this connection."""
    repeated_produce: RepeatedProduce | None = None
    """Set by the first produce."""

    def __post_init__(self, round_trip_ms: int) -> None:
        self.host = host_of(self.peer)
        self.fetch_aim_bytes = max(
            FETCH_ANSWER_AIM_BYTES, min(FETCH_ANSWER_AIM_BYTES * round_trip_ms, FETCH_ANSWER_AIM_FAR_BYTES)
        )

    def keep_answer(self, call: Call, parts: list[Part]) -> None:
        """Keep the answer of one of its calls; its bytes count until it is released, if others precede it."""
        call.parts = parts
        if self.calls and self.calls[0] is not call:
            in_memory = (part for part in parts if isinstance(part, (bytes, bytearray, memoryview)))
            self._held[call] = size_bytes = sum(map(len, in_memory))
            self._count(size_bytes)

    def release_answers(self, effects: list[Effect]) -> None:
        """Emit the answers that no unanswered request precedes."""
        calls, held = self.calls, self._held
        while calls:
            call = calls[0]
            if call.parts is None:
                return
            calls.popleft()
            if held:
                self._count(-held.pop(call, 0))
            effects.append(Reply(self.connection_id, call.parts))

    def forget_calls(self) -> None:
        """Drop all calls and their answers: the connection is closed."""
        self.calls.clear()
        self._held.clear()
        self._count(-self.answer_bytes)

    def _count(self, by_bytes: int) -> None:
        self.answer_bytes += by_bytes
        self.held_answers.held_bytes += by_bytes
