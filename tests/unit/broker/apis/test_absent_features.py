"""Reads of features that YAK lacks: each gets the answer of a Kafka broker without that feature."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.replicated import fence_alone, join, set_state
from tests.unit.broker.requests import APPEND, DELETE, SET, alter, describe
from yak.cluster.records import BrokerState


@pytest.fixture
def rig() -> Rig:
    return Rig()


# --------------------------------------------------------------------------------------------------------- ACLs


ACL = {"principal": "User:ann", "host": "*", "operation": 3, "permission_type": 3}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describe_acls_without_authorizer_returns_security_disabled(rig, version):
    wanted = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    answer = rig.ask(29, version, resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, **wanted)
    assert (answer.error_code, answer.resources) == (ErrorCode.security_disabled, ())
    assert "No Authorizer is configured" in answer.error_message


@pytest.mark.parametrize("version", [1, 2, 3])
def test_create_and_delete_acls_without_authorizer_return_security_disabled_for_each(rig, version):
    names = ("orders", "paid")
    creations = [{"resource_type": 2, "resource_name": name, "resource_pattern_type": 3, **ACL} for name in names]
    created = rig.ask(30, version, creations=creations)
    assert [result.error_code for result in created.results] == [ErrorCode.security_disabled] * 2
    matched = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    filters = [
        {"resource_type_filter": 2, "resource_name_filter": name, "pattern_type_filter": 1, **matched} for name in names
    ]
    deleted = rig.ask(31, version, filters=filters)
    assert [(row.error_code, row.matching_acls) for row in deleted.filter_results] == [
        (ErrorCode.security_disabled, ())
    ] * 2


# ------------------------------------------------------------------------------------------------- delegation tokens


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describe_delegation_token_without_authentication_returns_not_allowed(rig, version):
    answer = rig.ask(41, version, owners=None)
    assert (answer.error_code, answer.tokens) == (ErrorCode.delegation_token_request_not_allowed, ())


# ------------------------------------------------------------------------------------------------- transactions


@pytest.mark.parametrize("version", [0, 1, 2])
def test_list_transactions_returns_none_and_the_unknown_state_filters(rig, version):
    answer = rig.ask(66, version, state_filters=["Ongoing", "ongoing", "Odd"], producer_id_filters=[7])
    assert (answer.error_code, answer.transaction_states) == (ErrorCode.none, ())
    assert answer.unknown_state_filters == ("ongoing", "Odd")


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        (None, ErrorCode.none),
        ("", ErrorCode.none),
        ("pay-.*", ErrorCode.none),
        ("(", ErrorCode.invalid_regular_expression),
    ],
)
def test_list_transactions_with_a_bad_pattern_returns_invalid_regular_expression(rig, pattern, error):
    answer = rig.ask(66, 2, state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern)
    assert (answer.error_code, answer.transaction_states) == (error, ())


# --------------------------------------------------------------------------------- client metrics, broker loggers


BROKER_LOGGER, CLIENT_METRICS = 8, 16


def test_describe_configs_of_client_metrics_returns_the_defaults(rig):
    answer = describe(rig, CLIENT_METRICS, "any")
    assert answer.error_code == ErrorCode.none
    assert {row.name: (row.value, row.config_source) for row in answer.configs} == {
        "interval.ms": ("300000", 5),
        "match": ("", 5),
        "metrics": ("", 5),
    }


def test_describe_configs_of_broker_loggers_returns_none(rig):
    answer = describe(rig, BROKER_LOGGER, "1")
    assert (answer.error_code, answer.configs) == (ErrorCode.none, ())


@pytest.mark.parametrize(
    ("kind", "name"), [(CLIENT_METRICS, ""), (BROKER_LOGGER, ""), (BROKER_LOGGER, "2"), (BROKER_LOGGER, "x")]
)
def test_describe_and_alter_configs_of_a_wrong_name_return_invalid_request(rig, kind, name):
    assert describe(rig, kind, name).error_code == ErrorCode.invalid_request
    assert alter(rig, kind, name, {"interval.ms": "1000"}).error_code == ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("kind", "name", "config", "operation", "error"),
    [
        (CLIENT_METRICS, "m", "interval.ms", SET, ErrorCode.invalid_request),
        (CLIENT_METRICS, "m", "metrics", APPEND, ErrorCode.invalid_request),
        (CLIENT_METRICS, "m", "metrics", DELETE, ErrorCode.none),
        (CLIENT_METRICS, "m", "odd", SET, ErrorCode.invalid_request),
        (BROKER_LOGGER, "1", "yak", SET, ErrorCode.invalid_config),
        (BROKER_LOGGER, "1", "yak", DELETE, ErrorCode.invalid_config),
    ],
)
def test_incremental_alter_configs_of_metrics_or_a_logger_sets_nothing(rig, kind, name, config, operation, error):
    value = None if operation == DELETE else "1000"
    assert alter(rig, kind, name, {config: value}, operation).error_code == error


def test_alter_configs_of_metrics_or_a_logger_sets_nothing(rig):
    resources = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": config, "value": "1000"}]}
        for kind, name, config in ((CLIENT_METRICS, "m", "metrics"), (BROKER_LOGGER, "1", "yak"))
    ]
    answer = rig.ask(33, 2, resources=resources)
    assert [row.error_code for row in answer.responses] == [ErrorCode.invalid_request] * 2


def listed_resources(rig, *types):
    answer = rig.ask(74, 1, resource_types=types)
    return answer.error_code, [(row.resource_type, row.resource_name) for row in answer.config_resources]


def test_list_config_resources_returns_loggers_brokers_and_topics(rig):
    rig.create_topic("orders")
    everything = [(8, "1"), (4, "1"), (2, "orders")]
    assert listed_resources(rig) == (ErrorCode.none, everything)
    assert listed_resources(rig, 2, 4, 32) == (ErrorCode.none, everything[1:])
    assert listed_resources(rig, 16) == (ErrorCode.none, [])
    assert listed_resources(rig, 2, 99) == (ErrorCode.unsupported_version, [])


def test_list_client_metrics_resources_returns_none(rig):
    answer = rig.ask(74, 0)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.none, ())


# ------------------------------------------------------------------------------------- metadata quorum, features


def quorum(rig, *asked, version=2):
    topics = [{"topic_name": name, "partitions": [{"partition_index": index}]} for name, index in asked]
    answer = rig.ask(55, version, topics=topics)
    assert answer.error_code == ErrorCode.none
    return answer


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_quorum_returns_the_controller_as_leader_and_only_voter(rig, version):
    answer = quorum(rig, ("__cluster_metadata", 0), version=version)
    image = rig.node.broker.image
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, image.controller_epoch)
    assert partition.high_watermark == image.offset + 1
    assert [(row.replica_id, row.log_end_offset) for row in partition.current_voters] == [(1, image.offset + 1)]
    assert partition.observers == ()
    if version == 2:
        (node,) = answer.nodes
        registered = image.brokers[1]
        assert [(row.host, row.port) for row in node.listeners] == [(registered.host, registered.port)]


def test_describe_quorum_lists_the_other_live_brokers_as_observers(rig):
    join(rig, 2)
    join(rig, 3)
    set_state(rig, 3, BrokerState.FENCED)
    (partition,) = quorum(rig, ("__cluster_metadata", 0)).topics[0].partitions
    assert [(row.replica_id, row.log_end_offset, row.last_fetch_timestamp) for row in partition.observers] == [
        (2, -1, -1)
    ]


def test_describe_quorum_of_another_partition_returns_unknown_topic_or_partition(rig):
    for asked in ([("orders", 0)], [("__cluster_metadata", 1)], [("__cluster_metadata", 0), ("orders", 0)]):
        errors = [part.error_code for topic in quorum(rig, *asked).topics for part in topic.partitions]
        assert errors == [ErrorCode.unknown_topic_or_partition] * len(asked)


def test_describe_quorum_without_controller_returns_not_leader_or_follower(rig):
    fence_alone(rig)
    (partition,) = quorum(rig, ("__cluster_metadata", 0)).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.not_leader_or_follower, -1)


@pytest.mark.parametrize("version", [3, 4])
def test_api_versions_lists_finalized_features(rig, version):
    answer = rig.ask(18, version, client_software_name="test", client_software_version="1.0")
    assert {row.name: (row.min_version, row.max_version) for row in answer.supported_features} == {
        "eligible.leader.replicas.version": (1, 1),
        "group.version": (1, 1),
        "transaction.version": (2, 2),
    }
    assert {row.name: row.max_version_level for row in answer.finalized_features} == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }
    assert answer.finalized_features_epoch == rig.node.broker.image.offset


def updated_features(rig, *updates, version=2):
    rows = [
        {"feature": name, "max_version_level": level}
        | ({"upgrade_type": kind} if version else {"allow_downgrade": True})
        for name, level, kind in updates
    ]
    return rig.ask(57, version, feature_updates=rows)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_update_features_to_the_present_level_succeeds(rig, version):
    answer = updated_features(rig, ("group.version", 1, 1), version=version)
    assert answer.error_code == ErrorCode.none
    if version < 2:
        assert [(row.feature, row.error_code) for row in answer.results] == [("group.version", ErrorCode.none)]


@pytest.mark.parametrize(
    "update",
    [
        ("group.version", 0, 2),
        ("group.version", 2, 1),
        ("group.version", -1, 3),
        ("group.version", 1, 0),
        ("group.version", 1, 4),
        ("metadata.version", 30, 1),
        ("odd", 0, 1),
    ],
)
def test_update_features_to_another_level_returns_invalid_update_version(rig, update):
    answer = updated_features(rig, ("group.version", 1, 1), update, version=1)
    assert (answer.error_code, answer.results) == (ErrorCode.invalid_update_version, ())
    assert f"for feature {update[0]}" in answer.error_message


# --------------------------------------------------------------------------------------- moves between log directories


@pytest.mark.parametrize("version", [1, 2])
def test_alter_replica_log_dirs_answers_at_once_with_kafkas_codes(version):
    rig = Rig(directories=("/data", "/more"))
    join(rig, 2)
    rig.create_topic("orders", partitions=2)
    there = rig.node.broker.partitions["orders", 0].log.directory
    (other,) = {"/data", "/more"} - {there}

    def moved(path, topic, index):
        dirs = [{"path": path, "topics": [{"name": topic, "partitions": [index]}]}]
        (result,) = rig.ask(34, version, dirs=dirs).results
        (row,) = result.partitions
        assert (result.topic_name, row.partition_index) == (topic, index)
        return row.error_code

    assert moved(there, "orders", 0) == ErrorCode.none
    assert moved(other, "orders", 0) == ErrorCode.none
    assert rig.node.broker.partitions["orders", 0].log.directory == there
    rig.run_for(100)
    assert rig.node.broker.partitions["orders", 0].log.directory == other
    assert moved("/nowhere", "orders", 0) == ErrorCode.log_dir_not_found
    assert moved(there, "orders", 7) == ErrorCode.unknown_topic_or_partition
    assert moved(there, "nowhere", 0) == ErrorCode.unknown_topic_or_partition
    assert moved("/nowhere", "a/b", 0) == ErrorCode.log_dir_not_found
    assert moved(there, "a/b", 0) == ErrorCode.unknown_topic_or_partition
    topic = {"name": "elsewhere", "num_partitions": -1, "replication_factor": -1}
    assignments = [{"partition_index": 0, "broker_ids": [2]}]
    created = rig.ask(19, 5, topics=[{**topic, "assignments": assignments}])
    assert created.topics[0].error_code == ErrorCode.none
    assert moved(there, "elsewhere", 0) == ErrorCode.replica_not_available


def test_alter_replica_log_dirs_to_a_failed_directory_returns_storage_error():
    rig = Rig(directories=("/data", "/more"))
    rig.create_topic("orders", partitions=2)
    broker = rig.node.broker
    held = {broker.partitions["orders", index].log.directory: index for index in (0, 1)}
    broker.log_store.directory_failed("/more", OSError(5, "Input/output error"))
    topics = [{"name": "orders", "partitions": [held["/data"]]}]
    (result,) = rig.ask(34, 2, dirs=[{"path": "/more", "topics": topics}]).results
    assert result.partitions[0].error_code == ErrorCode.kafka_storage_error
