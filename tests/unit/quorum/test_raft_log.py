"""The quorum's log: epochs, truncations, flushes, snapshots, restarts after power losses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.quorum.conftest import DIRECTORY, command
from yak.errors import ProtocolViolation
from yak.quorum.control_records import snapshot_footer, snapshot_header
from yak.quorum.raft_log import FOLDER, NO_SNAPSHOT, RaftLog, SnapshotId, newest_snapshot, snapshot_path
from yak.quorum.voters import VoterSet
from yak.sim.disk import SimDisk
from yak.sim.seeded_random import SeededRandom

SNAPSHOT = snapshot_header(1, VoterSet()) + snapshot_footer(1)


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    return disk


def opened(disk: SimDisk, *epochs: int) -> RaftLog:
    log = RaftLog.open(disk, DIRECTORY, 1)
    for epoch in epochs:
        log.append(command(), epoch, 1)
    return log


def flush(log: RaftLog, disk: SimDisk) -> None:
    while not log.is_flushed:
        plan = log.flush_plan()
        log.flushed(plan, plan.run(disk))


def epochs_of(log: RaftLog) -> list[int]:
    return [entry.epoch for entry in log.entries(0, log.end_offset)]


def test_end_offset_for_epoch_is_that_of_the_largest_epoch_at_or_below():
    log = opened(new_disk(), 1, 1, 3, 3, 3)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(5)] == [(-1, 0), (1, 2), (1, 2), (3, 5), (3, 5)]


def test_epoch_before_an_offset():
    log = opened(new_disk(), 1, 3)
    assert [log.epoch_before(offset) for offset in range(4)] == [-1, 1, 3, None]


def test_read_returns_one_batch_at_least():
    log = opened(new_disk(), 1, 1, 1)
    one = log.read(1, 1)
    assert log.read(1) == one + log.read(2)
    assert log.read(3) == b""


def test_first_entries_end_with_the_one_that_reaches_the_size():
    log = opened(new_disk(), 1, 1, 1, 1)
    size = len(log.read(1, 1))
    for max_bytes, count in ((1, 1), (size, 1), (size + 1, 2), (2 * size, 2), (100 * size, 3)):
        assert log.first_entries(1, 4, max_bytes) == log.entries(1, 1 + count)
    assert log.first_entries(4, 4, size) == []


def test_append_is_flushed_only_by_a_plan_made_after_it():
    disk = new_disk()
    log = opened(disk, 1)
    plan = log.flush_plan()
    log.append(command(), 1, 1)
    log.flushed(plan, plan.run(disk))
    assert (log.flushed_offset, log.is_flushed) == (1, False)
    flush(log, disk)
    assert log.flushed_offset == 2


def test_truncation_is_not_flushed_before_its_sync_nor_by_an_older_plan():
    disk = new_disk()
    log = opened(disk, 1, 1, 1)
    flush(log, disk)
    log.append(command(), 1, 1)
    plan = log.flush_plan()
    missing = plan.run(disk)
    log.truncate_to(1, 0)
    log.flushed(plan, missing)
    assert (log.end_offset, log.flushed_offset, log.is_flushed) == (1, 1, False)
    flush(log, disk)
    disk.crash(SeededRandom(1))
    assert RaftLog.open(disk, DIRECTORY, 1).end_offset == 1


def test_fetched_batches_need_the_next_offset():
    log = opened(new_disk(), 1, 1, 1)
    other = opened(new_disk())
    with pytest.raises(ProtocolViolation):
        other.append_fetched(log.read(1), 1, 1)
    other.append_fetched(log.read(0), 1, 1)
    assert other.read(0) == log.read(0)


def test_own_snapshot_keeps_the_batches_since_the_snapshot_before():
    disk = new_disk()
    log = opened(disk, 1, 1, 1, 1)
    for end in (2, 4):
        plan = log.write_snapshot(SnapshotId(end, 1), SNAPSHOT)
        plan.run(disk)
        removal = log.snapshot_written(plan, 1)
        if removal is not None:
            removal.run(disk)
        log.append(command(), 1, 1)
        flush(log, disk)
    assert log.start_offset == 2
    assert newest_snapshot(disk, log.folder) == log.snapshot_id == (4, 1)
    again = RaftLog.open(disk, DIRECTORY, 1)
    assert (again.snapshot_id, again.snapshot, again.end_offset) == (log.snapshot_id, SNAPSHOT, 6)
    assert again.epoch_before(4) == 1


def test_leaders_snapshot_replaces_the_log():
    disk = new_disk()
    log = opened(disk, 1, 1)
    plan = log.write_snapshot(SnapshotId(9, 3), SNAPSHOT)
    plan.run(disk)
    log.start_at_snapshot(plan, 1)
    assert (log.start_offset, log.end_offset, log.last_epoch, log.is_flushed) == (9, 9, 3, False)
    assert (log.epoch_before(9), log.end_offset_for_epoch(3), log.end_offset_for_epoch(2)) == (3, (3, 9), (-1, 9))
    flush(log, disk)
    log.append(command(), 4, 1)
    flush(log, disk)
    disk.crash(SeededRandom(3))
    again = RaftLog.open(disk, DIRECTORY, 1)
    assert (again.snapshot_id, again.end_offset, epochs_of(again)) == ((9, 3), 10, [4])


@pytest.mark.parametrize(
    ("snapshot_id", "contains"), [((2, 1), True), ((3, 3), True), ((3, 1), False), ((9, 3), False)]
)
def test_log_contains_a_snapshot_whose_last_batch_it_has(snapshot_id, contains):
    assert opened(new_disk(), 1, 1, 3).contains(SnapshotId(*snapshot_id)) is contains


@given(st.integers(0, 100_000), st.booleans())
@settings(max_examples=150)
def test_power_loss_during_the_replacement_leaves_the_snapshot_and_no_gap(seed, is_far):
    disk, rng = new_disk(), SeededRandom(seed)
    log = opened(disk, 1, 1)
    first = log.write_snapshot(SnapshotId(1, 1), SNAPSHOT)
    first.run(disk)
    log.snapshot_written(first, 1)
    log.append(command(), 1, 1)
    flush(log, disk)
    end = 50 if is_far else 4
    plan = log.write_snapshot(SnapshotId(end, 1), SNAPSHOT)
    plan.run(disk)
    log.start_at_snapshot(plan, 1)
    if rng.below(2):
        sync = log.flush_plan()
        log.flushed(sync, sync.run(disk))
        if log.is_flushed:
            log.append(command(), 2, 1)
    disk.crash(rng)
    again = RaftLog.open(disk, DIRECTORY, 1)
    assert again.snapshot_id == (end, 1)
    entries = again.entries(0, again.end_offset)
    offsets = [entry.base_offset for entry in entries]
    assert offsets == list(range(again.start_offset, again.end_offset))
    assert again.start_offset <= end <= again.end_offset
    assert again.is_flushed


@given(
    st.integers(0, 100_000),
    st.lists(st.sampled_from(["append", "flush", "truncate", "restart", "crash"]), max_size=30),
)
@settings(max_examples=100)
def test_raft_log_records_that_were_flushed_survive_every_crash(seed, steps):
    disk, rng = new_disk(), SeededRandom(seed)
    log, epoch = RaftLog.open(disk, DIRECTORY, 1), 1
    for step in steps:
        if step == "append":
            if not log.is_flushed and rng.below(2):
                flush(log, disk)
            log.append(command(), epoch, 1)
        elif step == "flush":
            flush(log, disk)
        elif step == "truncate":
            log.truncate_to(rng.below(log.end_offset + 1), 0)
            flush(log, disk)
            epoch += 1
        else:
            kept, before = log.flushed_offset, epochs_of(log)
            if step == "crash":
                disk.crash(rng)
            else:
                disk.kill()
            log = RaftLog.open(disk, DIRECTORY, 1)
            epoch += 1
            assert log.end_offset >= kept
            assert epochs_of(log) == before[: log.end_offset]
            if step == "restart":
                assert epochs_of(log) == before


def test_file_of_a_snapshot_is_named_by_its_end():
    disk = new_disk()
    log = opened(disk, 1)
    assert newest_snapshot(disk, log.folder) == NO_SNAPSHOT
    log.write_snapshot(SnapshotId(1, 1), SNAPSHOT).run(disk)
    assert snapshot_path(log.folder, SnapshotId(1, 1)) == (
        f"{DIRECTORY}/{FOLDER}/00000000000000000001-0000000001.checkpoint"
    )
