"""Disks that are full, hang, or come back empty: the broker that has one steps back, and nothing acknowledged is lost."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition
from kio.schema.errors import ErrorCode
from support.fault_cluster import FaultCluster, Node, Start, empty
from support.loads import check_complete, read_all
from support.one_record import wait_refused, wait_written
from support.raw import RawClient
from support.waiting import wait_until

from tests.rig import fetch_fields
from yak.local.chaos.node import OwnDisk

STALL_SECONDS = 2.0
DISK_BYTES = 24 << 20


# ------------------------------------------------------------------------------------------------------- full


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[OwnDisk]:
    try:
        disk = OwnDisk(tmp_path / "disk", DISK_BYTES)
    except OSError as error:
        pytest.skip(f"no small file system can be had: {error}")
    try:
        yield disk
    finally:
        disk.close()


def test_a_follower_whose_disk_is_full_leaves_the_isr_until_there_is_room(cluster, small_disk, unique_topic):
    node = cluster.make(4, small_disk)
    node.start()
    wait_until(lambda: 4 in cluster.active(), "node 4 is active")
    cluster.create(unique_topic, [1, 2, 4], segment_bytes="1048576")
    mark = node.mark()
    with cluster.load(unique_topic) as load:
        load.wait_for(50)
        small_disk.fill(node.process)
        cluster.wait_isr(unique_topic, 1, 2)
        mark.wait_for("log-directory-full")
        load.wait_for(100)
        small_disk.free(node.process)
        cluster.wait_isr(unique_topic, 1, 2, 4)
        load.wait_for(50)
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)
    # What the follower has now is what was acknowledged, from the first record on: it leads, and is read.
    for node_id in (1, 2):
        cluster.nodes[node_id].kill9()
    cluster.wait_leader(unique_topic, 4)


# ------------------------------------------------------------------------------------------------------ stalls


@pytest.mark.parametrize("role", ["controller", "follower"])
def test_a_disk_that_hangs_for_two_seconds_costs_no_membership(cluster, unique_topic, tmp_path, role):
    node = cluster.controller
    if role == "follower":
        node = next(each for each in cluster.nodes.values() if each is not cluster.controller)
    stall = tmp_path / "stall"
    node.restart_fresh(Start(faults={"stall_file": str(stall)}))
    wait_until(lambda: node.node_id in cluster.active(), "it is active")
    others = [each for each in (1, 2, 3) if each != node.node_id]
    if role == "controller":
        give_office(cluster, node)
    first = node.node_id if role == "controller" else others[0]
    cluster.create(unique_topic, [first, *(each for each in (1, 2, 3) if each != first)])
    marks, offset = cluster.marks(), cluster.image.offset
    with cluster.load(unique_topic) as load:
        load.wait_for(50)
        stall.touch()
        time.sleep(STALL_SECONDS)
        stall.unlink()
        load.wait_for(50)
        cluster.wait_isr(unique_topic, 1, 2, 3)
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)
    assert not any(mark.lines("broker-fenced") for mark in marks.values())
    assert not any(mark.lines("controller-elected") for mark in marks.values())
    assert min(cluster.isr_sizes_since(offset, unique_topic), default=3) >= 2
    assert cluster.leaders_since(offset, unique_topic) <= {first}


def give_office(cluster: FaultCluster, node: Node) -> None:
    """Make this one the controller: the others stop in order, one after another, and come back."""
    for other in cluster.nodes.values():
        if other is not node and cluster.image.controller_id == other.node_id:
            other.restart_fresh(other.start_as)
            wait_until(lambda: len(cluster.active()) == 3, "all are back")


# ------------------------------------------------------------------------------------------------------ emptied


def is_in_sync_since(cluster, topic, partition, registered):
    """Whether the broker is in the ISR by right of this boot; until the dead one's leaders are replaced the old one counts."""
    info = cluster.partition(topic, partition)
    return set(info.isr) == {1, 2, 3} and dict(info.isr_members)[registered.node_id] == registered.broker_epoch


def test_brokers_that_are_emptied_one_after_another_refill_and_never_lead_by_old_right(cluster, unique_topic):
    cluster.create(unique_topic, [1, 2, 3], [2, 3, 1])
    with cluster.load(unique_topic, partitions=2) as load:
        for node in list(cluster.nodes.values()):
            load.wait_for(50)
            mark, offset = node.mark(), cluster.image.offset
            node.kill9()
            empty(node.data_dir)
            node.start()
            registered = cluster.broker(node.node_id)
            assert registered.lossy_epoch == registered.broker_epoch
            mark.wait_for("broker-registered", lossy=True)
            for partition in range(2):
                wait_until(
                    partial(is_in_sync_since, cluster, unique_topic, partition, registered),
                    f"node {node.node_id} is in sync in its new boot",
                )
            assert cluster.leaders_since(offset, unique_topic).isdisjoint({node.node_id})
        load.wait_for(50)
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)
    # The one that was emptied first holds everything: read from it alone.
    for node_id in (2, 3):
        cluster.nodes[node_id].kill9()
    cluster.wait_leader(unique_topic, 1)
    wait_until(lambda: end_at(cluster, 1, unique_topic) == len(load.acknowledged[0]), "node 1 gives all of it")


def end_at(cluster: FaultCluster, node_id: int, topic: str) -> int:
    """Up to where a broker gives records to consumers; -1 when it does not lead yet."""
    with RawClient(cluster.nodes[node_id].proxy.port) as client:
        found = client.ask(1, 12, **fetch_fields(topic, 0, max_bytes=1)).responses[0].partitions[0]
    return int(found.high_watermark) if found.error_code is ErrorCode.none else -1


def test_the_last_one_in_sync_that_lost_its_disk_leaves_the_partition_offline_and_says_so(cluster, unique_topic):
    """With min.insync.replicas=1 one broker may acknowledge alone, and then nobody else has it: never silently empty."""
    cluster.create(unique_topic, [1, 2, 3], min_insync_replicas="1")
    wait_written(cluster, unique_topic, b"of all")
    for node_id in (2, 3):
        cluster.nodes[node_id].kill9()
    cluster.wait_isr(unique_topic, 1)
    wait_written(cluster, unique_topic, b"of one")
    mark = cluster.nodes[1].mark()
    cluster.nodes[1].kill9()
    empty(cluster.nodes[1].data_dir)
    for node in cluster.nodes.values():
        node.spawn()
    for node in cluster.nodes.values():
        node.wait_ready()
    mark.wait_for("broker-registered", lossy=True)
    wait_until(lambda: cluster.active() == [1, 2, 3], "all are active")
    wait_until(lambda: cluster.partition(unique_topic).leader == -1, "nobody leads")
    for node_id in (1, 2, 3):
        wait_refused(cluster, node_id, unique_topic, acks=1, code=ErrorCode.not_leader_or_follower)
    assert cluster.partition(unique_topic).leader == -1
    # An operator may give up what only the lost disk had.
    admin = cluster.new_admin()
    errors = admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(unique_topic, 0)]).result(30)
    assert list(errors.values()) == [None]
    cluster.wait_leader(unique_topic, 1, 2, 3)
    cluster.wait_isr(unique_topic, 1, 2, 3)
    wait_written(cluster, unique_topic, b"after")
    assert [value for value in read_all(cluster.bootstrap, unique_topic) if value != b"after"] == [b"of all"]
