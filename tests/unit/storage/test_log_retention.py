"""Which segments go, and what a log start offset does."""

import errno

import pytest

from tests.unit.storage.conftest import retain, write_checkpoint

DAY = 86_400_000


def fill(bench, count=20, step_ms=0):
    for number in range(count):
        bench.append([b"x" * 60], timestamps=[number * step_ms])


def bases(bench):
    return [segment.base_offset for segment in bench.log.segments]


def test_old_segments_go_by_their_largest_timestamp(make_bench):
    bench = make_bench(segment_bytes=300, retention_ms=100)
    fill(bench, 20, step_ms=10)
    now_ms = 190
    removals = []
    while (segment := bench.log.expired_segment(now_ms, 20)) is not None:
        assert now_ms - segment.max_timestamp > 100
        removals.append(bench.log.remove_segments([segment]))
    assert len(removals) > 1
    survivor = bench.log.segments[0]
    assert now_ms - survivor.max_timestamp <= 100
    assert bench.log.log_start_offset == survivor.base_offset
    deleted = [name for name in bench.files() if name.endswith(".deleted")]
    assert len([name for name in deleted if ".snapshot" not in name]) == 3 * len(removals)
    for remove in removals:
        remove.run(bench.disk)
    assert not [name for name in bench.files() if name.endswith(".deleted")]
    assert not [name for name in bench.files() if name.startswith("00000000000000000000")]
    bench.read_all()
    bench.reopen()
    assert bench.log.log_start_offset == survivor.base_offset


def test_segment_past_the_high_watermark_does_not_expire(make_bench):
    bench = make_bench(segment_bytes=300, retention_ms=0)
    fill(bench)
    second = bench.log.segments[1].base_offset
    assert bench.log.expired_segment(DAY, second - 1) is None
    assert len(retain(bench.log, DAY, second)) == 1


def test_active_segment_rolls_and_is_deleted_when_all_segments_are_expired(make_bench):
    bench = make_bench(segment_bytes=300, retention_ms=10)
    fill(bench)
    segments = list(bench.log.segments)
    assert retain(bench.log, DAY, 20) == segments
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.log.size_bytes) == (20, 20, 0)
    assert bases(bench) == [20]
    assert bench.append() == 20


def test_files_without_room_for_another_name_are_deleted_at_once(make_bench):
    """The disk is full, and retention makes room."""
    bench = make_bench(segment_bytes=300)
    fill(bench)
    for suffix in (".log", ".snapshot"):
        bench.disk.fail_next("rename", errno.ENOSPC, path_contains=suffix)
    bench.log.remove_segments(bench.log.segments[:2]).run(bench.disk)
    start = bench.log.log_start_offset
    assert min(name for name in bench.files() if ".log" in name) == f"{start:020d}.log"
    bench.read_all()
    bench.reopen()
    assert bench.log.log_start_offset == start


@pytest.mark.parametrize("clean", [True, False])
def test_segment_without_timestamps_is_as_old_as_its_last_write_however_often_the_broker_starts(make_bench, clean):
    """Kafka's LogSegment.largestTimestamp falls back to the file's modification time."""
    bench = make_bench(retention_ms=100)
    bench.disk.clock = lambda: 1_000
    bench.append(timestamps=[-1])
    bench.disk.clock = lambda: 1_050
    bench.append(timestamps=[-1], now_ms=1_050)
    assert bench.log.expired_segment(1_150, 2) is None
    assert bench.log.expired_segment(1_151, 2) is bench.log.active
    bench.reopen(clean=clean, now_ms=1_140)
    assert bench.log.expired_segment(1_150, 2) is None
    assert bench.log.expired_segment(1_151, 2) is bench.log.active


def test_size_retention_retains_at_least_the_requested_bytes(make_bench):
    bench = make_bench(segment_bytes=300, retention_ms=-1, retention_bytes=700)
    fill(bench)
    retain(bench.log, 0, 20)
    assert 700 <= bench.log.size_bytes < 1000


@pytest.mark.parametrize("policy", ["compact", ""])
def test_a_log_whose_policy_does_not_delete_is_not_cut_by_age(make_bench, policy):
    bench = make_bench(segment_bytes=300, retention_ms=0, cleanup_policy=policy)
    fill(bench)
    assert bench.log.expired_segment(DAY, 20) is None


def test_segments_below_the_log_start_go(make_bench):
    bench = make_bench(segment_bytes=300, retention_ms=-1)
    fill(bench)
    segments = list(bench.log.segments)
    start = segments[2].base_offset + 1
    assert bench.log.advance_log_start(start)
    assert not bench.log.advance_log_start(start - 1)
    assert retain(bench.log, 0, 20) == segments[:2]
    assert bench.log.log_start_offset == start
    bench.reopen()
    assert bench.log.log_start_offset == start, "from log-start-offset-checkpoint"


def test_the_checkpoint_names_only_starts_inside_a_segment(bench):
    fill(bench)
    write_checkpoint(bench.store)
    assert bench.disk.read_file("/data/log-start-offset-checkpoint") == b"0\n0\n"
    bench.log.advance_log_start(7)
    write_checkpoint(bench.store, {bench.partition: 12})
    assert bench.disk.read_file("/data/log-start-offset-checkpoint") == b"0\n1\nt 0 7\n"
    assert bench.disk.read_file("/data/replication-offset-checkpoint") == b"0\n1\nt 0 12\n"
    assert bench.disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 0\n"


def test_deleting_everything_that_is_there_leaves_an_empty_readable_log(make_bench):
    bench = make_bench(segment_bytes=300)
    fill(bench)
    bench.log.advance_log_start(20)
    retain(bench.log, 0, 20)
    assert bench.log.read(20, 100, 20, at_least_one=True) == b""
    bench.reopen()
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (20, 20)
