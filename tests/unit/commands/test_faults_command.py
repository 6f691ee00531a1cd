"""`yak faults`: rules as typed, on which brokers, what it shows, and what it refuses."""

import json
from types import SimpleNamespace

import pytest

from yak.client import faults as client
from yak.client import replica_offsets
from yak.errors import Unreachable, UsageError

BROKERS = {node: SimpleNamespace(address=f"127.0.0.1:{9000 + node}") for node in (1, 2, 3)}


@pytest.fixture
def sent(monkeypatch):
    """What each broker was asked; the address of one that refuses is in `refusing`."""
    requests, held = [], {}

    def add(address, rule, *, timeout_s):
        assert timeout_s == 10.0
        if address in sent_box.refusing:
            raise UsageError("faults-off", "no faults here")
        requests.append(("add", address[-1], {name: value for name, value in rule.items() if name != "id"}))
        held.setdefault(address, {})[rule["id"]] = rule

    def clear(address, rule_id=None, *, timeout_s):
        if address == "127.0.0.1:9092":
            raise Unreachable("unreachable", "no broker there")
        requests.append(("clear", address[-1], rule_id))
        own = held.get(address, {})
        gone = list(own) if rule_id is None else [each for each in own if each == rule_id]
        return [own.pop(each)["id"] for each in gone]

    def read(address, *, timeout_s):
        return [{**rule, "calls": 2, "hits": 1} for rule in held.get(address, {}).values()]

    sent_box = SimpleNamespace(requests=requests, refusing=())
    monkeypatch.setattr(client, "add_fault", add)
    monkeypatch.setattr(client, "clear_faults", clear)
    monkeypatch.setattr(client, "list_faults", read)
    monkeypatch.setattr(client, "new_rule_id", lambda: "1a2b")
    monkeypatch.setattr(replica_offsets, "read_metadata", lambda _s, *, timeout_s: SimpleNamespace(brokers=BROKERS))
    return sent_box


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        (("inject_error", "Produce", "NOT_COORDINATOR"), {"api": "Produce", "error": "NOT_COORDINATOR"}),
        (
            (
                "inject-error",
                "Produce",
                "REQUEST_TIMED_OUT",
                "--after",
                "--topic",
                "t",
                "--partition",
                "0",
                "--times",
                "2",
            ),
            {
                "fault": "inject_error",
                "api": "Produce",
                "error": "REQUEST_TIMED_OUT",
                "after": True,
                "topic": "t",
                "partition": 0,
                "times": 2,
            },
        ),
        (("disconnect_on", "Fetch", "--on-call", "3"), {"api": "Fetch", "on_call": 3}),
        (("delay_on", "Fetch", "250", "--client-id", "a*"), {"api": "Fetch", "delay_ms": 250, "client_id": "a*"}),
        (("blackhole_client", "a"), {"client_id": "a"}),
        (("freeze_isr", "t"), {"topic": "t"}),
        (("freeze_isr", "t", "1"), {"topic": "t", "partition": 1}),
    ],
)
def test_fault_is_added_to_all_brokers(yak, sent, args, rule):
    ran = yak("faults", "add", *args)
    assert (ran.code, ran.out) == (0, "1a2b\n"), ran.err
    expected = {"fault": args[0].replace("-", "_")} | rule
    assert sent.requests == [("add", node, expected) for node in "123"]


def test_fault_is_added_to_one_broker_and_a_lagging_replica_to_its_own(yak, sent):
    assert json.loads(yak("faults", "add", "delay_on", "Fetch", "5", "--broker", "2", "-o", "json").out) == {
        "id": "1a2b",
        "brokers": [2],
    }
    yak("faults", "add", "lag_replica", "t", "0", "3", "250")
    lag = {"fault": "lag_replica", "topic": "t", "partition": 0, "broker": 3, "delay_ms": 250}
    assert [each[:2] for each in sent.requests] == [("add", "2"), ("add", "3")]
    assert sent.requests[1][2] == lag


def test_fault_that_one_broker_refuses_is_on_none(yak, sent):
    sent.refusing = ("127.0.0.1:9003",)
    ran = yak("faults", "add", "delay_on", "Fetch", "5")
    assert (ran.code, "error[faults-off]" in ran.err) == (2, True)
    assert sent.requests[2:] == [("clear", "1", "1a2b"), ("clear", "2", "1a2b")]


def test_list_shows_each_broker_and_clear_says_how_many(yak, sent):
    assert "No faults" in (ran := yak("faults", "list")).out + ran.err
    yak("faults", "add", "delay_on", "Fetch", "5", "--topic", "t")
    printed = yak("faults", "list").out.splitlines()
    assert [line.split()[:5] for line in printed[1:]] == [[node, "1a2b", "delay_on", "Fetch", "–"] for node in "123"]
    (row,) = json.loads(yak("faults", "list", "--broker", "2", "-o", "json").out)
    assert (row["node_id"], row["delay_ms"], row["topic"], row["hits"], row["error"]) == (2, 5, "t", 1, None)
    assert "1 fault cleared" in (ran := yak("faults", "clear", "1a2b")).out + ran.err
    ran = yak("faults", "clear", "1a2b")
    assert (ran.code, "error[no-fault]" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("inject_eror", "Produce"), "bad-fault"),
        (("inject_error", "Produce"), "bad-fault"),
        (("disconnect_on", "Produce", "more"), "bad-fault"),
        (("delay_on", "Fetch", "soon"), "bad-fault"),
        (("delay_on", "Fetch", "-5"), "usage"),
        (("freeze_isr", "t", "--topic", "u"), "bad-fault"),
        (("delay_on", "Fetch", "5", "--broker", "9"), "unknown-broker"),
        (("delay_on", "Fetch", "5", "--readonly"), "readonly"),
    ],
)
def test_wrong_fault_is_refused_before_anything_is_sent(yak, sent, args, error):
    ran = yak("faults", "add", *args)
    assert f"error[{error}]" in ran.err
    assert ran.code in (1, 2)
    assert sent.requests == []


def test_fault_with_too_few_arguments_names_the_optional_one(yak, sent):
    ran = yak("faults", "add", "lag_replica", "orders", "0")
    assert "why:  it takes TOPIC PARTITION BROKER [DELAY_MS]" in ran.err
