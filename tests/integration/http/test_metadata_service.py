"""The metadata service on three real brokers: external brokers, topics, producers, what changed, and what was."""

import itertools
import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from support.waiting import wait_until

_ids = itertools.count(101)
BROKER = {
    "brokerId", "brokerHost", "brokerPort", "securityProtocol", "brokerStatus", "state", "rackId", "epoch",
    "internalUUID", "guest", "timestamp",
}  # fmt: skip
PARTITION = {
    "partitionId", "topicUUID", "topicName", "replicas", "ISR", "addingReplicas", "removingReplicas", "leader",
    "leaderEpoch", "partitionEpoch", "timestamp",
}  # fmt: skip


@pytest.fixture
def new_id():
    """An id that no broker has."""
    return lambda: next(_ids)


def invite(cluster, node_id, *, node=1, **more):
    body = {"brokerId": node_id, "brokerHost": "10.0.0.1", "brokerPort": 9092, **more}
    return cluster.post(node, "/register_broker", json=body)


def everything(cluster, node=1):
    found = cluster.get(node, "/broker_mgmt/0")
    assert found.status_code == 200, found.text
    return found.json()


def listed(cluster, node_id, node=1):
    return next((each for each in everything(cluster, node)["brokers"] if each["brokerId"] == node_id), None)


def active(cluster, node=1):
    found = cluster.get(node, "/get_active_brokers")
    assert found.status_code == 200
    return [each["brokerId"] for each in found.json()["brokers"]]


def refused(found, status, slug):
    assert (found.status_code, found.json()["error"]) == (status, slug), found.text
    assert set(found.json()) == {"error", "message", "hint"}
    assert found.json()["hint"]


def names(topics):
    return [each["name"] for each in topics]


def log_from(cluster, first, node=1):
    records = []
    while first is not None:
        page = cluster.get(node, f"/metadata/log?from={first}&limit=1000").json()
        records += page["records"]
        first = page["next"]
    return records


# ------------------------------------------------------------------------------------------------------- brokers


def test_yak_brokers_are_listed_with_the_names_of_kraft(cluster):
    assert [node for node in active(cluster) if node < 100] == [1, 2, 3]
    ours = listed(cluster, 1)
    assert set(ours) == BROKER
    assert (ours["brokerStatus"], ours["securityProtocol"], ours["guest"]) == ("ALIVE", "PLAINTEXT", False)
    assert ours["brokerPort"] == int(cluster.local.status().brokers[0].address.rpartition(":")[2])
    assert uuid.UUID(ours["internalUUID"])
    assert 0 < ours["timestamp"] <= time.time() + 1


def test_external_broker_is_registered_changed_and_closed_on_any_broker(cluster, new_id):
    node_id = new_id()
    before = time.time()
    made = invite(cluster, node_id, rackId="r1", securityProtocol="SASL_SSL")
    assert made.status_code == 201
    external = made.json()
    assert set(external) == BROKER
    assert (external["brokerHost"], external["brokerPort"], external["rackId"]) == ("10.0.0.1", 9092, "r1")
    assert (external["brokerStatus"], external["securityProtocol"], external["epoch"]) == ("ALIVE", "SASL_SSL", 1)
    assert external["guest"] is True
    assert before - 1 < external["timestamp"] < time.time() + 1
    wait_until(lambda: listed(cluster, node_id, 2) == external and node_id in active(cluster, 3), "the others know")

    changed = cluster.post(2, "/update_broker", json={"brokerId": node_id, "brokerPort": 9093})
    assert changed.status_code == 200
    assert changed.json() == external | {"brokerPort": 9093, "epoch": 2, "timestamp": changed.json()["timestamp"]}

    closed = cluster.delete(3, f"/unregister_broker/{node_id}")
    assert closed.status_code == 200
    assert (closed.json()["brokerStatus"], closed.json()["epoch"]) == ("CLOSED", 3)
    assert cluster.delete(3, f"/unregister_broker/{node_id}").json() == closed.json(), "once more changes nothing"
    wait_until(lambda: listed(cluster, node_id) == closed.json(), "its record stays readable")
    assert node_id not in active(cluster)

    wait_until(lambda: listed(cluster, node_id, 1)["brokerStatus"] == "CLOSED", "node 1 knows")
    back = invite(cluster, node_id, brokerHost="b")
    assert (back.status_code, back.json()["epoch"], back.json()["brokerStatus"]) == (201, 4, "ALIVE")
    assert back.json()["internalUUID"] != external["internalUUID"]

    assert not [each for each in log_from(cluster, 1) if each["record"].get("brokerId") == node_id]


