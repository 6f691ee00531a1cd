"""Changes that clients request of several brokers, one of which does not know yet what another has acknowledged."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.rig import Pending
from tests.unit.broker.requests import APPEND, DELETE, SET, SUBTRACT, TOPIC

ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, ALTER_CLIENT_QUOTAS, CREATE_ACLS, DELETE_ACLS = 33, 44, 49, 30, 31
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RETENTION, SEGMENT, THROTTLED = "retention.ms", "segment.ms", "leader.replication.throttled.replicas"


@pytest.fixture
def rig() -> ClusterRig:
    made = ClusterRig()
    made.create_topic("orders", retention_ms="4000")
    return made


def begin(rig: ClusterRig, node_id: int, name: str, value: str | None, operation: int = SET) -> Pending:
    """Set a config of the topic by one broker, or remove it."""
    config = {"name": name, "config_operation": DELETE if value is None else operation, "value": value}
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [config]}
    return rig.begin(node_id, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])


def finish(rig: ClusterRig, *changes: Pending) -> None:
    assert [result(rig, pending) for pending in changes] == [ErrorCode.none] * len(changes)


def alter(rig: ClusterRig, node_id: int, name: str, value: str | None, operation: int = SET) -> None:
    finish(rig, begin(rig, node_id, name, value, operation))


def alter_behind(rig: ClusterRig, name: str, value: str | None, operation: int = SET) -> None:
    """Do it by broker 2, which gets newer records only after it has taken the request."""
    assert result_behind(rig, begin(rig, 2, name, value, operation)) == ErrorCode.none


def result(rig: ClusterRig, pending: Pending) -> ErrorCode:
    """The error code of the answer's first row, if it has rows."""
    rig.run_until(lambda: pending.is_done)
    row = pending.answer
    for name in ("responses", "results", "topics", "entries", "filter_results", "partitions"):
        row = getattr(row, name, (row,))[0]
    return row.error_code


def result_behind(rig: ClusterRig, pending: Pending) -> ErrorCode:
    """The same, of a request to broker 2, which gets newer records only after it has taken the request."""
    rig.run_for(100)
    line = rig.nodes[1].store_line
    line.is_deaf = False
    line.store_moved()
    return result(rig, pending)


def configs(rig: ClusterRig) -> dict[str, str]:
    return rig.cluster.store.state.configs.get("topic:orders", {})


def test_config_set_by_a_broker_with_an_older_image_keeps_one_that_another_broker_acknowledged(rig):
    rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, SEGMENT, "60000")
    alter_behind(rig, RETENTION, "5000")
    assert configs(rig) == {RETENTION: "5000", SEGMENT: "60000"}


def test_configs_set_at_the_same_time_are_both_set(rig):
    first, second = begin(rig, 1, SEGMENT, "60000"), begin(rig, 2, RETENTION, "5000")
    finish(rig, first, second)
    assert configs(rig) == {RETENTION: "5000", SEGMENT: "60000"}


@pytest.mark.parametrize(("elsewhere", "here"), [("9000", "4000"), (None, "4000")])
def test_value_that_an_older_image_has_already_is_set_again(rig, elsewhere, here):
    rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, RETENTION, elsewhere)
    alter_behind(rig, RETENTION, here)
    assert configs(rig) == {RETENTION: here}


def test_config_that_an_older_image_lacks_is_removed(rig):
    rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, SEGMENT, "60000")
    alter_behind(rig, SEGMENT, None)
    assert configs(rig) == {RETENTION: "4000"}


def test_alter_configs_by_a_broker_with_an_older_image_removes_what_another_broker_set(rig):
    rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, SEGMENT, "60000")
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [{"name": RETENTION, "value": "4000"}]}
    assert result_behind(rig, rig.begin(2, ALTER_CONFIGS, 2, resources=[resource])) == ErrorCode.none
    assert configs(rig) == {RETENTION: "4000"}


@pytest.mark.parametrize("metadata", ["redis", "raft"])
def test_list_is_extended_from_the_newest_one(metadata):
    rig = ClusterRig(metadata=metadata)
    rig.create_topic("orders")
    if metadata == "redis":
        rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, THROTTLED, "0:1", APPEND)
    if metadata == "redis":
        alter_behind(rig, THROTTLED, "0:2", APPEND)
    else:
        alter(rig, 2, THROTTLED, "0:2", APPEND)
    assert configs(rig) == {THROTTLED: "0:1,0:2"}


