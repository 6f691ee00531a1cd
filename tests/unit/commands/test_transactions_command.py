"""`yak transactions`: its rows, what it asks of brokers, and what it refuses."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from yak.client import transactions as client
from yak.client.metadata import Broker, ClusterMetadata, Partition, Topic
from yak.client.transactions import OpenTransaction, Transaction
from yak.commands.options import Globals
from yak.errors import YakError
from yak.ids import TopicPartition

NOW_MS = 1_795_176_000_000
NODE = Broker(1, "127.0.0.1", 9092)
O0, O1, P0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)
METADATA = ClusterMetadata(
    "c",
    1,
    {1: NODE},
    {
        name: Topic(name, tuple(Partition(n, 1, (1,), (1,)) for n in range(count)))
        for name, count in (("orders", 2), ("payments", 1))
    },
)
WRITER = Transaction("orders-writer", 4000, "Ongoing", NODE, 3, 60_000, NOW_MS - 65_000, (O0, O1, P0))
IDLE = Transaction("idle", 4001, "CompleteCommit", NODE, 0, 900_000, NOW_MS - 5_000)
OPEN = [OpenTransaction(O0, 4000, 3, -1, 42, NOW_MS - 3_600_000), OpenTransaction(P0, 4002, 0, 7, 5, NOW_MS - 1_000)]


class World:
    """What the brokers answer, and what was asked of them."""

    def __init__(self):
        self.silent, self.failed = {}, {}
        self.requests, self.aborted = [], []

    def list(self, _brokers, **filters):
        self.requests.append(filters)
        return [IDLE, WRITER], self.silent

    def describe(self, _brokers, names):
        known = {each.transactional_id: each for each in (IDLE, WRITER)}
        return {name: known.get(name) or YakError("unknown-transaction", f"{name}?", why="no") for name in names}

    def open(self, _metadata, partitions, *, timeout_s):
        self.requests.append(partitions)
        assert timeout_s == 1.0
        return [each for each in OPEN if each.partition in partitions], self.failed

    def hanging(self, _brokers, found):
        return list(found)

    def abort(self, _metadata, found, *, timeout_s):
        assert timeout_s == 1.0
        self.aborted.append(found)


@pytest.fixture
def world(monkeypatch):
    made = World()
    admin = SimpleNamespace(servers="x:1", timeout_s=1.0, metadata=lambda: METADATA)
    monkeypatch.setattr("yak.client.admin.Admin", lambda *_, **__: admin)
    monkeypatch.setattr("yak.commands.options.Globals.now_ms", lambda _g: NOW_MS)
    for name in ("list", "describe", "open", "hanging"):
        monkeypatch.setattr(client, f"{name}_transactions", getattr(made, name))
    monkeypatch.setattr(client, "abort_transaction", made.abort)
    return made


@pytest.mark.parametrize("format_", ["table", "wide", "csv", "json"])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("list", ["list"]),
        ("describe", ["describe", "orders-writer", "idle"]),
        ("hanging", ["hanging", "--idle", "0"]),
        ("abort", ["abort", "--topic", "orders", "--partition", "0", "--start-offset", "42", "--yes"]),
    ],
)
def test_the_output_is_as_agreed(yak, golden, world, name, args, format_):
    ran = yak("transactions", *args, "-o", format_)
    assert ran.code == 0, ran.err
    golden(f"tables/transactions-{name}-{format_}.txt", ran.out)


def test_filters_of_the_list_reach_the_brokers_as_kafka_spells_them(yak, world):
    args = ("--state", "ongoing,PREPARECOMMIT", "--producer-id", "7", "--producer-id", "8", "--longer-than", "2m")
    assert yak("transactions", "list", *args).code == 0
    assert world.requests == [
        {"states": ("Ongoing", "PrepareCommit"), "producer_ids": [7, 8], "longer_than_ms": 120_000},
    ]
    ran = yak("transactions", "ls", "--state", "stable")
    assert ran.code == 2
    assert '"stable" is not a state of transactions' in ran.err


def test_list_of_long_transactions_leaves_out_those_that_ended(yak, world):
    open_ = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]
    for args, states in (((), open_), (("--state", "completecommit"), ["CompleteCommit"])):
        world.requests = []
        assert yak("transactions", "list", "--longer-than", "1m", *args).code == 0
        assert [list(each["states"]) for each in world.requests] == [states]
        assert world.requests[0]["longer_than_ms"] == 60_000


def test_list_without_every_coordinator_returns_1(yak, world):
    world.silent = {NODE: "refused"}
    ran = yak("transactions", "list")
    assert ran.code == 1
    assert "broker 1 at 127.0.0.1:9092 did not answer; its transactions are missing: refused" in ran.err


@pytest.mark.parametrize("verb", ["list", "hanging"])
def test_brokers_that_do_not_answer_are_not_said_to_have_no_transaction(yak, world, monkeypatch, verb):
    world.silent, world.failed = {NODE: "refused"}, {O1: "no leader"}
    monkeypatch.setattr(client, "list_transactions", lambda *_, **__: ([], world.silent))
    monkeypatch.setattr(client, "open_transactions", lambda *_, **__: ([], world.failed))
    ran = yak("transactions", verb)
    assert (ran.code, ran.out) == (1, "")
    assert "No transaction" not in ran.err


def test_unknown_transaction_does_not_hide_the_others(yak, world):
    ran = yak("transactions", "describe", "nothing", "idle", "-o", "json")
    assert ran.code == 1
    assert [each["transactional_id"] for each in json.loads(ran.out)] == ["idle"]
    assert "unknown-transaction" in ran.err
    ran = yak("transactions", "describe", "nothing")
    assert (ran.code, ran.out) == (1, "")


def test_hanging_leaves_out_young_transactions_and_other_partitions(yak, world):
    ran = yak("transactions", "find-hanging", "-o", "json")
    assert [each["start_offset"] for each in json.loads(ran.out)] == [42]
    assert world.requests == [[O0, O1, P0]]
    ran = yak("transactions", "hanging", "orders:1", "payments")
    assert (ran.code, ran.out, ran.err) == (0, "", "No transaction hangs.\n")
    assert world.requests[1] == [O1, P0]
    assert yak("transactions", "hanging", "orders:7").code == 2


def test_hanging_with_idle_0_shows_a_transaction_whose_records_are_ahead_of_this_clock(yak, world, monkeypatch):
    """A record has its client's time, up to message.timestamp.after.max.ms ahead."""
    ahead = OpenTransaction(O0, 4000, 3, -1, 42, NOW_MS + 60_000)
    monkeypatch.setattr(client, "open_transactions", lambda *_, **__: ([ahead], {}))
    ran = yak("transactions", "hanging", "--idle", "0", "-o", "json")
    assert [(each["start_offset"], each["idle_ms"]) for each in json.loads(ran.out)] == [(42, 0)]
    assert yak("transactions", "hanging", "--idle", "1ms").out == ""


