import copy
import json
import random
from pathlib import Path

import pytest

from yak.tui.formatter import Formatter
from yak.tui.rows.partitions import meaning
from yak.tui.state.picture import Picture, Quorum

FMT = Formatter()
EVENTS = json.loads((Path(__file__).parents[3] / "tui" / "recorded" / "cluster.json").read_text())["events"]
SNAPSHOT = {
    "kind": "snapshot", "time_ms": 1_000, "node_id": 1,
    "cluster": {"cluster_id": "c", "controller_id": 1, "controller_epoch": 3, "redis": {"state": "connected", "lost_ms": None},
                "brokers": [{"node_id": node, "role": "leader", "state": "ACTIVE", "broker_epoch": node, "rack": None, "host": "h",
                             "port": 9090 + node, "http_address": None} for node in (1, 2, 3)]},
    "partitions": [{"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 4, "partition_epoch": 7, "replicas": [1, 2, 3],
                    "isr": [1, 2, 3], "min_isr": 2, "high_watermark": 10, "log_end_offsets": {"1": 12, "2": 11, "3": 10}}],
}  # fmt: skip


def picture(*events):
    made = Picture()
    for event in (SNAPSHOT, *events):
        made.take(event)
    return made


def leader_changed(epoch, partition_epoch, to, time_ms=2_000, **more):
    return {"kind": "leader-changed", "time_ms": time_ms, "node_id": 2, "message": "m", "topic": "orders", "partition": 0, "from": 1,
            "to": to, "leader": to, "leader_epoch": epoch, "partition_epoch": partition_epoch, **more}  # fmt: skip


def test_a_snapshot_says_what_there_is():
    made = picture()
    assert sorted(made.brokers) == [1, 2, 3]
    partition = made.partitions["orders", 0]
    assert (partition.leader, partition.log_end_offset, partition.high_watermark) == (1, 12, 10)
    assert partition.state == "ok"


def test_a_newer_epoch_wins_whatever_comes_last():
    made = picture(leader_changed(6, 9, 3), leader_changed(5, 8, 2))
    assert (made.partitions["orders", 0].leader, made.partitions["orders", 0].leader_epoch) == (3, 6)
    made.take(SNAPSHOT)  # of a broker that is behind
    assert made.partitions["orders", 0].leader == 3


def test_progress_of_a_leader_that_was_is_nothing():
    old = {"kind": "progress", "time_ms": 3_000, "node_id": 1,
           "partitions": [{"topic": "orders", "partition": 0, "leader_epoch": 4, "high_watermark": 99, "log_end_offsets": {"1": 99}}]}  # fmt: skip
    made = picture(leader_changed(5, 8, 2), old)
    assert made.partitions["orders", 0].high_watermark == 10


def test_same_event_of_three_brokers_is_one_line():
    made = picture(*(leader_changed(5, 8, 2, node_id=node) for node in (1, 2, 3)))
    assert [line.kind for line in made.activity.lines] == ["leader-changed"]


def test_same_event_at_a_later_time_is_another_activity_line():
    made = picture(leader_changed(5, 8, 2), leader_changed(5, 8, 2, time_ms=60_000))
    assert made.activity.count == 2


def test_an_isr_that_shrank_says_since_when():
    shrunk = {
        **leader_changed(4, 8, 1),
        "kind": "isr-shrunk",
        "from": [1, 2, 3],
        "to": [1, 2],
        "left": [3],
        "joined": [],
    }
    made = picture(shrunk)
    partition = made.partitions["orders", 0]
    assert (partition.isr, partition.since_ms) == ((1, 2), 2_000)
    made.take({**shrunk, "kind": "isr-expanded", "to": [1, 2, 3], "partition_epoch": 9, "time_ms": 5_000})
    assert partition.since_ms is None
    assert len(made.isr_changes_ms) == 2


def test_a_dead_broker_is_fenced_until_it_registers_again():
    dead = {
        "kind": "broker-dead", "time_ms": 2_000, "node_id": 1, "message": "m", "broker": 3, "broker_epoch": 3,
        "detected_ms": 20,
    }  # fmt: skip
    made = picture(dead)
    assert not made.brokers[3].is_up
    again = {"time_ms": 3_000, "node_id": 1, "message": "m", "broker": 3, "broker_epoch": 9, "role": "follower", "rack": None, "host": "h",
             "port": 1}  # fmt: skip
    made.take({**again, "kind": "broker-registered", "state": "FENCED"})
    made.take({**again, "kind": "broker-unfenced", "state": "ACTIVE"})
    assert (made.brokers[3].is_up, made.brokers[3].role) == (True, "follower")
    made.take({**dead, "time_ms": 4_000})  # told late, of the boot before
    assert made.brokers[3].is_up


