"""DeleteRecords answers when every live replica let go of the records."""

import datetime as dt

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.replicated import add_broker, set_partition
from tests.unit.broker.requests import delete_topic
from yak.cluster.records import BrokerState
from yak.groups.offsets import OFFSETS_TOPIC
from yak.replication.partition_events import PartitionEvent


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    rig.produce("orders", [b"a", b"b", b"c"])
    return rig


@pytest.fixture
def replicas(rig):
    """Two followers that have all records."""
    add_broker(rig, 2)
    add_broker(rig, 3)
    partition = set_partition(rig, "orders", leader=1, replicas=(1, 2, 3), isr=(1, 2, 3))
    for replica in partition.replica_states.values():
        replica.log_end_offset, replica.log_start_offset = 3, 0
    return partition


def delete(rig, offset, *, topic="orders", timeout_ms=5_000, client=None):
    asked = {"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}
    return rig.begin(21, 2, client=client, topics=[asked], timeout=dt.timedelta(milliseconds=timeout_ms))


def answered(rig, pending):
    rig.ask(18, 0, client=rig.new_client())
    rig.run_for(10)
    if not pending.is_done:
        return None
    partition = pending.answer.topics[0].partitions[0]
    return partition.error_code, partition.low_watermark


def test_without_followers_it_answers_at_once(rig):
    assert answered(rig, delete(rig, 2)) == (0, 2)
    assert answered(rig, delete(rig, 1)) == (0, 2)
    assert answered(rig, delete(rig, -1)) == (0, 3)


def test_delete_records_of_an_internal_topic_is_invalid_and_of_its_missing_partition_unknown(rig):
    rig.create_topic(OFFSETS_TOPIC)
    partitions = [{"partition_index": index, "offset": -1} for index in (0, 99)]
    answer = rig.ask(21, 2, topics=[{"name": OFFSETS_TOPIC, "partitions": partitions}])
    assert [each.error_code for each in answer.topics[0].partitions] == [
        ErrorCode.invalid_topic_exception,
        ErrorCode.unknown_topic_or_partition,
    ]


@pytest.mark.parametrize(
    ("policy", "answer"), [("compact", (ErrorCode.policy_violation, -1)), ("compact,delete", (0, 2)), ("", (0, 2))]
)
def test_delete_records_of_a_topic_that_is_only_compacted_returns_policy_violation(rig, policy, answer):
    rig.create_topic("prices", **{"cleanup.policy": policy})
    log = rig.node.broker.partitions[("prices", 0)].log
    log.log_end_offset = rig.node.broker.partitions[("prices", 0)].high_watermark = 3
    assert answered(rig, delete(rig, 2, topic="prices")) == answer


def test_delete_records_waits_for_the_slowest_follower(rig, replicas):
    pending = delete(rig, 2)
    assert answered(rig, pending) is None
    assert replicas.log.log_start_offset == 2
    replicas.replica_states[2].log_start_offset = 2
    rig.node.broker.partition_changed(replicas, PartitionEvent.FOLLOWER_LOG_START_MOVED)
    assert answered(rig, pending) is None
    replicas.replica_states[3].log_start_offset = 2
    rig.node.broker.partition_changed(replicas, PartitionEvent.FOLLOWER_LOG_START_MOVED)
    assert answered(rig, pending) == (0, 2)


def test_fenced_follower_does_not_delay_a_deletion_of_records(rig, replicas):
    pending = delete(rig, 2)
    replicas.replica_states[2].log_start_offset = 2
    rig.node.broker.partition_changed(replicas, PartitionEvent.FOLLOWER_LOG_START_MOVED)
    assert answered(rig, pending) is None
    add_broker(rig, 3, state=BrokerState.FENCED)
    rig.node.broker.record_deletions.on_brokers()
    assert answered(rig, pending) == (0, 2)


def test_delete_records_times_out_on_lagging_followers_but_the_records_are_deleted(rig, replicas):
    pending = delete(rig, 2, timeout_ms=200)
    rig.run_for(300)
    assert answered(rig, pending) == (ErrorCode.request_timed_out, 0)
    assert replicas.log.log_start_offset == 2
    assert rig.fetch("orders", 0).error_code == ErrorCode.offset_out_of_range


def test_a_leader_that_is_none_any_more_says_so(rig, replicas):
    pending = delete(rig, 2)
    assert answered(rig, pending) is None
    set_partition(rig, "orders", leader=2, replicas=(1, 2, 3), isr=(1, 2, 3))
    assert answered(rig, pending) == (ErrorCode.not_leader_or_follower, -1)
    assert answered(rig, delete(rig, 2)) == (ErrorCode.not_leader_or_follower, -1)


def test_a_topic_that_is_deleted_meanwhile_ends_the_wait(rig, replicas):
    pending = delete(rig, 2)
    delete_topic(rig, "orders")
    assert answered(rig, pending) == (ErrorCode.unknown_topic_or_partition, -1)


def test_a_client_that_leaves_is_forgotten(rig, replicas):
    client = rig.new_client()
    delete(rig, 2, client=client)
    rig.run_for(10)
    client.close()
    replicas.replica_states[2].log_start_offset = replicas.replica_states[3].log_start_offset = 2
    rig.node.broker.partition_changed(replicas, PartitionEvent.FOLLOWER_LOG_START_MOVED)
    assert not rig.node.broker.record_deletions._waiting