@pytest.mark.parametrize("metadata", ["redis", "raft"])
def test_lists_changed_by_two_brokers_at_the_same_time_have_every_acknowledged_change(metadata):
    rig = ClusterRig(metadata=metadata)
    rig.create_topic("orders")
    finish(rig, *(begin(rig, node_id, THROTTLED, f"0:{node_id}", APPEND) for node_id in (1, 2, 3)))
    rig.run_for(1_000)
    stored = [node.broker.image.topics["orders"].configs[THROTTLED] for node in rig.nodes]
    assert {tuple(sorted(each.split(","))) for each in stored} == {("0:1", "0:2", "0:3")}
    finish(rig, begin(rig, 1, THROTTLED, "0:1", SUBTRACT), begin(rig, 2, THROTTLED, "0:2", SUBTRACT))
    rig.run_for(1_000)
    assert rig.alive().broker.image.topics["orders"].configs[THROTTLED] == "0:3"


def test_list_is_extended_again_from_the_value_that_replaced_it_meanwhile(rig):
    """A whole request is planned again: its other configs too, which only this client has set."""
    appended = {"name": THROTTLED, "config_operation": APPEND, "value": "0:1"}
    configs_of_one = [appended, {"name": SEGMENT, "config_operation": SET, "value": "60000"}]
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": configs_of_one}
    first = rig.begin(1, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    finish(rig, begin(rig, 2, THROTTLED, "0:2"), first)
    assert configs(rig) == {RETENTION: "4000", SEGMENT: "60000", THROTTLED: "0:2,0:1"}


def test_list_of_a_topic_that_is_deleted_meanwhile_is_refused(rig):
    deleted = rig.begin(1, DELETE_TOPICS, 5, topic_names=["orders"])
    pending = begin(rig, 2, THROTTLED, "0:1", APPEND)
    finish(rig, deleted)
    assert result(rig, pending) == ErrorCode.unknown_topic_or_partition


def test_list_is_not_extended_while_the_store_is_away(rig):
    rig.cluster.stop_store()
    rig.run_for(100)
    assert result(rig, begin(rig, 1, THROTTLED, "0:1", APPEND)) == ErrorCode.request_timed_out


def test_change_without_effect_writes_no_record(rig):
    before = rig.cluster.store.state.cluster["mo"]
    alter(rig, 1, RETENTION, "4000")
    assert rig.cluster.store.state.cluster["mo"] == before


# ---------------------------------------------------------------------------------------------------- quotas and ACLs


def test_quota_that_an_older_image_has_already_is_set_again(rig):
    def set_quota(node_id: int, value: float) -> Pending:
        op = {"key": "producer_byte_rate", "value": value, "remove": value == 0}
        entry = {"entity": [{"entity_type": "user", "entity_name": "ann"}], "ops": [op]}
        return rig.begin(node_id, ALTER_CLIENT_QUOTAS, 1, entries=[entry])

    finish(rig, set_quota(1, 1000.0))
    rig.run_for(100)
    rig.nodes[1].store_line.is_deaf = True
    finish(rig, set_quota(1, 2000.0))
    assert result_behind(rig, set_quota(2, 1000.0)) == ErrorCode.none
    assert rig.cluster.store.state.configs["quota:user=ann"] == {"producer_byte_rate": "1000.0"}


PATTERN = {"resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3}
ENTRY = {"principal": "User:ann", "host": "*", "operation": 3, "permission_type": 3}
FILTER = {"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 3}
FILTER |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}


@pytest.fixture
def acl_rig() -> ClusterRig:
    return ClusterRig(settings={"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"})


def begin_acl(rig: ClusterRig, node_id: int, *, delete: bool = False) -> Pending:
    if delete:
        return rig.begin(node_id, DELETE_ACLS, 3, filters=[FILTER])
    return rig.begin(node_id, CREATE_ACLS, 3, creations=[PATTERN | ENTRY])


@pytest.mark.parametrize("delete_last", [False, True])
def test_acls_are_as_the_last_of_two_brokers_acknowledged(acl_rig, delete_last):
    rig = acl_rig
    if not delete_last:
        finish(rig, begin_acl(rig, 1))
        rig.run_for(100)
    rig.nodes[1].store_line.is_deaf = True
    finish(rig, begin_acl(rig, 1, delete=not delete_last))
    behind = begin_acl(rig, 2, delete=delete_last)
    assert result_behind(rig, behind) == ErrorCode.none
    left = list(rig.cluster.store.state.configs.get("acl:TOPIC,LITERAL,orders", ()))
    assert left == ([] if delete_last else ["ALLOW,READ,*,User:ann"])
    if delete_last:
        assert len(behind.answer.filter_results[0].matching_acls) == 1


# ------------------------------------------------------------------------------------------------- users and tokens


def test_user_that_another_broker_just_created_is_deleted_by_a_broker_with_an_older_image(rig):
    """Kafka's controller, which has the newest metadata, takes both changes."""

    def change(node_id: int, **lists: object) -> Pending:
        return rig.begin(node_id, 51, 0, **({"deletions": [], "upsertions": []} | lists))

    credential = {"name": "ann", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}
    rig.nodes[1].store_line.is_deaf = True
    finish(rig, change(1, upsertions=[credential]))
    deletion = [{"name": "ann", "mechanism": 1}]
    assert result_behind(rig, change(2, deletions=deletion)) == ErrorCode.none
    assert "user:ann" not in rig.cluster.store.state.configs
    assert result(rig, change(2, deletions=deletion)) == ErrorCode.resource_not_found


def test_user_is_not_searched_in_the_newest_metadata_for_a_client_without_rights():
    rig = ClusterRig(settings={"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"})
    rig.nodes[1].store_line.is_deaf = True
    rig.nodes[2].kill()
    rig.run_for(3_000)  # broker 3 is fenced, which broker 2 does not hear
    pending = rig.begin(2, 51, 0, deletions=[{"name": "ann", "mechanism": 1}], upsertions=[])
    rig.run_for(100)
    assert pending.is_done
    assert pending.answer.results[0].error_code == ErrorCode.cluster_authorization_failed


@pytest.mark.parametrize("is_renewal", [True, False])
def test_token_that_another_broker_just_created_is_known_to_a_broker_with_an_older_image(is_renewal):
    rig = ClusterRig(settings={"delegation.token.secret.key": "of the rig"})

    def ask_as_ann(node_id: int, key: int, version: int, **fields: object) -> Pending:
        refused = rig.ask(node_id, key, version, **fields)
        assert refused.error_code == ErrorCode.delegation_token_request_not_allowed
        for connection in rig.nodes[node_id - 1].broker.connections.values():
            if connection.proven is None:
                connection.principal = "User:ann"
        return rig.begin(node_id, key, version, **fields)

    rig.nodes[1].store_line.is_deaf = True
    created = ask_as_ann(1, 38, 3)
    finish(rig, created)
    pending = ask_as_ann(2, 39 if is_renewal else 40, 2, hmac=created.answer.hmac)
    assert result_behind(rig, pending) == ErrorCode.none


def create(rig: ClusterRig, node_id: int, name: str) -> Pending:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    return rig.begin(node_id, CREATE_TOPICS, 7, topics=[topic])


def test_topic_that_another_broker_deleted_is_created_again_by_a_broker_with_an_older_image(rig):
    rig.nodes[1].store_line.is_deaf = True
    deleted = rig.begin(1, DELETE_TOPICS, 5, topic_names=["orders"])
    finish(rig, deleted)
    created = create(rig, 2, "orders")
    rig.run_for(100)
    assert not created.is_done
    assert result_behind(rig, created) == ErrorCode.none


def test_topic_that_exists_is_refused_after_a_check_of_the_newest_metadata(rig):
    assert result(rig, create(rig, 2, "orders")) == ErrorCode.topic_already_exists


def test_colliding_topics_that_two_brokers_create_at_once_are_not_both_created(rig):
    rig.nodes[1].store_line.is_deaf = True
    assert result(rig, create(rig, 1, "a.b")) == ErrorCode.none
    assert result_behind(rig, create(rig, 2, "a_b")) == ErrorCode.invalid_topic_exception
    assert set(rig.cluster.store.state.topic_ids) == {"orders", "a.b"}


def test_partitions_that_two_brokers_add_up_to_one_total_are_added_once(rig):
    rig.nodes[1].store_line.is_deaf = True

    def grow(node_id: int) -> Pending:
        return rig.begin(node_id, CREATE_PARTITIONS, 3, topics=[{"name": "orders", "count": 4}])

    assert result(rig, grow(1)) == ErrorCode.none
    assert result_behind(rig, grow(2)) == ErrorCode.invalid_partitions


NEW_REPLICAS = {"name": "new", "partitions": [{"partition_index": 0, "replicas": [1, 2]}]}
NEW_CONFIGS = {"resource_type": TOPIC, "resource_name": "new", "configs": [{"name": RETENTION, "value": "4000"}]}
OF_A_NEW_TOPIC = {
    "DeleteTopics": (DELETE_TOPICS, 5, {"topic_names": ["new"]}),
    "CreatePartitions": (CREATE_PARTITIONS, 3, {"topics": [{"name": "new", "count": 4}]}),
    "AlterConfigs": (ALTER_CONFIGS, 2, {"resources": [NEW_CONFIGS]}),
    "AlterPartitionReassignments": (45, 0, {"topics": [NEW_REPLICAS]}),
}


@pytest.mark.parametrize("name", OF_A_NEW_TOPIC)
@pytest.mark.parametrize("exists", [True, False])
def test_topic_that_another_broker_just_created_is_changed_by_a_broker_with_an_older_image(rig, name, exists):
    key, version, fields = OF_A_NEW_TOPIC[name]
    rig.nodes[1].store_line.is_deaf = True
    if exists:
        assert result(rig, create(rig, 1, "new")) == ErrorCode.none
    expected = ErrorCode.none if exists else ErrorCode.unknown_topic_or_partition
    assert result_behind(rig, rig.begin(2, key, version, **fields)) == expected
