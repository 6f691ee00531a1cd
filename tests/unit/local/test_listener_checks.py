"""What `yak doctor` says of the brokers' listeners."""

import pytest

from yak.client.admin import ConfigValue
from yak.config.listeners import without_authentication
from yak.local.checks.network import check_authentication, check_between_brokers, settings_of

MAP = "INTERNAL:PLAINTEXT,EXTERNAL:SSL,LOGIN:SASL_SSL"
INSIDE = {
    "listeners": "INTERNAL://127.0.0.1:1,EXTERNAL://0.0.0.0:2",
    "advertised.listeners": "INTERNAL://127.0.0.1:1,EXTERNAL://broker:2",
    "listener.security.protocol.map": MAP,
}


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, []),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, []),
        ({"listeners": "PLAINTEXT://localhost:9092"}, []),
        ({"listeners": "PLAINTEXT://10.0.0.1:9092"}, ["PLAINTEXT"]),
        (INSIDE, ["EXTERNAL"]),
        (INSIDE | {"ssl.client.auth": "requested"}, ["EXTERNAL"]),
        (INSIDE | {"ssl.client.auth": "required"}, []),
        (INSIDE | {"ssl.client.auth": "required", "listener.name.external.ssl.client.auth": "none"}, ["EXTERNAL"]),
        (INSIDE | {"listener.name.external.ssl.client.auth": "required"}, []),
        ({"listeners": "LOGIN://:2", "advertised.listeners": "LOGIN://b:2", "listener.security.protocol.map": MAP}, []),
    ],
)
def test_listener_without_authentication_is_one_that_others_reach_without_login_or_certificate(settings, names):
    assert [each.name for each in without_authentication(settings)] == names


def test_authentication_warns_with_the_node_and_the_address():
    found = check_authentication({1: INSIDE | {"ssl.client.auth": "required"}, 2: INSIDE})
    assert (found.state, found.detail) == (
        "warn",
        "other machines connect without a login or a certificate: node 2 at EXTERNAL://0.0.0.0:2",
    )
    assert check_authentication({1: {"listeners": "PLAINTEXT://127.0.0.1:9092"}}).state == "ok"


@pytest.mark.parametrize(
    ("authentication", "address", "state"),
    [("none", "http://10.0.0.1:80", "warn"), ("none", "http://[::1]:80", "ok"), ("basic", "http://10.0.0.1:80", "ok")],
)
def test_http_beyond_this_machine_counts(authentication, address, state):
    settings = {"listeners": "PLAINTEXT://127.0.0.1:1", "yak.http.listeners": address}
    assert check_authentication({1: settings | {"yak.http.authentication": authentication}}).state == state


def test_brokers_with_the_same_inter_broker_listener_have_no_finding():
    assert check_between_brokers({1: INSIDE, 2: INSIDE}) == []


def test_broker_without_the_listener_of_another_fails():
    (found,) = check_between_brokers({1: INSIDE, 2: {"listeners": "PLAINTEXT://127.0.0.1:3"}})
    assert found.state == "FAIL"
    assert "node 2 has no listener INTERNAL, which node 1 uses for brokers" in found.detail
    assert "node 1 has no listener PLAINTEXT, which node 2 uses for brokers" in found.detail


def test_listener_with_two_protocols_fails():
    other = INSIDE | {"listener.security.protocol.map": "INTERNAL:SSL,EXTERNAL:SSL"}
    (found,) = check_between_brokers({1: INSIDE, 2: other})
    assert "listener INTERNAL is SSL on node 2, PLAINTEXT on node 1" in found.detail


def described(name: str, value: str, *, is_default: bool) -> ConfigValue:
    return ConfigValue(name, value, "default" if is_default else "static", is_default, True, False)


def test_default_protocol_that_kafka_describes_beside_the_name_of_a_listener_is_no_setting():
    by_name = described("inter.broker.listener.name", "INTERNAL", is_default=False)
    by_protocol = described("security.inter.broker.protocol", "PLAINTEXT", is_default=True)
    listeners = [described(name, value, is_default=False) for name, value in INSIDE.items()]
    settings = settings_of([*listeners, by_name, by_protocol])
    assert settings == INSIDE | {"inter.broker.listener.name": "INTERNAL"}
    assert check_between_brokers({1: settings}) == []
    assert "security.inter.broker.protocol" in settings_of([*listeners, by_protocol])


def test_listeners_that_cannot_be_read_are_skipped():
    (found,) = check_between_brokers({1: INSIDE, 2: {"listeners": "?"}})
    assert (found.state, found.detail) == ("skip", "node 2: listeners=? cannot be used")
