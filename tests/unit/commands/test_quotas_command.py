"""`yak quotas`: entities and values as typed, what it shows, and what it refuses."""

import json

import pytest

from yak.client import quotas as client
from yak.client.quotas import EntityQuotas
from yak.commands.options import Globals

LOADER = (("client-id", "loader"),)
FOUND = [
    EntityQuotas(LOADER, {"producer_byte_rate": 1e6, "request_percentage": 12.5}),
    EntityQuotas((("ip", None),), {"connection_creation_rate": 5.0}),
]


@pytest.fixture
def altered(monkeypatch):
    """What was asked of the broker."""
    requests = []

    def describe(_address, entity, *, timeout_s):
        assert timeout_s == 1.0
        return [each for each in FOUND if entity in (None, each.entity)]

    def alter(_address, entity, changes, *, validate_only, timeout_s):
        assert timeout_s == 1.0
        requests.append((entity, dict(changes), validate_only))

    monkeypatch.setattr(Globals, "broker_that_answers", lambda _g: ("127.0.0.1:9092", 1.0))
    monkeypatch.setattr(client, "describe_quotas", describe)
    monkeypatch.setattr(client, "alter_quotas", alter)
    return requests


def test_list_and_describe_show_entities_quotas_and_values(yak, altered):
    printed = yak("quotas", "list").out
    assert "client-id=loader  producer_byte_rate        1 000 000 B/s" in printed
    assert "12.5%" in printed
    assert "ip=<default>" in printed
    rows = json.loads(yak("quotas", "describe", "--client-id", "loader", "-o", "json").out)
    assert rows == [
        {"entity": "client-id=loader", "quota": "producer_byte_rate", "value": 1e6},
        {"entity": "client-id=loader", "quota": "request_percentage", "value": 12.5},
    ]
    assert "No quotas" in (ran := yak("quotas", "describe", "--user", "ann")).out + ran.err


@pytest.mark.parametrize(
    ("options", "entity"),
    [
        (("--user", "ann"), (("user", "ann"),)),
        (("--client-id-default", "--user", "ann"), (("user", "ann"), ("client-id", None))),
        (("--user-default",), (("user", None),)),
        (("--ip", "127.0.0.1"), (("ip", "127.0.0.1"),)),
        (("--ip-default",), (("ip", None),)),
    ],
)
def test_options_name_an_entity(yak, altered, options, entity):
    quota = "connection_creation_rate" if entity[0][0] == "ip" else "producer_byte_rate"
    assert yak("quotas", "set", *options, f"{quota}=1").code == 0
    assert altered == [(entity, {quota: 1.0}, False)]


def test_set_takes_sizes_percents_and_numbers(yak, altered):
    values = (
        "producer_byte_rate=1MB",
        "consumer_byte_rate=2MiB/s",
        "request_percentage=12.5%",
        "controller_mutation_rate=0.5",
    )
    assert yak("quotas", "set", "--user", "ann", "--dry-run", *values).code == 0
    changes = {
        "producer_byte_rate": 1e6,
        "consumer_byte_rate": 2.0 * 1024 * 1024,
        "request_percentage": 12.5,
        "controller_mutation_rate": 0.5,
    }
    assert altered == [((("user", "ann"),), changes, True)]


def test_remove_without_names_removes_all_of_the_entity(yak, altered):
    assert yak("quotas", "remove", "--client-id", "loader").code == 0
    assert yak("quotas", "remove", "--client-id", "loader", "request_percentage").code == 0
    assert altered == [
        (LOADER, {"producer_byte_rate": None, "request_percentage": None}, False),
        (LOADER, {"request_percentage": None}, False),
    ]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("remove", "--user", "ann"), 1),
        (("remove", "--client-id", "loader", "consumer_byte_rate"), 1),
        (("set", "producer_byte_rate=1"), 2),
        (("set", "--user", "ann", "--user-default", "producer_byte_rate=1"), 2),
        (("set", "--user", "ann", "--ip-default", "producer_byte_rate=1"), 2),
        (("set", "--user", "ann", "producer_byte_rate"), 2),
        (("set", "--user", "ann", "request_percentage=1", "request_percentage=2"), 2),
        (("set", "--user", "ann", "producer_byte_rate=fast"), 2),
        (("set", "--user", "ann", "request_percentage=half"), 2),
        (("set", "--user", "ann", "request_percentage=nan"), 2),
        (("set", "--ip-default", "connection_creation_rate=inf"), 2),
        (("set", "--user", "ann", "bytes=1"), 2),
        (("set", "--user", "ann", "producer_byte_rate=1", "--readonly"), 2),
    ],
)
def test_quotas_command_with_wrong_arguments_is_refused_and_requests_no_change(yak, altered, args, code):
    ran = yak("quotas", *args)
    assert (ran.code, altered) == (code, []), ran.err


@pytest.mark.parametrize(
    ("args", "whose", "option"),
    [
        (("--client-id", "loader", "connection_creation_rate=10"), "ips", "--ip"),
        (("--ip", "127.0.0.1", "producer_byte_rate=10"), "users and client ids", "--client-id"),
    ],
)
def test_quota_of_another_type_of_entity_is_refused_with_its_option(yak, altered, args, whose, option):
    ran = yak("quotas", "set", *args)
    name = args[-1].partition("=")[0]
    assert ran.code == 2
    assert f"error[bad-quota]: {name} is a quota of {whose}" in ran.err
    assert f"try:  {option} " in ran.err
    assert altered == []
