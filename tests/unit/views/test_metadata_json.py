"""What the metadata service tells of an image, and of records."""

import uuid
from dataclasses import replace

import pytest

from yak.cluster.image import REMOVED_TOPICS_MAX, Image, RemovedTopic
from yak.cluster.records import BrokerState
from yak.ports.metadata_store import TailedRecord
from yak.views.metadata_json import (
    CLOCKS_MS,
    FULL_AFTER_MS,
    ExternalBroker,
    broker_json,
    changes_json,
    cluster_json,
    known_up_to_ms,
)
from yak.views.metadata_records_json import record_json

A, B = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
NOW_MS = 20_000
EXTERNAL = [ExternalBroker(9, 2, "u", "h", 9092, None, "SSL", BrokerState.CLOSED, 9_100)]
WHERE = {"host": "h", "port": 9092, "rack": None}
PART = {"partition": 0, "replicas": "1,2", "isr": "1@2,2@3", "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
CHANGED = PART | {"topic_id": A, "isr": "2@3", "elr": "", "leader": 2, "leader_epoch": 1, "unclean": False}
RECORDS = [
    ("Cluster", 1_000, {"cluster_id": "c", "incarnation": 1, "incarnation_id": "i"}),
    *(
        (
            "RegisterBroker",
            2_000,
            WHERE | {"node_id": n, "broker_epoch": n + 1, "boot_id": f"b{n}", "directories": "", "role": "leader"},
        )
        for n in (1, 2, 3)
    ),
    ("BrokerChange", 3_000, {"node_id": 1, "broker_epoch": 2, "state": "ACTIVE"}),
    ("BrokerChange", 3_000, {"node_id": 2, "broker_epoch": 3, "state": "STOPPING"}),
    ("Topic", 4_000, {"name": "a", "topic_id": A, "partitions": 1, "configs": {"k": "v"}}),
    ("Partition", 5_000, {"topic_id": A, "partitions": [PART]}),
    (
        "RegisterBroker",
        6_000,
        WHERE
        | {"version": 1, "guest": True, "node_id": 9, "broker_epoch": 1, "boot_id": "u", "security_protocol": "SSL"},
    ),
    ("PartitionChange", 7_000, {"changes": [CHANGED]}),
    ("ProducerIds", 8_000, {"node_id": 1, "broker_epoch": 2, "first": 0, "next": 1000}),
    ("UnregisterBroker", 9_000, {"node_id": 3, "broker_epoch": 4}),
    (
        "BrokerChange",
        9_100,
        WHERE
        | {"version": 1, "guest": True, "node_id": 9, "broker_epoch": 2, "state": "CLOSED", "security_protocol": "SSL"},
    ),
    ("Topic", 9_200, {"name": "b", "topic_id": B, "partitions": 1, "configs": {}}),
    ("RemoveTopic", 9_300, {"name": "b", "topic_id": B}),
    ("ControllerChange", 9_400, {"controller_id": 1, "controller_epoch": 1, "broker_epoch": 2}),
    ("Config", 9_500, {"resource_type": "broker", "resource_name": "", "configs": {"x": "1"}}),
]


def records(contents=RECORDS):
    made, previous = [], ""
    for offset, (kind, timestamp_ms, payload) in enumerate(contents, 1):
        made.append(TailedRecord(offset, f"h{offset}", kind, timestamp_ms, {"version": 0} | payload, previous))
        previous = f"h{offset}"
    return made


@pytest.fixture
def image():
    return Image().apply_all(records())[0]


def changes(image, since_ms, now_ms=NOW_MS, *, for_brokers=True):
    return changes_json(image, EXTERNAL, since_ms, now_ms, now_ms, for_brokers=for_brokers)


def test_brokers_are_alive_fenced_or_closed(image):
    found = {each["brokerId"]: each for each in cluster_json(image, EXTERNAL)["brokers"]}
    assert {number: each["brokerStatus"] for number, each in found.items()} == {
        1: "ALIVE",
        2: "ALIVE",
        3: "CLOSED",
        9: "CLOSED",
    }
    fenced = Image().apply_all(records()[:2])[0]
    assert broker_json(fenced.brokers[1])["brokerStatus"] == "FENCED"
    assert found[9] == {
        "brokerId": 9,
        "brokerHost": "h",
        "brokerPort": 9092,
        "securityProtocol": "SSL",
        "brokerStatus": "CLOSED",
        "state": "CLOSED",
        "rackId": None,
        "epoch": 2,
        "internalUUID": "u",
        "guest": True,
        "timestamp": 9.1,
    }


def test_each_metadata_object_has_the_timestamp_of_its_last_record(image):
    told = cluster_json(image, EXTERNAL)
    assert {each["brokerId"]: each["timestamp"] for each in told["brokers"]} == {1: 3.0, 2: 3.0, 3: 9.0, 9: 9.1}
    assert [(each["name"], each["timestamp"]) for each in told["topics"]] == [("a", 5.0)]
    assert [(each["topicName"], each["leader"], each["timestamp"]) for each in told["partitions"]] == [("a", 2, 7.0)]
    assert told["producers"] == [
        {"brokerId": 1, "brokerEpoch": 2, "producerId": 0, "nextProducerId": 1000, "timestamp": 8.0}
    ]
    assert (told["controllerId"], told["brokerConfigs"], told["timestamp"]) == (1, {"": {"x": "1"}}, 9.5)
    assert told["groupConfigs"] == {}
    assert cluster_json(replace(image, group_configs={"g": {"y": "2"}}), EXTERNAL)["groupConfigs"] == {"g": {"y": "2"}}


def test_only_changes_since_a_time_are_returned(image):
    told = changes(image, 7_000)
    assert told["full"] is False
    assert told["topics"] == []
    assert [each["partitionId"] for each in told["partitions"]] == [0]
    assert [each["brokerId"] for each in told["brokers"]] == [3, 9]
    assert [(each["name"], each["timestamp"]) for each in told["removedTopics"]] == [("b", 9.3)]
    assert [each["brokerId"] for each in told["producers"]] == [1]
    later = changes(image, 9_301)
    assert (later["brokers"], later["partitions"], later["removedTopics"], later["producers"]) == ([], [], [], [])


def test_clients_receive_only_brokers_topics_and_partitions(image):
    told = changes(image, 0, for_brokers=False)
    assert set(told) == {"full", "offset", "timestamp", "brokers", "topics", "partitions", "removedTopics"}


def test_ten_minutes_ago_is_long_ago(image):
    assert changes(image, 5_000, 5_000 + FULL_AFTER_MS - 1)["full"] is False
    full = changes(image, 5_000, 5_000 + FULL_AFTER_MS)
    assert full["full"] is True
    assert [each["brokerId"] for each in full["brokers"]] == [1, 2, 3, 9]
    assert full["removedTopics"] == []


def test_changes_since_before_this_cluster_incarnation_are_returned_in_full(image):
    assert changes(image, 1_000)["full"] is True
    assert changes(image, 1_001)["full"] is False


def test_full_metadata_is_returned_when_the_first_deletions_are_forgotten(image):
    removed = {uuid.UUID(int=n): RemovedTopic(f"t{n}", 5_000 + n) for n in range(REMOVED_TOPICS_MAX)}
    many = replace(image, removed_topics=removed)
    assert changes(many, 5_000)["full"] is True
    assert changes(many, 5_001)["full"] is False


def test_a_broker_that_follows_the_log_knows_all_up_to_a_moment_ago(image):
    assert known_up_to_ms(image, NOW_MS, is_current=True) == NOW_MS - CLOCKS_MS
    assert known_up_to_ms(image, NOW_MS, is_current=False) == image.timestamp_ms
    assert known_up_to_ms(image, image.timestamp_ms + 1, is_current=True) == image.timestamp_ms


def test_every_kind_of_record_is_returned_with_the_names_of_kraft():
    told = [record_json(record) for record in records()]
    assert [each["kind"] for each in told] == [kind for kind, _, _ in RECORDS]
    assert told[0]["record"] == {"clusterId": "c", "incarnation": 1, "internalUUID": "i"}
    assert told[1]["record"]["brokerStatus"] == "FENCED"
    assert told[4]["record"] == {
        "brokerId": 1, "epoch": 2, "brokerStatus": "ALIVE", "state": "ACTIVE", "guest": False,
    }  # fmt: skip
    assert told[6]["record"] == {"name": "a", "topicUUID": A, "numPartitions": 1, "configs": {"k": "v"}}
    (new,) = told[7]["record"]["partitions"]
    assert (new["partitionId"], new["replicas"], new["ISR"], new["leader"]) == (0, [1, 2], [1, 2], 1)
    assert told[8]["record"] == told[12]["record"] == {"brokerId": 9, "guest": True}, "as an older YAK wrote them"
    assert told[9]["record"]["partitions"][0]["ISR"] == [2]
    assert told[12]["timestamp"] == 9.1


def test_record_of_a_newer_yak_is_returned_unchanged():
    payload = {"version": 99, "new": [1]}
    assert record_json(TailedRecord(1, "h", "Topic", 5, payload))["record"] == payload
