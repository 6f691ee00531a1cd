"""The settings of OAUTHBEARER for a listener: defaults, overrides with a prefix, and what is refused."""

import pytest

from yak.config.broker_configs import BrokerConfig
from yak.config.oauth_configs import UNSECURED_HANDLER
from yak.errors import UsageError
from yak.security.oauth_settings import OAuthSettings

URL, HANDLER = "sasl.oauthbearer.jwks.endpoint.url", "sasl.server.callback.handler.class"


def settings_of(listener="SASL_SSL", **configs):
    given = {name: value for name, value in configs.items() if not name.startswith("_")}
    BrokerConfig.from_settings(given)
    return OAuthSettings.of_listener(listener, given)


def test_defaults_are_kafkas():
    found = settings_of(**{URL: "https://issuer/keys"})
    assert (found.refresh_ms, found.retry_backoff_ms, found.retry_backoff_max_ms) == (3_600_000, 100, 10_000)
    expected = found.expectations
    assert (expected.audiences, expected.issuer, expected.scope_claim, expected.sub_claim, expected.clock_skew_s) == (
        frozenset(),
        None,
        "scope",
        "sub",
        30,
    )
    assert not found.is_unsecured


def test_prefix_of_the_listener_and_of_the_mechanism_override():
    configs = {
        URL: "https://a/keys",
        f"listener.name.sasl_ssl.{URL}": "https://b/keys",
        f"listener.name.other.oauthbearer.{URL}": "file:///keys",
        "listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.audience": "x, y",
        "sasl.oauthbearer.expected.audience": "z",
    }
    assert settings_of("SASL_SSL", **configs).jwks_url == "https://b/keys"
    assert settings_of("SASL_SSL", **configs).expectations.audiences == {"x", "y"}
    assert settings_of("OTHER", **configs).jwks_url == "file:///keys"
    assert settings_of("THIRD", **configs).jwks_url == "https://a/keys"
    assert settings_of("THIRD", **configs) == settings_of("FOURTH", **configs)


def test_unsecured_validator_must_be_named():
    assert settings_of(**{f"listener.name.sasl_ssl.oauthbearer.{HANDLER}": UNSECURED_HANDLER}).is_unsecured
    secured = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    assert not settings_of(**{HANDLER: secured, URL: "https://a"}).is_unsecured
    with pytest.raises(UsageError, match="callback"):
        settings_of(**{HANDLER: "com.example.Handler"})


@pytest.mark.parametrize("url", ["", "ftp://a/b", "/etc/keys", "keys.json"])
def test_listener_without_keys_is_refused(url):
    with pytest.raises(UsageError) as caught:
        settings_of(**{URL: url})
    assert caught.value.code == "oauth-config"


@pytest.mark.parametrize(
    "config", [{"sasl.oauthbearer.clock.skew.seconds": "-1"}, {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}]
)
def test_bad_value_is_refused_also_with_a_prefix(config):
    ((name, value),) = config.items()
    for prefix in ("", "listener.name.a.", "listener.name.a.oauthbearer."):
        with pytest.raises(UsageError) as caught:
            BrokerConfig.from_settings({prefix + name: value})
        assert caught.value.code == "bad-config"
    with pytest.raises(UsageError, match="no broker config"):
        BrokerConfig.from_settings({f"listener.name.a.plain.{name}": value})