def test_a_registration_that_is_repeated_changes_nothing(cluster, new_id):
    node_id, mine = new_id(), str(uuid.uuid4())
    first = invite(cluster, node_id, internalUUID=mine)
    again = invite(cluster, node_id, internalUUID=mine)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["internalUUID"] == mine
    refused(invite(cluster, node_id), 409, "duplicate-broker-registration")
    cluster.delete(1, f"/unregister_broker/{node_id}")
    refused(invite(cluster, node_id, internalUUID=mine), 409, "duplicate-broker-registration")


def test_a_change_may_name_the_epoch_that_it_is_of(cluster, new_id):
    node_id = new_id()
    invite(cluster, node_id)
    change = {"brokerId": node_id, "rackId": "x", "epoch": 1}
    assert cluster.post(1, "/update_broker", json=change).json()["epoch"] == 2
    refused(cluster.post(1, "/update_broker", json=change), 409, "stale-broker-epoch")
    done = cluster.post(1, "/update_broker", json={"brokerId": node_id, "brokerStatus": "CLOSED"}).json()
    assert (done["brokerStatus"], done["epoch"], done["rackId"]) == ("CLOSED", 3, "x")
    refused(cluster.post(1, "/update_broker", json={"brokerId": node_id, "rackId": "y"}), 409, "closed")
    back = cluster.post(1, "/update_broker", json={"brokerId": node_id, "rackId": None, "brokerStatus": "ALIVE"}).json()
    assert (back["brokerStatus"], back["epoch"], back["rackId"]) == ("ALIVE", 4, None)


def test_changes_from_all_brokers_at_once_each_count(cluster, new_id):
    node_id = new_id()
    invite(cluster, node_id)
    import concurrent.futures as futures

    def change(number):
        return cluster.post(1 + number % 3, "/update_broker", json={"brokerId": node_id, "brokerPort": 1000 + number})

    wait_until(lambda: all(listed(cluster, node_id, node) for node in (1, 2, 3)), "everybody knows the external broker")
    with futures.ThreadPoolExecutor(6) as pool:
        found = list(pool.map(change, range(12)))
    assert [each.status_code for each in found] == [200] * 12
    wait_until(lambda: listed(cluster, node_id)["epoch"] == 13, "twelve changes")


def test_an_id_of_a_yak_broker_is_refused_and_yak_brokers_are_not_changed_here(cluster):
    refused(invite(cluster, 2), 409, "duplicate-broker-registration")
    refused(cluster.post(1, "/update_broker", json={"brokerId": 2, "rackId": "x"}), 409, "yak-broker")
    refused(cluster.delete(1, "/unregister_broker/2"), 409, "broker-alive")
    refused(cluster.delete(1, "/unregister_broker/4711"), 404, "unknown-broker")
    refused(cluster.post(1, "/update_broker", json={"brokerId": 4711, "rackId": "x"}), 404, "unknown-broker")


