"""A truncated log whose truncation is not synced yet: what a power loss leaves, and what waits for the sync."""

from __future__ import annotations

import errno

import pytest

from tests.unit.storage.conftest import checkpoint_plan, lower, write_checkpoint
from yak.errors import LogDirectoryFailure
from yak.storage.checkpoints import MovedLog, format_moved
from yak.storage.names import NEW_LOG_MARK


@pytest.fixture
def bench(make_bench):
    """Five records in three segments, all synced; the recovery point is below them."""
    bench = make_bench(segment_bytes=600, index_interval_bytes=120)
    for _ in range(5):
        bench.append([b"x" * 150])
    assert len(bench.log.segments) == 3
    bench.log.flush_plan().run(bench.disk)
    return bench


def lose_power(bench):
    bench.disk.crash(bench.KEEPS_NOTHING)
    bench.store = bench.open()
    bench.log = bench.store.logs[bench.partition]
    assert not [event for event in bench.store.report.events if event.level == "error"]
    return bench.log


def record(bench):
    """What happens to the records and to the folder, in order."""
    seen = []
    may_fail = bench.disk.may_fail

    def watch(operation, path):
        if operation != "open" and path.endswith((".log", str(bench.partition))):
            seen.append(operation)
        may_fail(operation, path)

    bench.disk.may_fail = watch
    return seen


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4])
def test_power_loss_before_the_sync_leaves_the_log_truncated_or_not(bench, offset):
    bench.log.truncate_to(offset)
    assert bench.log.unsynced_truncation is bench.log.active
    assert lose_power(bench).log_end_offset in (offset, 5)
    bench.read_all()


def test_power_loss_before_a_full_resync_is_synced_is_no_damage(bench):
    bench.log.truncate_fully_and_start_at(9, 0)
    assert lose_power(bench).log_end_offset in (5, 9)


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4])
def test_append_syncs_a_truncation_first(bench, offset):
    bench.log.truncate_to(offset)
    seen = record(bench)
    bench.append()
    bench.append()
    assert seen == ["sync", "sync", "append", "append"]
    assert bench.log.unsynced_truncation is None
    assert lose_power(bench).log_end_offset in (offset, offset + 2)


def test_append_as_follower_syncs_a_truncation_first(bench, build):
    bench.log.truncate_to(3)
    seen = record(bench)
    bench.log.append_as_follower(build([b"y"], base_offset=3, epoch=1), 0)
    assert seen == ["sync", "sync", "append"]


def test_sync_of_an_earlier_truncation_does_not_count_for_a_later_one(bench):
    bench.log.truncate_to(4)
    plan = bench.log.truncation_sync_plan()
    missing = plan.run(bench.disk)
    bench.log.truncate_to(3)
    bench.log.truncation_synced(plan, missing)
    assert bench.log.unsynced_truncation is not None
    plan = bench.log.truncation_sync_plan()
    bench.log.truncation_synced(plan, plan.run(bench.disk))
    assert bench.log.unsynced_truncation is None


def test_append_fails_with_the_sync_of_the_truncation(bench):
    bench.log.truncate_to(3)
    bench.disk.fail_next("sync")
    with pytest.raises(LogDirectoryFailure):
        bench.append()
    assert bench.log.log_end_offset == 3


def test_records_truncated_by_an_earlier_process_do_not_come_back(bench):
    bench.log.truncate_to(3)
    bench.disk.kill()
    bench.store = bench.open()
    bench.log = bench.store.logs[bench.partition]
    bench.append()
    assert lose_power(bench).log_end_offset == 3


def test_clean_stop_syncs_the_truncation(bench):
    bench.log.truncate_to(0)
    bench.reopen(clean=True)
    bench.append()
    assert lose_power(bench).log_end_offset == 0


def test_log_is_not_truncated_below_its_recovery_point(bench):
    bench.flush()
    assert bench.log.recovery_point_after_truncation(3) == 3
    with pytest.raises(AssertionError, match="lowered before a truncation"):
        bench.log.truncate_to(3)


