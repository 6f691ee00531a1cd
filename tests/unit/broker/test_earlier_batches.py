"""After a start a leader knows the last batch of each producer; those before it are looked for in a job, never in a turn."""

import errno
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.replicated import add_broker, set_partition
from tests.unit.broker.requests import TOPIC, alter, begin_produce, produced
from yak.storage.producer_state import DEFERRED_MS

DEFERRED = ErrorCode.not_enough_replicas


def send(rig: Rig, sequence: int) -> Any:
    return rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=sequence)


def started_again(*directories: str, **configs: str) -> Rig:
    rig = Rig(directories=directories or ("/data",))
    rig.create_topic("orders", segment_bytes="14", **configs)
    for number in range(4):
        assert send(rig, number).error_code == 0
    rig.restart(orderly=True)
    rig.node.disk.reads.clear()
    return rig


def test_produce_of_an_earlier_batch_after_a_start_reads_no_log_in_the_step():
    rig = started_again()
    broker, reads = rig.node.broker, []
    step = broker.step

    def counted(event, now_ms):
        before = sum(rig.node.disk.reads.values())
        effects = step(event, now_ms)
        reads.append(sum(rig.node.disk.reads.values()) - before)
        return effects

    broker.step = counted
    assert send(rig, 1).error_code == DEFERRED
    rig.run_for(100)
    answer = send(rig, 1)
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert sum(rig.node.disk.reads.values()) > 0
    assert not any(reads)
    assert send(rig, 4).base_offset == 4


def test_produce_of_a_gap_after_a_start_is_refused_once_the_log_was_searched():
    rig = started_again()
    assert send(rig, 9).error_code == DEFERRED
    rig.run_for(100)
    assert send(rig, 9).error_code == ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize("searched_ms", [0, 100])
def test_no_batch_is_acknowledged_before_one_that_was_deferred_for_the_search(searched_ms):
    """Five batches are under way, and the log knows the last one. Its answer would let the client send a sixth, which
    pushes the first out of the remembered batches: if its second answer is lost, a third attempt is out of order."""
    rig = started_again()
    codes = []
    for number in range(4):
        if number == 1:
            rig.run_for(searched_ms)
        codes.append(send(rig, number).error_code)
    assert codes == [DEFERRED] * 4
    rig.run_for(100)
    for number in range(5):
        answer = send(rig, number)
        assert (answer.error_code, answer.base_offset) == (0, number)


def test_batches_that_wait_for_their_recompression_are_deferred_behind_one_that_is_searched_for():
    """They are in the queue already when the first one is deferred."""
    rig = started_again(compression_type="gzip")
    sent = [begin_produce(rig, "orders", b"x", producer_id=5, epoch=0, sequence=number) for number in range(1, 4)]
    rig.run_for(100)
    assert [produced(each).error_code for each in sent] == [DEFERRED] * 3


def test_deferred_batch_that_never_comes_again_holds_others_back_for_seconds_only():
    rig = started_again()
    assert send(rig, 1).error_code == DEFERRED
    rig.run_for(100)
    assert send(rig, 4).error_code == DEFERRED
    rig.run_for(DEFERRED_MS)
    assert send(rig, 4).base_offset == 4


def test_stored_batch_is_not_acknowledged_before_one_that_the_leader_refused_for_its_isr():
    rig = Rig()
    rig.create_topic("orders")
    for number in range(2):
        send(rig, number)
    add_broker(rig, 2)
    set_partition(rig, "orders", leader=1, replicas=(1, 2), isr=(1,))
    alter(rig, TOPIC, "orders", {"min.insync.replicas": "2"})
    assert send(rig, 0).error_code == DEFERRED
    alter(rig, TOPIC, "orders", {"min.insync.replicas": "1"})
    assert send(rig, 1).error_code == DEFERRED
    for number in range(3):
        assert send(rig, number).base_offset == number


@pytest.mark.parametrize("operation", ["open", "read"])
def test_log_that_cannot_be_searched_takes_its_directory_offline(operation):
    """An answer from what was not read would refuse the repeat of an acknowledged batch for good."""
    rig = started_again("/data", "/more")
    rig.node.disk.fail_next(operation, errno.EIO, path_contains="/orders-0/")
    assert send(rig, 1).error_code == DEFERRED
    rig.run_for(100)
    assert send(rig, 1).error_code == ErrorCode.kafka_storage_error


def test_batches_behind_a_segment_that_retention_removes_meanwhile_are_found():
    rig = started_again()
    rig.node.disk.fail_next("open", errno.ENOENT, path_contains="/orders-0/00000000000000000000.log")
    send(rig, 1)
    rig.run_for(100)
    answer = send(rig, 1)
    assert (answer.error_code, answer.base_offset) == (0, 1)
