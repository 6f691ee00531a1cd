"""Where the replicas of a removed broker go."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from yak.cluster.broker_removal import RemainingBroker, plan_removal
from yak.ids import TopicPartition


def held(*replicas):
    return {TopicPartition("t", number): each for number, each in enumerate(replicas)}


def targets(plan):
    return [plan.targets[key] for key in sorted(plan.targets)]


def test_a_replica_is_replaced_in_its_place_by_each_broker_in_turn():
    brokers = [RemainingBroker(1), RemainingBroker(3), RemainingBroker(4)]
    plan = plan_removal(held((2,), (2,), (2,), (1, 2), (2, 3)), 2, brokers)
    assert targets(plan) == [(1,), (3,), (4,), (1, 3), (1, 3)]


def test_a_rack_without_a_replica_gets_the_new_one():
    brokers = [RemainingBroker(1, "a"), RemainingBroker(3, "a"), RemainingBroker(4, "b")]
    assert targets(plan_removal(held((1, 2), (3, 2)), 2, brokers)) == [(1, 4), (3, 4)]


def test_a_leader_role_broker_becomes_the_first_replica_when_the_first_is_removed():
    brokers = [RemainingBroker(1, None, "leader"), RemainingBroker(3, None, "follower"), RemainingBroker(4)]
    plan = plan_removal(held((2, 3), (2, 1), (3, 2)), 2, brokers)
    assert targets(plan) == [(1, 3), (1, 3), (3, 4)]


def test_a_partition_that_needs_every_broker_is_too_many():
    plan = plan_removal(held((1, 2, 3), (1, 2)), 2, [RemainingBroker(1), RemainingBroker(3)])
    assert plan.too_few == (TopicPartition("t", 0),)
    assert targets(plan) == [(1, 3)]


REPLICAS = st.lists(st.integers(2, 7), max_size=3, unique=True).map(lambda rest: [1, *rest]).flatmap(st.permutations)


@given(
    st.lists(REPLICAS, max_size=30),
    st.dictionaries(st.integers(2, 9), st.sampled_from([None, "a", "b"]), min_size=1),
)
def test_a_plan_keeps_factor_and_other_replicas(partitions, racks):
    plan = plan_removal(held(*partitions), 1, [RemainingBroker(node, rack) for node, rack in racks.items()])
    assert set(plan.targets) | set(plan.too_few) == set(held(*partitions))
    for key, target in plan.targets.items():
        before = set(partitions[key.partition])
        assert len(target) == len(set(target)) == len(before)
        assert 1 not in target
        assert set(target) > before - {1} or before == {1}
    for key in plan.too_few:
        assert set(racks) <= set(partitions[key.partition])


@given(st.integers(1, 40), st.integers(1, 7))
def test_partitions_of_one_replica_are_spread_evenly(count, brokers):
    plan = plan_removal(held(*[(1,)] * count), 1, [RemainingBroker(node) for node in range(2, brokers + 2)])
    counts = Counter(target[0] for target in plan.targets.values())
    assert max(counts.values()) - min(counts[node] for node in range(2, brokers + 2)) <= 1
