"""Clocks that are an hour apart: no lease, session, epoch or watermark is decided by the time of day."""

import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.fault_cluster import FaultCluster, Start
from support.loads import check_complete
from support.waiting import wait_until

HOUR_MS = 3_600_000


@pytest.fixture
def apart(cluster: FaultCluster) -> FaultCluster:
    """Node 1 is an hour early, node 3 an hour late, and Redis and node 2 are right."""
    for node_id, offset_ms in ((1, HOUR_MS), (3, -HOUR_MS)):
        cluster.nodes[node_id].restart_fresh(Start(faults={"clock_ms": offset_ms}))
    wait_until(lambda: cluster.active() == [1, 2, 3], "all are active")
    return cluster


def first_timestamp_ms(cluster: FaultCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "t", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = wait_until(lambda: consumer.poll(0.5), "a record is read")
        assert message.error() is None
        return int(message.timestamp()[1])
    finally:
        consumer.close()


def changed_nothing(cluster: FaultCluster) -> bool:
    """Whether no broker changed anything for two lags, in which one that is misjudged by an hour would be seen.

    A busy machine shrinks an ISR now and then; a misjudged lag or lease does so at every look.
    """
    marks, offset = cluster.marks(), cluster.image.offset
    time.sleep(2 * 1.5)
    return cluster.image.offset == offset and not any(
        mark.lines("broker-fenced") or mark.lines("isr-changed") for mark in marks.values()
    )


def test_clocks_an_hour_apart_change_nothing(apart, unique_topic):
    cluster = apart
    cluster.create(unique_topic, [1, 2, 3], [3, 1, 2], message_timestamp_type="LogAppendTime")
    with cluster.load(unique_topic, partitions=2) as load:
        load.wait_for(50)
        # The clocks really differ: the leader of partition 0 stamps its records.
        assert first_timestamp_ms(cluster, unique_topic) > time.time_ns() // 1_000_000 + HOUR_MS // 2
        wait_until(lambda: changed_nothing(cluster), "three seconds without a change", 30.0)
        load.wait_for(50)
        # Failover to one with another clock, and back, and the controller with it.
        for node_id in (1, 3):
            node = cluster.nodes[node_id]
            node.kill9()
            survivors = [each for each in (1, 2, 3) if each != node_id]
            for partition in range(2):
                cluster.wait_leader(unique_topic, *survivors, partition=partition)
            load.wait_for(50)
            node.start()
            for partition in range(2):
                cluster.wait_isr(unique_topic, 1, 2, 3, partition=partition)
        load.wait_for(50)
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)
