"""One partition's role and high watermark."""

import uuid
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.replication.test_isr import fake_log
from yak.cluster.image import PartitionInfo
from yak.cluster.payload import IsrMember
from yak.ids import TopicPartition
from yak.replication.log_append_info import LogAppendInfo
from yak.replication.partition import Partition


def make(**config: int) -> Partition:
    return Partition(TopicPartition("t", 0), uuid.UUID(int=1), fake_log(**config))  # type: ignore[arg-type]


def lead(partition: Partition, *, epoch: int = 0, version: int = 0, leader: int = 1) -> bool:
    info = PartitionInfo(0, (1,), (IsrMember(1, 0),), (), leader=leader, leader_epoch=epoch, partition_epoch=version)
    return partition.become(1, info)


@given(st.lists(st.tuples(st.sampled_from(["append", "flush"]), st.integers(1, 5)), max_size=50), st.booleans())
def test_the_high_watermark_follows_the_log_or_the_device_and_never_falls(steps, flushed_only):
    partition = make(flush_messages=1) if flushed_only else make()
    lead(partition)
    before = 0
    for step, count in steps:
        if step == "append":
            partition.log.log_end_offset += count
        else:
            partition.log.recovery_point = partition.log.log_end_offset
        moved = partition.advance_high_watermark()
        expected = partition.log.recovery_point if flushed_only else partition.log.log_end_offset
        assert partition.high_watermark == expected
        assert moved == (partition.high_watermark > before)
        before = partition.high_watermark


@pytest.mark.parametrize("flushes", [False, True])
def test_a_repeated_batch_is_acknowledged_once_its_own_records_are_committed(flushes):
    """The first copy timed out, and the batch came again behind a later one that is not replicated yet."""
    partition, resolved = make(), []
    for end_offset in (10, 20, 10, 15):
        info = LogAppendInfo(partition, 0, end_offset, -1, 0, wants_isr=not flushes, wants_flush=flushes)
        waiter = SimpleNamespace(finished=False, resolve=partial(resolved.append, end_offset))
        info.wait_with(waiter, SimpleNamespace())
    for reached, expected in ((9, []), (10, [10, 10]), (16, [10, 10, 15]), (20, [10, 10, 15, 20])):
        partition.high_watermark = partition.log.recovery_point = reached
        partition.complete_waiters()
        assert resolved == expected


def test_an_older_state_changes_nothing():
    partition = make()
    assert lead(partition, epoch=3, version=5)
    assert not lead(partition, epoch=2, version=6, leader=2)
    assert not lead(partition, epoch=4, version=4, leader=2)
    assert (partition.leader_epoch, partition.is_leader) == (3, True)


def test_a_new_leader_or_epoch_is_a_change_and_the_same_again_is_none():
    partition = make()
    assert lead(partition, epoch=1, version=1)
    assert not lead(partition, epoch=1, version=2)
    assert lead(partition, epoch=2, version=3)
    assert lead(partition, epoch=3, version=4, leader=2)
    assert not partition.is_leader
