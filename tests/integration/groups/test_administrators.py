"""Administrators' clients ask about groups, set their offsets and delete them, as they would with Kafka."""

import time

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from support.client_kinds import Confluent, Message
from support.group_processes import Group
from support.waiting import wait_until

PATIENCE = 20.0


@pytest.fixture
def admin(group_broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": group_broker.bootstrap, "log_level": 0})


def set_offsets(admin: AdminClient, group: str, *offsets: TopicPartition) -> None:
    asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, list(offsets))])
    (done,) = asked.values()
    for each in done.result(PATIENCE).topic_partitions:
        if each.error is not None:
            raise KafkaException(each.error)


def offsets_of(admin: AdminClient, group: str) -> dict[int, int]:
    """Asked for again while the coordinator reads its log: librdkafka leaves that to who asks."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE)
            break
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    return {each.partition: each.offset for each in found.topic_partitions}


def listed(admin: AdminClient, **filters: object) -> dict[str, tuple[object, object, bool]]:
    found = admin.list_consumer_groups(**filters).result(PATIENCE)
    assert found.errors == []
    return {each.group_id: (each.state, each.type, each.is_simple_consumer_group) for each in found.valid}


def test_groups_are_listed_by_state_and_type(group_broker, topic, admin):
    stable, simple = f"stable-{topic}", f"simple-{topic}"
    set_offsets(admin, simple, TopicPartition(topic, 0, 7))
    with Group(group_broker.bootstrap, stable, topic) as group:
        group.wait_shared(6, group.start("confluent-kafka"))
        classic = ConsumerGroupType.CLASSIC
        everything = {
            stable: (ConsumerGroupState.STABLE, classic, False),
            simple: (ConsumerGroupState.EMPTY, classic, True),
        }
        assert everything.items() <= listed(admin).items()
        stables = listed(admin, states={ConsumerGroupState.STABLE})
        assert (stable in stables, simple in stables) == (True, False)
        assert everything.keys() <= listed(admin, types={classic}).keys()
        assert not everything.keys() & listed(admin, types={ConsumerGroupType.CONSUMER}).keys()


def test_a_group_is_described_with_its_members(group_broker, topic, admin):
    with Group(group_broker.bootstrap, f"g-{topic}", topic) as group:
        members = [group.start("confluent-kafka", instance=f"i{number}") for number in range(2)]
        group.wait_shared(6, *members)
        found = admin.describe_consumer_groups([group.name])[group.name].result(PATIENCE)
        assert (found.state, found.partition_assignor) == (ConsumerGroupState.STABLE, "range")
        held = {
            each.group_instance_id: {(place.topic, place.partition) for place in each.assignment.topic_partitions}
            for each in found.members
        }
        assert held == {"i0": members[0].holds(), "i1": members[1].holds()}
        assert {each.host for each in found.members} == {"/127.0.0.1"}
        assert {each.client_id for each in found.members} == {"rdkafka"}
        assert f"{found.coordinator.host}:{found.coordinator.port}" == group_broker.bootstrap


def test_offsets_are_set_and_the_group_begins_there(group_broker, topic, admin):
    Confluent(group_broker.bootstrap).produce(topic, [Message(b"%d" % number) for number in range(10)], partition=2)
    group = f"g-{topic}"
    set_offsets(admin, group, TopicPartition(topic, 2, 6), TopicPartition(topic, 3, 0))
    assert offsets_of(admin, group) == {2: 6, 3: 0}
    consumer = Consumer({"bootstrap.servers": group_broker.bootstrap, "group.id": group, "log_level": 0})
    try:
        consumer.subscribe([topic])
        found = []
        deadline = time.monotonic() + 30
        while len(found) < 4 and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None:
                found.append(message.value())
        assert found == [b"6", b"7", b"8", b"9"]
        with pytest.raises(KafkaException) as refused:
            set_offsets(admin, group, TopicPartition(topic, 2, 0))
        assert refused.value.args[0].name() == "UNKNOWN_MEMBER_ID"
    finally:
        consumer.close()


def test_groups_are_deleted_when_they_have_no_members(group_broker, topic, admin):
    empty, full = f"empty-{topic}", f"full-{topic}"
    set_offsets(admin, empty, TopicPartition(topic, 0, 7))
    with Group(group_broker.bootstrap, full, topic) as group:
        member = group.start("confluent-kafka")
        group.wait_shared(6, member)
        asked = admin.delete_consumer_groups([empty, full])
        assert asked[empty].result(PATIENCE) is None
        with pytest.raises(KafkaException) as refused:
            asked[full].result(PATIENCE)
        assert refused.value.args[0].name() == "NON_EMPTY_GROUP"
        member.leave()
    wait_until(lambda: listed(admin)[full][0] == ConsumerGroupState.EMPTY, "the group is empty")
    assert admin.delete_consumer_groups([full])[full].result(PATIENCE) is None
    assert not {empty, full} & listed(admin).keys()
    with pytest.raises(KafkaException) as gone:
        admin.delete_consumer_groups([full])[full].result(PATIENCE)
    assert gone.value.args[0].name() == "GROUP_ID_NOT_FOUND"


def test_kafka_python_administers_groups_too(group_broker, topic, admin):
    from kafka import TopicPartition as Place
    from kafka.admin import KafkaAdminClient

    group = f"g-{topic}"
    set_offsets(admin, group, *(TopicPartition(topic, number, 7) for number in range(3)))
    other = KafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
    try:
        found = other.list_group_offsets([group])[group]
        assert {place.partition: each.offset for place, each in found.items()} == {0: 7, 1: 7, 2: 7}
        other.delete_group_offsets(group, [Place(topic, 1)])
        assert offsets_of(admin, group) == {0: 7, 2: 7}
        assert group in {each["group_id"] for each in other.list_groups()}
        other.delete_groups([group])
    finally:
        other.close()
    assert group not in listed(admin)
