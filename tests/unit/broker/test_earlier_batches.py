"""After a start a leader knows the last batch of each producer; those before it are looked for in a job, never in a turn."""

import errno

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.replicated import add_broker, set_partition
from yak.sim.rig import Rig, produce_fields
from yak.sim.wire import record_batch
from yak.storage.producer_state import DEFERRED_MS


def started_again(*directories: str, **configs: str) -> Rig:
    rig = Rig(directories=directories or ("/data",))
    rig.create_topic("orders", segment_bytes="14", **configs)
    for number in range(4):
        assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=number).error_code == 0
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
    answer = rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=1)
    assert answer.error_code == ErrorCode.not_enough_replicas
    rig.run_for(100)
    answer = rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=1)
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert sum(rig.node.disk.reads.values()) > 0
    assert not any(reads)
    assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=4).base_offset == 4


def test_produce_of_a_gap_after_a_start_is_refused_once_the_log_was_searched():
    rig = started_again()
    assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=9).error_code == ErrorCode.not_enough_replicas
    rig.run_for(100)
    answer = rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=9)
    assert answer.error_code == ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize("searched_ms", [0, 100])
def test_no_batch_is_acknowledged_before_one_that_was_deferred_for_the_search(searched_ms):
    """Five batches are under way, and the log knows the last one. Its answer would let the client send a sixth, which
    pushes the first out of the remembered batches: if its second answer is lost, a third attempt is out of order."""
    rig = started_again()
    codes = []
    for number in range(4):
        if number == 1:
            rig.run_for(searched_ms)
        codes.append(rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=number).error_code)
    assert codes == [ErrorCode.not_enough_replicas] * 4
    rig.run_for(100)
    for number in range(5):
        answer = rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=number)
        assert (answer.error_code, answer.base_offset) == (0, number)


def test_batches_that_wait_for_their_recompression_are_deferred_behind_one_that_is_searched_for():
    """They are in the queue already when the first one is deferred."""
    rig = started_again(compression_type="gzip")
    batches = [
        record_batch([b"x"], rig.world.now_ms, producer_id=5, epoch=0, sequence=number) for number in range(1, 4)
    ]
    sent = [rig.begin(0, 9, **produce_fields("orders", batch)) for batch in batches]
    rig.run_for(100)
    codes = [each.answer.responses[0].partition_responses[0].error_code for each in sent]
    assert codes == [ErrorCode.not_enough_replicas] * 3


def test_deferred_batch_that_never_comes_again_holds_others_back_for_seconds_only():
    rig = started_again()
    assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=1).error_code == ErrorCode.not_enough_replicas
    rig.run_for(100)
    assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=4).error_code == ErrorCode.not_enough_replicas
    rig.run_for(DEFERRED_MS)
    assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=4).base_offset == 4


def set_min_isr(rig: Rig, value: str) -> None:
    config = {"name": "min.insync.replicas", "config_operation": 0, "value": value}
    asked = {"resource_type": 2, "resource_name": "orders", "configs": [config]}
    assert rig.ask(44, 1, resources=[asked]).responses[0].error_code == 0


def test_stored_batch_is_not_acknowledged_before_one_that_the_leader_refused_for_its_isr():
    rig = Rig()
    rig.create_topic("orders")
    for number in range(2):
        rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=number)
    add_broker(rig, 2)
    set_partition(rig, "orders", leader=1, replicas=(1, 2), isr=(1,))
    set_min_isr(rig, "2")
    assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=0).error_code == ErrorCode.not_enough_replicas
    set_min_isr(rig, "1")
    assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=1).error_code == ErrorCode.not_enough_replicas
    for number in range(3):
        assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=number).base_offset == number


@pytest.mark.parametrize("operation", ["open", "read"])
def test_log_that_cannot_be_searched_takes_its_directory_offline(operation):
    """An answer from what was not read would refuse the repeat of an acknowledged batch for good."""
    rig = started_again("/data", "/more")
    rig.node.disk.fail_next(operation, errno.EIO, path_contains="/orders-0/")
    assert rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=1).error_code == ErrorCode.not_enough_replicas
    rig.run_for(100)
    answer = rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=1)
    assert answer.error_code == ErrorCode.kafka_storage_error


def test_batches_behind_a_segment_that_retention_removes_meanwhile_are_found():
    rig = started_again()
    rig.node.disk.fail_next("open", errno.ENOENT, path_contains="/orders-0/00000000000000000000.log")
    rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=1)
    rig.run_for(100)
    answer = rig.produce("orders", [b"x"], producer_id=5, epoch=0, sequence=1)
    assert (answer.error_code, answer.base_offset) == (0, 1)
