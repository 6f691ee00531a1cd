"""/topics and /metadata/leader on real brokers."""

from confluent_kafka import Consumer, TopicPartition
from support.waiting import wait_until

from yak.client.admin import Admin


def test_a_topic_made_here_is_one_to_every_kafka_client(cluster, new_name):
    name = new_name()
    wanted = {"name": name, "partitions": 4, "replication_factor": 2, "configs": {"retention.ms": 86_400_000}}
    checked = cluster.post(2, "/topics", json=wanted | {"validate_only": True})
    assert (checked.status_code, checked.json()["created"]) == (200, False)
    assert cluster.get(2, f"/topics/{name}").status_code == 404

    made = cluster.post(2, "/topics", json=wanted)
    assert (made.status_code, made.headers["location"]) == (201, f"/topics/{name}")
    body = made.json()
    assert (body["name"], body["partitions"], body["replication_factor"], body["created"]) == (name, 4, 2, True)
    seen = wait_until(lambda: Admin(cluster.bootstrap).metadata().topics.get(name), "the topic at every broker")
    assert [len(each.replicas) for each in seen.partitions] == [2] * 4

    again = cluster.post(1, "/topics", json=wanted)
    assert (again.status_code, again.json()["error"]) == (409, "topic-already-exists")

    for node in (1, 3):
        wait_until(lambda node=node: cluster.get(node, f"/topics/{name}").status_code == 200, f"it on node {node}")
    described = cluster.get(3, f"/topics/{name}").json()
    assert described["topic_id"] == body["topic_id"]
    assert described["configs"] == {"retention.ms": "86400000"}
    for number, each in enumerate(described["partitions"]):
        assert each["partition"] == number
        assert sorted(each["replicas"]) == sorted(each["isr"])
        assert each["leader"] == each["replicas"][0]
        assert (each["log_start_offset"], each["high_watermark"], each["size_bytes"]) == (0, 0, 0)

    cluster.post(1, "/produce", json={"topic": name, "partition": 2, "payload": "x"}).raise_for_status()
    after = cluster.get(3, f"/topics/{name}").json()["partitions"][2]
    assert after["high_watermark"] == 1
    assert after["size_bytes"] > 61

    gone = cluster.delete(1, f"/topics/{name}")
    assert (gone.status_code, gone.json()["topic_id"]) == (200, body["topic_id"])
    assert cluster.get(1, f"/topics/{name}").status_code == 404
    assert cluster.delete(1, f"/topics/{name}").status_code == 404
    wait_until(lambda: name not in Admin(cluster.bootstrap).metadata().topics, "its end at every broker")


def test_the_list_hides_what_is_the_clusters_own(cluster, new_name):
    name = new_name()
    cluster.post(1, "/topics", json={"name": name, "partitions": 2}).raise_for_status()
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name})
    consumer.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
    consumer.close()
    listed = cluster.get(1, "/topics").json()["topics"]
    assert [topic["name"] for topic in listed] == sorted(topic["name"] for topic in listed)
    found = next(topic for topic in listed if topic["name"] == name)
    assert (found["partitions"], found["replication_factor"], found["internal"]) == (2, 3, False)
    assert not any(topic["internal"] for topic in listed)
    everything = cluster.get(1, "/topics?internal=true").json()["topics"]
    assert [topic["name"] for topic in everything if topic["internal"]] == ["__consumer_offsets"]
    assert cluster.get(1, "/topics?internal=maybe").status_code == 400


IMPOSSIBLE = [
    ({}, "bad-body"),
    ([], "bad-body"),
    ({"name": 1}, "bad-body"),
    ({"name": ""}, "bad-body"),
    ({"name": "t", "partitions": 0}, "bad-body"),
    ({"name": "t", "partitions": 10_001}, "bad-body"),
    ({"name": "t", "partitions": "3"}, "bad-body"),
    ({"name": "t", "partitions": True}, "bad-body"),
    ({"name": "t", "replication_factor": 1.5}, "bad-body"),
    ({"name": "t", "configs": []}, "bad-body"),
    ({"name": "t", "configs": {"retention.ms": None}}, "bad-body"),
    ({"name": "t", "validate_only": 1}, "bad-body"),
    ({"name": "t", "numPartitions": 3}, "bad-body"),
    ({"name": "a b"}, "invalid-topic-exception"),
    ({"name": ".."}, "invalid-topic-exception"),
    ({"name": "x" * 250}, "invalid-topic-exception"),
    ({"name": "t", "replication_factor": 4}, "invalid-replication-factor"),
    ({"name": "t", "configs": {"no.such": "1"}}, "invalid-config"),
    ({"name": "t", "configs": {"retention.ms": "soon"}}, "invalid-config"),
]


