import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cluster.conftest import broker
from yak.cluster.image import Image, PartitionInfo, TopicInfo
from yak.cluster.payload import parse_isr
from yak.cluster.placement import place
from yak.cluster.records import BrokerState
from yak.cluster.topic_changes import (
    NewTopic,
    plan_alter_configs,
    plan_create_partitions,
    plan_create_topic,
    plan_delete_topic,
    plan_unregister_broker,
)
from yak.errors import ErrorCode, PeerError

ID = uuid.UUID(int=5)


def image_of(*brokers, topics=()):
    made = {
        name: TopicInfo(
            name,
            uuid.UUID(int=100 + index),
            tuple(PartitionInfo(n, (1,), parse_isr("1@11"), (), 1, 0, 0) for n in range(count)),
            {"list": "a,b"},
        )
        for index, (name, count) in enumerate(topics)
    }
    return Image(
        brokers={b.node_id: b for b in brokers}, topics=made, topic_names={t.topic_id: n for n, t in made.items()}
    )


ONE = image_of(broker(1), topics=[("old", 2), ("a.b", 1)])


def code_of(call):
    with pytest.raises(PeerError) as error:
        call()
    assert error.value.message
    return error.value.error_code


def test_a_topic_takes_the_defaults_and_its_own_configs():
    plan = plan_create_topic(ONE, NewTopic("new", configs={"b": "2", "a": "1"}), ID, num_partitions=3)
    assert plan.assignments == ((1,), (1,), (1,))
    assert plan.replication_factor == 1
    [request] = plan.requests
    assert request.script == "create_topic"
    assert request.arguments == {
        "name": "new",
        "topic_id": str(ID),
        "total": 3,
        "configs": {"a": "1", "b": "2"},
        "refuses_collision": True,
        "partitions": [{"partition": n, "replicas": "1"} for n in range(3)],
    }


def test_many_partitions_are_cut_into_slices():
    requests = plan_create_topic(ONE, NewTopic("new", 450, 1), ID).requests
    assert [request.script for request in requests] == ["create_topic", "create_partitions", "create_partitions"]
    assert [len(request.arguments["partitions"]) for request in requests] == [200, 200, 50]
    assert {request.arguments["total"] for request in requests} == {450}


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("old"), ErrorCode.topic_already_exists),
        (NewTopic("a_b"), ErrorCode.invalid_topic_exception),
        (NewTopic(""), ErrorCode.invalid_topic_exception),
        (NewTopic("."), ErrorCode.invalid_topic_exception),
        (NewTopic("a/b"), ErrorCode.invalid_topic_exception),
        (NewTopic("ü"), ErrorCode.invalid_topic_exception),
        (NewTopic("a\n"), ErrorCode.invalid_topic_exception),
        (NewTopic("x" * 250), ErrorCode.invalid_topic_exception),
        (NewTopic("new", 0), ErrorCode.invalid_partitions),
        (NewTopic("new", -2), ErrorCode.invalid_partitions),
        (NewTopic("new", 10_001), ErrorCode.invalid_partitions),
        (NewTopic("new", 1, 2), ErrorCode.invalid_replication_factor),
        (NewTopic("new", 1, 0), ErrorCode.invalid_replication_factor),
        (NewTopic("new", 1, assignments={0: [1]}), ErrorCode.invalid_request),
        (NewTopic("new", -1, 1, assignments={0: [1]}), ErrorCode.invalid_request),
        (NewTopic("new", assignments={1: [1]}), ErrorCode.invalid_replica_assignment),
        (NewTopic("new", assignments={0: []}), ErrorCode.invalid_replica_assignment),
        (NewTopic("new", assignments={0: [1, 1]}), ErrorCode.invalid_replica_assignment),
        (NewTopic("new", assignments={0: [7]}), ErrorCode.invalid_replica_assignment),
        (NewTopic("new", assignments={0: [1]}, assigned_twice=0), ErrorCode.invalid_replica_assignment),
        (NewTopic("new", configs={"x": None}), ErrorCode.invalid_config),
        (NewTopic("new", 0, 0), ErrorCode.invalid_replication_factor),
        (NewTopic("new", 0, 0, configs={"x": None}), ErrorCode.invalid_config),
        (NewTopic("new", 1, assignments={0: []}, configs={"x": None}), ErrorCode.invalid_config),
        (NewTopic("old", 0, 0, configs={"x": None}), ErrorCode.topic_already_exists),
        (NewTopic("old", assignments={0: [1]}, assigned_twice=0), ErrorCode.topic_already_exists),
    ],
)
def test_a_bad_topic_is_refused_with_kafkas_code(new, code):
    assert code_of(lambda: plan_create_topic(ONE, new, ID)) is code


