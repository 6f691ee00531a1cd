"""The broker's `sasl.oauthbearer.*` configs: Kafka's names, types and defaults (SaslConfigs, BrokerSecurityConfigs).

Each may be set for one listener: `listener.name.<name>.sasl.oauthbearer...`, or with `oauthbearer.` behind the prefix
(KIP-103, KIP-86).
"""

import re
from typing import Final

from yak.config.definitions import ConfigDef, ConfigType, at_least, define, one_of

_STRING, _LONG = ConfigType.STRING, ConfigType.LONG
_OF_ONE_LISTENER: Final = re.compile(r"listener\.name\.[^.\sA-Z]+\.(?:oauthbearer\.)?(sasl\..+)")
UNSECURED_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    UNSECURED_HANDLER,
)

OAUTH_CONFIGS: Final = (
    define("sasl.oauthbearer.jwks.endpoint.url", _STRING, None)(
        "The JSON Web Key Set (RFC 7517) with the keys that sign access tokens: a file:, https: or http: URL."
    ),
    define("sasl.oauthbearer.jwks.endpoint.refresh.ms", _LONG, "3600000", at_least(1))(
        "How often the key set is read again. A token with an unknown key makes the broker read it earlier."
    ),
    define("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", _LONG, "100", at_least(1))(
        "First pause after the key set could not be read; each failure doubles it."
    ),
    define("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", _LONG, "10000", at_least(1))(
        "Longest pause after the key set could not be read."
    ),
    define("sasl.oauthbearer.expected.audience", ConfigType.LIST, None)(
        "An access token must be for one of these audiences; not set: tokens without an audience only, as in Kafka."
    ),
    define("sasl.oauthbearer.expected.issuer", _STRING, None)("The issuer of access tokens; not set: any."),
    define("sasl.oauthbearer.scope.claim.name", _STRING, "scope")("The claim of an access token with its scopes."),
    define("sasl.oauthbearer.sub.claim.name", _STRING, "sub")("The claim of an access token with the user's name."),
    define("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, "30", at_least(0))(
        "How far the clocks of the issuer and of this broker may differ."
    ),
    define("sasl.server.callback.handler.class", ConfigType.CLASS, None, one_of(*_HANDLERS))(
        "How OAUTHBEARER verifies tokens; default: by their signature. Kafka's OAuthBearerUnsecuredValidatorCallbackHandler "
        "takes tokens without one, for tests."
    ),
)
_BY_NAME: Final = {definition.name: definition for definition in OAUTH_CONFIGS}


def of_one_listener(name: str) -> ConfigDef | None:
    """The definition behind `listener.name.<name>.[oauthbearer.]sasl...`; None for any other name."""
    found = _OF_ONE_LISTENER.fullmatch(name)
    return _BY_NAME.get(found[1]) if found else None
