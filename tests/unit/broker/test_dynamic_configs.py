"""Broker configs that change while the broker runs (Kafka's DynamicBrokerConfig)."""

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.requests import BROKER, alter, describe
from tests.unit.noted_calls import note_calls
from yak.core.events import LimitConnections

DYNAMIC_DEFAULT, DYNAMIC_BROKER, DEFAULT = 3, 2, 5
CHANGES = [
    ("group.consumer.assignment.interval.ms", "2000", 2_000),
    ("log.cleaner.backoff.ms", "7", 7),
    ("log.cleaner.dedupe.buffer.size", "4096", 4096),
    ("max.connections", "50", 50),
    ("max.connections.per.ip", "9", 9),
    ("producer.id.expiration.ms", "60000", 60_000),
    ("transaction.partition.verification.enable", "false", False),
]


def altered(rig, name, value, *, resource="1"):
    return alter(rig, BROKER, resource, {name: value}).error_code


def described(rig, name):
    (row,) = describe(rig, BROKER, "1", [name]).configs
    return row.value, row.config_source, row.read_only


def in_force(rig, name):
    return getattr(rig.node.broker.context.config, name.replace(".", "_"))


@pytest.mark.parametrize(("name", "value", "parsed"), CHANGES)
def test_config_changes_for_all_brokers_and_for_one_while_the_broker_runs(rig, name, value, parsed):
    default = in_force(rig, name)
    assert described(rig, name)[1:] == (DEFAULT, False)
    assert altered(rig, name, value, resource="") == ErrorCode.none
    assert (in_force(rig, name), described(rig, name)) == (parsed, (value, DYNAMIC_DEFAULT, False))
    own = str(default).lower()
    assert altered(rig, name, own) == ErrorCode.none
    assert (in_force(rig, name), described(rig, name)) == (default, (own, DYNAMIC_BROKER, False))
    assert altered(rig, name, None) == ErrorCode.none
    assert in_force(rig, name) == parsed
    rig.restart()
    assert in_force(rig, name) == parsed, "also after a start, which reads the metadata first"
    assert altered(rig, name, None, resource="") == ErrorCode.none
    assert in_force(rig, name) == default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.consumer.assignment.interval.ms", "15001"),
        ("max.connections", "0"),
        ("max.connections.per.ip", "0"),
        ("producer.id.expiration.ms", "0"),
        ("log.cleaner.backoff.ms", "-1"),
        ("log.cleaner.dedupe.buffer.size", "1"),
        ("transaction.partition.verification.enable", "perhaps"),
        ("log.cleaner.enable", "false"),
        ("sasl.kerberos.min.time.before.relogin", "soon"),
        ("sasl.kerberos.ticket.renew.jitter", "a little"),
    ],
)
def test_bad_value_or_config_that_needs_a_restart_is_an_invalid_request(rig, name, value):
    before = rig.node.broker.context.config
    assert altered(rig, name, value) == ErrorCode.invalid_request
    assert altered(rig, name, value, resource="") == ErrorCode.invalid_request
    assert rig.node.broker.context.config == before


def test_unclean_elections_which_the_controller_holds_are_allowed_for_all_brokers_and_not_for_one(rig):
    name = "unclean.leader.election.enable"
    assert altered(rig, name, "true") == ErrorCode.invalid_request
    assert altered(rig, name, "true", resource="") == ErrorCode.none
    assert described(rig, name) == ("true", DYNAMIC_DEFAULT, False)


def test_changed_limits_of_connections_reach_the_shell_once(rig, monkeypatch):
    effects = note_calls(monkeypatch, rig.node, "_carry_out")

    def limits():
        return [(each.total, each.per_address) for (each,) in effects if isinstance(each, LimitConnections)]

    altered(rig, "max.connections.per.ip", "9")
    altered(rig, "log.cleaner.backoff.ms", "7")
    altered(rig, "max.connections", "50", resource="")
    total = rig.node.broker.config.max_connections
    assert limits() == [(total, 9), (50, 9)]
    rig.restart()
    assert limits()[2:] == [(50, 9)]


KERBEROS = [
    ("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "/opt/kinit"),
    ("sasl.kerberos.min.time.before.relogin", "60000", "58000"),
    ("sasl.kerberos.principal.to.local.rules", "DEFAULT", "RULE:[1:$1],DEFAULT"),
    ("sasl.kerberos.service.name", None, "kafka"),
    ("sasl.kerberos.ticket.renew.jitter", "0.05", "0.1"),
    ("sasl.kerberos.ticket.renew.window.factor", "0.8", "0.9"),
]


@pytest.mark.parametrize("text", ["x" * 32_768, "é" * 20_000])
def test_value_for_which_older_clients_have_no_room_is_refused_and_they_can_describe_the_broker(rig, text):
    assert altered(rig, "sasl.kerberos.kinit.cmd", text) == ErrorCode.invalid_request
    assert altered(rig, "sasl.kerberos.kinit.cmd", text[: 32_767 // len(text[0].encode())]) == ErrorCode.none
    for version in (1, 2, 3):
        assert describe(rig, BROKER, "1", version=version).error_code == ErrorCode.none


@pytest.mark.parametrize(("name", "default", "value"), KERBEROS)
def test_kerberos_config_is_set_for_one_broker_as_in_a_kafka_without_kerberos(rig, name, default, value):
    assert described(rig, name) == (default, DEFAULT, False)
    assert altered(rig, name, value, resource="") == ErrorCode.invalid_request, "it is set per broker"
    assert altered(rig, name, value) == ErrorCode.none
    assert described(rig, name) == (value, DYNAMIC_BROKER, False)
    rig.restart()
    assert described(rig, name) == (value, DYNAMIC_BROKER, False)
    assert altered(rig, name, None) == ErrorCode.none
    assert described(rig, name) == (default, DEFAULT, False)
