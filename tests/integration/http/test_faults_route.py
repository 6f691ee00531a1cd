"""/api/faults on three real brokers: any of them carries a request out on all."""

import pytest
from confluent_kafka import Producer

from yak.client.admin import Admin

ERROR = {"fault": "inject_error", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1}


@pytest.fixture
def faults(cluster):
    yield cluster
    cluster.delete(1, "/api/faults")


def listed(cluster, node=1, query=""):
    found = cluster.get(node, f"/api/faults{query}")
    assert found.status_code == 200, found.text
    return found.json()["faults"]


def test_fault_is_on_all_brokers_hits_a_client_and_is_cleared(faults, new_name):
    topic = new_name()
    Admin(faults.bootstrap).create_topic(topic, partitions=1, replication_factor=3)
    added = faults.post(2, "/api/faults", json=ERROR | {"topic": topic})
    assert (added.status_code, added.json()["brokers"]) == (201, [1, 2, 3])
    producer = Producer({"bootstrap.servers": faults.bootstrap})
    producer.produce(topic, b"a")
    assert producer.flush(20) == 0
    assert [each["node_id"] for each in listed(faults, 3)] == [1, 2, 3]
    assert sum(each["hits"] for each in listed(faults)) == 1
    gone = faults.delete(3, f"/api/faults/{added.json()['id']}")
    assert gone.json() == {"cleared": [added.json()["id"]]}
    assert listed(faults) == []


def test_fault_of_one_broker_and_of_one_replica(faults):
    faults.post(1, "/api/faults?broker=3", json=ERROR)
    faults.post(1, "/api/faults", json={"fault": "lag_replica", "topic": "t", "partition": 0, "broker": 2})
    assert [(each["node_id"], each["fault"]) for each in listed(faults)] == [(2, "lag_replica"), (3, "inject_error")]
    assert [each["node_id"] for each in listed(faults, 1, "?broker=3")] == [3]
    assert len(faults.delete(1, "/api/faults").json()["cleared"]) == 2


WRONG = [
    ({}, 400, "bad-body", "fault"),
    ({"fault": "x"}, 400, "bad-body", "fault"),
    (ERROR | {"api": "Prodce"}, 400, "bad-fault", "Prodce"),
    (ERROR | {"api": "Heartbeat", "topic": "t"}, 400, "bad-fault", "no result for a topic"),
    (ERROR | {"times": 0}, 400, "bad-body", "times"),
    (ERROR | {"id": "x"}, 400, "bad-body", "id"),
    ({"fault": "lag_replica", "topic": "t", "partition": 0, "broker": 9}, 404, "broker-id-not-registered", "9"),
]


def test_wrong_fault_is_refused_on_all_brokers(faults):
    for body, status, slug, text in WRONG:
        found = faults.post(1, "/api/faults", json=body)
        assert (found.status_code, found.json()["error"]) == (status, slug), body
        assert text in found.json()["message"]
    assert listed(faults) == []


def test_unknown_fault_and_broker_are_not_found(faults):
    assert faults.delete(1, "/api/faults/none").json()["error"] == "no-fault"
    assert faults.get(1, "/api/faults?broker=7").json()["error"] == "broker-id-not-registered"


def test_broker_without_the_config_answers_409(broker):
    import httpx

    url = broker.start(http_port=0).http_url
    found = httpx.post(f"{url}/api/faults", json=ERROR, trust_env=False)
    assert (found.status_code, found.json()["error"]) == (409, "faults-off")
