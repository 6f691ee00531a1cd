"""Logs that a job creates beside the rounds of metadata records: what they were for may be gone when it ends."""

import errno

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker.requests import delete_topic, list_offset
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.protocol.record_batch import iterate_headers
from yak.sim.disk import Content
from yak.sim.node import SimNode
from yak.sim.request_fields import create_fields
from yak.storage.log_creation import LogCreation

LONG_US = 5_000_000
HALF = TopicPartition("half", 0)
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def rig() -> Rig:
    """A broker whose job creates the log of a topic again, after the disk was full."""
    rig = Rig()
    rig.node.disk.fail_next("open", errno.ENOSPC, path_contains="half-0/")
    rig.ask(19, 5, **create_fields("half", {}, 1))
    rig.node.jobs.delays_us = {"image": LONG_US}
    store = rig.node.broker.log_store
    rig.world.run(lambda: store.is_creating(HALF), events_max=50_000)
    rig.node.jobs.delays_us = {}
    return rig


def test_log_that_is_created_for_a_deleted_topic_is_not_that_of_its_successor(rig):
    delete_topic(rig, "half")
    rig.ask(19, 5, **create_fields("half", {}, 1))
    rig.run_for(2 * LONG_US // 1000)
    partition = rig.node.broker.partitions[HALF]
    assert partition.log.topic_id == partition.topic_id
    assert rig.produce("half", [b"a"]).error_code == ErrorCode.none
    rig.restart(orderly=True)
    assert rig.fetch("half", 0).high_watermark == 1


def test_log_that_is_created_for_a_deleted_topic_is_deleted(rig):
    delete_topic(rig, "half")
    rig.run_for(2 * LONG_US // 1000)
    assert HALF not in rig.node.broker.log_store.logs
    assert not [each for each in rig.node.disk.names("/data") if each.startswith("half-0")]


def test_leader_that_is_elected_while_its_log_is_created_again_begins_its_epoch_with_that_log():
    """Else it knew no end of the partition until it had as many records as when it led before."""
    rig = ClusterRig(hands_back=False)
    rig.create_topic("orders", replication_factor=2, unclean_leader_election_enable="true")
    rig.produce("orders", [b"a"] * 3)
    other, node_id = rig.leader("orders"), rig.followers("orders")[0]
    rig.run_until(lambda: rig.is_in_sync("orders"))
    rig.elect("orders", node_id)
    partition, node = rig.replica(node_id, "orders"), rig.nodes[node_id - 1]
    rig.run_until(lambda: partition.epoch_start_offset == 3 and rig.is_in_sync("orders"))
    held, start = [], node.jobs.start
    node.jobs.start = lambda effect: held.append(effect) if isinstance(effect.plan, LogCreation) else start(effect)
    node.enter(lambda: node.broker.log_failures.log_damaged(partition, "as the test wants it"))
    rig.run_until(lambda: held)
    rig.nodes[other - 1].kill()
    rig.run_until(lambda: partition.is_leader)
    start(held.pop())
    rig.run_until(lambda: partition.log is not None)
    found = list_offset(rig, node_id=node_id)
    assert (found.error_code, found.offset, found.leader_epoch) == (ErrorCode.none, 0, partition.leader_epoch)


# ------------------------------------------------------------------------- logs whose end is missing


def segment_of(node: SimNode, topic_partition: TopicPartition) -> Content:
    return node.disk.contents()[f"/data/{topic_partition}/{0:020d}.log"]


def lose_the_end(node: SimNode, records: int, more_bytes: int = 0) -> None:
    """The disk loses batches that it had synced: a restored backup, or a file that was cut by hand."""
    content = segment_of(node, ORDERS)
    positions = [position for position, _ in iterate_headers(bytes(content.data))]
    content.truncate(positions[-records] + more_bytes)
    content.sync()


def flushed_rig(metadata: str = "redis", **topic: object) -> ClusterRig:
    rig = ClusterRig(settings={"log.flush.offset.checkpoint.interval.ms": "500"}, metadata=metadata)
    rig.create_topic("orders", flush_messages="1", **topic)
    for number in range(4):
        assert rig.produce("orders", [b"%d" % number * 50]).error_code == 0
    nodes = rig.info("orders").replicas
    rig.run_until(lambda: all(rig.replica(each, "orders").log.recovery_point == 4 for each in nodes))
    rig.run_for(1_000)
    return rig


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("more_bytes", [0, 70])
@pytest.mark.parametrize("metadata", ["redis", "raft"])
def test_replica_whose_log_lost_its_end_leads_only_after_a_resync(metadata, more_bytes, orderly):
    """All brokers start together, it first: the others truncated what it lacked, though it was committed."""
    rig = flushed_rig(metadata)
    short = rig.nodes[rig.leader("orders") - 1]
    for each in rig.nodes:
        if orderly:
            each.stop()
            rig.run_until(lambda each=each: each.broker is None)
        else:
            each.kill()
    lose_the_end(short, 2, more_bytes)
    for each in (short, *(each for each in rig.nodes if each is not short)):
        each.start()
    rig.run_until(lambda: all(each.is_ready for each in rig.nodes) and rig.is_in_sync("orders"))
    assert [rig.replica(each.node_id, "orders").log_end_offset for each in rig.nodes] == [4, 4, 4]
    assert [each.fields["served"] for each in short.notices if each.event == "log-damaged"] == [False]
    assert rig.events(short.node_id).count("short-replica-resigned") == 1
    assert len(short.broker.damaged_replicas) == 0


def test_short_log_is_still_short_after_a_start_without_the_metadata_store():
    """A checkpoint of that start must not lower the recovery point, which is what tells of the loss."""
    rig = flushed_rig()
    short = rig.nodes[rig.leader("orders") - 1]
    for each in rig.nodes:
        each.kill()
    lose_the_end(short, 2)
    rig.cluster.stop_store()
    short.start()
    rig.run_for(3_000)
    short.kill()
    rig.cluster.start_store()
    for each in (short, *(each for each in rig.nodes if each is not short)):
        each.start()
    rig.run_until(lambda: all(each.is_ready for each in rig.nodes) and rig.is_in_sync("orders"))
    assert [rig.replica(each.node_id, "orders").log_end_offset for each in rig.nodes] == [4, 4, 4]


def rig_with_a_short_last_log():
    """A cluster, and its only node in sync, which does not run and whose log lost its end."""
    rig = flushed_rig()
    last = rig.nodes[rig.leader("orders") - 1]
    for each in rig.nodes:
        if each is not last:
            each.kill()
    rig.run_until(lambda: rig.info("orders").isr == (last.node_id,))
    last.kill()
    lose_the_end(last, 2)
    return rig, last


@pytest.mark.parametrize("interval_ms", ["500", "60000"])
def test_last_replica_in_sync_serves_a_short_log_as_far_as_it_goes(interval_ms):
    rig, last = rig_with_a_short_last_log()
    last._settings = last._settings | {"log.flush.offset.checkpoint.interval.ms": interval_ms}
    last.start()
    rig.run_until(lambda: last.is_ready and rig.replica(last.node_id, "orders").is_leader)
    rig.run_for(2_000)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert last.disk.read_file(f"/data/{name}") == b"0\n1\norders 0 2\n"
    assert rig.events(last.node_id).count("short-log-served") == 1
    assert last.broker.damaged_replicas.offsets("orders") == [(0, 2)]
    assert rig.produce("orders", [b"next"]).base_offset == 2
    for each in rig.nodes:
        if each is not last:
            each.start()
    rig.run_until(lambda: rig.events(last.node_id).count("replica-resync-started") == 1 and rig.is_in_sync("orders"))
    assert [rig.replica(each.node_id, "orders").log_end_offset for each in rig.nodes] == [3, 3, 3]


def test_kill_soon_after_a_short_log_is_served_exposes_no_record_early():
    """The checkpoints have the high watermark and the recovery point of the records that are missing."""
    rig, last = rig_with_a_short_last_log()
    last._settings = last._settings | {"min.insync.replicas": "2"}
    last.jobs.delays_us = {"checkpoint": LONG_US}
    last.start()
    rig.run_until(lambda: "short-log-served" in rig.events(last.node_id) and last.is_ready)
    for _ in range(3):
        assert rig.produce("orders", [b"next"], acks=1).error_code == 0
    assert rig.replica(last.node_id, "orders").high_watermark == 2
    last.kill()
    last.start()
    rig.run_until(lambda: last.is_ready and rig.replica(last.node_id, "orders").is_leader)
    partition = rig.replica(last.node_id, "orders")
    assert (partition.log_end_offset, partition.high_watermark) == (5, 2)
    last.jobs.delays_us = {}
    rig.run_for(2_000)
    assert not last.disk.exists("/data/orders-0/fresh.yak")


def test_short_log_whose_mark_cannot_be_written_is_served_if_the_disk_is_only_full():
    for error, is_served in ((errno.ENOSPC, True), (errno.EIO, False)):
        rig, last = rig_with_a_short_last_log()
        last.disk.fail_next("write_file", error, path_contains="orders-0/fresh.yak")
        last.start()
        event = "short-log-served" if is_served else "log-directory-offline"
        rig.run_until(lambda rig=rig, last=last, event=event: event in rig.events(last.node_id))


@pytest.mark.parametrize("more_bytes", [0, 70])
def test_only_replica_serves_a_short_log_as_far_as_it_goes(more_bytes):
    rig = flushed_rig(replication_factor=1)
    node = rig.nodes[rig.leader("orders") - 1]
    node.kill()
    lose_the_end(node, 2, more_bytes)
    node.start()
    rig.run_until(lambda: node.is_ready and rig.replica(node.node_id, "orders").is_leader)
    assert [each.fields["served"] for each in node.notices if each.event == "log-damaged"] == [True]
    assert node.disk.read_file("/data/recovery-point-offset-checkpoint.lowered") == b"0\n1\norders 0 2\n"
    assert node.broker.damaged_replicas.offsets("orders") == [(0, 2)]
    assert rig.produce("orders", [b"next"]).base_offset == 2
