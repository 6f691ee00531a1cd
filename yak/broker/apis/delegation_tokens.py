"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken (keys 38 to 41; KIP-48).

v1-3 of the first and the last, v1-2 of the others. v2: flexible. v3: a token for another owner, and its requester
(KIP-373). Requests over connections without a login, or with one by a delegation token, are refused, as by Kafka's
KafkaApis.allowTokenRequests. The rules on tokens are those of Kafka's DelegationTokenControlManager. A change is in force on
this broker when the answer is sent, and on the others when they have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from yak.acls.bindings import Operation, ResourceType
from yak.broker.api_table import Api
from yak.broker.call import Call, Fields, Later, Now, Outcome, milliseconds
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges, from_newest_image
from yak.cluster.records import TOKEN
from yak.cluster.topic_changes import plan_alter
from yak.errors import ErrorCode, PeerError
from yak.limits import DELEGATION_TOKENS_MAX, RENEWERS_PER_TOKEN_MAX
from yak.security import ANONYMOUS
from yak.security.scram import bad_user

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.delegation_tokens import DelegationTokens
    from yak.ports.metadata_store import StoreRequest
    from yak.security.delegation_tokens import DelegationToken

_TIMEOUT_MS: Final = 10_000
_USER: Final = "User"
_NO_TIME: Final = 0
"""The times of an answer with an error (the defaults of DelegationTokenControlManager's answers)."""


def _enabled(broker: Broker, call: Call) -> DelegationTokens:
    """The tokens, for a client that may use them. Raises PeerError."""
    connection = call.connection
    is_by_token = connection.login is not None and connection.login.is_by_token
    if connection.principal == ANONYMOUS or is_by_token:
        raise PeerError(ErrorCode.delegation_token_request_not_allowed)
    if broker.delegation_tokens is None:
        raise PeerError(ErrorCode.delegation_token_auth_disabled)
    return broker.delegation_tokens


def _may_create_for(broker: Broker, call: Call, owner: str) -> bool:
    """Whether the client may create tokens of another owner (KIP-373): never without an authorizer, where Kafka lets it."""
    rights = broker.authorization
    return rights.is_active and rights.allows(call, Operation.CREATE_TOKENS, ResourceType.USER, owner)