BAD_BODIES = [
    ("/register_broker", {"brokerId": 9}),
    ("/register_broker", {"brokerId": "9", "brokerHost": "h", "brokerPort": 1}),
    ("/register_broker", {"brokerId": -1, "brokerHost": "h", "brokerPort": 1}),
    ("/register_broker", {"brokerId": 2**31, "brokerHost": "h", "brokerPort": 1}),
    ("/register_broker", {"brokerId": True, "brokerHost": "h", "brokerPort": 1}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "", "brokerPort": 1}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "a b", "brokerPort": 1}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "h" * 256, "brokerPort": 1}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "h", "brokerPort": 0}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "h", "brokerPort": 65536}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "h", "brokerPort": 1, "securityProtocol": "TLS"}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "h", "brokerPort": 1, "internalUUID": "x"}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "h", "brokerPort": 1, "brokerStatus": "CLOSED"}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "h", "brokerPort": 1, "epoch": 5}),
    ("/register_broker", {"brokerId": 9, "brokerHost": "h", "brokerPort": 1, "rackId": ["r"]}),
    ("/register_broker", []),
    ("/update_broker", {"brokerId": 9}),
    ("/update_broker", {"brokerId": 9, "brokerStatus": "FENCED"}),
    ("/update_broker", {"brokerId": 9, "brokerStatus": "CLOSED", "rackId": "r"}),
    ("/create_topic", {}),
    ("/create_topic", {"name": 5}),
    ("/create_topic", {"name": ""}),
    ("/create_topic", {"name": "a/b"}),
    ("/create_topic", {"name": "x" * 250}),
    ("/create_topic", {"name": "http-bad", "numPartitions": 0}),
    ("/create_topic", {"name": "http-bad", "numPartitions": 10**12}),
    ("/create_topic", {"name": "http-bad", "replicationFactor": 4}),
    ("/create_topic", {"name": "http-bad", "configs": {"no.such": "1"}}),
    ("/create_topic", {"name": "http-bad", "configs": {"retention.ms": None}}),
    ("/create_topic", {"name": "http-bad", "configs": [1]}),
    ("/create_topic", {"name": "http-bad", "partitions": 3}),
    ("/create_partition", {}),
    ("/create_partition", {"numPartitions": 3}),
    ("/create_partition", {"name": "a", "topic": "a"}),
    ("/create_partition", {"topicUUID": "x"}),
    ("/register_producer", {"brokerId": "1"}),
    ("/register_producer", {"brokerEpoch": -1}),
    ("/register_producer", {"producerId": 1}),
]


def test_bad_bodies_are_refused_with_a_hint_and_change_nothing(cluster):
    before = cluster.get(1, "/metadata/image").json()["offset"]
    for path, body in BAD_BODIES:
        found = cluster.post(1, path, json=body)
        assert 400 <= found.status_code < 500, (path, body, found.text)
        assert set(found.json()) == {"error", "message", "hint"}
    assert cluster.get(1, "/metadata/image").json()["offset"] == before


# --------------------------------------------------------------------------------------------- topics, producers


def test_a_topic_made_here_is_a_topic_to_every_client(cluster, new_name):
    name = new_name()
    body = {"name": name, "numPartitions": 2, "replicationFactor": 3, "configs": {"retention.ms": 60000}}
    made = cluster.post(1, "/create_topic", json=body)
    assert made.status_code == 201
    topic = made.json()
    assert set(topic) == {"name", "topicUUID", "numPartitions", "configs", "timestamp"}
    assert (topic["name"], topic["numPartitions"], topic["configs"]) == (name, 2, {"retention.ms": "60000"})
    found = cluster.get(2, f"/get_topic_by_name/{name}").json()
    assert {key: found[key] for key in topic} == topic
    assert [set(each) for each in found["partitions"]] == [PARTITION] * 2
    assert [each["partitionId"] for each in found["partitions"]] == [0, 1]
    assert all(sorted(each["ISR"]) == [1, 2, 3] for each in found["partitions"])
    assert all(each["topicUUID"] == topic["topicUUID"] for each in found["partitions"])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(name, b"x")
    assert producer.flush(10) == 0
    refused(cluster.post(3, "/create_topic", json=body), 409, "topic-already-exists")
    refused(cluster.get(1, "/get_topic_by_name/no-such"), 404, "unknown-topic-or-partition")


def test_partitions_are_added_one_by_one_or_to_a_number(cluster, new_name):
    name = new_name()
    topic = cluster.post(1, "/create_topic", json={"name": name, "numPartitions": 1, "replicationFactor": 2}).json()
    one = cluster.post(1, "/create_partition", json={"name": name})
    assert one.status_code == 201
    assert (one.json()["numPartitions"], [each["partitionId"] for each in one.json()["partitions"]]) == (2, [1])
    assert set(one.json()["partitions"][0]) == PARTITION
    more = cluster.post(1, "/create_partition", json={"topic": name, "numPartitions": 4}).json()
    assert [each["partitionId"] for each in more["partitions"]] == [2, 3]
    where = {"topicUUID": topic["topicUUID"], "partitionId": 4, "replicas": [3, 1]}
    placed = cluster.post(1, "/create_partition", json=where).json()
    assert placed["partitions"][0]["replicas"] == [3, 1]
    refused(cluster.post(1, "/create_partition", json={"name": name, "partitionId": 0}), 409, "partition-exists")
    assert cluster.post(1, "/create_partition", json={"name": name, "partitionId": 9}).status_code == 400
    assert cluster.post(1, "/create_partition", json={"name": name, "numPartitions": 2}).status_code == 400
    assert cluster.post(1, "/create_partition", json={"name": name, "replicas": [3, 4711]}).status_code == 400
    assert cluster.get(1, f"/get_topic_by_name/{name}").json()["numPartitions"] == 5


