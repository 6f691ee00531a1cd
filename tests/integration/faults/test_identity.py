"""Brokers that are not who they should be: another cluster's data, or a node id that somebody has."""

import shutil

import pytest
from kio.schema.errors import ErrorCode
from support.fault_cluster import FaultCluster, Node
from support.loads import read_all
from support.one_record import produce, wait_written
from support.waiting import wait_until

from yak.cluster.records import BrokerState


@pytest.fixture
def foreign_data(make_broker, redis_databases, tmp_path):
    """The data directory of a broker of another cluster, with a topic in it."""
    with redis_databases.borrow() as url:
        broker = make_broker(tmp_path / "foreign", url).start(node_id=9)
        broker.stop()
        yield broker.data_dir


def test_a_follower_whose_data_became_another_clusters_does_not_start(cluster, foreign_data, unique_topic):
    """A disk that was put into the wrong machine: the node id is one of ours."""
    cluster.create(unique_topic, [1, 2, 3])
    node = cluster.nodes[3]
    node.stop()
    own = node.data_dir.with_name("node-3-own")
    node.data_dir.rename(own)
    shutil.copytree(foreign_data, node.data_dir)
    properties = node.data_dir / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=9", "node.id=3"))
    try:
        assert node.refused_start().code == "wrong-cluster"
        assert produce(cluster, 1, unique_topic, b"on") is ErrorCode.none
        assert 3 not in cluster.partition(unique_topic).isr
    finally:
        shutil.rmtree(node.data_dir)
        own.rename(node.data_dir)
    node.start()
    cluster.wait_isr(unique_topic, 1, 2, 3)


def double(cluster: FaultCluster, unique_topic: str) -> Node:
    """Another process with node id 3, and a directory of its own."""
    return cluster.make(3, name=f"double-{unique_topic}")


def test_the_second_broker_with_a_node_id_is_refused_while_the_first_one_lives(cluster, unique_topic):
    cluster.create(unique_topic, [3, 1, 2])
    epoch = cluster.broker(3).broker_epoch
    second = double(cluster, unique_topic)
    try:
        error = second.refused_start()
        assert error.code == "node-id-in-use"
        assert f"node id 3 is in use by a broker at {cluster.nodes[3].proxy.address}" in error.message
        assert second.log().count("node-id-registered-elsewhere") == 1
    finally:
        second.close()
    same_directory = cluster.make(3, cluster.nodes[3].disk, name=f"twin-{unique_topic}")
    try:
        error = same_directory.refused_start()
        assert f"held by process {cluster.nodes[3].process.pid}" in error.why
    finally:
        same_directory.close()
    assert cluster.broker(3).broker_epoch == epoch
    assert cluster.broker(3).state is BrokerState.ACTIVE
    assert produce(cluster, 3, unique_topic, b"still here") is ErrorCode.none
    assert read_all(cluster.bootstrap, unique_topic) == [b"still here"]


def test_a_broker_takes_over_the_node_id_of_one_that_is_dead_but_none_of_its_rights(cluster, unique_topic):
    cluster.create(unique_topic, [3, 1, 2])
    for value in (b"one", b"two"):
        assert produce(cluster, 3, unique_topic, value) is ErrorCode.none
    epoch = cluster.broker(3).broker_epoch
    first, second = cluster.nodes[3], double(cluster, unique_topic)
    offset, marks = cluster.image.offset, cluster.marks()
    first.kill9()
    cluster.nodes[3] = second
    try:
        second.start()
        assert cluster.broker(3).broker_epoch > epoch
        assert cluster.broker(3).lossy_epoch == cluster.broker(3).broker_epoch
        assert second.log().count("lossy=True") == 1
        wait_until(lambda: any(mark.lines("broker-fenced", node_id=3) for mark in marks.values()), "the dead is fenced")
        cluster.wait_isr(unique_topic, 1, 2, 3)  # by copying, in its own epoch
        info = cluster.partition(unique_topic)
        assert info.leader != 3
        assert dict(info.isr_members)[3] == cluster.broker(3).broker_epoch
        assert cluster.leaders_since(offset, unique_topic).isdisjoint({3})
        wait_written(cluster, unique_topic, b"three")
        # The first one comes back while the second lives: now it is the stranger, and its records are no news to anybody.
        assert first.refused_start().code == "node-id-in-use"
        assert [value for value in read_all(cluster.bootstrap, unique_topic) if value != b"three"] == [b"one", b"two"]
    finally:
        second.stop()
        cluster.nodes[3] = first
        second.close()
    # Its own disk is older than what the second did: lossy too, and in sync only by copying.
    first.start()
    cluster.wait_isr(unique_topic, 1, 2, 3)
    assert cluster.broker(3).lossy_epoch == cluster.broker(3).broker_epoch
    assert cluster.leaders_since(offset, unique_topic).isdisjoint({3})
