"""Kafka's listener configs (SocketServerConfigs.listenerListToEndPoints, KafkaConfig)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.config.listeners import (
    Listener,
    Listeners,
    SecurityProtocol,
    parse_protocol_map,
    read_endpoints,
    write_endpoints,
)
from yak.errors import UsageError

_TWO = {
    "listeners": "INTERNAL://10.0.0.1:9092,EXTERNAL://0.0.0.0:19092",
    "advertised.listeners": "INTERNAL://10.0.0.1:9092,EXTERNAL://localhost:29092",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL",
}


def test_two_listeners_have_their_own_protocols_and_addresses() -> None:
    found = Listeners.from_settings(_TWO | {"inter.broker.listener.name": "INTERNAL"})
    assert found.bound == (
        Listener("INTERNAL", SecurityProtocol.PLAINTEXT, "10.0.0.1", 9092),
        Listener("EXTERNAL", SecurityProtocol.SASL_SSL, "0.0.0.0", 19092),
    )
    assert [str(each) for each in found.advertised] == ["INTERNAL://10.0.0.1:9092", "EXTERNAL://localhost:29092"]
    assert found.inter_broker == Listener("INTERNAL", SecurityProtocol.PLAINTEXT, "10.0.0.1", 9092)
    assert Listeners.from_settings(found.settings) == found


def test_first_advertised_listener_serves_other_brokers_by_default() -> None:
    assert Listeners.from_settings(_TWO).inter_broker_name == "INTERNAL"
    chosen = Listeners.from_settings(_TWO | {"inter.broker.listener.name": "external"})
    assert chosen.inter_broker.port == 29092


def test_protocol_names_need_no_map() -> None:
    found = Listeners.from_settings({"listeners": "PLAINTEXT://h:1,SSL://h:2"})
    assert [each.security_protocol for each in found.advertised] == [SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL]
    chosen = Listeners.from_settings(
        {"listeners": "PLAINTEXT://h:1,SSL://h:2", "security.inter.broker.protocol": "SSL"}
    )
    assert chosen.inter_broker_name == "SSL"


def test_controller_listener_is_bound_and_not_advertised() -> None:
    settings = {"listeners": "PLAINTEXT://h:1,CONTROLLER://h:2", "controller.listener.names": "CONTROLLER"}
    found = Listeners.from_settings(settings)
    assert [each.name for each in found.bound] == ["PLAINTEXT", "CONTROLLER"]
    assert [each.name for each in found.advertised] == ["PLAINTEXT"]


def test_controller_listener_among_the_advertised_is_left_out_as_by_kafka() -> None:
    settings = {
        "listeners": "PLAINTEXT://h:1,CONTROLLER://h:2",
        "advertised.listeners": "PLAINTEXT://broker:1,CONTROLLER://broker:2",
        "controller.listener.names": "CONTROLLER",
    }
    assert [str(each) for each in Listeners.from_settings(settings).advertised] == ["PLAINTEXT://broker:1"]


def test_ports_of_zero_become_the_bound_ports() -> None:
    found = Listeners.from_settings(
        {"listeners": "PLAINTEXT://h:0,SSL://h:0", "advertised.listeners": "PLAINTEXT://x:0,SSL://x:7"}
    ).with_ports([5, 6])
    assert [str(each) for each in found.bound] == ["PLAINTEXT://h:5", "SSL://h:6"]
    assert [str(each) for each in found.advertised] == ["PLAINTEXT://x:5", "SSL://x:7"]


def test_ipv4_and_ipv6_listeners_may_share_a_port() -> None:
    found = Listeners.from_settings({"listeners": "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092"})
    assert [each.host for each in found.bound] == ["127.0.0.1", "::1"]
    assert str(found.bound[1]) == "SSL://[::1]:9092"


@pytest.mark.parametrize(
    ("settings", "slug", "word"),
    [
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "bad-listeners", "different name"),
        ({"listeners": "PLAINTEXT://a:1,SSL://b:1"}, "bad-listeners", "different port"),
        ({"listeners": "PLAINTEXT://1.1.1.1:1,SSL://2.2.2.2:1"}, "bad-listeners", "different port"),
        ({"listeners": "OTHER://a:1"}, "bad-listeners", "no security protocol"),
        ({"listeners": ""}, "bad-listeners", "at least one"),
        ({"listeners": "PLAINTEXT://a"}, "bad-listeners", "NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://a:65536"}, "bad-listeners", "NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "bad-advertised", "every address"),
        ({"listeners": "PLAINTEXT://:9092"}, "bad-advertised", "every address"),
        ({"listeners": "PLAINTEXT://a:1", "advertised.listeners": "SSL://a:1"}, "bad-listeners", "no listener of"),
        ({"listeners": "PLAINTEXT://a:1", "listener.security.protocol.map": "PLAINTEXT"}, "bad-listeners", "NAME:PROT"),
        ({"listeners": "A://a:1", "listener.security.protocol.map": "A:TLS"}, "bad-listeners", "no security protocol"),
        (
            {"listeners": "A://a:1", "listener.security.protocol.map": "A:SSL,A:SSL"},
            "bad-listeners",
            "A is named twice",
        ),
        ({"listeners": "PLAINTEXT://a:1", "inter.broker.listener.name": "B"}, "bad-listeners", "does not name B"),
        ({"listeners": "PLAINTEXT://a:1", "inter.broker.listener.name": "SSL"}, "bad-listeners", "not advertised"),
        (
            _TWO | {"inter.broker.listener.name": "INTERNAL", "security.inter.broker.protocol": "PLAINTEXT"},
            "bad-listeners",
            "both choose",
        ),
        (
            {"listeners": "CONTROLLER://a:1", "controller.listener.names": "CONTROLLER"},
            "bad-listeners",
            "at least one",
        ),
        (
            {
                "listeners": "PLAINTEXT://a:1,CONTROLLER://a:2",
                "advertised.listeners": "CONTROLLER://a:2",
                "controller.listener.names": "CONTROLLER",
            },
            "bad-listeners",
            "at least one",
        ),
    ],
)
def test_invalid_listeners_are_refused_with_the_reason(settings: dict[str, str], slug: str, word: str) -> None:
    with pytest.raises(UsageError) as refused:
        Listeners.from_settings(settings)
    assert refused.value.code == slug
    assert word in refused.value.why


def test_default_map_has_each_protocol_under_its_name_and_controllers_in_plaintext() -> None:
    found = parse_protocol_map(None, ("CONTROLLER",))
    assert found["SASL_SSL"] is SecurityProtocol.SASL_SSL
    assert found["CONTROLLER"] is SecurityProtocol.PLAINTEXT
    assert (SecurityProtocol.SASL_SSL.uses_tls, SecurityProtocol.SASL_SSL.uses_sasl) == (True, True)
    assert (SecurityProtocol.PLAINTEXT.uses_tls, SecurityProtocol.PLAINTEXT.uses_sasl) == (False, False)


_NAMES = st.text("ABCXYZ_-019.", min_size=1, max_size=8)
_HOSTS = st.sampled_from(("localhost", "10.0.0.1", "::1", "broker-1.example", "fe80::1%eth0"))
_LISTENERS = st.builds(Listener, _NAMES, st.sampled_from(SecurityProtocol), _HOSTS, st.integers(1, 65_535))


@given(st.lists(_LISTENERS, min_size=1, unique_by=(lambda each: each.name, lambda each: each.port)))
def test_endpoints_and_configs_are_read_as_written(listeners: list[Listener]) -> None:
    every = tuple(listeners)
    assert read_endpoints(write_endpoints(every)) == every
    whole = Listeners(every, every, every[-1].name)
    assert Listeners.from_settings(whole.settings) == whole


@given(st.text(max_size=40))
def test_any_text_is_listeners_or_a_usage_error(text: str) -> None:
    try:
        found = Listeners.from_settings({"listeners": text})
    except UsageError:
        return
    assert found.bound
