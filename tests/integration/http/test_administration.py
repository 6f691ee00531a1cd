"""The administration over HTTP on real brokers: reads, moves, and reads while a broker is dead."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from support.waiting import wait_until

from yak.client.admin import Admin
from yak.client.replica_offsets import read_cluster
from yak.local.cluster import UpSettings


def make_topic(cluster, topic, assignment, **configs):
    """A topic led as assigned, and with every replica in sync, in the eyes of all three brokers; its name."""
    Admin(cluster.bootstrap).create_topic(
        topic, assignment=assignment, configs={name.replace("_", "."): value for name, value in configs.items()}
    )
    wait_until(
        lambda: all(
            [(row["leader"], sorted(row["isr"])) for row in rows(cluster, node, topic)]
            == [(each[0], sorted(each)) for each in assignment]
            for node in (1, 2, 3)
        ),
        "the topic on all brokers",
    )
    return topic


def rows(cluster, node, topic, more=""):
    found = cluster.get(node, f"/api/isr?topic={topic}{more}")
    return found.json() if found.status_code == 200 else []


# ------------------------------------------------------------------------------------------------------------ cluster


def test_every_broker_describes_the_same_cluster(cluster, new_name):
    make_topic(cluster, new_name(), [[1, 2, 3], [2, 3, 1]])
    found = [cluster.get(node, "/api/cluster").json() for node in (1, 2, 3)]
    for node, each in zip((1, 2, 3), found, strict=True):
        assert each["reported_by"] == node
        assert [broker["node_id"] for broker in each["brokers"]] == [1, 2, 3]
        assert {broker["state"] for broker in each["brokers"]} == {"ACTIVE"}
        assert [broker["is_controller"] for broker in each["brokers"]].count(True) == 1
        assert sum(broker["leaders"] for broker in each["brokers"]) == each["partitions"]
        assert each["brokers"][0]["http_address"] == cluster.url(1)
        assert (each["under_replicated"], each["offline"]) == (0, 0)
    assert len({each["cluster_id"] for each in found}) == 1


def test_a_dead_broker_is_fenced_and_what_it_led_is_led_by_others(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[3, 1, 2]])
    cluster.local.kill(3)
    wait_until(lambda: cluster.get(1, "/api/cluster").json()["brokers"][2]["state"] == "FENCED", "fenced")
    wait_until(lambda: rows(cluster, 2, topic)[0]["leader"] in (1, 2), "another leader")
    wait_until(lambda: cluster.get(2, "/api/cluster").json()["brokers"][2]["leaders"] == 0, "nothing led by the dead")
    wait_until(lambda: cluster.get(2, "/api/cluster").json()["under_replicated"] >= 1, "under-replicated")


# ---------------------------------------------------------------------------------------------------------- replicas


def test_isr_is_what_yak_isr_shows_from_every_broker(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[1, 2], [2, 3], [3, 1]])
    for partition in range(3):
        cluster.produce(topic, 5 + partition, partition)
    topic_id = cluster.get(1, f"/topics/{topic}").json()["topic_id"]
    found = read_cluster(cluster.bootstrap, timeout_s=5, topic=topic)
    expected = [{"topic_id": topic_id, **each.as_json()} for each in found.partitions]
    assert [each["high_watermark"] for each in expected] == [5, 6, 7]
    for node in (1, 2, 3):
        wait_until(lambda node=node: rows(cluster, node, topic) == expected, f"the same rows from {node}")
    led = rows(cluster, 2, topic, "&local=true")
    assert [(each["partition"], each["leader"]) for each in led] == [(1, 2)]


def test_isr_filters_and_keeps_what_is_known_of_a_dead_follower(cluster, new_name):
    whole, hurt, small = new_name(), new_name(), new_name()
    make_topic(cluster, whole, [[1, 2]])
    make_topic(cluster, hurt, [[1, 2, 3]])
    make_topic(cluster, small, [[2, 3]], min_insync_replicas="2")
    cluster.produce(hurt, 4)
    wait_until(lambda: rows(cluster, 1, hurt)[0]["log_end_offsets"]["3"] == 4, "all replicas at 4")
    cluster.local.kill(3)

    def names(query):
        listed = cluster.get(1, f"/api/isr?{query}").json()
        return {each["topic"] for each in listed} & {whole, hurt, small}

    wait_until(lambda: names("under_replicated=true") == {hurt, small}, "what is under-replicated")
    wait_until(lambda: names("under_min_isr=true") == {small}, "what is under min ISR")
    assert names("offline=true") == set()
    assert names("offline=true&under_replicated=true") == {hurt, small}
    assert [rows(cluster, 1, each)[0]["state"] for each in (whole, hurt, small)] == [
        "ok",
        "at_min_isr",
        "under_min_isr",
    ]
    assert names("") == {whole, hurt, small}
    cluster.produce(hurt, 2)
    found = rows(cluster, 2, hurt)[0]
    assert (found["isr"], found["high_watermark"]) == ([1, 2], 6)
    assert found["log_end_offsets"]["1"] == 6
    assert found["log_end_offsets"]["3"] == 4


def test_partition_detail_comes_from_its_leader_on_any_broker(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[2, 1]])
    cluster.produce(topic, 3)
    for node in (1, 2, 3):
        found = cluster.get(node, f"/api/partitions/{topic}/0").json()
        assert (found["reported_by"], found["leader"], found["high_watermark"]) == (2, 2, 3)
        assert (found["log_start_offset"], found["last_stable_offset"], found["segments"]) == (0, 3, 1)
        assert found["size_bytes"] > 0
        assert {each["node_id"] for each in found["isr_members"]} == {1, 2}
        assert [(each["node_id"], each["in_sync"]) for each in found["followers"]] == [(1, True)]
        assert 0 <= found["followers"][0]["last_fetched_ms_ago"] < 60_000
    own = cluster.get(1, f"/api/partitions/{topic}/0?local=true").json()
    assert (own["reported_by"], own["high_watermark"], own["followers"]) == (1, None, [])
    assert own["size_bytes"] > 0


def test_partition_without_leader_is_described_by_the_receiving_broker(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[3]])
    cluster.local.kill(3)
    wait_until(lambda: cluster.get(1, f"/api/partitions/{topic}/0").json()["leader"] is None, "no leader")
    found = cluster.get(1, f"/api/partitions/{topic}/0").json()
    assert (found["reported_by"], found["state"], found["high_watermark"], found["size_bytes"]) == (
        1,
        "offline",
        None,
        None,
    )


INVALID = [
    ("/api/isr?topic=no-such-name", 404, "unknown-topic-or-partition"),
    ("/api/isr?under_replicated=yes", 400, "bad-parameter"),
    ("/api/isr?topics=a", 400, "bad-parameter"),
    ("/api/isr?local=true&local=true", 400, "bad-parameter"),
    ("/api/cluster?a=1", 400, "bad-parameter"),
    ("/api/partitions/no-such-name/0", 404, "unknown-topic-or-partition"),
    ("/api/partitions/no-such-name/x", 404, "unknown-topic-or-partition"),
    ("/api/groups/no-such-name", 404, "group-id-not-found"),
    ("/api/groups?state=Stable", 400, "bad-parameter"),
]


def test_invalid_input_is_refused(cluster):
    for path, status, slug in INVALID:
        found = cluster.get(1, path)
        assert (found.status_code, found.json()["error"]) == (status, slug), path


def test_partition_numbers_that_are_none_are_refused(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[1]])
    for number in ("-1", "1", "99999999999", "0x0", "%2e%2e"):
        found = cluster.get(1, f"/api/partitions/{topic}/{number}")
        assert found.status_code in (400, 404), number
        assert found.json()["hint"] or found.json()["message"]


# ------------------------------------------------------------------------------------------------------------- groups


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_described_with_members_and_lag_by_every_broker(cluster, new_name, protocol):
    topic, group = new_name(), new_name()
    make_topic(cluster, topic, [[1, 2, 3]])
    cluster.produce(topic, 5)
    consumer = cluster.consume(topic, group, 5, protocol)
    try:
        cluster.produce(topic, 2)
        for node in (1, 2, 3):
            listed = {each["group"]: each for each in cluster.get(node, "/api/groups").json()["groups"]}
            assert (listed[group]["type"], listed[group]["state"]) == (protocol, "Stable")
            found = cluster.get(node, f"/api/groups/{group}").json()
            assert (found["type"], found["state"], found["lag"]) == (protocol, "Stable", 2)
            assert found["coordinator"] == listed[group]["coordinator"]
            (member,) = found["members"]
            assert member["assignment"] == [{"topic": topic, "partition": 0}]
            assert member["topics"] == [topic]
            (place,) = found["partitions"]
            assert (place["committed"], place["high_watermark"], place["lag"]) == (5, 7, 2)
            assert place["member_id"] == member["member_id"]
    finally:
        consumer.close()
    wait_until(lambda: cluster.get(1, f"/api/groups/{group}").json()["state"] == "Empty", "an empty group")


def test_group_with_a_slash_in_its_name_is_described(cluster, new_name):
    topic, group = new_name(), f"{new_name()}/a b"
    make_topic(cluster, topic, [[1, 2, 3]])
    cluster.produce(topic, 1)
    cluster.consume(topic, group, 1).close()
    found = cluster.get(1, f"/api/groups/{quote(group, safe='')}").json()
    assert (found["group"], [each["topic"] for each in found["partitions"]]) == (group, [topic])


def test_a_group_is_found_again_when_its_coordinator_dies(cluster, new_name):
    topic, group = new_name(), new_name()
    make_topic(cluster, topic, [[1, 2, 3]])
    cluster.produce(topic, 3)
    cluster.consume(topic, group, 3).close()
    coordinator = cluster.get(1, f"/api/groups/{group}").json()["coordinator"]
    cluster.local.kill(coordinator)
    other = next(node for node in (1, 2, 3) if node != coordinator)

    def described():
        found = cluster.get(other, f"/api/groups/{group}")
        return found.json() if found.status_code == 200 else {"coordinator": coordinator}

    wait_until(lambda: described()["coordinator"] != coordinator, "the group at its new coordinator")
    # the topic may have lost its leader as well
    wait_until(lambda: [each["lag"] for each in described()["partitions"]] == [0], "the end of its partition")
    assert [each["committed"] for each in described()["partitions"]] == [3]


# ----------------------------------------------------------------------------------------------------------- failover


def test_failover_route_moves_leaderships_to_the_requested_broker(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[1, 2, 3], [2, 3, 1]])
    cluster.produce(topic, 3)
    found = cluster.post(3, "/api/failover", json={"topic": topic, "partition": 0, "to": 3})
    assert found.status_code == 200, found.text
    (moved,) = found.json()["moved"]
    assert (moved["partition"], moved["from"], moved["to"]) == (0, 1, 3)
    assert moved["leader_epoch"]["after"] > moved["leader_epoch"]["before"]
    assert found.json()["took_ms"] > 0
    for node in (1, 2, 3):
        wait_until(lambda node=node: rows(cluster, node, topic)[0]["leader"] == 3, f"the move is seen by {node}")
    cluster.produce(topic, 1)
    assert rows(cluster, 1, topic)[0]["high_watermark"] == 4

    again = cluster.post(2, "/api/failover", json={"topic": topic, "to": 3}).json()
    assert [(each["partition"], each["from"], each["to"]) for each in again["moved"]] == [(1, 2, 3)]
    assert again["stayed"] == [{"topic": topic, "partition": 0, "reason": "3 leads it already"}]


def test_failover_moves_what_a_broker_leads_and_reports_the_rest(cluster, new_name):
    topic, other, alone = new_name(), new_name(), new_name()
    make_topic(cluster, topic, [[2, 1, 3], [2, 3, 1]])
    make_topic(cluster, other, [[2, 1, 3], [2, 3, 1]])
    make_topic(cluster, alone, [[2]])
    # one topic by itself: how many each gets is counted over all that is moved, whatever else 2 leads just now
    found = cluster.post(1, "/api/failover", json={"topic": topic, "from": 2}).json()
    assert {each["topic"] for each in found["moved"]} == {topic}
    assert sorted(each["to"] for each in found["moved"]) == [1, 3]

    found = cluster.post(1, "/api/failover", json={"from": 2}).json()
    mine = [each for each in found["moved"] if each["topic"] == other]
    assert sorted(each["partition"] for each in mine) == [0, 1]
    assert {each["from"] for each in found["moved"]} == {2}
    assert {each["to"] for each in mine} <= {1, 3}
    (failed,) = (each for each in found["failed"] if each["topic"] == alone)
    assert failed["reason"] == "no other replica is in sync: ISR 2"
    assert [row["leader"] for row in rows(cluster, 1, alone)] == [2]
    stayed = cluster.post(1, "/api/failover", json={"topic": topic, "to": 2, "from": 2}).json()
    assert (stayed["moved"], stayed["failed"]) == ([], [])


def test_a_leadership_does_not_go_to_a_dead_broker(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[1, 2, 3]])
    cluster.local.kill(3)
    for node in (1, 2):
        wait_until(
            lambda node=node: rows(cluster, node, topic)[0]["isr"] == [1, 2], f"the ISR without 3, seen by {node}"
        )
    found = cluster.post(2, "/api/failover", json={"topic": topic, "to": 3}).json()
    assert found["failed"] == [{"topic": topic, "partition": 0, "reason": "3 is out of sync: ISR 1,2"}]
    assert rows(cluster, 1, topic)[0]["leader"] == 1


SENSELESS = [
    ({}, 400),
    ([], 400),
    ({"topic": 1}, 400),
    ({"topic": ""}, 400),
    ({"topic": "no-such-name"}, 404),
    ({"partition": 0}, 400),
    ({"from": 99}, 404),
    ({"from": True}, 400),
    ({"from": -1}, 400),
    ({"from": 1, "to": 2**40}, 400),
    ({"topics": "a"}, 400),
    ({"controller": 1}, 400),
    ({"controller": True, "from": 1}, 400),
]


def test_a_failover_that_makes_no_sense_is_refused(cluster):
    for body, status in SENSELESS:
        found = cluster.post(1, "/api/failover", json=body)
        assert found.status_code == status, (body, found.text)
        assert set(found.json()) == {"error", "message", "hint"}


# ----------------------------------------------------------------------------------------------------------- shutdown


def is_running(cluster, node):
    return next(each.state for each in cluster.local.status().brokers if each.node_id == node) == "running"


def test_a_broker_is_stopped_in_order_by_asking_another(cluster, new_name):
    topic = make_topic(cluster, new_name(), [[2, 3, 1]])
    found = cluster.post(1, "/api/brokers/2/shutdown")
    assert (found.status_code, found.json()["state"]) == (202, "stopping")
    wait_until(lambda: not is_running(cluster, 2), "the process ends")
    log = Path(cluster.local.log_path("node-2")).read_text()
    assert " stopped " in log.splitlines()[-1]
    wait_until(
        lambda: cluster.get(1, "/api/cluster").json()["brokers"][1]["state"] in ("CLOSED", "FENCED"), "known to be gone"
    )
    assert rows(cluster, 1, topic)[0]["leader"] in (1, 3)
    again = cluster.post(1, "/api/brokers/2/shutdown")
    assert (again.status_code, again.json()["error"]) == (409, "broker-not-running")
    cluster.local.up(UpSettings())


def test_a_broker_stops_itself(cluster):
    assert cluster.post(3, "/api/brokers/3/shutdown").status_code == 202
    wait_until(lambda: not is_running(cluster, 3), "the process ends")


def test_another_controller_is_elected_when_the_controller_stops(cluster):
    controller = cluster.get(1, "/api/cluster").json()["controller_id"]
    other = next(node for node in (1, 2, 3) if node != controller)
    found = cluster.post(other, "/api/failover", json={"controller": True})
    assert found.status_code == 200, found.text
    controller_move = found.json()["controller"]
    assert controller_move["from"] == controller
    assert controller_move["to"] not in (None, controller)
    wait_until(
        lambda: cluster.get(other, "/health").json()["controller_id"] == controller_move["to"], "the new controller"
    )
    wait_until(lambda: not is_running(cluster, controller), "the old one's process ends")


ABSENT = [("9", 404), ("x", 400), ("-1", 400), ("99999999999", 400)]


def test_a_broker_that_is_not_there_cannot_be_stopped(cluster):
    for node, status in ABSENT:
        found = cluster.post(1, f"/api/brokers/{node}/shutdown")
        assert found.status_code == status, node
        assert json.loads(found.text)["error"]