def test_topic_configs_are_validated_by_the_given_validator():
    def validate(name, value):
        raise PeerError(ErrorCode.invalid_config, f"{name}={value}")

    new = NewTopic("new", configs={"x": "y"})
    assert code_of(lambda: plan_create_topic(ONE, new, ID, validate_config=validate)) is ErrorCode.invalid_config


FENCED, STOPPING = BrokerState.FENCED, BrokerState.STOPPING


@pytest.mark.parametrize("state", [BrokerState.FENCED, BrokerState.CLOSED])
def test_a_topic_with_a_fenced_broker_registered_counts_it_and_leads_elsewhere(state):
    image = image_of(broker(1), broker(2, state), broker(3))
    plan = plan_create_topic(image, NewTopic("new", 4, 3), ID)
    assert plan.assignments == ((1, 3, 2), (3, 1, 2), (1, 3, 2), (3, 1, 2))
    assert plan_create_topic(image, NewTopic("new", 2, 2), ID).assignments == ((1, 3), (3, 1))


def test_new_partitions_with_a_fenced_broker_registered_get_all_their_replicas():
    old = PartitionInfo(0, (1, 2, 3), parse_isr("1@11,2@12,3@13"), (), 1, 0, 0)
    image = image_of(broker(1), broker(2, FENCED), broker(3), topics=[("old", 1)])
    topic = replace(image.topics["old"], partitions=(old,))
    image = replace(image, topics={"old": topic})
    [request] = plan_create_partitions(image, "old", 3, growth_id=ID)
    assert [item["replicas"] for item in request.arguments["partitions"]] == ["3,1,2", "1,3,2"]


@pytest.mark.parametrize(
    ("brokers", "reason"),
    [
        ([broker(1), broker(2, FENCED)], "only 2 broker(s) are registered"),
        ([broker(1), broker(2), broker(3, STOPPING)], "only 2 broker(s) are registered"),
        ([broker(1, FENCED), broker(2, FENCED), broker(3, STOPPING)], "All brokers are currently fenced"),
        ([broker(n, FENCED) for n in (1, 2, 3, 4)], "All brokers are currently fenced"),
    ],
)
def test_a_topic_of_more_replicas_than_usable_brokers_is_refused_with_kafkas_reason(brokers, reason):
    with pytest.raises(PeerError) as error:
        plan_create_topic(image_of(*brokers), NewTopic("new", 1, 3), ID)
    assert error.value.error_code is ErrorCode.invalid_replication_factor
    assert error.value.message.startswith("Unable to replicate the partition 3 time(s): ")
    assert reason in error.value.message


def test_manual_assignments_need_an_active_broker_and_one_length():
    image = image_of(broker(1), broker(2, BrokerState.FENCED), broker(3))
    assert plan_create_topic(image, NewTopic("n", assignments={0: [2, 1]}), ID).assignments == ((2, 1),)
    for assignments in ({0: [2]}, {0: [1], 1: [1, 3]}):
        refused = code_of(lambda a=assignments: plan_create_topic(image, NewTopic("n", assignments=a), ID))
        assert refused is ErrorCode.invalid_replica_assignment


def test_partitions_grow_only():
    [request] = plan_create_partitions(ONE, "old", 4, growth_id=ID)
    assert request.script == "create_partitions"
    assert [item["partition"] for item in request.arguments["partitions"]] == [2, 3]
    assert code_of(lambda: plan_create_partitions(ONE, "old", 2, growth_id=ID)) is ErrorCode.invalid_partitions
    assert code_of(lambda: plan_create_partitions(ONE, "none", 2, growth_id=ID)) is ErrorCode.unknown_topic_or_partition
    refused = code_of(lambda: plan_create_partitions(ONE, "old", 4, [[1]], growth_id=ID))
    assert refused is ErrorCode.invalid_replica_assignment
    assert plan_create_partitions(ONE, "old", 3, [[1]], growth_id=ID)[0].arguments["partitions"][0]["replicas"] == "1"


def test_a_topic_is_deleted_by_its_id():
    [request] = plan_delete_topic(ONE, ONE.topics["old"])
    assert request.arguments == {"topic_id": str(ONE.topics["old"].topic_id)}


