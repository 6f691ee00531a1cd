"""`yak failover`: what it moves or ends, what it refuses, and how it tells."""

import json
from dataclasses import replace

import pytest

from yak.client.metadata import Broker
from yak.client.replica_offsets import ClusterReplicas
from yak.commands.output import NOTHING
from yak.ids import TopicPartition
from yak.local import failover
from yak.local.failover import Failover, LeaderMove, Timeline
from yak.local.status import BrokerStatus, ClusterStatus
from yak.view.partition_replicas import PartitionReplicas


def partition(topic, number, leader, replicas=(1, 2, 3), isr=None):
    return PartitionReplicas(topic, number, leader, 1, None, replicas, replicas if isr is None else isr, 0, {}, 2)


CLUSTER = ClusterReplicas(
    "c",
    1,
    {node: Broker(node, "127.0.0.1", 9091 + node) for node in (1, 2, 3)},
    (partition("orders", 0, 1), partition("orders", 1, 2, isr=(2, 3)), partition("payments", 0, 2)),
    ("orders", "payments"),
)
LOCAL = ClusterStatus(
    "c",
    "/d",
    "redis://r",
    True,
    "127.0.0.1:9092,127.0.0.1:9093",
    tuple(BrokerStatus(node, "leader", 40 + node, f"127.0.0.1:{9091 + node}", "running") for node in (1, 2, 3)),
)


class FakeAdmin:
    def __init__(self, servers, **_):
        self.servers = servers
        self.timeout_s = 1.0


@pytest.fixture
def world(monkeypatch):
    """A cluster that is only said to be there; what was done to it is noted."""
    done = []
    local = [None]

    def move(admin, moves, *, local, probe):
        done.append(("move", [(str(each.partition), each.to) for each in moves], local, probe))
        return LeaderMove({}, 12.3, timeline=Timeline(elected_ms=8.0) if local else Timeline())

    def end(cluster, node_id, *, hard, probe, on_topic_left):
        done.append(("end", node_id, probe))
        if node_id == 2:
            on_topic_left("__yak_failover_probe-1")
        probed = TopicPartition("__yak_failover_probe-1", 0) if probe else None
        timeline = Timeline(31.4, 33.0, 34.0, 41.0, 66.6)
        led = (TopicPartition("orders", 0),)
        return Failover(node_id, 41, True, led, timeline=timeline, probed=probed, pause_ms=70.2, acknowledged=99)

    monkeypatch.setattr("yak.client.replica_offsets.read_metadata", lambda servers, timeout_s: CLUSTER)
    monkeypatch.setattr("yak.client.admin.Admin", FakeAdmin)
    monkeypatch.setattr("yak.local.failover.move_and_watch", move)
    monkeypatch.setattr("yak.local.failover.end_and_watch", end)
    monkeypatch.setattr("yak.commands.local_cluster.find_local", lambda g, data_dir: local[0])
    return done, local


@pytest.mark.parametrize(
    ("args", "moves"),
    [
        (["orders:0"], [("orders-0", 2)]),
        (["orders:0", "--to", "3"], [("orders-0", 3)]),
        (["--from", "2"], [("orders-1", 3), ("payments-0", 1)]),
        (["--from", "2", "--to", "3"], [("orders-1", 3), ("payments-0", 3)]),
        (["payments", "--from", "2"], [("payments-0", 1)]),
    ],
)
def test_failover_command_moves_partitions_to_the_selected_leaders(yak, world, args, moves):
    ran = yak("failover", *args)
    assert ran.code == 0, ran.err
    assert world[0] == [("move", moves, None, False)]


def test_all_hands_back_to_the_preferred_leaders_and_says_what_it_could_not_move(yak, world):
    ran = yak("failover", "--all")
    assert ran.code == 1
    assert world[0] == [("move", [("payments-0", 1)], None, False)]
    assert ran.out.splitlines() == [
        "TOPIC     PARTITION  FROM  TO  RESULT",
        f"orders            0     {NOTHING}   {NOTHING}  stays: 1 leads it already",
        f"orders            1     {NOTHING}   {NOTHING}  not moved: 1 is out of sync: ISR 2,3",
        "payments          0     2   1  moved",
    ]
    assert "1 leader moved in 12 ms" in ran.err