def test_topics_that_cannot_be_are_refused(cluster):
    for body, error in IMPOSSIBLE:
        found = cluster.post(1, "/topics", json=body)
        assert (found.status_code, found.json()["error"]) == (400, error), (body, found.text)
    assert cluster.get(1, "/topics/t").status_code == 404


def test_metadata_leader_route_returns_the_controller_and_the_partition_leader(cluster, new_name):
    name = new_name()
    Admin(cluster.bootstrap).create_topic(name, assignment=[[3, 1]])
    wait_until(lambda: cluster.get(2, f"/topics/{name}").status_code == 200, "the topic")
    controller = next(node for node in (1, 2, 3) if cluster.get(node, "/health").json()["is_controller"])
    for node in (1, 2, 3):
        found = cluster.get(node, "/metadata/leader").json()["controller"]
        assert (found["node_id"], found["http"]) == (controller, cluster.url(controller))
        assert found["epoch"] >= 1
    found = cluster.get(2, f"/metadata/leader?topic={name}&partition=0").json()["leader"]
    assert (found["node_id"], found["http"], found["epoch"]) == (3, cluster.url(3), 0)
    assert f"{found['host']}:{found['port']}" in cluster.bootstrap

    cluster.local.kill(3)
    wait_until(
        lambda: cluster.get(2, f"/metadata/leader?topic={name}&partition=0").json()["leader"]["node_id"] == 1,
        "a new leader",
    )
    described = cluster.get(2, f"/topics/{name}").json()["partitions"][0]
    assert (described["leader"], described["isr"]) == (1, [1])
    for query, status in (
        ("?partition=0", 400),
        (f"?topic={name}", 400),
        (f"?topic={name}&partition=1", 404),
        ("?topic=no-such&partition=0", 404),
        ("?epoch=1", 400),
    ):
        assert cluster.get(2, "/metadata/leader" + query).status_code == status


def test_offsets_of_a_lost_leader_are_null_and_topics_are_created_meanwhile(cluster, new_name):
    name = new_name()
    Admin(cluster.bootstrap).create_topic(name, assignment=[[3], [1]])
    wait_until(lambda: cluster.get(2, f"/topics/{name}").status_code == 200, "the topic")
    cluster.local.kill(3)
    wait_until(lambda: cluster.get(2, f"/topics/{name}").json()["partitions"][0]["leader"] is None, "no leader")
    lost, there = cluster.get(2, f"/topics/{name}").json()["partitions"]
    assert (lost["high_watermark"], lost["size_bytes"]) == (None, None)
    assert (there["high_watermark"], there["size_bytes"]) == (0, 0)
    assert cluster.get(2, f"/metadata/leader?topic={name}&partition=0").json()["leader"] is None
    refused = cluster.get(2, f"/consume?topic={name}&partition=0")
    assert (refused.status_code, refused.json()["error"]) == (503, "leader-not-available")
    both = [{"topic": name, "partition": 0, "payload": 1}, {"topic": name, "partition": 1, "payload": 2}]
    found = cluster.post(2, "/produce", json=both)
    assert found.status_code == 207
    assert (found.json()["written"], found.json()["failed"]) == (1, 1)
    assert found.json()["records"][0]["error"] == "leader-not-available"
    assert found.json()["records"][1]["offset"] == 0
    other = new_name()
    assert cluster.post(2, "/topics", json={"name": other, "replication_factor": 2}).status_code == 201
    wait_until(
        lambda: cluster.delete(1, f"/topics/{other}").status_code == 200, "node 1 to know the topic, and to delete it"
    )
