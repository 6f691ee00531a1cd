"""What may be asked of AlterPartitionReassignments."""

import uuid

import pytest

from tests.unit.cluster.conftest import broker, partition_of
from yak.cluster.image import Image, TopicInfo
from yak.cluster.reassignment import is_reassigning, plan_reassignment
from yak.errors import ErrorCode, PeerError

TOPIC_ID = uuid.UUID(int=1)


def image_of(replicas=(1, 2), *, isr=None, elr=(), adding=(), removing=(), nodes=(1, 2, 3, 4), lossy=()):
    brokers = {n: broker(n) for n in nodes}
    brokers |= {n: broker(n, epoch=20 + n, lossy=20 + n) for n in lossy}
    info = partition_of(replicas, isr, elr, replicas[0], adding_replicas=adding, removing_replicas=removing)
    topic = TopicInfo("orders", TOPIC_ID, (info,), {})
    return Image(brokers=brokers, topics={"orders": topic}, topic_names={TOPIC_ID: "orders"})


def refusal(image, target, *, topic="orders", partition=0, **how):
    with pytest.raises(PeerError) as error:
        plan_reassignment(image, topic, partition, target, **how)
    assert error.value.message
    return error.value.error_code


def test_a_move_names_the_replicas_and_what_it_knows():
    assert plan_reassignment(image_of(), "orders", 0, (3, 4)) == {
        "topic_id": str(TOPIC_ID),
        "partition": 0,
        "partition_epoch": 7,
        "keeps_elr_without_leader": True,
        "replicas": "3,4",
    }


def test_another_order_is_a_move_but_the_same_replicas_are_none():
    assert plan_reassignment(image_of(), "orders", 0, (2, 1))["replicas"] == "2,1"
    assert plan_reassignment(image_of(), "orders", 0, (1, 2)) is None


def test_the_way_back_of_a_move_under_way_is_a_move():
    image = image_of((3, 1, 2), isr=(1, 2), adding=(3,), removing=(1, 2))
    assert is_reassigning(image.topics["orders"].partitions[0])
    assert plan_reassignment(image, "orders", 0, (1, 2))["replicas"] == "1,2"
    assert plan_reassignment(image, "orders", 0, (3, 1, 2))["replicas"] == "3,1,2"


@pytest.mark.parametrize("target", [(), (1, 1), (1, 9), (-1,)])
def test_replicas_that_cannot_be_are_refused(target):
    assert refusal(image_of(), target) == ErrorCode.invalid_replica_assignment


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("orders", 1), ("orders", -1)])
@pytest.mark.parametrize("target", [(3,), None])
def test_request_for_an_unknown_topic_or_partition_is_refused(topic, partition, target):
    assert refusal(image_of(), target, topic=topic, partition=partition) == ErrorCode.unknown_topic_or_partition


def test_reassignment_that_changes_the_replication_factor_is_refused_if_not_allowed():
    assert plan_reassignment(image_of(), "orders", 0, (3, 4), may_change_factor=False)
    assert refusal(image_of(), (3,), may_change_factor=False) == ErrorCode.invalid_replication_factor
    moving = image_of((3, 4, 1, 2), isr=(1, 2), adding=(3, 4), removing=(1, 2))
    assert plan_reassignment(moving, "orders", 0, (1, 4), may_change_factor=False)
    assert refusal(moving, (1, 4, 3), may_change_factor=False) == ErrorCode.invalid_replication_factor


def test_only_a_move_under_way_can_be_taken_back():
    assert refusal(image_of(), None) == ErrorCode.no_reassignment_in_progress
    moving = image_of((3, 1, 2), isr=(1, 2), adding=(3,), removing=(2,))
    assert plan_reassignment(moving, "orders", 0, None)["replicas"] is None


def test_taking_back_needs_one_of_the_old_replicas_in_sync():
    moving = image_of((3, 1, 2), isr=(3,), adding=(3,), removing=(2,))
    assert refusal(moving, None) == ErrorCode.invalid_replica_assignment


@pytest.mark.parametrize(
    ("isr", "elr", "lossy"), [((), (3,), ()), ((1,), (3,), (1,)), ((3,), (), ()), ((), (3, 1), (1,))]
)
def test_reassignment_that_removes_the_only_replica_with_all_records_is_refused(isr, elr, lossy):
    moving = image_of((3, 4, 1, 2), isr=isr, elr=elr, adding=(3, 4), removing=(1, 2), lossy=lossy)
    for target in ((1, 4), (2, 1), (4,), None):
        assert refusal(moving, target) == ErrorCode.invalid_replica_assignment
    for target in ((3, 4), (3,), (1, 3)):
        assert plan_reassignment(moving, "orders", 0, target)


@pytest.mark.parametrize(("isr", "elr"), [((1,), (3,)), ((3, 1), ()), ((), (3, 1)), ((), ())])
def test_reassignment_may_remove_a_replica_if_another_one_has_all_records(isr, elr):
    moving = image_of((3, 4, 1, 2), isr=isr, elr=elr, adding=(3, 4), removing=(1, 2))
    for target in ((1, 4), (2, 1), (4,)):
        assert plan_reassignment(moving, "orders", 0, target)
