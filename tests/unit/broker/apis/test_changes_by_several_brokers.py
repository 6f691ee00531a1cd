"""Changes that clients request of several brokers, one of which does not know yet what another has acknowledged."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from yak.sim.cluster_rig import ClusterRig
from yak.sim.rig import Pending

ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, ALTER_CLIENT_QUOTAS, CREATE_ACLS, DELETE_ACLS = 33, 44, 49, 30, 31
TOPIC = 2
SET, DELETE = 0, 1
RETENTION, SEGMENT = "retention.ms", "segment.ms"


@pytest.fixture
def rig() -> ClusterRig:
    made = ClusterRig()
    made.create_topic("orders", retention_ms="4000")
    return made


def begin(rig: ClusterRig, node_id: int, name: str, value: str | None) -> Pending:
    """Set a config of the topic by one broker, or remove it."""
    config = {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [config]}
    return rig.begin(node_id, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)


def alter(rig: ClusterRig, node_id: int, name: str, value: str | None) -> None:
    pending = begin(rig, node_id, name, value)
    rig.run_until(lambda: pending.is_done)
    assert pending.answer.responses[0].error_code == ErrorCode.none


def alter_behind(rig: ClusterRig, node_id: int, name: str, value: str | None) -> None:
    """Do it by a broker that gets newer records only after it has taken the request."""
    pending = begin(rig, node_id, name, value)
    rig.run_for(100)
    hear(rig, node_id)
    rig.run_until(lambda: pending.is_done)
    assert pending.answer.responses[0].error_code == ErrorCode.none


def hear(rig: ClusterRig, node_id: int) -> None:
    line = rig.nodes[node_id - 1].store_line
    line.is_deaf = False
    line.store_moved()


def configs(rig: ClusterRig) -> dict[str, str]:
    return rig.cluster.store.state.configs.get("topic:orders", {})


def test_config_set_by_a_broker_with_an_older_image_keeps_one_that_another_broker_acknowledged(rig):
    rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, SEGMENT, "60000")
    alter_behind(rig, 2, RETENTION, "5000")
    assert configs(rig) == {RETENTION: "5000", SEGMENT: "60000"}


def test_configs_set_at_the_same_time_are_both_set(rig):
    first, second = begin(rig, 1, SEGMENT, "60000"), begin(rig, 2, RETENTION, "5000")
    rig.run_until(lambda: first.is_done and second.is_done)
    assert configs(rig) == {RETENTION: "5000", SEGMENT: "60000"}


@pytest.mark.parametrize(("elsewhere", "here"), [("9000", "4000"), (None, "4000")])
def test_value_that_an_older_image_has_already_is_set_again(rig, elsewhere, here):
    rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, RETENTION, elsewhere)
    alter_behind(rig, 2, RETENTION, here)
    assert configs(rig) == {RETENTION: here}


def test_config_that_an_older_image_lacks_is_removed(rig):
    rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, SEGMENT, "60000")
    alter_behind(rig, 2, SEGMENT, None)
    assert configs(rig) == {RETENTION: "4000"}


def test_alter_configs_by_a_broker_with_an_older_image_removes_what_another_broker_set(rig):
    rig.nodes[1].store_line.is_deaf = True
    alter(rig, 1, SEGMENT, "60000")
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [{"name": RETENTION, "value": "4000"}]}
    pending = rig.begin(2, ALTER_CONFIGS, 2, resources=[resource], validate_only=False)
    rig.run_for(100)
    hear(rig, 2)
    rig.run_until(lambda: pending.is_done)
    assert pending.answer.responses[0].error_code == ErrorCode.none
    assert configs(rig) == {RETENTION: "4000"}


def test_change_without_effect_writes_no_record(rig):
    before = rig.cluster.store.state.cluster["mo"]
    alter(rig, 1, RETENTION, "4000")
    assert rig.cluster.store.state.cluster["mo"] == before


# ---------------------------------------------------------------------------------------------------- quotas and ACLs


def test_quota_that_an_older_image_has_already_is_set_again(rig):
    def set_quota(node_id: int, value: float) -> Pending:
        op = {"key": "producer_byte_rate", "value": value, "remove": value == 0}
        entry = {"entity": [{"entity_type": "user", "entity_name": "ann"}], "ops": [op]}
        return rig.begin(node_id, ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=False)

    def finish(pending: Pending) -> None:
        rig.run_until(lambda: pending.is_done)
        assert pending.answer.entries[0].error_code == ErrorCode.none

    finish(set_quota(1, 1000.0))
    rig.run_for(100)
    rig.nodes[1].store_line.is_deaf = True
    finish(set_quota(1, 2000.0))
    behind = set_quota(2, 1000.0)
    rig.run_for(100)
    hear(rig, 2)
    finish(behind)
    assert rig.cluster.store.state.configs["quota:user=ann"] == {"producer_byte_rate": "1000.0"}


def test_acl_that_an_older_image_has_already_is_added_again():
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    rig = ClusterRig(settings={"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"})
    pattern = {"resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3}
    entry = {"principal": "User:ann", "host": "*", "operation": 3, "permission_type": 3}
    wanted = {"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 3}
    wanted |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}

    def finish(pending: Pending) -> None:
        rig.run_until(lambda: pending.is_done)
        answer = pending.answer
        rows = answer.results if hasattr(answer, "results") else answer.filter_results
        assert rows[0].error_code == ErrorCode.none

    finish(rig.begin(1, CREATE_ACLS, 3, creations=[pattern | entry]))
    rig.run_for(100)
    rig.nodes[1].store_line.is_deaf = True
    finish(rig.begin(1, DELETE_ACLS, 3, filters=[wanted]))
    behind = rig.begin(2, CREATE_ACLS, 3, creations=[pattern | entry])
    rig.run_for(100)
    hear(rig, 2)
    finish(behind)
    assert list(rig.cluster.store.state.configs["acl:TOPIC,LITERAL,orders"]) == ["ALLOW,READ,*,User:ann"]
