"""After a start a leader knows the last batch of each producer; those before it are looked for in a job, never in a turn."""

import errno

import pytest
from kio.schema.errors import ErrorCode

from yak.sim.rig import Rig


def started_again(*directories: str) -> Rig:
    rig = Rig(directories=directories or ("/data",))
    rig.create_topic("orders", segment_bytes="14")
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
