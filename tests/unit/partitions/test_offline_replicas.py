"""Logs that a job creates beside the rounds of metadata records: what they were for may be gone when it ends."""

import datetime as dt
import errno

import pytest

from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.sim.cluster_rig import ClusterRig
from yak.sim.request_fields import create_fields
from yak.sim.rig import Rig
from yak.storage.log_creation import LogCreation

LONG_US = 5_000_000
HALF = TopicPartition("half", 0)


@pytest.fixture
def rig() -> Rig:
    """A broker whose job creates the log of a topic again, after the disk was full."""
    rig = Rig()
    rig.node.disk.fail_next("open", errno.ENOSPC, path_contains="half-0/")
    rig.ask(19, 5, **create_fields("half", {}, 1))
    rig.node.jobs.delays_us = {"image": LONG_US}
    store = rig.node.broker.log_store
    rig.world.run(lambda: store.is_creating(HALF), check=lambda: None, events_max=50_000)
    rig.node.jobs.delays_us = {}
    return rig


def delete(rig: Rig) -> None:
    answer = rig.ask(20, 4, topic_names=["half"], timeout=dt.timedelta(seconds=5))
    assert answer.responses[0].error_code == ErrorCode.none


def test_log_that_is_created_for_a_deleted_topic_is_not_that_of_its_successor(rig):
    delete(rig)
    rig.ask(19, 5, **create_fields("half", {}, 1))
    rig.run_for(2 * LONG_US // 1000)
    partition = rig.node.broker.partitions[HALF]
    assert partition.log.topic_id == partition.topic_id
    assert rig.produce("half", [b"a"]).error_code == ErrorCode.none
    rig.restart(orderly=True)
    assert rig.fetch("half", 0).high_watermark == 1


def test_log_that_is_created_for_a_deleted_topic_is_deleted(rig):
    delete(rig)
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
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": "orders", "partitions": [asked]}]
    found = rig.ask(node_id, 2, 6, replica_id=-1, isolation_level=0, topics=topics).topics[0].partitions[0]
    assert (found.error_code, found.offset, found.leader_epoch) == (ErrorCode.none, 0, partition.leader_epoch)
