"""Which leadership goes to whom."""

from types import SimpleNamespace

import pytest

from yak.client import leadership
from yak.client.leadership import Reassignment, carry_out, plan_moves
from yak.client.metadata import Broker
from yak.client.replica_offsets import ClusterReplicas
from yak.ids import TopicPartition
from yak.view.partition_replicas import PartitionReplicas


def partition(number, leader, replicas=(1, 2, 3), isr=None):
    return PartitionReplicas("t", number, leader, 1, None, replicas, replicas if isr is None else isr, 0, {}, 2)


REASSIGNING = "a reassignment of its replicas is in progress"


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


@pytest.mark.parametrize(
    ("now", "moves", "reason"),
    [
        ((4, 2, 3), {}, "its replicas have changed: they are 4,2,3 now"),
        ((4, 1, 2, 3), {TopicPartition("t", 0): Reassignment((4,), (1,))}, REASSIGNING),
        ((1, 2, 3), {TopicPartition("t", 0): Reassignment((), (3,))}, REASSIGNING),
    ],
)
def test_reassigned_partition_keeps_its_replicas_when_a_move_of_its_leader_was_planned_before(
    monkeypatch, now, moves, reason
):
    requested = {}

    def reassign(_broker, targets, *, timeout_s):
        requested.update(targets)
        return {}

    found = ClusterReplicas("c", 1, {1: Broker(1, "a", 1)}, (partition(0, 1, now), partition(1, 1)))
    monkeypatch.setattr(leadership, "read_metadata", lambda _servers, timeout_s: found)
    monkeypatch.setattr(leadership, "list_reassignments", lambda _broker, timeout_s: moves)
    monkeypatch.setattr(leadership, "reassign", reassign)
    monkeypatch.setattr(leadership, "elect_preferred_leaders", lambda _found, keys, timeout_s: dict.fromkeys(keys))
    monkeypatch.setattr(leadership, "wait_until_led", lambda _servers, _leaders, timeout_s: {})
    plan = plan_moves([partition(0, 1), partition(1, 1)], to=2)
    admin = SimpleNamespace(servers="a:1", metadata=lambda: None)
    assert carry_out(admin, plan.moves, timeout_s=1.0) == {TopicPartition("t", 0): reason}
    assert requested == {TopicPartition("t", 1): (2, 1, 3)}