def _may_describe(broker: Broker, call: Call, token: DelegationToken) -> bool:
    """Whether the client may see a token: its own, or one that an ACL names, by its id or its owner (KIP-373)."""
    rights = broker.authorization
    return call.connection.principal in token.principals or (
        rights.is_active
        and (
            rights.may_see(call, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or rights.may_see(call, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        )
    )


# ------------------------------------------------------------------------------------------------------------- create


def create_delegation_token(broker: Broker, call: Call) -> Outcome:
    """Create a token; its HMAC is in this answer, and in those of DescribeDelegationToken."""
    request, requester = call.request, call.connection.principal
    owner = requester
    if call.version >= _OWNER_VERSION and request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    try:
        tokens = _enabled(broker, call)
        renewers = _renewers(request.renewers)
        if owner != requester:
            _check_principal(*owner.partition(":")[::2])
            if not _may_create_for(broker, call, owner):
                raise PeerError(ErrorCode.delegation_token_authorization_failed)
        if len(broker.image.delegation_tokens) >= DELEGATION_TOKENS_MAX:
            raise PeerError(ErrorCode.policy_violation, "there are too many delegation tokens")
    except PeerError as error:
        return Now(_created(owner, requester, error, None, b""))
    token = tokens.new(owner, requester, renewers, milliseconds(request.max_lifetime))
    return Later(_Creation(broker, call, tokens, token))


_OWNER_VERSION: Final = 3


def _renewers(named: Iterable[Any]) -> tuple[str, ...]:
    """The principals of renewers. Raises PeerError."""
    found = dict.fromkeys((renewer.principal_type, renewer.principal_name) for renewer in named)
    if len(found) > RENEWERS_PER_TOKEN_MAX:
        raise PeerError(ErrorCode.invalid_request, f"a token has at most {RENEWERS_PER_TOKEN_MAX} renewers")
    for kind, name in found:
        _check_principal(kind, name)
    return tuple(f"{kind}:{name}" for kind, name in found)


def _check_principal(kind: str, name: str) -> None:
    if kind != _USER:
        raise PeerError(ErrorCode.invalid_principal_type)
    if problem := bad_user(name):
        raise PeerError(ErrorCode.invalid_request, problem)


def _created(owner: str, requester: str, error: PeerError | None, token: DelegationToken | None, hmac: bytes) -> Fields:
    is_made = token is not None and error is None
    times = (token.issued_ms, token.expires_ms, token.max_ms) if is_made and token else (_NO_TIME,) * 3
    return {
        "error_code": ErrorCode.none if error is None else error.error_code,
        **_principal(owner),
        **_principal(requester, "token_requester_"),
        "issue_timestamp": times[0],
        "expiry_timestamp": times[1],
        "max_timestamp": times[2],
        "token_id": token.token_id if is_made and token else "",
        "hmac": hmac if is_made else b"",
    }


def _principal(principal: str, prefix: str = "") -> Fields:
    kind, _, name = principal.partition(":")
    return {f"{prefix}principal_type": kind, f"{prefix}principal_name": name}


class _Creation(DelayedMetadataChanges[str]):
    """The answer to CreateDelegationToken: a job computes the credentials, and then the metadata get the token."""

    __slots__ = ("_broker", "_is_computed", "_token", "_tokens")

    def __init__(self, broker: Broker, call: Call, tokens: DelegationTokens, token: DelegationToken) -> None:
        super().__init__(broker, call, _TIMEOUT_MS, self._answer_of)
        self._broker, self._tokens, self._token = broker, tokens, token
        self._is_computed = False
        broker.jobs.run("login", tokens.credentials_plan(token), self._computed)

    def _computed(self, credentials: Mapping[str, str] | None, error: BaseException | None) -> None:
        if self.finished:
            return
        self._is_computed = True
        if credentials is None or error is not None:
            self.refuse(self._token.token_id, PeerError(ErrorCode.unknown_server_error, type(error).__name__))
        else:
            configs = {**self._token.to_configs(), **credentials}
            self.change(self._token.token_id, plan_alter(TOKEN, self._token.token_id, configs))
        if self.is_done():
            self._broker.purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether the token is in the metadata, or was refused."""
        return self._is_computed and super().is_done()

    def on_expiration(self) -> Outcome:
        """Answer with REQUEST_TIMED_OUT: the token may still appear, and then expires unused."""
        self.refuse(self._token.token_id, PeerError(ErrorCode.request_timed_out))
        return super().on_expiration()

    def _answer_of(self, results: dict[str, PeerError | None]) -> Outcome:
        token = self._token
        error, hmac = results.get(token.token_id), self._tokens.hmac(token.token_id)
        return Now(_created(token.owner, token.requester, error, token, hmac))


# ---------------------------------------------------------------------------------------------------- renew and expire


def renew_delegation_token(broker: Broker, call: Call) -> Outcome:
    """Renew a token, also one that another broker has just created."""
    return from_newest_image(broker, call, _TIMEOUT_MS, _renew, is_needed=_is_unknown(broker, call))


def expire_delegation_token(broker: Broker, call: Call) -> Outcome:
    """Set the end of a token, or remove it at once; also of one that another broker has just created."""
    return from_newest_image(broker, call, _TIMEOUT_MS, _expire, is_needed=_is_unknown(broker, call))


def _is_unknown(broker: Broker, call: Call) -> bool:
    """Whether the client may use tokens, and names one that this image lacks."""
    try:
        return _enabled(broker, call).find(bytes(call.request.hmac)) is None
    except PeerError:
        return False


def _renew(broker: Broker, call: Call) -> Outcome:
    def planned(tokens: DelegationTokens, token: DelegationToken) -> tuple[int, Sequence[StoreRequest]]:
        _refuse_expired(broker, token)
        _refuse_stranger(call, token)
        expires_ms = tokens.renewed_ms(token, milliseconds(call.request.renew_period))
        return expires_ms, tokens.plan_end(token, expires_ms)

    return _change(broker, call, planned)


def _expire(broker: Broker, call: Call) -> Outcome:
    """With a negative period the token is removed."""
    period_ms = milliseconds(call.request.expiry_time_period)

    def planned(tokens: DelegationTokens, token: DelegationToken) -> tuple[int, Sequence[StoreRequest]]:
        _refuse_stranger(call, token)
        now_ms = broker.context.clock.wall_ms
        if period_ms < 0:
            return now_ms, plan_alter(TOKEN, token.token_id, {}, replace=True)
        _refuse_expired(broker, token)
        expires_ms = min(token.max_ms, now_ms + period_ms)
        return expires_ms, tokens.plan_end(token, expires_ms)

    return _change(broker, call, planned)


def _refuse_expired(broker: Broker, token: DelegationToken) -> None:
    if token.has_expired(broker.context.clock.wall_ms):
        raise PeerError(ErrorCode.delegation_token_expired)


def _refuse_stranger(call: Call, token: DelegationToken) -> None:
    if not token.may_renew(call.connection.principal):
        raise PeerError(ErrorCode.delegation_token_owner_mismatch)


def _change(
    broker: Broker,
    call: Call,
    planned: Callable[[DelegationTokens, DelegationToken], tuple[int, Sequence[StoreRequest]]],
) -> Outcome:
    """Answer with the token's end that `planned` returns with its change, or with the error that it raises.

    It is called again with the token of the newer image if another broker has changed the token meanwhile.
    """
    expires_ms = _NO_TIME

    def build(results: dict[str, PeerError | None]) -> Outcome:
        error = results.get(TOKEN)
        return _ended(error, expires_ms if error is None else _NO_TIME)

    def plan() -> Sequence[StoreRequest]:
        nonlocal expires_ms
        tokens = _enabled(broker, call)
        token = tokens.find(bytes(call.request.hmac))
        if token is None:
            raise PeerError(ErrorCode.delegation_token_not_found)
        expires_ms, requests = planned(tokens, token)
        return requests

    waiting = DelayedMetadataChanges(broker, call, _TIMEOUT_MS, build)
    waiting.change_from_image(TOKEN, plan)
    return waiting.outcome()


def _ended(error: PeerError | None, expires_ms: int) -> Outcome:
    error_code = ErrorCode.none if error is None else error.error_code
    return Now({"error_code": error_code, "expiry_timestamp": expires_ms})


# ----------------------------------------------------------------------------------------------------------- describe


def describe_delegation_token(broker: Broker, call: Call) -> Outcome:
    """Describe the client's tokens, all or those of the named owners, with their HMACs."""
    try:
        tokens = _enabled(broker, call)
    except PeerError as error:
        return Now({"error_code": error.error_code, "tokens": []})
    owners = call.request.owners
    wanted = None if owners is None else {f"{owner.principal_type}:{owner.principal_name}" for owner in owners}
    found = [
        _described(token, hmac)
        for token, hmac in tokens.all()
        if (wanted is None or not wanted.isdisjoint(token.principals)) and _may_describe(broker, call, token)
    ]
    return Now({"error_code": ErrorCode.none, "tokens": found})


def _described(token: DelegationToken, hmac: bytes) -> Fields:
    return {
        **_principal(token.owner),
        **_principal(token.requester, "token_requester_"),
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expires_ms,
        "max_timestamp": token.max_ms,
        "token_id": token.token_id,
        "hmac": hmac,
        "renewers": [_principal(renewer) for renewer in token.renewers],
    }


_OWN: Final = ("without an authorizer: tokens of other owners",)
_LONG: Final = ("a duration of more than 2^63 µs closes the connection",)
APIS = (
    Api(38, "CreateDelegationToken", range(1, 4), create_delegation_token, _OWN + _LONG),
    Api(39, "RenewDelegationToken", range(1, 3), renew_delegation_token, _LONG),
    Api(40, "ExpireDelegationToken", range(1, 3), expire_delegation_token, _LONG),
    Api(41, "DescribeDelegationToken", range(1, 4), describe_delegation_token, _OWN),
)
