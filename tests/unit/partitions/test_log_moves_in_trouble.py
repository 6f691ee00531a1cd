"""Moves of replicas between log directories that meet DeleteRecords, truncated segments, or a directory in trouble."""

import pytest

from tests.unit.broker.requests import delete_records
from tests.unit.partitions.test_log_moves import (
    ORDERS,
    _small_pieces,
    assert_moved,
    events,
    filled,
    log_of,
    move,
    other,
    payload,
    produce,
    run_until,
    values,
)
from tests.unit.storage.conftest import KeepsNothing, build_batch
from yak.errors import LogDirectoryFailure
from yak.protocol.control_batch import EndTransactionMarker, build_marker
from yak.protocol.record_batch import TRANSACTIONAL_BIT, read_header

__all__ = ["_small_pieces"]


def end(rig, *, power_loss):
    """End the process; the power loss undoes all that was not synced."""
    rig.node.kill()
    if power_loss:
        rig.node.disk.crash(KeepsNothing())
    rig.node.start()
    rig.run_until_ready()


def append(rig, batch):
    log = log_of(rig)
    log.append(read_header(batch), batch, 0, rig.world.now_ms)
    rig.node.broker.partitions[ORDERS].high_watermark = log.log_end_offset


@pytest.mark.parametrize("power_loss", [False, True])
def test_records_deleted_during_the_hand_over_stay_deleted(power_loss):
    rig = filled(flush_messages="1")
    home, partition = log_of(rig).directory, rig.node.broker.partitions[ORDERS]
    rig.node.jobs.delays_us = {"move": 3_000_000}
    move(rig)
    rig.world.run(lambda: partition.is_handed_over, events_max=100_000)
    delete_records(rig, "orders", 15)
    rig.run_for(2_000)
    # a checkpoint would promise more than the copy holds
    assert b"orders" not in rig.node.disk.read_file(f"{home}/log-start-offset-checkpoint")
    rig.node.jobs.delays_us = {"move": 1_000}
    run_until(rig)
    end(rig, power_loss=power_loss)
    assert log_of(rig).log_start_offset == 15


@pytest.mark.parametrize("power_loss", [False, True])
def test_checkpoints_after_a_move_count_after_a_power_loss(power_loss):
    rig = filled(flush_messages="1")
    move(rig)
    run_until(rig)
    rig.run_for(3_000)
    delete_records(rig, "orders", 19)
    rig.run_for(3_000)
    end(rig, power_loss=power_loss)
    assert (log_of(rig).log_start_offset, log_of(rig).log_end_offset) == (19, 20)


def test_truncation_during_the_copy_leaves_no_aborted_transaction():
    rig = filled(3)
    log = log_of(rig)
    append(rig, build_batch([payload(3)], producer_id=9, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL_BIT))
    append(rig, build_marker(9, 0, EndTransactionMarker(False, 0), rig.world.now_ms))
    log.roll(rig.world.now_ms)
    for number in range(5, 17):
        append(rig, build_batch([payload(number)]))
    rig.node.jobs.delays_us = {"move": 20_000}
    target, moves = move(rig), rig.node.broker.log_moves
    rig.world.run(lambda: moves._move is not None and bool(moves._move.whole), events_max=100_000)
    assert f"{0:020}.txnindex" in rig.node.disk.names(moves._move.folders.new_path)
    log.lower_recovery_point(2)
    log.truncate_to(2)
    log.sync_truncation()
    rig.node.broker.partitions[ORDERS].high_watermark = 2
    for number in range(2, 10):
        append(rig, build_batch([payload(number)]))
    run_until(rig)
    assert_moved(rig, target)
    assert not [name for name in rig.node.disk.names(log.path) if name.endswith("txnindex")]


def test_target_that_fails_while_the_log_has_no_name_leaves_the_replica_where_it_is():
    rig = filled()
    home = log_of(rig).directory
    rig.node.jobs.delays_us = {"move": 20_000}
    target, broker = move(rig), rig.node.broker
    rig.world.run(
        lambda: broker.log_moves._move is not None and broker.log_moves._move.is_aside,
        events_max=100_000,
    )
    broker.log_failures.directory_failed(LogDirectoryFailure(target, OSError(5, "EIO")))
    run_until(rig)
    rig.run_for(100)
    assert log_of(rig).directory == home
    assert produce(rig, 20) == 20
    rig.restart()
    assert [number for _, number in values(rig)] == list(range(21))


def test_target_with_a_folder_of_that_name_stays_online_and_unchanged():
    rig = filled()
    home, path = log_of(rig).directory, f"{other(rig)}/orders-0"
    rig.node.disk.make_directory(path)
    rig.node.disk.write_file(f"{path}/partition.metadata", b"another topic's")
    move(rig)
    run_until(rig)
    assert "replica-move-failed" in events(rig)
    assert "log-directory-offline" not in events(rig)
    assert rig.node.disk.read_file(f"{path}/partition.metadata") == b"another topic's"
    assert log_of(rig).directory == home
    assert produce(rig, 20) == 20
