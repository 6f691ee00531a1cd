"""The delegation tokens of the cluster, as one broker sees them: found by id and by HMAC, and removed once expired.

Tokens are configs in the metadata (`yak.cluster.records.TOKEN`), which every broker has. The controller removes expired
ones. Imported only where `delegation.token.secret.key` is set.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from yak.cluster.changes import BeginChange
from yak.cluster.records import TOKEN
from yak.cluster.topic_changes import plan_alter
from yak.core.context import Context
from yak.errors import LoginRefused, PeerError
from yak.ids import NodeId
from yak.limits import DELEGATION_TOKENS_REMOVED_AT_ONCE
from yak.ports.disk import Disk
from yak.ports.metadata_store import StoreRequest
from yak.ports.random_source import RandomSource
from yak.security.delegation_tokens import EXPIRES, DelegationToken, hmac_of, new_credentials
from yak.security.scram import SALT_BYTES, Mechanism

_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CredentialsOfToken:
    """A plan to compute a token's SCRAM credentials, which takes milliseconds. Its `repr` hides the HMAC."""

    hmac: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    def run(self, disk: Disk) -> dict[str, str]:  # noqa: ARG002
        """The credentials by mechanism."""
        return new_credentials(self.hmac, self.salt)


class _ReadToken(NamedTuple):
    """A token of the image: None if it is not whole."""

    configs: Mapping[str, str]
    token: DelegationToken | None
    hmac: bytes


class DelegationTokens:
    """Tokens by id and by HMAC."""

    def __init__(
        self, context: Context, node_id: NodeId, rng: RandomSource, begin_change: BeginChange, secret_key: str
    ) -> None:
        self._context, self._node_id, self._rng, self._begin_change = context, node_id, rng, begin_change
        self._secret_key = secret_key
        self._tokens: Mapping[str, Mapping[str, str]] = {}
        """The tokens of the image from which `_read` and `_by_hmac` were made."""
        self._read: dict[str, _ReadToken] = {}
        self._by_hmac: dict[bytes, _ReadToken] = {}
        self._check_later()

    def all(self) -> Iterator[tuple[DelegationToken, bytes]]:
        """All tokens with their HMACs, by id."""
        self._read_tokens()
        for _token_id, read in sorted(self._read.items()):
            if read.token is not None:
                yield read.token, read.hmac

    def find(self, token_hmac: bytes) -> DelegationToken | None:
        """The token with this HMAC."""
        self._read_tokens()
        found = self._by_hmac.get(token_hmac)
        return None if found is None else found.token

    def hmac(self, token_id: str) -> bytes:
        """The HMAC of a token."""
        return hmac_of(self._secret_key, token_id)

    def _read_tokens(self) -> None:
        """Read what changed since the last time: there may be thousands of tokens."""
        tokens = self._context.image.delegation_tokens
        if tokens is self._tokens:
            return
        before = self._read
        self._read = {
            token_id: found
            if (found := before.get(token_id)) is not None and found.configs is configs
            else _ReadToken(configs, DelegationToken.of_configs(token_id, configs), self.hmac(token_id))
            for token_id, configs in tokens.items()
        }
        self._by_hmac = {read.hmac: read for read in self._read.values()}
        self._tokens = tokens

    # ---------------------------------------------------------------------------------------------------- logins

    def credential(self, mechanism: Mechanism, token_id: str) -> str:
        """The credential of a token (`ScramCredential.to_text`); empty for an unknown one."""
        return self._context.image.delegation_tokens.get(token_id, {}).get(mechanism.name, "")

    def owner_of(self, token_id: str) -> tuple[str, int]:
        """The user that owns a token and the token's end, for a client that has proven it. Raises LoginRefused."""
        configs = self._context.image.delegation_tokens.get(token_id)
        token = None if configs is None else DelegationToken.of_configs(token_id, configs)
        if token is None or token.has_expired(self._context.clock.wall_ms):
            raise LoginRefused(f"Token Authentication failed: the token {token_id} has expired")
        return token.owner.removeprefix("User:"), min(token.expires_ms, token.max_ms)

    # --------------------------------------------------------------------------------------------------- changes

    def new(self, owner: str, requester: str, renewers: tuple[str, ...], max_lifetime_ms: int) -> DelegationToken:
        """A new token without its credentials; a lifetime of 0 and less is the longest allowed one."""
        config, now_ms = self._context.config, self._context.clock.wall_ms
        lifetime_ms = config.delegation_token_max_lifetime_ms
        if max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, max_lifetime_ms)
        max_ms = min(now_ms + lifetime_ms, _LONG_MAX)
        expires_ms = min(max_ms, now_ms + config.delegation_token_expiry_time_ms)
        # Kafka's Uuid in base64, and like it without a dash in front, which commands would take for an option
        token_id = "-"  # noqa: S105 - an id, no secret
        while token_id.startswith("-"):
            token_id = base64.urlsafe_b64encode(self._rng.uuid4().bytes).decode().rstrip("=")
        return DelegationToken(token_id, owner, requester, renewers, now_ms, expires_ms, max_ms, {})

    def credentials_plan(self, token: DelegationToken) -> CredentialsOfToken:
        """The plan of the job that computes a token's credentials."""
        return CredentialsOfToken(self.hmac(token.token_id), self._rng.secret_bytes(SALT_BYTES))

    def renewed_ms(self, token: DelegationToken, period_ms: int) -> int:
        """The end of a token that is renewed for a period; 0 and less is the longest allowed one."""
        longest_ms = self._context.config.delegation_token_expiry_time_ms
        period_ms = min(longest_ms, period_ms) if period_ms > 0 else longest_ms
        return min(token.max_ms, self._context.clock.wall_ms + period_ms)

    def plan_end(self, token: DelegationToken, expires_ms: int) -> tuple[StoreRequest, ...]:
        """Plan another end of a token, which the store refuses if another broker has changed or removed the token."""
        return plan_alter(TOKEN, token.token_id, {EXPIRES: str(expires_ms)}, {EXPIRES: str(token.expires_ms)})

    # ------------------------------------------------------------------------------------------------ the removal

    def _check_later(self) -> None:
        interval_ms = self._context.config.delegation_token_expiry_check_interval_ms
        self._context.after("delegation tokens", interval_ms, self._remove_expired)

    def _remove_expired(self) -> None:
        """Remove expired tokens, and those that are not whole, if this broker is the controller."""
        self._check_later()
        image, now_ms = self._context.image, self._context.clock.wall_ms
        if image.controller_id != self._node_id:
            return
        expired = []
        for token_id, configs in image.delegation_tokens.items():
            token = DelegationToken.of_configs(token_id, configs)
            if token is None or token.has_expired(now_ms):
                expired.append((token_id, configs.get(EXPIRES)))
        for token_id, expires_ms in expired[:DELEGATION_TOKENS_REMOVED_AT_ONCE]:
            self._remove(token_id, expires_ms)

    def _remove(self, token_id: str, expires_ms: str | None) -> None:
        """Remove a token, unless the store has another end of it: another broker has renewed the token."""

        def done(error: PeerError | None, values: tuple[dict[str, Any], ...]) -> None:
            if error is None and "code" not in values[0]:
                self._context.notice("info", "delegation-token-expired", token=token_id)

        try:
            self._begin_change(plan_alter(TOKEN, token_id, {EXPIRES: None}, {EXPIRES: expires_ms}, replace=True), done)
        except PeerError as error:
            self._context.notice("warning", "delegation-token-not-removed", token=token_id, reason=error.message)
