"""How a listener verifies access tokens: Kafka's `sasl.oauthbearer.*` configs (KIP-768, KIP-1139) as values.

`yak.security.access_tokens` verifies the tokens. It loads a library for signatures, so a broker without OAUTHBEARER
imports neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from yak.config.definitions import Value
from yak.config.oauth_configs import OAUTH_CONFIGS, UNSECURED_HANDLER
from yak.errors import LoginRefused, UsageError

_BY_NAME: Final = {definition.name: definition for definition in OAUTH_CONFIGS}


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a valid token must say."""

    audiences: frozenset[str]
    """A token with an audience must have one of these, also when there are none (jose4j's AudValidator)."""
    issuer: str | None
    scope_claim: str
    sub_claim: str
    """The claim with the user's name."""
    clock_skew_s: int
    """How far the clocks of the issuer and of this broker may differ."""


class UnknownKey(LoginRefused):
    """The token names a key that the set does not have: the issuer may have a new one."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What a verified token says: the user, and its end in ms since the epoch."""

    user: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """The configs in force for one listener. Listeners with equal ones share their keys."""

    jwks_url: str
    """`file:`, `http:` or `https:`; empty for the unsecured validator, which needs no keys."""
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    expectations: Expectations

    @property
    def is_unsecured(self) -> bool:
        """Whether tokens without a signature are accepted, and no others: for tests (KIP-255)."""
        return not self.jwks_url

    @classmethod
    def of_listener(cls, name: str, value_of: Mapping[str, str]) -> OAuthSettings:
        """The settings of a listener from the broker's configs.

        `listener.name.<name>.oauthbearer.` and `listener.name.<name>.` in front of a config override it (KIP-103). Raises
        UsageError (`oauth-config`).
        """
        prefix = f"listener.name.{name.lower()}."

        def text(config: str) -> str | None:
            for each in (f"{prefix}oauthbearer.{config}", f"{prefix}{config}", config):
                if value_of.get(each, "").strip():
                    return value_of[each].strip()
            return _BY_NAME[config].default

        def value(config: str) -> Value | None:
            found = text(config)
            return None if found is None else _BY_NAME[config].accept(found)

        def number(config: str) -> int:
            found = value(config)
            assert isinstance(found, int)
            return found

        url = text("sasl.oauthbearer.jwks.endpoint.url") or ""
        if text("sasl.server.callback.handler.class") == UNSECURED_HANDLER:
            url = ""
        elif urlsplit(url).scheme not in ("file", "http", "https"):
            raise _no_keys(name, url)
        audiences = value("sasl.oauthbearer.expected.audience")
        return cls(
            jwks_url=url,
            refresh_ms=number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            retry_backoff_ms=number("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
            retry_backoff_max_ms=number("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
            expectations=Expectations(
                frozenset(audiences if isinstance(audiences, list) else ()),
                text("sasl.oauthbearer.expected.issuer"),
                text("sasl.oauthbearer.scope.claim.name") or "scope",
                text("sasl.oauthbearer.sub.claim.name") or "sub",
                number("sasl.oauthbearer.clock.skew.seconds"),
            ),
        )


def _no_keys(listener: str, url: str) -> UsageError:
    why = f"{url!r} is no file:, http: or https: URL" if url else "sasl.oauthbearer.jwks.endpoint.url is not set"
    return UsageError(
        "oauth-config",
        f"listener {listener} cannot verify the tokens of OAUTHBEARER",
        why=why,
        try_=("-c sasl.oauthbearer.jwks.endpoint.url=https://HOST/jwks.json", "yak help oauth-config"),
    )