def test_producers_get_unique_ids(cluster, new_id):
    external = new_id()
    assert invite(cluster, external).status_code == 201
    given = [cluster.post(node, "/register_producer", json={}).json() for node in (1, 2, 3, 1)]
    given.append(cluster.post(2, "/register_producer").json())
    given.append(cluster.post(1, "/register_producer", json={"brokerId": 3}).json())
    given.append(cluster.post(1, "/register_producer", json={"brokerId": external, "brokerEpoch": 1}).json())
    assert len({each["producerId"] for each in given}) == len(given)
    assert [each["brokerId"] for each in given] == [1, 2, 3, 1, 2, 3, external]
    assert set(given[0]) == {"brokerId", "brokerEpoch", "producerId", "producerEpoch", "timestamp"}
    assert given[0]["brokerEpoch"] == listed(cluster, 1)["epoch"]
    stale = {"brokerId": 1, "brokerEpoch": given[0]["brokerEpoch"] + 1}
    refused(cluster.post(1, "/register_producer", json=stale), 409, "stale-broker-epoch")
    refused(cluster.post(1, "/register_producer", json={"brokerId": 4711}), 404, "unknown-broker")
    cluster.delete(1, f"/unregister_broker/{external}")
    refused(cluster.post(1, "/register_producer", json={"brokerId": external}), 409, "broker-not-alive")


# ------------------------------------------------------------------------------------------- changes and history


def test_changes_since_a_time_are_returned_and_all_metadata_after_ten_minutes(cluster, new_name, new_id):
    everything_now = everything(cluster)
    assert everything_now["full"] is True
    assert {"brokers", "topics", "partitions", "producers", "controllerId"} <= set(everything_now)
    before = time.time()
    full = cluster.get(2, f"/broker_mgmt/{before - 600.5}").json()
    assert full["full"] is True
    present, gone = new_name(), new_name()
    cluster.post(2, "/create_topic", json={"name": present, "numPartitions": 2, "replicationFactor": 1})
    cluster.post(2, "/create_topic", json={"name": gone, "numPartitions": 1, "replicationFactor": 1})
    external = new_id()
    invite(cluster, external, node=2)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([gone])[gone].result(60)
    wait_until(lambda: gone in names(cluster.get(2, f"/broker_mgmt/{before}").json()["removedTopics"]), "the deletion")
    changes = cluster.get(2, f"/broker_mgmt/{before}").json()
    assert changes["full"] is False
    # On a busy machine the cluster itself may change too: a replica leaves the ISR, a broker is fenced.
    parts = [each for kind in ("brokers", "topics", "partitions", "removedTopics") for each in changes[kind]]
    assert [each for each in parts if each["timestamp"] < before - 0.001] == []
    assert names(changes["topics"]) == [present]
    assert [each["partitionId"] for each in changes["partitions"] if each["topicName"] == present] == [0, 1]
    assert not [each for each in changes["partitions"] if each["topicName"] == gone]
    assert names(changes["removedTopics"]) == [gone]
    assert external in [each["brokerId"] for each in changes["brokers"]]
    clients = cluster.get(2, f"/client_mgmt/{before}").json()
    assert {"brokers", "topics", "partitions", "removedTopics"} <= set(clients)
    assert not {"producers", "controllerId", "brokerConfigs"} & set(clients)
    assert clients["topics"] == changes["topics"]
    # Asked again with what an answer says, nothing is missed, and by then nothing is left.
    wait_until(lambda: not cluster.get(2, f"/client_mgmt/{following(cluster)}").json()["topics"], "no more changes")
    everybody = cluster.get(2, "/client_mgmt/0").json()
    assert present in [each["name"] for each in everybody["topics"]]
    assert gone not in [each["name"] for each in everybody["topics"]]


