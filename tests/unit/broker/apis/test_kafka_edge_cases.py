"""Edge cases in which a client of Kafka's could tell the difference: what is named twice, not at all, or the wrong way."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, fetch_fields
from tests.unit.broker.requests import delete_records, list_offset

TOPIC = 2


def test_partition_requested_twice_is_refused_each_time(rig):
    partitions = [{"partition_index": 0, "timestamp": timestamp} for timestamp in (-1, -2)]
    answer = rig.ask(2, 7, topics=[{"name": "orders", "partitions": partitions}])
    assert [part.error_code for part in answer.topics[0].partitions] == [ErrorCode.invalid_request] * 2


@pytest.mark.parametrize(("version", "timestamp"), [(6, -3), (7, -4), (8, -5), (10, -6), (11, -7), (11, -100)])
def test_a_special_timestamp_is_unsupported_below_its_version(rig, version, timestamp):
    assert list_offset(rig, timestamp, version=version).error_code == ErrorCode.unsupported_version


def delete(rig, topics):
    answer = rig.ask(20, 6, topics=[{"name": None, **topic} for topic in topics])
    return [row.error_code for row in answer.responses]


def test_a_topic_to_delete_must_be_named_once_by_name_or_by_id(rig):
    topic_id = rig.node.broker.image.topics["orders"].topic_id
    assert delete(rig, [{"name": "orders"}, {"name": "orders"}]) == [ErrorCode.invalid_request]
    assert delete(rig, [{"topic_id": topic_id}, {"topic_id": topic_id}]) == [ErrorCode.invalid_request]
    assert delete(rig, [{"name": "orders", "topic_id": topic_id}]) == [ErrorCode.invalid_request]
    assert delete(rig, [{"name": "orders"}, {"topic_id": topic_id}]) == [ErrorCode.invalid_request] * 2
    assert delete(rig, [{}]) == [ErrorCode.invalid_request]
    assert "orders" in rig.node.broker.image.topics
    assert delete(rig, [{"name": "orders"}]) == [ErrorCode.none]


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)])
def test_disabled_deletion_has_its_own_error_since_version_3(version, code):
    rig = Rig(settings={"delete.topic.enable": "false"})
    rig.create_topic("orders")
    answer = rig.ask(20, version, topic_names=["orders"])
    assert [row.error_code for row in answer.responses] == [code]


def test_empty_list_of_config_names_returns_all_configs(rig):
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": []}
    answer = rig.ask(32, 4, resources=[resource])
    assert "retention.ms" in {row.name for row in answer.results[0].configs}


def test_a_resource_named_twice_is_refused_each_time_and_not_changed(rig):
    change = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [change]}
    answer = rig.ask(44, 1, resources=[resource, resource])
    assert [row.error_code for row in answer.responses] == [ErrorCode.invalid_request] * 2
    assert not rig.node.broker.image.topics["orders"].configs


def test_create_partitions_of_a_topic_named_twice_is_refused_once(rig):
    """Kafka's ReplicationControlManager answers each name once, whatever the number of its partitions."""
    topics = [{"name": "orders", "count": count} for count in (3, 4)]
    answer = rig.ask(37, 3, topics=topics)
    assert [(row.name, row.error_code) for row in answer.results] == [("orders", ErrorCode.invalid_request)]


def test_only_kafkas_own_topics_are_internal(rig):
    rig.create_topic("__mine")
    (topic,) = rig.ask(3, 12, **metadata("__mine")).topics
    assert not topic.is_internal
    rig.produce("__mine", [b"a", b"b"])
    assert delete_records(rig, "__mine", 1).low_watermark == 1


def metadata(*names, topic_id=None, **fields):
    topics = [{"topic_id": topic_id, "name": name} for name in names]
    return {"topics": topics, "allow_auto_topic_creation": False, **fields}


def test_a_topic_named_twice_is_described_once(rig):
    assert [topic.name for topic in rig.ask(3, 12, **metadata("orders", "orders")).topics] == ["orders"]


def test_topic_ids_in_metadata_are_refused_before_version_12(rig):
    topic_id = rig.node.broker.image.topics["orders"].topic_id
    answer = rig.ask(3, 10, **metadata("orders", topic_id=topic_id))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.invalid_request]