def test_partition_of_a_dead_leader_is_offline_while_no_other_leader_is_elected():
    dead = {"kind": "broker-dead", "time_ms": 2_000, "node_id": 2, "message": "m", "broker": 1, "broker_epoch": 1}
    made = picture(dead)
    partition = made.partitions["orders", 0]
    assert (partition.leader, partition.state, made.degraded) == (1, "offline", [partition])
    assert meaning(partition, FMT)[-1].text == "The leader, node 1, is dead: neither writes nor reads."
    made.take(leader_changed(5, 8, 2))
    assert (partition.leader, partition.state, made.degraded) == (2, "ok", [])
    assert meaning(partition, FMT)[-1].text == "acks=all: waits for node 1, which is dead."


def test_deleted_topic_is_removed_and_a_lost_cluster_keeps_the_picture():
    made = picture({"kind": "lost", "time_ms": 5_000, "why": "refused", "retry_ms": 500})
    assert (made.lost_since_ms, made.retry_at_ms, len(made.partitions)) == (5_000, 5_500, 1)
    made.take(
        {"kind": "topic-deleted", "time_ms": 6_000, "node_id": 1, "message": "m", "topic": "orders", "topic_id": "x"}
    )
    assert (made.lost_since_ms, made.partitions) == (None, {})


def snapshot_of(topic_id, leader=1, partition_epoch=7, time_ms=3_000):
    row = SNAPSHOT["partitions"][0] | {"topic_id": topic_id, "leader": leader, "partition_epoch": partition_epoch}
    return {**SNAPSHOT, "time_ms": time_ms, "partitions": [row]}


def topic_event(kind, topic_id, time_ms=4_000, **more):
    event = {"kind": f"topic-{kind}", "time_ms": time_ms, "node_id": 1, "message": "m", "topic": "orders"}
    return {**event, "topic_id": topic_id, **more}


def test_topic_created_again_has_its_own_leader_though_its_partition_epoch_is_lower():
    made = picture(snapshot_of("old"), snapshot_of("new", leader=3, partition_epoch=0))
    assert (made.partitions["orders", 0].leader, made.partitions["orders", 0].topic_id) == (3, "new")
    assert made.topics["orders"] == [made.partitions["orders", 0]]
    made.take(snapshot_of("new", leader=2, partition_epoch=1))
    assert made.partitions["orders", 0].leader == 2


def test_snapshot_of_a_broker_that_was_paused_brings_back_no_deleted_topic():
    made = picture(snapshot_of("old"), topic_event("deleted", "old"), snapshot_of("old", time_ms=4_500))
    assert (made.partitions, made.topics) == ({}, {})
    made.take(topic_event("created", "old", time_ms=40_000, partitions=1))  # told late
    assert made.incomplete == {}


def test_late_deletion_event_leaves_the_recreated_topic():
    made = picture(snapshot_of("new", leader=2), topic_event("deleted", "old"), snapshot_of("old"))
    assert made.partitions["orders", 0].leader == 2


def test_creation_of_a_topic_with_as_many_partitions_forgets_the_former_one():
    made = picture(snapshot_of("old"), topic_event("created", "new", partitions=1))
    assert (made.partitions, made.incomplete) == ({}, {"orders": 0})
    made.take({"kind": "partitions", "time_ms": 5_000, "partitions": snapshot_of("new", leader=3)["partitions"]})
    assert made.partitions["orders", 0].leader == 3


def test_topics_without_ids_are_deleted_and_created_by_name():
    no_id = "00000000-0000-0000-0000-000000000000"
    made = picture(topic_event("deleted", no_id))
    assert made.partitions == {}
    made.take(topic_event("created", no_id, time_ms=20_000, partitions=1))
    assert made.incomplete == {"orders": 0}
    made.take(SNAPSHOT)
    assert made.partitions["orders", 0].leader == 1


@pytest.mark.parametrize("identity", [{"cluster_id": "other"}, {"incarnation": 2}])
def test_snapshot_of_another_cluster_or_of_restored_metadata_replaces_all_that_older_epochs_said(identity):
    dead = {"kind": "broker-dead", "time_ms": 2_000, "node_id": 1, "message": "m", "broker": 3, "broker_epoch": 9}
    made = picture(leader_changed(6, 9, 3), {**dead, "kind": "broker-fenced", "state": "FENCED"})
    cluster = {**SNAPSHOT["cluster"], "controller_id": 2, "controller_epoch": 1, **identity}
    row = {**SNAPSHOT["partitions"][0], "leader": 2, "leader_epoch": 0, "partition_epoch": 0, "high_watermark": 0}
    made.take({**SNAPSHOT, "time_ms": 60_000, "cluster": cluster, "partitions": [row]})
    assert (made.controller_id, made.brokers[3].state) == (2, "ACTIVE")
    (partition,) = made.partitions.values()
    assert (partition.leader, partition.leader_epoch, partition.high_watermark) == (2, 0, 0)


