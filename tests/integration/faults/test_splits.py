"""Brokers that do not reach each other, or Redis: nothing acknowledged is lost, and what nobody may acknowledge is refused."""

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from support.fault_cluster import FaultCluster
from support.loads import check_complete, read_all
from support.one_record import produce, wait_refused
from support.waiting import wait_until

from yak.local.chaos.node import LEASE_SECONDS


@contextlib.contextmanager
def never_acknowledged(cluster: FaultCluster, node_id: int, topic: str) -> Iterator[list[ErrorCode]]:
    """Meanwhile ask this broker again and again for acks=all; it must never say yes."""
    answers: list[ErrorCode] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            answers.append(produce(cluster, node_id, topic, b"lonely"))
            time.sleep(0.1)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        is_over.set()
        thread.join()
    assert answers
    assert ErrorCode.none not in answers


def test_leader_isolated_with_clients_acknowledges_nothing_and_the_others_continue(cluster, unique_topic):
    cluster.create(unique_topic, [1, 2, 3])
    for value in (b"one", b"two"):
        assert produce(cluster, 1, unique_topic, value) is ErrorCode.none
    marks, offset = cluster.marks(), cluster.image.offset
    cluster.isolate([1], from_redis=True)
    with never_acknowledged(cluster, 1, unique_topic) as answers:
        leader = cluster.wait_leader(unique_topic, 2, 3)
        wait_until(lambda: produce(cluster, leader, unique_topic, b"three") is ErrorCode.none, "the majority writes")
        wait_refused(cluster, 1, unique_topic, acks=1, code=ErrorCode.not_leader_or_follower)
    assert ErrorCode.request_timed_out in answers  # what came before was appended, and never acknowledged
    assert set(cluster.partition(unique_topic).isr) == {2, 3}
    fencing = cluster.controller
    assert marks[fencing.node_id].lines("broker-fenced", node_id=1)
    cluster.heal()
    cluster.wait_isr(unique_topic, 1, 2, 3)
    marks[1].wait_for("this-broker-fenced", node_id=1)
    marks[1].wait_for("log-truncated", partition=f"{unique_topic}-0")
    assert 0 not in cluster.isr_sizes_since(offset, unique_topic)
    found = read_all(cluster.bootstrap, unique_topic)
    assert [each for each in found if each != b"three"] == [b"one", b"two"]
    assert b"three" in found


def test_leader_alone_with_redis_refuses_writes_and_no_other_broker_leads(cluster, unique_topic):
    cluster.create(unique_topic, [1, 2, 3])
    assert produce(cluster, 1, unique_topic, b"one") is ErrorCode.none
    cluster.isolate([1], from_redis=False)
    cluster.without_redis(2, 3)
    with never_acknowledged(cluster, 1, unique_topic):
        cluster.wait_isr(unique_topic, 1)
        wait_refused(cluster, 1, unique_topic, acks=-1, code=ErrorCode.not_enough_replicas)
        for node_id in (2, 3):
            assert produce(cluster, node_id, unique_topic, b"x") is ErrorCode.not_leader_or_follower
    assert cluster.partition(unique_topic).leader == 1
    cluster.heal()
    cluster.wait_isr(unique_topic, 1, 2, 3)
    assert produce(cluster, 1, unique_topic, b"two") is ErrorCode.none
    found = read_all(cluster.bootstrap, unique_topic)
    assert [each for each in found if each not in (b"lonely", b"refused")] == [b"one", b"two"]


def test_a_leader_and_a_follower_without_redis_acknowledge_nothing_that_the_third_lacks(cluster, unique_topic):
    cluster.create(unique_topic, [2, 3, 1])
    assert produce(cluster, 2, unique_topic, b"one") is ErrorCode.none
    cluster.isolate([1], from_redis=False)
    cluster.without_redis(2, 3)
    with never_acknowledged(cluster, 2, unique_topic):
        cluster.wait_leader(unique_topic, 1)
        wait_refused(cluster, 1, unique_topic, acks=-1, code=ErrorCode.not_enough_replicas)
    cluster.heal()
    cluster.wait_isr(unique_topic, 1, 2, 3)
    leader = cluster.partition(unique_topic).leader
    assert produce(cluster, leader, unique_topic, b"two") is ErrorCode.none
    assert read_all(cluster.bootstrap, unique_topic) == [b"one", b"two"]


@pytest.mark.parametrize("direction", ["to_target", "to_source"])
def test_a_connection_that_works_one_way_only_is_none(cluster, unique_topic, direction):
    """What the follower asks does not arrive, or what the leader answers: the leader sees the same."""
    cluster.create(unique_topic, [1, 2, 3])
    with cluster.load(unique_topic) as load:
        load.wait_for(50)
        getattr(cluster.nodes[1].proxy.route("node-3"), direction).hold()
        cluster.wait_isr(unique_topic, 1, 2)
        load.wait_for(50)
        cluster.heal()
        cluster.wait_isr(unique_topic, 1, 2, 3)
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)
    assert cluster.active() == [1, 2, 3]


def test_a_slow_way_between_all_brokers_slows_and_nothing_else(cluster, unique_topic):
    cluster.create(unique_topic, [1, 2, 3])
    marks, offset = cluster.marks(), cluster.image.offset
    for node in cluster.nodes.values():
        for other in cluster.nodes.values():
            node.proxy.route(other.name).to_source.delay_seconds = 0.2
    with cluster.load(unique_topic) as load:
        load.wait_for(300)
        load.stop()
    cluster.heal()
    check_complete(load, cluster.bootstrap, unique_topic)
    assert load.slowest_ack_seconds > 0.2
    assert cluster.image.offset == offset
    assert not any(mark.lines("broker-fenced") or mark.lines("isr-changed") for mark in marks.values())


def test_acks_all_is_never_lost_by_a_session_that_ended_in_a_split(cluster, unique_topic):
    """A load goes on through it, over three partitions with a leader each; connections are reset, not only silent."""
    cluster.create(unique_topic, [1, 2, 3], [2, 3, 1], [3, 1, 2])
    with cluster.load(unique_topic, partitions=3) as load:
        load.wait_for(60)
        cluster.isolate([1], from_redis=True, cut=True)
        cluster.wait_leader(unique_topic, 2, 3)
        wait_until(lambda: 1 not in cluster.partition(unique_topic, 1).isr, "node 1 is out everywhere")
        time.sleep(LEASE_SECONDS / 2)
        cluster.heal()
        for partition in range(3):
            cluster.wait_isr(unique_topic, 1, 2, 3, partition=partition)
        load.wait_for(60)
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)