def test_json_of_a_move(yak, world):
    world[1][0] = LOCAL
    document = json.loads(yak("failover", "orders:0", "--probe", "-o", "json").out)
    assert world[0][0][2:] == (LOCAL, True)
    assert document == {
        "action": "move",
        "moves": [{"topic": "orders", "partition": 0, "from": 1, "to": 2, "result": "moved"}],
        "failed": 0,
        "took_ms": 12.3,
        "timeline": {
            "detected_ms": None,
            "fenced_ms": None,
            "controller_ms": None,
            "elected_ms": 8.0,
            "first_ack_ms": None,
        },
        "probe": None,
    }


@pytest.mark.parametrize("args", [("orders:0", "--kill", "--yes"), ("orders:0", "--probe")])
def test_a_failover_after_which_no_test_record_was_acknowledged_failed(yak, world, monkeypatch, args):
    world[1][0] = LOCAL
    measured = {"timeline": Timeline(elected_ms=41.0), "probed": TopicPartition("orders", 0), "acknowledged": 30}
    killed = Failover(1, 41, True, (TopicPartition("orders", 0),), **measured)
    monkeypatch.setattr("yak.local.failover.end_and_watch", lambda *_, **__: killed)
    monkeypatch.setattr("yak.local.failover.move_and_watch", lambda *_, **__: LeaderMove({}, 12.3, **measured))
    ran = yak("failover", *args)
    assert ran.code == 1
    assert "no write was acknowledged; 30 " in ran.err
    assert "warning: no test record was acknowledged in 30 s: yak isr --check" in ran.err
    assert yak("failover", *args, "-o", "json").code == 1


def test_topic_of_test_records_that_cannot_be_deleted_is_named(yak, world):
    world[1][0] = LOCAL
    ran = yak("failover", "orders:1", "--kill", "--yes", "-o", "json")
    assert json.loads(ran.out)["action"] == "kill"
    assert (
        "warning: the topic of the test records could not be deleted: yak topics delete __yak_failover_probe-1"
        in ran.err
    )


def test_a_kill_shows_the_time_line(yak, world):
    world[1][0] = LOCAL
    ran = yak("failover", "--controller", "--kill", "--yes")
    assert ran.code == 0, ran.err
    assert world[0] == [("end", 1, True)]
    assert ran.out.splitlines() == [
        "broker 1 (pid 41) killed with kill -9; it led 1 partition and was the controller",
        "      0 ms  killed",
        "     31 ms  detected",
        "     33 ms  fenced",
        "     34 ms  controller elected",
        "     41 ms  elected",
        "     67 ms  first acknowledged write",
    ]
    assert (
        "test topic with the same leader: writes paused for 70 ms at most; 99 records acknowledged, 0 errors" in ran.err
    )
    assert "yak node restart 1" in ran.err


def test_json_of_a_kill(yak, world):
    world[1][0] = LOCAL
    document = json.loads(yak("failover", "orders:0", "--kill", "--no-probe", "-y", "-o", "json").out)
    assert world[0] == [("end", 1, False)]
    assert (document["action"], document["node"], document["pid"], document["probe"]) == ("kill", 1, 41, None)
    assert document["timeline"]["first_ack_ms"] == 66.6


@pytest.mark.parametrize(
    ("args", "slug", "code"),
    [
        ([], "usage", 2),
        (["orders", "--all"], "usage", 2),
        (["--controller", "--to", "2"], "usage", 2),
        (["orders:0", "--kill", "--to", "2"], "usage", 2),
        (["ordes"], "unknown-topic", 1),
        (["orders:7"], "unknown-partition", 2),
        (["orders:0", "--to", "9"], "unknown-broker", 1),
        (["--from", "9"], "unknown-broker", 1),
        (["orders:0", "--kill", "--yes"], "not-a-local-cluster", 2),
        (["--all", "--readonly"], "readonly", 2),
    ],
)
def test_invalid_input_is_refused(yak, world, args, slug, code):
    ran = yak("failover", *args)
    assert (ran.code, world[0]) == (code, [])
    assert f"error[{slug}]" in ran.err