def test_hanging_names_partitions_that_it_could_not_read(yak, world):
    world.failed = {O1: "no leader"}
    ran = yak("transactions", "hanging")
    assert ran.code == 1
    assert "1 partition could not be read, orders-1 for one: no leader" in ran.err


def test_transactions_abort_spares_the_transaction_that_began_while_the_confirmation_was_awaited(
    yak, world, monkeypatch
):
    later = [OpenTransaction(O0, 4000, 3, -1, 99, NOW_MS)]
    args = ("--topic", "orders", "--partition", "0", "--start-offset", "42")

    def confirm(_g, _question):
        monkeypatch.setattr(client, "open_transactions", lambda *_, **__: (later, {}))

    monkeypatch.setattr(Globals, "confirm", lambda _g, _question: None)
    assert yak("transactions", "abort", *args).code == 0
    assert world.aborted == [OPEN[0]]
    monkeypatch.setattr(Globals, "confirm", confirm)
    ran = yak("transactions", "abort", *args)
    assert (ran.code, world.aborted) == (1, [OPEN[0]])
    assert "open transactions start at 99" in ran.err


def test_transactions_abort_requires_confirmation_and_an_open_transaction(yak, world, monkeypatch):
    args = ("--topic", "orders", "--partition", "0", "--start-offset")
    ran = yak("transactions", "abort", *args, "42")
    assert ran.code == 2
    assert "not-confirmed" in ran.err
    ran = yak("transactions", "abort", *args, "41", "--yes")
    assert ran.code == 1
    assert "no transaction of orders-0 starts at offset 41" in ran.err
    assert "open transactions start at 42" in ran.err
    assert yak("transactions", "abort", *args, "42", "--yes", "--readonly").code != 0
    assert world.aborted == []
    assert yak("transactions", "abort", *args, "42", "--yes").code == 0
    assert world.aborted == [OPEN[0]]
    world.failed = {O0: "no answer"}
    assert "the producers of orders-0 could not be read" in yak("transactions", "abort", *args, "42", "--yes").err


def test_producer_id_beyond_64_bits_is_wrong_usage(yak, world):
    ran = yak("transactions", "list", "--producer-id", "99999999999999999999999")
    assert (ran.code, world.requests) == (2, [])
    assert "error[usage]" in ran.err