def following(cluster):
    return cluster.get(2, "/client_mgmt/0").json()["timestamp"]


def test_times_that_are_none_are_refused_with_a_hint(cluster):
    for time_ in ("nan", "-1", "inf", "1e3", "9999999999", "9" * 40, "x", "0x10", "1.", "%20", "Infinity"):
        for path in ("/broker_mgmt", "/client_mgmt"):
            refused(cluster.get(1, f"{path}/{time_}"), 400, "bad-parameter")


def test_a_time_of_this_moment_is_no_future(cluster):
    assert cluster.get(1, f"/broker_mgmt/{time.time()}").status_code == 200
    refused(cluster.get(1, f"/broker_mgmt/{time.time() + 60}"), 400, "bad-parameter")


def test_the_whole_log_is_read_in_pages(cluster, new_name):
    cluster.post(1, "/create_topic", json={"name": new_name()})
    page = cluster.get(2, "/metadata/log?limit=3").json()
    assert (page["begin"], page["source"], page["next"], len(page["records"])) == (1, "store", 4, 3)
    assert [each["offset"] for each in page["records"]] == [1, 2, 3]
    assert page["records"][0]["kind"] == "Cluster"
    records = log_from(cluster, 1)
    assert [each["offset"] for each in records] == list(range(1, records[-1]["offset"] + 1))
    assert {"RegisterBroker", "BrokerChange", "Topic", "Partition", "ControllerChange"} <= {
        each["kind"] for each in records
    }
    assert all(each["timestamp"] > 1e9 for each in records)
    end = cluster.get(1, f"/metadata/log?from={page['end'] + 1000}").json()
    assert (end["records"], end["next"]) == ([], None)
    for bad in ("from=-1", "from=x", "limit=0", "limit=1001", "until=5", "from=1&from=2"):
        refused_parameter = cluster.get(1, f"/metadata/log?{bad}")
        assert (refused_parameter.status_code, refused_parameter.json()["error"]) == (400, "bad-parameter")


def test_the_cluster_as_it_was(cluster, new_name, new_id):
    first, second, external = new_name(), new_name(), new_id()
    cluster.post(1, "/create_topic", json={"name": first})
    invite(cluster, external)
    then = cluster.get(1, "/metadata/image").json()
    assert first in [each["name"] for each in then["topics"]]
    time.sleep(0.01)
    cluster.post(1, "/create_topic", json={"name": second})
    cluster.delete(1, f"/unregister_broker/{external}")
    now = cluster.get(1, "/metadata/image").json()
    assert second in [each["name"] for each in now["topics"]]
    assert now["offset"] > then["offset"]
    assert external in [each["brokerId"] for each in then["brokers"]]
    then["brokers"] = [each for each in then["brokers"] if not each["guest"]]
    for node in (1, 2, 3):
        wait_until(lambda n=node: cluster.get(n, "/metadata/image").json()["offset"] >= now["offset"], "all caught up")
        was = cluster.get(node, f"/metadata/image?at={then['offset']}").json()
        assert was == then
        assert cluster.get(node, f"/metadata/image?at={then['timestamp']}").json() == then
    start = cluster.get(1, "/metadata/image?at=1").json()
    assert (start["offset"], start["brokers"], start["topics"]) == (1, [], [])
    assert cluster.get(1, "/metadata/image?at=0").json()["offset"] == 0
    refused(cluster.get(1, "/metadata/image?at=99999999"), 404, "not-yet")
    for bad in ("nan", "-1", "tomorrow", "2999-01-01T00:00:00Z", "9" * 30, "1e400"):
        refused(cluster.get(1, f"/metadata/image?at={bad}"), 400, "bad-parameter")


# ------------------------------------------------------------------------------------------------ while all is not well


