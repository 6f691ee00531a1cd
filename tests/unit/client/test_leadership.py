"""Which leadership goes to whom."""

import pytest

from yak.client.leadership import plan_moves
from yak.ids import TopicPartition
from yak.view.partition_replicas import PartitionReplicas


def partition(number, leader, replicas=(1, 2, 3), isr=None):
    return PartitionReplicas("t", number, leader, 1, None, replicas, replicas if isr is None else isr, 0, {}, 2)


def places(plan):
    return [(each.partition.partition, each.to, each.order) for each in plan.moves]


def test_a_named_broker_gets_it_and_becomes_the_preferred_leader():
    plan = plan_moves([partition(0, 1), partition(1, 2, (2, 3, 1))], to=3)
    assert places(plan) == [(0, 3, (3, 1, 2)), (1, 3, (3, 2, 1))]
    assert not plan.refused
    assert not plan.stays


def test_broker_that_is_already_a_preferred_leader_needs_no_new_replica_order():
    assert places(plan_moves([partition(0, 2)], to=1)) == [(0, 1, None)]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (partition(0, 1, (1, 2)), "3 has no replica of it: replicas 1,2"),
        (partition(0, 1, isr=(1, 2)), "3 is out of sync: ISR 1,2"),
        (partition(0, -1), "it has no leader to take it from"),
    ],
)
def test_a_broker_that_cannot_lead_it_is_refused(found, reason):
    plan = plan_moves([found], to=3)
    assert (plan.moves, plan.refused) == ((), {TopicPartition("t", 0): reason})


def test_a_partition_that_the_broker_leads_stays():
    plan = plan_moves([partition(0, 3)], to=3)
    assert (plan.moves, plan.refused) == ((), {})
    assert plan.stays == {TopicPartition("t", 0): "3 leads it already"}


def test_without_a_name_it_goes_to_the_preferred_leader_else_to_the_in_sync_replica_with_fewest():
    plan = plan_moves([partition(0, 2), partition(1, 1), partition(2, 1), partition(3, 1, isr=(1, 3))])
    assert places(plan) == [(0, 1, None), (1, 2, (2, 1, 3)), (2, 3, (3, 1, 2)), (3, 3, (3, 1, 2))]


def test_a_leader_that_is_alone_keeps_it():
    plan = plan_moves([partition(0, 1, isr=(1,))])
    assert plan.refused == {TopicPartition("t", 0): "no other replica is in sync: ISR 1"}


def test_only_preferred_hands_back_and_leaves_the_rest():
    plan = plan_moves([partition(0, 2), partition(1, 1), partition(2, 2, isr=(2, 3))], only_preferred=True)
    assert places(plan) == [(0, 1, None)]
    assert plan.stays == {TopicPartition("t", 1): "1 leads it already"}
    assert plan.refused == {TopicPartition("t", 2): "1 is out of sync: ISR 2,3"}
