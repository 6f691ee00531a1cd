"""The topic of committed offsets: made as Kafka makes it whoever asks first, and left to the brokers."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.groups_rig import FIND, NONE, SETTINGS, GroupsRig
from tests.unit.broker.replicated import join, set_state
from tests.unit.broker.requests import TOPIC, describe
from yak.cluster.topic_changes import plan_delete_topic
from yak.core import events
from yak.core.placement import partition_of
from yak.groups.offsets import OFFSETS_TOPIC

METADATA, CREATE_PARTITIONS = 3, 37


@pytest.fixture
def rig() -> GroupsRig:
    return GroupsRig()


def metadata(rig: Rig, name: str):
    return rig.ask(METADATA, 9, topics=[{"name": name}], allow_auto_topic_creation=True).topics[0]


def configs_of(rig: Rig, name: str) -> dict[str, str]:
    return {row.name: row.value for row in describe(rig, TOPIC, name).configs}


def test_offsets_topic_exists_after_a_group_was_requested_and_is_internal(rig):
    found = metadata(rig, OFFSETS_TOPIC)
    assert (len(found.partitions), found.is_internal) == (3, True)
    assert configs_of(rig, OFFSETS_TOPIC)["cleanup.policy"] == "compact"
    assert configs_of(rig, OFFSETS_TOPIC)["segment.bytes"] == str(16 * 2**20)


def test_metadata_request_that_names_the_offsets_topic_creates_it_alike():
    rig = Rig(settings=SETTINGS)
    metadata(rig, OFFSETS_TOPIC)
    rig.run_for(200)
    assert len(metadata(rig, OFFSETS_TOPIC).partitions) == 3
    assert configs_of(rig, OFFSETS_TOPIC)["cleanup.policy"] == "compact"


def test_offsets_topic_accepts_no_more_partitions(rig):
    """The group's partition follows from their number: its offsets would be looked for elsewhere."""
    topics = [{"name": OFFSETS_TOPIC, "count": 9}]
    answer = rig.ask(CREATE_PARTITIONS, 2, topics=topics)
    assert answer.results[0].error_code == ErrorCode.invalid_partitions
    assert len(metadata(rig, OFFSETS_TOPIC).partitions) == 3


def test_deletion_of_the_offsets_topic_ends_all_groups_and_it_is_created_again(rig):
    rig.member()
    rig.commit({("orders", 0): 7}, "other")
    broker, errors = rig.node.broker, []
    requests = plan_delete_topic(broker.image, broker.image.topics[OFFSETS_TOPIC])  # as for an administrator here
    broker.metadata.begin_own(requests, lambda error, _values: errors.append(error))
    rig.node.post(events.TurnEnd())
    rig.run_for(100)
    assert errors == [None]
    assert rig.groups() == {}
    assert rig.heartbeat("g", "m", 1) == ErrorCode.not_coordinator
    rig.begin_groups()
    assert rig.committed("other") == {}
    rig.member()


def test_coordinators_are_named_for_every_key_at_once(rig):
    answer = rig.ask(FIND, 4, coordinator_keys=["a", "", "x" * 40_000])
    assert [(each.key, each.error_code, each.node_id) for each in answer.coordinators[:2]] == [
        ("a", NONE, 1),
        ("", NONE, 1),
    ]
    assert answer.coordinators[2].error_code == ErrorCode.invalid_group_id
    assert rig.ask(FIND, 6, key_type=9, coordinator_keys=["a"]).coordinators[0].error_code == ErrorCode.invalid_request


@pytest.mark.parametrize(("version", "message"), [(1, "NONE"), (3, "NONE"), (4, "")])
def test_find_coordinator_without_error_has_kafkas_message(rig, version, message):
    asked = {"coordinator_keys": ("workers",)} if version >= 4 else {"key": "workers"}
    found = rig.ask(FIND, version, **asked)
    answer = found.coordinators[0] if version >= 4 else found
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, message)


def test_find_coordinator_of_a_share_group_is_refused_for_good(rig):
    """A retriable code keeps clients asking for ever (Kafka's `TransactionManager.FindCoordinatorHandler`)."""
    key_type, code, words = 2, ErrorCode.invalid_request, "does not support share groups"
    for refused in (
        rig.ask(FIND, 6, key_type=key_type, coordinator_keys=["a"]).coordinators[0],
        rig.ask(FIND, 3, key_type=key_type, key="a"),
    ):
        assert refused.error_code == code
        assert words in refused.error_message
        assert refused.node_id == -1


def test_a_group_is_only_known_to_the_leader_of_its_partition(rig):
    """Where a partition is led elsewhere, its groups are refused so that clients look again."""
    broker = rig.node.broker
    rig.commit({("orders", 0): 7})
    held = broker.group_coordinator.runtime.coordinated.pop(partition_of("g", 3))
    assert rig.commit({("orders", 0): 8}) == {("orders", 0): ErrorCode.not_coordinator}
    assert rig.join("g").error_code == ErrorCode.not_coordinator
    assert rig.describe("g").error_code == ErrorCode.not_coordinator
    assert rig.delete("g") == [ErrorCode.not_coordinator]
    broker.group_coordinator.runtime.coordinated[partition_of("g", 3)] = held
    assert rig.committed() == {("orders", 0): (7, "")}


@pytest.mark.parametrize("version", range(1, 7))
def test_partitions_have_the_error_of_their_group_before_version_7(rig, version):
    """aiokafka reads no other error: partitions that are missing would have no committed offset."""
    broker = rig.node.broker
    rig.commit({("orders", 0): 7})
    broker.group_coordinator.runtime.coordinated.pop(partition_of("g", 3))
    answer = rig.ask(9, version, group_id="g", topics=[{"name": "orders", "partition_indexes": [0, 1]}])
    found = [(each.partition_index, each.committed_offset, each.error_code) for each in answer.topics[0].partitions]
    assert found == [(0, -1, ErrorCode.not_coordinator), (1, -1, ErrorCode.not_coordinator)]
    assert getattr(answer, "error_code", ErrorCode.not_coordinator) == ErrorCode.not_coordinator


def offsets_replicas(rig: Rig) -> int | None:
    """How many replicas the topic was made with, None while it is refused."""
    answer = rig.ask(FIND, 3, key="g")
    topic = rig.node.broker.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        assert answer.error_code == ErrorCode.coordinator_not_available
        return None
    return len(topic.partitions[0].replicas)


@pytest.mark.parametrize(
    ("name", "asked"), [("offsets.topic.replication.factor", "3"), ("default.replication.factor", "3")]
)
def test_offsets_topic_is_not_created_with_fewer_replicas_than_configured(name, asked):
    """The first broker of three is asked before the others are there: one replica then would be one for ever."""
    rig = Rig(settings={**SETTINGS, name: asked})
    assert offsets_replicas(rig) is None
    join(rig, 2)
    assert offsets_replicas(rig) is None
    join(rig, 3)
    assert offsets_replicas(rig) == 3


def test_offsets_topic_with_a_fenced_broker_registered_has_a_replica_there_outside_the_isr():
    rig = Rig(settings=SETTINGS)
    join(rig, 2)
    set_state(rig, 2, "FENCED")
    assert offsets_replicas(rig) == 2
    partitions = rig.node.broker.image.topics[OFFSETS_TOPIC].partitions
    assert {(each.leader, each.replicas, each.isr, each.elr) for each in partitions} == {(1, (1, 2), (1,), ())}
    rig.run_for(200)
    assert rig.ask(FIND, 3, key="g").error_code == NONE