def test_external_brokers_get_no_partitions_also_when_they_are_the_only_others(cluster, new_name, new_id):
    externals = [new_id() for _ in range(3)]
    assert [invite(cluster, external).status_code for external in externals] == [201] * 3
    name = new_name()
    cluster.post(1, "/create_topic", json={"name": name, "numPartitions": 3, "replicationFactor": 3})
    listing = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10)
    assert sorted(listing.brokers) == [1, 2, 3], "no Kafka client hears of an external broker"
    cluster.local.kill(2)
    cluster.local.kill(3)
    wait_until(lambda: active(cluster) == [1, *sorted(known_external_brokers(cluster))], "the dead are fenced")
    other, wide = new_name(), new_name()
    # A replica goes to a registered broker that is dead, rather than to an external broker.
    refused(
        cluster.post(1, "/create_topic", json={"name": other, "replicationFactor": 4}),
        400,
        "invalid-replication-factor",
    )
    assert (
        cluster.post(1, "/create_topic", json={"name": wide, "numPartitions": 4, "replicationFactor": 3}).status_code
        == 201
    )
    for each in cluster.get(1, f"/get_topic_by_name/{wide}").json()["partitions"]:
        assert (each["replicas"][0], sorted(each["replicas"])) == (1, [1, 2, 3])
        assert (each["ISR"], each["leader"]) == ([1], 1)
    assert (
        cluster.post(1, "/create_topic", json={"name": other, "numPartitions": 4, "replicationFactor": 1}).status_code
        == 201
    )
    for each in cluster.get(1, f"/get_topic_by_name/{other}").json()["partitions"]:
        assert (each["replicas"], each["ISR"], each["leader"]) == ([1], [1], 1)
    wait_until(
        lambda: all(
            (each["leader"], each["ISR"]) == (1, [1])
            for each in cluster.get(1, f"/get_topic_by_name/{name}").json()["partitions"]
        ),
        "node 1 leads all",
    )
    named = {"name": other, "replicas": [externals[0]]}
    refused(cluster.post(1, "/create_partition", json=named), 400, "invalid-replica-assignment")


def known_external_brokers(cluster):
    return [
        each["brokerId"] for each in everything(cluster)["brokers"] if each["guest"] and each["brokerStatus"] == "ALIVE"
    ]


def test_metadata_routes_continue_while_a_broker_is_dead(cluster, new_name, new_id):
    dead = next(node for node in (1, 2, 3) if cluster.get(node, "/health").json()["is_controller"])
    node = 1 + dead % 3
    cluster.local.kill(dead)
    name, external = new_name(), new_id()

    def create():
        made = cluster.post(node, "/create_topic", json={"name": name, "numPartitions": 1, "replicationFactor": 1})
        return made.status_code == 201 or (made.status_code == 409 and "exists" in made.text)

    wait_until(create, "a topic")
    assert invite(cluster, external, node=node).status_code == 201
    assert cluster.post(node, "/update_broker", json={"brokerId": external, "rackId": "z"}).json()["epoch"] == 2
    assert cluster.post(node, "/create_partition", json={"name": name}).status_code == 201
    assert cluster.get(node, f"/get_topic_by_name/{name}").json()["numPartitions"] == 2
    assert cluster.post(node, "/register_producer").status_code == 201
    wait_until(lambda: listed(cluster, dead, node)["brokerStatus"] == "FENCED", "the dead one is fenced")
    assert dead not in active(cluster, node)
    refused(cluster.post(node, "/register_producer", json={"brokerId": dead}), 409, "broker-not-alive")
    assert cluster.get(node, f"/client_mgmt/{time.time() - 5}").status_code == 200
    assert cluster.get(node, "/metadata/log?limit=1").status_code == 200
    assert cluster.get(node, "/metadata/image?at=5").status_code == 200
    assert cluster.delete(node, f"/unregister_broker/{external}").json()["brokerStatus"] == "CLOSED"

    # One that is gone for good is forgotten, readable all the same, and not in an external broker's way when it comes back.
    gone = cluster.delete(node, f"/unregister_broker/{dead}")
    assert (gone.status_code, gone.json()["brokerStatus"], gone.json()["guest"]) == (200, "CLOSED", False)
    assert listed(cluster, dead, node) == gone.json()
    refused(invite(cluster, dead, node=node), 409, "duplicate-broker-registration")
    assert cluster.delete(node, f"/unregister_broker/{dead}").json() == gone.json()