def test_a_kill_says_before_and_after_which_partitions_go_offline(yak, world, monkeypatch):
    world[1][0] = LOCAL
    alone = (partition("orders", 0, 1), partition("orders", 1, 1, isr=(1,)), partition("orders", 2, 1, replicas=(1,)))
    found = replace(CLUSTER, partitions=alone)
    monkeypatch.setattr("yak.client.replica_offsets.read_metadata", lambda servers, timeout_s: found)
    warned = yak("failover", "orders:0", "--kill").err
    assert "which leads 3 partitions, 2 of them with no other in-sync replica, which go offline (and write" in warned
    movable, offline = failover.led_by(alone, 1)
    result = Failover(1, 41, True, (*movable, *offline), offline, timeline=Timeline(fenced_ms=33.0, elected_ms=41.0))
    monkeypatch.setattr("yak.local.failover.end_and_watch", lambda *_, **__: result)
    ran = yak("failover", "orders:0", "--kill", "--yes")
    assert ran.code == 0
    assert "killed with kill -9; it led 3 partitions and was the controller" in ran.out
    assert "warning: 2 partitions went offline: no other replica was in sync" in ran.err
    document = json.loads(yak("failover", "orders:0", "--kill", "--yes", "-o", "json").out)
    assert [each["partition"] for each in document["partitions_led"]] == [0, 1, 2]
    assert [each["partition"] for each in document["partitions_offline"]] == [1, 2]


def test_a_kill_of_the_only_replicas_waits_for_no_election(yak, world, monkeypatch):
    world[1][0] = LOCAL
    found = replace(CLUSTER, partitions=(partition("orders", 0, 1, replicas=(1,)),))
    monkeypatch.setattr("yak.client.replica_offsets.read_metadata", lambda servers, timeout_s: found)
    orders = (TopicPartition("orders", 0),)
    monkeypatch.setattr("yak.local.failover.end_and_watch", lambda *_, **__: Failover(1, 41, False, orders, orders))
    ran = yak("failover", "orders:0", "--kill", "--yes")
    assert ran.code == 0
    assert "no other replica was in sync" in ran.err
    assert "not every partition has a new leader yet" not in ran.err


def test_kill_of_the_leader_of_an_offline_partition_advises_no_command_that_cannot_be(yak, world, monkeypatch):
    """It advised `yak failover orders:0:0 --kill`."""
    world[1][0] = LOCAL
    found = replace(CLUSTER, partitions=(partition("orders", 0, -1),))
    monkeypatch.setattr("yak.client.replica_offsets.read_metadata", lambda servers, timeout_s: found)
    assert yak("failover", "orders:0", "--kill", "-y").err.splitlines() == [
        "error[usage]: orders:0 has no leader to kill",
        "  try:  yak isr --offline",
    ]


def test_failover_kill_requires_confirmation_and_an_unambiguous_broker(yak, world):
    world[1][0] = LOCAL
    assert "error[not-confirmed]" in yak("failover", "orders:0", "--kill").err
    assert "led by 1, 2: name the broker to kill" in yak("failover", "orders", "--kill", "-y").err
    assert world[0] == []


@pytest.mark.parametrize(
    "args", [("--controller",), ("--controller", "--kill"), ("--from", "1", "--kill"), ("orders:0", "--kill")]
)
def test_a_single_broker_is_not_ended(yak, world, monkeypatch, args):
    done, local = world
    local[0] = LOCAL
    alone = replace(CLUSTER, brokers={1: CLUSTER.brokers[1]})
    monkeypatch.setattr("yak.client.replica_offsets.read_metadata", lambda servers, timeout_s: alone)
    ran = yak("failover", *args, "--yes")
    assert ran.code == 1
    assert ran.err.startswith("error[last-broker]: broker 1 cannot fail over\n  why:  it is the only broker that runs")
    assert done == []


@pytest.mark.parametrize("topic", ["orders:x", "orders:", "orders:-1"])
def test_a_partition_that_is_no_number_is_refused_before_connecting(yak, monkeypatch, topic):
    monkeypatch.setattr("yak.client.replica_offsets.read_metadata", lambda *_, **__: pytest.fail("it connected"))
    ran = yak("failover", topic)
    assert ran.code == 2
    assert ran.err.startswith(f'error[usage]: "{topic}" names no partition')


def test_a_partition_that_does_not_exist_is_answered_with_the_command_that_lists_them(yak, world):
    assert "try:  yak topics describe orders" in yak("failover", "orders:9").err


def test_a_mistyped_topic_is_answered_with_the_same_command_and_the_closest_topic(yak, world):
    err = yak("failover", "ordres:0", "--to", "2").err
    assert "try:  yak failover orders:0 --to 2" in err
    assert "create" not in err