@pytest.mark.parametrize("replace", [False, True])
def test_alter_configs_sets_and_removes_configs(replace):
    [request] = plan_alter_configs(ONE, "topic", "old", {"b": "1", "a": None, "c": "2,3"}, {"c": "2"}, replace=replace)
    assert (request.arguments["changes"], request.arguments["replace"]) == (
        [["a", None], ["b", "1"], ["c", "2,3", "2"]],
        replace,
    )
    refused = code_of(lambda: plan_alter_configs(ONE, "topic", "none", {}, {}, replace=replace))
    assert refused is ErrorCode.unknown_topic_or_partition


def test_unknown_topic_is_named_where_its_configs_are_changed():
    """QuorumController.ConfigResourceExistenceChecker, unlike CreatePartitions."""
    with pytest.raises(PeerError, match="The topic 'none' does not exist"):
        plan_alter_configs(ONE, "topic", "none", {}, {}, replace=False)
    with pytest.raises(PeerError, match="This server does not host this topic-partition"):
        plan_create_partitions(ONE, "none", 2, growth_id=ID)


def test_only_a_known_broker_is_unregistered():
    assert plan_unregister_broker(ONE, 1)[0].arguments == {"target_id": 1, "target_epoch": 11}
    assert code_of(lambda: plan_unregister_broker(ONE, 2)) is ErrorCode.broker_id_not_registered


@given(
    st.lists(st.sampled_from(["r1", "r2", "r3", None]), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(0, 20),
)
def test_replicas_are_distinct_and_leaders_spread(racks, count, factor, start):
    brokers = [broker(node_id, rack=rack) for node_id, rack in enumerate(racks)]
    factor = min(factor, len(brokers))
    assignments = place(brokers, count, factor, start=start)
    assert len(assignments) == count
    assert all(len(set(replicas)) == factor for replicas in assignments)
    leads = [sum(replicas[0] == b.node_id for replicas in assignments) for b in brokers]
    assert max(leads) - min(leads) <= 1
    if None not in racks:
        for replicas in assignments:
            used = [racks[node_id] for node_id in replicas]
            assert len(set(used)) == min(factor, len(set(racks)))


@given(
    st.lists(st.tuples(st.sampled_from(["leader", "follower"]), st.sampled_from(["r1", "r2"])), min_size=1, max_size=8),
    st.integers(1, 40),
    st.integers(1, 8),
    st.integers(0, 20),
)
def test_leaders_are_spread_over_those_with_the_role_and_followers_over_all_others(kinds, count, factor, start):
    brokers = [broker(n, rack=rack, role=role) for n, (role, rack) in enumerate(kinds)]
    factor = min(factor, len(brokers))
    leaders = [b.node_id for b in brokers if b.role == "leader"] or [b.node_id for b in brokers]
    assignments = place(brokers, count, factor, start=start)
    assert all(len(set(replicas)) == factor for replicas in assignments)
    leads = [sum(replicas[0] == node_id for replicas in assignments) for node_id in leaders]
    assert sum(leads) == count
    assert max(leads) - min(leads) <= 1


def test_leader_role_broker_and_three_follower_role_brokers_share_the_replicas():
    brokers = [broker(1), *(broker(n, role="follower") for n in (2, 3, 4))]
    assert place(brokers, 3, 3) == [(1, 2, 3), (1, 3, 4), (1, 4, 2)]


def test_added_partitions_continue_placement_where_the_first_ones_stopped():
    brokers = [broker(node_id) for node_id in (1, 2, 3)]
    whole = place(brokers, 7, 2, start=1)
    assert place(brokers, 3, 2, first_partition=4, start=1) == whole[4:]


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["r1", "r2", "r3"])), min_size=1, max_size=9),
    st.integers(1, 30),
    st.integers(1, 9),
    st.booleans(),
)
def test_fenced_brokers_get_replicas_last_in_their_rack_and_never_the_first(kinds, count, factor, has_racks):
    kinds[0] = (True, kinds[0][1])
    brokers = [
        broker(n, BrokerState.ACTIVE if is_active else FENCED, rack=rack if has_racks else None)
        for n, (is_active, rack) in enumerate(kinds)
    ]
    active = {each.node_id for each in brokers if each.state is BrokerState.ACTIVE}
    racks = {each.node_id: each.rack for each in brokers}
    factor = min(factor, len(brokers))
    for replicas in place(brokers, count, factor):
        assert len(set(replicas)) == factor
        assert replicas[0] in active
        assert len({racks[n] for n in replicas}) == min(factor, len(set(racks.values())))
        for fenced in set(replicas) - active:
            assert {n for n in active if racks[n] == racks[fenced]} <= set(replicas)
