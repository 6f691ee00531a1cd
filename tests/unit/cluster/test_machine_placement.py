"""No partition has two replicas on one machine: new topics, more partitions, assignments by hand, removed brokers."""

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cluster.conftest import broker
from yak.cluster.broker_removal import RemainingBroker, plan_removal
from yak.cluster.image import Image
from yak.cluster.payload import parse_isr
from yak.cluster.placement import count_machines, machine_of, place
from yak.cluster.reassignment import plan_reassignment
from yak.cluster.records import BrokerState
from yak.cluster.topic_changes import NewTopic, plan_create_topic
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition

RACKS = st.sampled_from([None, "az1", "az2", "machine:a", "machine:b", "machine:c"])
STATES = st.sampled_from([BrokerState.ACTIVE, BrokerState.ACTIVE, BrokerState.FENCED])


def machines_of_two(machines):
    return [broker(2 * index + core + 1, rack=f"machine:{index}") for index in range(machines) for core in range(2)]


def plan(image, **new):
    return plan_create_topic(image, NewTopic("t", **new), uuid.UUID(int=7))


def image_of(brokers):
    return Image(brokers={each.node_id: each for each in brokers})


@given(st.integers(1, 7), st.data())
def test_place_gives_kafkas_replicas_however_many_partitions_there_are(count, data):
    factor = data.draw(st.integers(1, count))

    def kafkas_replica(partition, number):  # AdminUtils.replicaIndex
        shift = 1 + (partition // count + number) % (count - 1)
        return (partition % count + shift) % count + 1

    expected = [
        (partition % count + 1, *(kafkas_replica(partition, number) for number in range(factor - 1)))
        for partition in range(3 * count * count)
    ]
    assert place([broker(index + 1) for index in range(count)], len(expected), factor) == expected


@given(st.lists(st.tuples(RACKS, STATES, st.sampled_from(["leader", "follower"])), min_size=1, max_size=9), st.data())
def test_place_never_puts_two_replicas_on_one_machine(drawn, data):
    brokers = [broker(n, state, rack=rack, role=role) for n, (rack, state, role) in enumerate(drawn, 1)]
    brokers[0] = broker(1, rack=brokers[0].rack)
    factor = data.draw(st.integers(1, count_machines(brokers)))
    by_id = {each.node_id: each for each in brokers}
    for replicas in place(brokers, data.draw(st.integers(1, 20)), factor, start=data.draw(st.integers(0, 5))):
        assert len(replicas) == factor
        assert len({machine_of(by_id[node_id]) for node_id in replicas}) == factor
        assert by_id[replicas[0]].state is BrokerState.ACTIVE


def test_place_of_three_machines_of_two_spreads_leaders_and_replicas_evenly():
    assignments = place(machines_of_two(3), 12, 3)
    assert set(Counter(replicas[0] for replicas in assignments).values()) == {2}
    assert set(Counter(node_id for replicas in assignments for node_id in replicas).values()) == {6}


def test_create_topic_with_more_replicas_than_machines_is_invalid_replication_factor():
    image = image_of(machines_of_two(2))
    with pytest.raises(PeerError) as caught:
        plan(image, num_partitions=1, replication_factor=3)
    assert caught.value.error_code == ErrorCode.invalid_replication_factor
    assert "4 registered brokers are on 2 machine(s)" in (caught.value.message or "")
    assert len(plan(image, num_partitions=1, replication_factor=2).assignments[0]) == 2


def test_brokers_of_a_rack_that_is_no_machine_may_have_two_replicas():
    image = image_of([broker(1, rack="az1"), broker(2, rack="az1")])
    assert len(plan(image, num_partitions=1, replication_factor=2).assignments[0]) == 2


def test_assignment_by_hand_with_two_brokers_of_a_machine_is_invalid_replica_assignment():
    with pytest.raises(PeerError) as caught:
        plan(image_of(machines_of_two(2)), assignments={0: (1, 2)})
    assert caught.value.error_code == ErrorCode.invalid_replica_assignment
    assert "two brokers of machine:0" in (caught.value.message or "")


def test_reassignment_to_two_brokers_of_a_machine_is_invalid_replica_assignment(topic_image):
    with pytest.raises(PeerError) as caught:
        plan_reassignment(topic_image, "t", 0, (1, 2))
    assert caught.value.error_code == ErrorCode.invalid_replica_assignment
    assert plan_reassignment(topic_image, "t", 0, (2, 3)) is not None


@pytest.fixture
def topic_image():
    from yak.cluster.image import PartitionInfo, TopicInfo

    topic = TopicInfo("t", uuid.UUID(int=9), (PartitionInfo(0, (1, 3), parse_isr("1@11,3@13"), (), 1, 0, 0),), {})
    brokers = {each.node_id: each for each in machines_of_two(2)}
    return Image(brokers=brokers, topics={"t": topic}, topic_names={topic.topic_id: "t"})


def test_removed_broker_is_replaced_by_one_of_another_machine_or_by_none():
    remaining = [RemainingBroker(each.node_id, each.rack, "leader") for each in machines_of_two(2) if each.node_id != 1]
    partition = TopicPartition("t", 0)
    assert plan_removal({partition: (1, 3)}, 1, remaining).targets == {partition: (2, 3)}
    only_there = [each for each in remaining if each.rack == "machine:1"]
    assert plan_removal({partition: (1, 3)}, 1, only_there).too_few == (partition,)
