"""HTTP of a cluster whose metadata are in a quorum of its brokers, without Redis."""

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import closing

import jsonschema
import pytest
from support.raft_cluster import RaftCluster
from support.waiting import wait_until

BROKER = {"brokerId": 901, "brokerHost": "10.0.0.1", "brokerPort": 9092}
RATES_MAX = 100
"""Events of rates that a busy machine may need until they say what is expected."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RaftCluster]:
    with closing(RaftCluster(tmp_path_factory.mktemp("raft"), brokers=4, voters=3)) as made:
        yield made.start()


@pytest.fixture
def cluster(running: RaftCluster) -> RaftCluster:
    """The cluster with all brokers up."""
    wait_until(lambda: all(running.get(node, "/health").status_code == 200 for node in running.nodes), "all brokers")
    return running


def described(cluster: RaftCluster, node: int) -> dict[str, object]:
    found = cluster.get(node, "/api/quorum")
    assert found.status_code == 200, found.text
    return found.json()


def test_quorum_is_described_the_same_by_every_broker(cluster: RaftCluster) -> None:
    wait_until(lambda: len(described(cluster, 1)["observers"]) == 1, "the observer's fetch")
    for node in cluster.nodes:
        quorum = described(cluster, node)
        leader = quorum["leader_id"]
        assert (quorum["metadata"], quorum["reported_by"], quorum["epoch"] > 0) == ("raft", node, True)
        assert quorum["role"] == ("leader" if node == leader else "observer" if node == 4 else "follower")
        voters = {each["node_id"]: each for each in quorum["voters"]}
        assert sorted(voters) == [1, 2, 3]
        assert [each["node_id"] for each in quorum["observers"]] == [4]
        assert voters[leader]["last_fetch_time_ms"] is None
        for each in (*quorum["voters"], *quorum["observers"]):
            assert each["log_end_offset"] >= quorum["high_watermark"] - each["lag"] > 0
            assert each["host"] == "127.0.0.1"
            assert cluster.bootstrap.split(",")[each["node_id"] - 1] == f"127.0.0.1:{each['port']}"
            assert each["directory_id"]
            if each["node_id"] != leader:
                assert abs(each["last_fetch_time_ms"] - time.time() * 1000) < 60_000
                assert each["last_caught_up_time_ms"] > 0


def test_health_and_cluster_name_the_quorum_and_no_redis(cluster: RaftCluster) -> None:
    leader = cluster.quorum_leader()
    for node in cluster.nodes:
        for path in ("/health", "/api/cluster"):
            body = cluster.get(node, path).json()
            assert body["redis"] is None
            quorum = body["quorum"]
            assert (quorum["state"], quorum["lost_ms"], quorum["leader_id"]) == ("connected", None, leader)
            assert quorum["voters"] == [1, 2, 3]
    controller = cluster.get(1, "/metadata/leader").json()["controller"]
    assert controller["node_id"] == cluster.get(2, "/health").json()["controller_id"]


@pytest.mark.parametrize("path", ["/api/quorum", "/api/cluster"])
def test_answers_match_the_openapi_document(cluster: RaftCluster, path: str) -> None:
    document = cluster.get(1, "/openapi.json").json()
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    for node in cluster.nodes:
        jsonschema.validate(cluster.get(node, path).json(), {**schema, "components": document.get("components", {})})


def test_events_have_what_each_broker_knows_of_the_quorum(cluster: RaftCluster) -> None:
    leader = cluster.quorum_leader()
    for node in (leader, 4):
        expected = {"leader_id": leader, "caught_up": 3 if node == leader else None}
        with cluster.client.stream("GET", cluster.url(node, "/api/events?snapshot=true&rates=200ms")) as answer:
            lines = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
            first = next(lines)
            assert (first["kind"], first["cluster"]["redis"]) == ("snapshot", None)
            assert first["cluster"]["quorum"]["leader_id"] == leader
            rates = itertools.islice((each["quorum"] for each in lines if each["kind"] == "rates"), RATES_MAX)
            assert any({name: known[name] for name in expected} == expected for known in rates)


def test_metadata_log_and_earlier_states_come_from_the_quorum(cluster: RaftCluster) -> None:
    before = cluster.get(1, "/metadata/log?from=1&limit=1000").json()
    made = cluster.post(2, "/topics", json={"name": "raft-topic", "partitions": 2, "replication_factor": 3})
    assert made.status_code == 201, made.text
    for node in cluster.nodes:
        wait_until(lambda node=node: cluster.get(node, "/topics/raft-topic").status_code == 200, "the topic")
        page = cluster.get(node, f"/metadata/log?from={before['end'] + 1}&limit=1000").json()
        assert page["source"] == "store"
        assert "Topic" in [each["kind"] for each in page["records"]]
        assert page["records"][0]["offset"] == before["end"] + 1
        then = cluster.get(node, f"/metadata/image?at={before['end']}").json()
        assert (then["offset"], then["topics"]) == (before["end"], [])
        now = cluster.get(node, "/metadata/image").json()
        assert [each["name"] for each in now["topics"]] == ["raft-topic"]
        assert cluster.get(node, "/broker_mgmt/0").json()["topics"]


def test_external_brokers_in_the_quorum_survive_a_restart(cluster: RaftCluster) -> None:
    made = cluster.post(4, "/register_broker", json=BROKER)
    assert (made.status_code, made.json()["epoch"]) == (201, 1), made.text
    assert cluster.post(1, "/register_broker", json=BROKER | {"brokerHost": "10.0.0.2"}).status_code == 409
    changed = cluster.post(2, "/update_broker", json={"brokerId": 901, "rackId": "r1", "epoch": 1})
    assert (changed.status_code, changed.json()["epoch"]) == (200, 2), changed.text
    assert cluster.post(3, "/update_broker", json={"brokerId": 901, "rackId": "r2", "epoch": 1}).status_code == 409

    def listed(node: int) -> dict[str, object] | None:
        brokers = cluster.get(node, "/get_active_brokers").json()["brokers"]
        return next((each for each in brokers if each["brokerId"] == 901), None)

    for node in cluster.nodes:
        wait_until(lambda node=node: listed(node) == changed.json(), f"the broker at {node}")
    follower = 1 if cluster.quorum_leader() != 1 else 2
    cluster.kill9(follower)
    cluster.start(follower)
    wait_until(lambda: listed(follower) == changed.json(), "the broker after a restart")
    assert cluster.ask(3, "DELETE", "/unregister_broker/901").json()["brokerStatus"] == "CLOSED"
    wait_until(lambda: listed(follower) is None, "the end of the broker")


def test_quorum_without_a_majority_is_described_by_what_the_broker_knows(cluster: RaftCluster) -> None:
    leader = cluster.quorum_leader()
    alive = next(node for node in (1, 2, 3) if node != leader)
    dead = [node for node in (1, 2, 3) if node != alive]
    for node in dead:
        cluster.pause(node)
    try:
        wait_until(lambda: "message" in described(cluster, alive), "no leader that answers", seconds=30.0)
        quorum = described(cluster, alive)
        own = next(each for each in quorum["voters"] if each["node_id"] == alive)
        assert own["log_end_offset"] >= quorum["high_watermark"] > 0
        assert {each["log_end_offset"] for each in quorum["voters"] if each is not own} == {None}
        wait_until(
            lambda: cluster.get(alive, "/api/cluster").json()["quorum"]["state"] == "lost", "a lost store", seconds=30.0
        )
        refused = cluster.post(alive, "/register_broker", json=BROKER | {"brokerId": 902})
        assert (refused.status_code, refused.json()["error"]) == (503, "metadata-store-unavailable")
        assert cluster.get(alive, "/metadata/log").json()["records"]
        assert cluster.get(alive, "/health/live").status_code == 200
    finally:
        for node in dead:
            cluster.resume(node)
    wait_until(lambda: "message" not in described(cluster, alive), "a leader again", seconds=30.0)