def test_a_producer_without_transactions_always_gets_a_fresh_id(rig):
    def init(producer_id, epoch):
        return rig.ask(22, 4, producer_id=producer_id, producer_epoch=epoch)

    first = init(-1, -1)
    again = init(first.producer_id, first.producer_epoch)
    assert again.error_code == ErrorCode.none
    assert again.producer_id != first.producer_id
    assert again.producer_epoch == 0


def session_fetch(rig, version, session_id, epoch):
    fields = fetch_fields("orders", 0) | {"session_id": session_id, "session_epoch": epoch}
    if version >= 13:
        del fields["topics"][0]["topic"]
        fields["topics"][0]["topic_id"] = rig.node.broker.image.topics["orders"].topic_id
    return rig.ask(1, version, **fields)


@pytest.mark.parametrize(("opened", "resumed"), [(12, 13), (13, 12)])
def test_a_fetch_session_keeps_to_names_or_to_ids(rig, opened, resumed):
    session_id = session_fetch(rig, opened, 0, 0).session_id
    assert session_fetch(rig, resumed, session_id, 1).error_code == ErrorCode.fetch_session_topic_id_error
    assert session_fetch(rig, opened, session_id, 1).session_id == session_id


def test_of_a_config_given_twice_to_a_new_topic_the_last_counts(rig):
    configs = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
    assert create(rig, "twice", configs) == ErrorCode.none
    assert rig.node.broker.image.topics["twice"].configs == {"retention.ms": "2"}


def test_no_client_makes_the_topic_of_kafkas_metadata_log(rig):
    assert create(rig, "__cluster_metadata", []) == ErrorCode.invalid_request


def create(rig, name, configs):
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": configs}
    return rig.ask(19, 7, topics=[topic]).topics[0].error_code


def test_authorized_operations_are_returned_for_a_missing_topic_too(rig):
    answer = rig.ask(3, 12, **metadata("orders", "nope") | {"include_topic_authorized_operations": True})
    there, missing = (topic.topic_authorized_operations for topic in answer.topics)
    assert there == missing > 0


def test_configs_of_all_topics_at_once_cannot_be_changed(rig):
    resource = {"resource_type": TOPIC, "resource_name": ""}
    answer = rig.ask(44, 1, resources=[resource])
    assert answer.responses[0].error_code == ErrorCode.invalid_request


@pytest.mark.parametrize(("topic", "partition"), [("orders", -1), ("other", 0)])
def test_a_cursor_that_cannot_be_is_refused(rig, topic, partition):
    cursor = {"topic_name": topic, "partition_index": partition}
    answer = rig.ask(75, 0, topics=[{"name": "orders"}], response_partition_limit=10, cursor=cursor)
    assert [row.error_code for row in answer.topics] == [ErrorCode.invalid_request]
    assert answer.next_cursor is None


def test_producers_of_a_bad_topic_name_are_an_invalid_topic(rig):
    answer = rig.ask(61, 0, topics=[{"name": "a/b", "partition_indexes": [0]}])
    assert answer.topics[0].partitions[0].error_code == ErrorCode.invalid_topic_exception


def test_other_kinds_of_endpoints_are_refused_each_with_its_reason(rig):
    """Type 2 are controllers, and there is no type 3 (DescribeClusterRequest of KIP-919)."""
    codes = {2: ErrorCode.mismatched_endpoint_type, 3: ErrorCode.unsupported_endpoint_type}
    for kind, code in codes.items():
        answer = rig.ask(60, 1, endpoint_type=kind)
        assert answer.error_code == code
        assert ("CONTROLLER" if kind == 2 else "endpoint type 3") in answer.error_message


def test_no_partition_starves_when_the_client_rotates_its_list_too(rig):
    for partition in (0, 1):
        rig.produce("orders", [b"x" * 100], partition=partition)
    fields = fetch_fields("orders", 0, max_bytes=1)
    given = set()
    for turn in range(8):
        partitions = [fields["topics"][0]["partitions"][0] | {"partition": index} for index in (turn % 2, 1 - turn % 2)]
        fields["topics"] = [{"topic": "orders", "partitions": partitions}]
        answer = rig.ask(1, 12, **fields)
        given |= {part.partition_index for part in answer.responses[0].partitions if part.records}
    assert given == {0, 1}