def test_a_failover_is_seen_with_its_times():
    made = Picture()
    for event in EVENTS:
        made.take(event)
    last = made.elections.last
    assert last.node_id == 3
    assert last.detected_ms <= last.fenced_ms <= last.elected_ms
    assert last.elected_ms - last.began_ms < 1_000
    assert "orders-2" in last.moved
    assert last.moved["orders-2"][0] == 3


@pytest.mark.parametrize("seed", range(5))
def test_event_order_of_brokers_does_not_matter(seed):
    straight, mixed = Picture(), Picture()
    for event in EVENTS:
        straight.take(copy.deepcopy(event))
    by_broker: dict[int, list] = {}
    for event in EVENTS:
        by_broker.setdefault(event.get("node_id", 0), []).append(event)
    rng = random.Random(seed)
    snapshots = [each for each in EVENTS if each["kind"] == "snapshot"]
    mixed.take(snapshots[0])
    queues = list(by_broker.values())
    while queues:
        queue = rng.choice(queues)
        for event in queue[:7]:
            if event["kind"] != "snapshot":
                mixed.take(event)
        del queue[:7]
        queues = [each for each in queues if each]
    for key, partition in straight.partitions.items():
        other = mixed.partitions[key]
        assert (other.leader, other.leader_epoch, other.partition_epoch, other.isr) == (
            partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr,
        )  # fmt: skip
    assert {node: each.state for node, each in straight.brokers.items()} == {
        node: each.state for node, each in mixed.brokers.items()
    }


def quorum_said(node_id, *, epoch=4, leader_id=2, caught_up=None, time_ms=2_000):
    role = "leader" if node_id == leader_id else "follower"
    said = {"role": role, "leader_id": leader_id, "epoch": epoch, "voters": [1, 2, 3], "caught_up": caught_up}
    nothing = dict.fromkeys(
        ("messages_in_per_second", "messages_out_per_second", "bytes_in_per_second", "bytes_out_per_second"), 0.0
    )
    return {"kind": "rates", "time_ms": time_ms, "node_id": node_id, "topics": [], "quorum": said, **nothing}


def test_cluster_with_redis_has_no_quorum():
    assert picture().quorum is None


def test_quorum_has_the_newest_epoch_and_only_its_leader_knows_the_caught_up_voters():
    made = picture(quorum_said(1), quorum_said(3))
    assert made.quorum == Quorum(4, 2, 3, None)
    made.take(quorum_said(2, caught_up=3))
    assert made.quorum == Quorum(4, 2, 3, 3)
    made.take(quorum_said(3, epoch=5, leader_id=3, caught_up=2))
    assert made.quorum == Quorum(5, 3, 3, 2)
    made.take(quorum_said(2, caught_up=3))  # the old leader has not noticed
    assert made.quorum == Quorum(5, 3, 3, 2)


def test_quorum_leader_that_does_not_answer_leads_no_more():
    made = picture(quorum_said(1), quorum_said(2, caught_up=3), quorum_said(3))
    made.take({"kind": "link", "node_id": 2, "state": "down", "why": "gone", "time_ms": 3_000})
    assert made.quorum == Quorum(4, None, 3, None)
    elected = {"kind": "quorum-leader-elected", "time_ms": 3_010, "node_id": 3, "leader": 3, "epoch": 5, "message": ""}
    made.take(elected)
    assert made.quorum == Quorum(5, 3, 3, None)


def test_degraded_partitions_are_those_whose_state_is_not_ok():
    random_source = random.Random(5)
    rows = [
        {**SNAPSHOT["partitions"][0], "partition": number, "leader": random_source.choice((None, -1, 1)),
         "replicas": [1, 2, 3][: random_source.randint(1, 3)], "isr": [1, 2, 3][: random_source.randint(0, 3)],
         "min_isr": random_source.randint(1, 4)}
        for number in range(500)
    ]  # fmt: skip
    rows = [{**row, "isr": [node for node in row["isr"] if node in row["replicas"]]} for row in rows]
    made = picture({**SNAPSHOT, "partitions": rows})
    assert len(made.partitions) == 500
    assert made.degraded == [each for each in made.partitions.values() if each.state != "ok"]
    assert 0 < len(made.degraded) < 500