def test_the_file_of_lowered_points_stays_until_it_was_written(bench):
    bench.flush()
    bench.log.lower_recovery_point(3)
    directory = bench.store.directory(bench.log.directory)
    plan = directory.lowering_plan([(bench.partition, 3)])
    for _ in range(2):
        write_checkpoint(bench.store)
    plan.run(bench.disk)
    directory.lowered(plan)
    assert "recovery-point-offset-checkpoint.lowered" in bench.disk.names("/data")
    checkpoint_plan(bench.store)
    assert "recovery-point-offset-checkpoint.lowered" not in bench.disk.names("/data")


def test_a_truncation_while_a_checkpoint_is_gathered_keeps_its_lowered_point(bench):
    bench.flush()
    bench.store.begin_checkpoint()
    bench.store.add_to_checkpoint(bench.partition, 0)
    bench.log.lower_recovery_point(3)
    lower(bench.store, bench.log)
    plan = bench.store.checkpoint_plan()
    bench.store.checkpointed(plan, plan.run(bench.disk))
    checkpoint_plan(bench.store)
    assert "recovery-point-offset-checkpoint.lowered" in bench.disk.names("/data")
    assert bench.store.online()[0].read_recovery_points()[bench.partition] == 3


@pytest.mark.parametrize("checkpoint", ["sound", "moved", "damaged"])
def test_kill_before_the_next_checkpoint_leaves_no_offset_above_a_truncation(make_bench, checkpoint):
    """Records that replaced truncated ones counted as committed, and a hole that a power loss left as compacted."""
    bench = make_bench(segment_bytes=600)
    for _ in range(9):
        bench.append([b"x" * 150])
    bench.flush()
    bench.log.cleaned_offset = 9
    write_checkpoint(bench.store, {bench.partition: 9})
    if checkpoint == "damaged":
        bench.disk.write_file("/data/recovery-point-offset-checkpoint", b"0\n2\n")
    elif checkpoint == "moved":
        moved = MovedLog(str(bench.partition), 9, 0, 9, 9)
        bench.disk.write_file(f"{bench.log.path}/{NEW_LOG_MARK}", format_moved(moved))
        bench.disk.remove("/data/recovery-point-offset-checkpoint")
    bench.truncate(2)
    for _ in range(9):
        bench.append([b"y" * 150], epoch=1)
    torn, behind = bench.log.segments[1:3]
    bench.disk.open(torn.path(".log")).truncate(torn.size // 2)
    bench.reopen(checkpoint=False)
    assert bench.store.high_watermarks[bench.partition] == 2
    assert bench.log.log_end_offset < behind.base_offset
    bench.store.begin_checkpoint()
    assert "recovery-point-offset-checkpoint.lowered" in bench.disk.names("/data")


def test_cleaner_offset_is_low_in_a_checkpoint_that_is_gathered_before_the_truncation(bench):
    bench.flush()
    bench.log.cleaned_offset = 5
    bench.log.lower_recovery_point(3)
    write_checkpoint(bench.store)
    assert bench.disk.read_file("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 3\n"


def test_start_with_a_shorter_log_than_its_checkpoints_lowers_their_offsets_at_once(make_bench):
    bench = make_bench()
    for _ in range(4):
        bench.append()
    write_checkpoint(bench.store, {bench.partition: 4})
    assert lose_power(bench).log_end_offset == 0
    for _ in range(9):
        bench.append()
    bench.reopen(checkpoint=False)
    assert (bench.log.log_end_offset, bench.store.high_watermarks[bench.partition]) == (9, 0)


def test_start_without_room_for_the_lowered_offsets_continues(make_bench):
    bench = make_bench()
    bench.append()
    write_checkpoint(bench.store, {bench.partition: 1})
    bench.disk.crash(bench.KEEPS_NOTHING)
    bench.disk.fail_next("write_file", errno.ENOSPC, path_contains="lowered")
    assert not bench.open().directories[0].failure
