"""Delegation tokens (KIP-48): an id and an HMAC, with which a client logs in by SCRAM as the user that owns the token.

The HMAC comes from the brokers' secret and the id, and is never stored: the metadata have the token's SCRAM credentials,
as those of a user (Kafka's DelegationTokenData stores less, and each broker computes the credentials).
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from yak.security.scram import ITERATIONS_MIN, MECHANISMS

_TIMES: Final = ("issued_ms", "expires_ms", "max_ms")
EXPIRES: Final = "expires_ms"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token as the metadata have it. Principals are Kafka's: `User:ann`. Times are in ms since the epoch."""

    token_id: str
    owner: str
    """The principal of clients that log in with the token."""
    requester: str
    """The principal that requested the token, usually the owner."""
    renewers: tuple[str, ...]
    """Principals that may renew and expire it, beside the owner."""
    issued_ms: int
    expires_ms: int
    max_ms: int
    """It cannot be renewed beyond this time."""
    credentials: Mapping[str, str] = field(repr=False)
    """SCRAM credentials by mechanism (`ScramCredential.to_text`)."""

    def may_renew(self, principal: str) -> bool:
        """Whether a principal may renew and expire the token (DelegationTokenControlManager.allowedToRenew)."""
        return principal == self.owner or principal in self.renewers

    @property
    def principals(self) -> tuple[str, ...]:
        """The principals that may describe the token (TokenInformation.ownerOrRenewer)."""
        return self.owner, self.requester, *self.renewers

    def has_expired(self, now_ms: int) -> bool:
        """Whether the token is not valid any more."""
        return min(self.expires_ms, self.max_ms) < now_ms

    def to_configs(self) -> dict[str, str]:
        """The token as configs of a resource in the metadata."""
        times = {name: str(getattr(self, name)) for name in _TIMES}
        about = {"owner": self.owner, "requester": self.requester, "renewers": json.dumps(self.renewers)}
        return {**about, **times, **self.credentials}

    @classmethod
    def of_configs(cls, token_id: str, configs: Mapping[str, str]) -> DelegationToken | None:
        """The token of `to_configs`; None when it is not whole: it was renewed while it was removed."""
        try:
            issued_ms, expires_ms, max_ms = (int(configs[name]) for name in _TIMES)
            renewers = tuple(map(str, json.loads(configs["renewers"])))
            credentials = {name: configs[name] for name in MECHANISMS}
            return cls(
                token_id, configs["owner"], configs["requester"], renewers, issued_ms, expires_ms, max_ms, credentials
            )
        except (KeyError, ValueError, TypeError):
            return None


def hmac_of(secret_key: str, token_id: str) -> bytes:
    """A token's HMAC (Kafka's DelegationTokenManager.createHmac)."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def password_of(token_hmac: bytes) -> str:
    """The password by which a client logs in with a token: its HMAC in base64."""
    return base64.b64encode(token_hmac).decode()


def new_credentials(token_hmac: bytes, salt: bytes) -> dict[str, str]:
    """A token's credentials by mechanism; takes milliseconds."""
    found = {}
    for mechanism in MECHANISMS.values():
        salted = mechanism.salt_password(password_of(token_hmac), salt, ITERATIONS_MIN)
        found[mechanism.name] = mechanism.credential(salted, salt, ITERATIONS_MIN).to_text()
    return found
