"""Delegation tokens (keys 38 to 41; KIP-48), for which librdkafka has no call."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from yak.client.errors import Change
from yak.client.raw_connection import Api, call_change, call_once
from yak.errors import YakError

_CREATE: Final = 38, 3
_RENEW: Final = 39, 2
_EXPIRE: Final = 40, 2
_DESCRIBE: Final = 41, 3
_LONGEST_OR_AT_ONCE_MS: Final = -1
"""The longest lifetime or period; of ExpireDelegationToken: at once."""
_USER: Final = "User"
_SHOWS: Final = "yak tokens list"
_TIMED_OUT: Final = "request_timed_out"
WHY: Final = {
    "delegation_token_auth_disabled": "delegation.token.secret.key is not set on the broker",
    "delegation_token_request_not_allowed": "the connection has no login, or one by a delegation token",
    "delegation_token_authorization_failed": "a token for another user needs an ACL",
    "delegation_token_owner_mismatch": "only the owner of the token and its renewers may change it",
    "delegation_token_expired": "the token has expired",
    "delegation_token_not_found": "the token does not exist any more",
}
_TRY: Final = {
    "delegation_token_auth_disabled": "yak serve --properties FILE          with delegation.token.secret.key",
    "delegation_token_request_not_allowed": "yak context add NAME -b HOST:PORT --login USER",
    "delegation_token_authorization_failed": "yak acls add --allow USER --operation create-tokens --user-principal OWNER",
    "delegation_token_owner_mismatch": _SHOWS,
    "delegation_token_expired": _SHOWS,
    "delegation_token_not_found": _SHOWS,
}


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token; times in ms since the epoch. Its `repr` hides the HMAC."""

    token_id: str
    owner: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The password of a login by SCRAM with the token."""
        return base64.b64encode(self.hmac).decode()


def create_token(
    address: str, renewers: Sequence[str], lifetime_ms: int | None, *, owner: str | None, timeout_s: float
) -> TokenInfo:
    """Create a token; None is the longest lifetime, and this user as owner. Raises Unreachable, YakError (`tokens-refused`)."""
    fields = {
        "owner_principal_type": _USER if owner else None,
        "owner_principal_name": owner,
        "renewers": [{"principal_type": _USER, "principal_name": name} for name in renewers],
        "max_lifetime": _LONGEST_OR_AT_ONCE_MS if lifetime_ms is None else lifetime_ms,
    }
    answer = _change(address, _CREATE, fields, Change("the token was", "created", _SHOWS), timeout_s)
    return TokenInfo(
        answer.token_id,
        answer.principal_name,
        tuple(renewers),
        _ms(answer.issue_timestamp),
        _ms(answer.expiry_timestamp),
        _ms(answer.max_timestamp),
        answer.hmac,
    )


def describe_tokens(address: str, *, timeout_s: float) -> list[TokenInfo]:
    """The tokens that this user owns or may renew. Raises Unreachable, YakError (`tokens-refused`)."""
    what = "the tokens could not be read"
    answer = _checked(call_once(address, _DESCRIBE, {"owners": None}, what, timeout_s), what)
    return [
        TokenInfo(
            each.token_id,
            each.principal_name,
            tuple(renewer.principal_name for renewer in each.renewers),
            int(each.issue_timestamp),
            int(each.expiry_timestamp),
            int(each.max_timestamp),
            each.hmac,
        )
        for each in sorted(answer.tokens, key=lambda each: str(each.token_id))
    ]


def find_token(address: str, token_id: str, *, timeout_s: float) -> TokenInfo:
    """The token with this id. Raises Unreachable, YakError (`unknown-token`, `tokens-refused`)."""
    for token in describe_tokens(address, timeout_s=timeout_s):
        if token.token_id == token_id:
            return token
    raise YakError("unknown-token", f"delegation token {token_id} does not exist", try_=(_SHOWS,))


def renew_token(address: str, token: TokenInfo, period_ms: int | None, *, timeout_s: float) -> int:
    """Renew a token; returns its new end. Raises Unreachable, YakError (`tokens-refused`)."""
    change = Change(f"token {token.token_id} was", "renewed", _SHOWS)
    fields = {"hmac": token.hmac, "renew_period": _LONGEST_OR_AT_ONCE_MS if period_ms is None else period_ms}
    return _ms(_change(address, _RENEW, fields, change, timeout_s).expiry_timestamp)


def expire_token(address: str, token: TokenInfo, period_ms: int | None, *, timeout_s: float) -> int:
    """End a token after a period, None: at once; returns its end. Raises Unreachable, YakError (`tokens-refused`)."""
    change = Change(f"token {token.token_id} was", "changed", _SHOWS)
    fields = {"hmac": token.hmac, "expiry_time_period": _LONGEST_OR_AT_ONCE_MS if period_ms is None else period_ms}
    return _ms(_change(address, _EXPIRE, fields, change, timeout_s).expiry_timestamp)


def _ms(time: dt.datetime) -> int:
    return round(time.timestamp() * 1000)


def _change(address: str, api: Api, fields: Mapping[str, object], change: Change, timeout_s: float) -> Any:
    answer = call_change(address, api, fields, change, timeout_s)
    try:
        return _checked(answer, change.not_made)
    except YakError as error:
        raise change.failure(error) from None


def _checked(answer: Any, what: str) -> Any:
    if answer.error_code:
        name = answer.error_code.name
        if name == _TIMED_OUT:
            raise YakError("timed-out", what, why="the brokers did not store the change in time", try_=(_SHOWS,))
        why, try_ = WHY.get(name, f"the broker answered {name.upper()}"), _TRY.get(name, "yak help tokens-refused")
        raise YakError("tokens-refused", what, why=why, try_=(try_,))
    return answer
