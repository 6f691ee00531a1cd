"""The events between two snapshots of a cluster without HTTP."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.payload import IsrMember
from yak.cluster.records import BrokerState
from yak.tui.source.kafka import NO_ID, Disk, Snapshot, changes, link_events, rate_events
from yak.tui.state.picture import UNKNOWN_STORE, Picture
from yak.view.partition_replicas import PartitionReplicas

REPLICAS = (1, 2, 3)


def snapshot(number: int, *, leader: int = 1, isr: tuple[int, ...] = REPLICAS, end: int = 0, **more: Any) -> Snapshot:
    """Three brokers, the fenced ones of which are no part of the ISR, and `orders` with one partition."""
    brokers = {
        node: BrokerInfo(node, -1, "", (), "host", 9090 + node, None, "broker", state)
        for node in REPLICAS
        for state in [BrokerState.ACTIVE if node in isr else BrokerState.FENCED]
    }
    epoch = leader
    info = PartitionInfo(0, REPLICAS, tuple(IsrMember(node, -1) for node in isr), (), leader, epoch, number)
    topics = more.pop("topics", {"orders": TopicInfo("orders", NO_ID, (info,))})
    image = Image(cluster_id="c", controller_id=1, controller_epoch=7, brokers=brokers, topics=topics)
    ends = {node: end if node in isr else None for node in REPLICAS}
    partitions = (PartitionReplicas("orders", 0, leader, epoch, None, REPLICAS, isr, end, ends, 2),) if topics else ()
    return Snapshot(number, number * 1000, image, partitions, **more)


def kinds(before: Snapshot, after: Snapshot) -> list[str]:
    return [event["kind"] for event in changes(before, after)]


def test_snapshot_fills_the_picture_with_redis_unknown() -> None:
    picture = Picture()
    picture.take(snapshot(1, end=5).event())
    assert picture.is_loaded
    assert (picture.controller_id, picture.controller_epoch, picture.store_state) == (1, 7, UNKNOWN_STORE)
    assert [broker.role for broker in picture.brokers.values()] == ["broker"] * 3
    (partition,) = picture.partitions.values()
    assert (partition.leader, partition.isr, partition.high_watermark, partition.min_isr) == (1, REPLICAS, 5, 2)


def test_changes_between_equal_snapshots_are_none() -> None:
    assert kinds(snapshot(1), snapshot(2, end=3)) == []


def test_changes_after_a_broker_died_fence_it_and_move_its_leader() -> None:
    before, after = snapshot(1), snapshot(2, leader=2, isr=(2, 3))
    assert kinds(before, after) == ["broker-fenced", "leader-changed", "isr-shrunk"]
    picture = Picture()
    picture.take(before.event())
    for event in (*changes(before, after), after.event()):
        picture.take(event)
    (partition,) = picture.partitions.values()
    assert (partition.leader, partition.isr) == (2, (2, 3))
    assert picture.brokers[1].state == "FENCED"
    failover = picture.elections.last
    assert failover is not None
    assert (failover.node_id, failover.moved) == (1, {"orders-0": (1, 2, 2)})


def test_changes_after_a_broker_returned_unfence_it_and_expand_the_isr() -> None:
    assert kinds(snapshot(1, isr=(1, 2)), snapshot(2)) == ["broker-unfenced", "isr-expanded"]


def test_changes_name_created_and_deleted_topics() -> None:
    assert kinds(snapshot(1, topics={}), snapshot(2)) == ["topic-created"]
    assert kinds(snapshot(1), snapshot(2, topics={})) == ["topic-deleted"]


def test_changes_of_a_topic_that_was_created_again_between_the_polls_delete_and_create_it() -> None:
    before, after = snapshot(1, end=500), snapshot(2, end=3)
    again = {"orders": replace(after.image.topics["orders"], topic_id=UUID(int=7))}
    after = replace(after, image=replace(after.image, topics=again))
    assert kinds(before, after) == ["topic-deleted", "topic-created"]


def test_changes_after_a_topic_grew_are_one_event() -> None:
    before, after = snapshot(1), snapshot(2)
    (info,) = after.image.topics["orders"].partitions
    grown = TopicInfo("orders", NO_ID, (info, PartitionInfo(1, (2,), (IsrMember(2, -1),), (), 2, 0, 2)))
    assert kinds(before, snapshot(2, topics={"orders": grown})) == ["topic-changed"]


def test_rates_come_from_the_high_watermark_and_others_are_none() -> None:
    before, after = snapshot(1, end=100), snapshot(3, end=700, disks={1: Disk(25, 100)})
    of_leader, *others = rate_events(before, after)
    assert of_leader["messages_in_per_second"] == 300
    assert of_leader["topics"][0]["messages_in_per_second"] == 300
    assert [each["messages_in_per_second"] for each in others] == [0, 0]
    assert of_leader["process"]["disk_free_bytes"] == 25
    picture = Picture()
    for event in (after.event(), of_leader, *others):
        picture.take(event)
    rates = picture.rates()
    assert (rates.messages_in, rates.messages_out, rates.bytes_in, rates.bytes_out) == (300, None, None, None)


def test_rates_of_a_topic_created_again_are_not_negative() -> None:
    (of_leader, *_) = rate_events(snapshot(1, end=500), snapshot(2, end=10))
    assert of_leader["messages_in_per_second"] == 0


def test_links_are_sent_when_they_change() -> None:
    def links(before: Snapshot | None, after: Snapshot) -> list[tuple[int, str]]:
        return [(event["node_id"], event["state"]) for event in link_events(before, after)]

    silent = snapshot(2, silent={3: "timed out"})
    assert links(None, snapshot(1)) == [(1, "up"), (2, "up"), (3, "up")]
    assert links(snapshot(1), snapshot(2)) == []
    assert links(snapshot(1), silent) == [(3, "down")]
    assert links(silent, snapshot(3)) == [(3, "up")]
    fenced = snapshot(2, leader=2, isr=(2, 3))
    assert links(fenced, snapshot(3)) == [(1, "up")]
