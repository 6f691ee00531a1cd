"""The fences of an append: each one refuses with Kafka's error, whichever path the batch takes."""

from __future__ import annotations

import pytest

from tests.rig import Rig, produce_fields
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.partitions.leader_appends import ACKS_ALL
from yak.replication.partition import Partition
from yak.sim.wire import record_batch

ORDERS = TopicPartition("orders", 0)


def lose_the_log(rig: Rig, partition: Partition) -> None:
    partition.log = None


def follow(rig: Rig, partition: Partition) -> None:
    partition.is_leader = False


def stop(rig: Rig, partition: Partition) -> None:
    rig.node.broker.leadership.stop()


def isolate(rig: Rig, partition: Partition) -> None:
    rig.node.broker.leadership._is_isolated = lambda _of: True


def shrink(rig: Rig, partition: Partition) -> None:
    partition.elr = (2,)


FENCES = (
    (lose_the_log, ErrorCode.kafka_storage_error),
    (follow, ErrorCode.not_leader_or_follower),
    (stop, ErrorCode.not_leader_or_follower),
    (isolate, ErrorCode.not_leader_or_follower),
    (shrink, ErrorCode.not_enough_replicas),
)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    return rig


@pytest.mark.parametrize(("fence", "code"), FENCES, ids=[fence.__name__ for fence, _code in FENCES])
def test_append_of_a_fenced_leader_is_refused_on_each_path(rig, fence, code):
    broker = rig.node.broker
    partition, batch = broker.partitions[ORDERS], record_batch([b"x"], rig.world.now_ms)
    log = partition.log
    assert broker.leadership.check_append(partition, ACKS_ALL) is log
    fence(rig, partition)
    with pytest.raises(PeerError) as client:
        broker.leader_appends.append("orders", 0, batch, 9, ACKS_ALL, rig.world.now_ms)
    with pytest.raises(PeerError) as verified:
        broker.leader_appends.append_verified(partition, batch, 9, ACKS_ALL)
    with pytest.raises(PeerError) as own:
        broker.leader_appends.append_own_batch(partition, batch)
    assert (client.value.error_code, verified.value.error_code, own.value.error_code) == (code, code, code)
    assert log is not None
    assert log.log_end_offset == 0
    assert broker.leadership.leads(partition) == (fence in (isolate, shrink))


@pytest.mark.parametrize(("fence", "code"), FENCES[3:], ids=[fence.__name__ for fence, _code in FENCES[3:]])
def test_append_that_waited_for_its_job_is_refused_by_a_fence(rig, fence, code):
    rig.create_topic("packed", compression_type="gzip")
    batch = record_batch([b"x"], rig.world.now_ms)
    acks = ACKS_ALL if fence is shrink else 1
    pending = rig.begin(0, 9, **produce_fields("packed", batch, acks=acks))
    partition = rig.node.broker.partitions[TopicPartition("packed", 0)]
    rig.world.run(lambda: partition.pending_appends is not None, events_max=5_000)
    fence(rig, partition)
    rig.run_for(100)
    (answer,) = pending.answer.responses[0].partition_responses
    assert answer.error_code == code
    assert partition.log_end_offset == 0


def test_append_during_a_hand_over_waits_for_clients_and_is_refused_for_coordinators(rig):
    broker = rig.node.broker
    partition, batch = broker.partitions[ORDERS], record_batch([b"x"], rig.world.now_ms)
    partition.is_handed_over = True
    held = broker.leader_appends.append("orders", 0, batch, 9, ACKS_ALL, rig.world.now_ms)
    assert not held.may_acknowledge()
    assert held.end_offset < 0
    with pytest.raises(PeerError) as own:
        broker.leader_appends.append_own_batch(partition, batch)
    assert own.value.error_code == ErrorCode.not_enough_replicas


def test_replica_of_a_partition_without_a_replica_here_says_why(rig):
    leadership, partitions = rig.node.broker.leadership, rig.node.broker.partitions
    with pytest.raises(PeerError) as unknown:
        leadership.replica_of(TopicPartition("orders", 1))
    assert unknown.value.error_code == ErrorCode.unknown_topic_or_partition
    del partitions[ORDERS]
    with pytest.raises(PeerError) as elsewhere:
        leadership.leader_of(ORDERS)
    assert elsewhere.value.error_code == ErrorCode.not_leader_or_follower


def test_append_of_a_broken_batch_below_min_isr_returns_not_enough_replicas(rig):
    """Kafka's Partition.appendRecordsToLeader checks the ISR before the batch."""
    broker = rig.node.broker
    partition, batch = broker.partitions[ORDERS], bytearray(record_batch([b"x"], rig.world.now_ms))
    batch[-1] ^= 1
    codes = []
    for fence in (lambda *_: None, shrink):
        fence(rig, partition)
        with pytest.raises(PeerError) as refused:
            broker.leader_appends.append("orders", 0, bytes(batch), 9, ACKS_ALL, rig.world.now_ms)
        codes.append(refused.value.error_code)
    assert codes == [ErrorCode.corrupt_message, ErrorCode.not_enough_replicas]
