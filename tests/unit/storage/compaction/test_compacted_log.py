"""A log after its compaction: what readers, truncations, restarts and followers find."""

import pytest

from tests.unit.storage.compaction.rounds import (
    MAP_BYTES,
    batches,
    close_segment,
    compact,
    pieces,
    put,
    records,
    swap_all,
)
from tests.unit.storage.conftest import finished, write_checkpoint
from yak.config.log_config import LogConfig
from yak.protocol.record_batch import iterate_headers, read_header
from yak.storage.compaction import Compaction, Replacement, cleanable


def test_a_cut_into_the_compacted_part_is_remembered_whatever_the_end_falls_on(bench):
    for number in range(20):
        put(bench, [(b"k%d" % (number % 2), b"%d" % number)])
    close_segment(bench)
    compact(bench)
    assert bench.truncate(12) == 12
    assert (bench.log.log_end_offset, bench.log.cleaned_offset) == (12, 12)
    bench.flush()
    bench.reopen(crash=True)
    assert bench.log.log_end_offset == 12
    assert not [event for event in bench.store.report.events if event.level == "error"]
    assert put(bench, [(b"k", b"anew")]) == 12
    assert records(bench) == [(12, b"k", b"anew")]


def test_readers_of_the_old_files_read_on(make_bench):
    bench = make_bench(cleanup_policy="compact")
    for number in range(600):
        put(bench, [(b"k%d" % (number % 3), b"x" * 100)])
    close_segment(bench)
    bench.flush()
    log = bench.log
    whole = bench.read_all()
    part = log.slice(0, 90_000, log.log_end_offset)
    by_time = log.timestamp_search(1000)
    bench.disk.cached_bytes = 0
    pending = log.read(0, 90_000, log.log_end_offset, at_least_one=True)
    bench.disk.cached_bytes = None
    deletes = swap_all(log)
    assert bytes(part) == whole[: len(part)]
    assert bytes(finished(pending)) == whole[: len(part)]
    assert by_time.run(bench.disk).offset == 0
    for delete in deletes:
        delete.run(bench.disk)
    assert [name for name in bench.files() if "deleted" in name] == []
    assert len(records(bench)) == 4


def test_two_swaps_within_the_delay_leave_each_others_old_files_alone(bench):
    deletes = []
    for _ in range(2):
        for number in range(10):
            put(bench, [(b"k", b"%d" % number)])
        close_segment(bench)
        bench.flush()
        deletes += swap_all(bench.log)
    set_aside = [name for name in bench.files() if name.endswith(".deleted")]
    deletes[0].run(bench.disk)
    left = [name for name in bench.files() if name.endswith(".deleted")]
    assert left
    assert set(left) < set(set_aside)
    bench.reopen()
    assert not [name for name in bench.files() if name.endswith(".deleted")]


def test_cleaned_offset_of_a_log_survives_restarts_in_kafkas_checkpoint_file(bench):
    for number in range(10):
        put(bench, [(b"k", b"%d" % number)])
    close_segment(bench)
    write_checkpoint(bench.store)
    assert not bench.disk.exists("/data/cleaner-offset-checkpoint")
    compact(bench)
    bench.reopen(crash=True)
    assert bench.disk.read_file("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 10\n"
    assert bench.log.cleaned_offset == 10
    assert cleanable(bench.log, 11, 0).dirty_bytes == 0
    bench.truncate(4)
    bench.reopen(clean=True)
    assert bench.log.cleaned_offset == 4


def test_recreated_topic_does_not_inherit_the_cleaned_offset(bench):
    put(bench, [(b"k", b"")])
    bench.log.roll(0)
    compact(bench)
    write_checkpoint(bench.store)
    bench.store.delete(bench.log).run(bench.disk)
    bench.log = bench.store.create(bench.partition, bench.topic_id, bench.config)
    bench.reopen(checkpoint=False)
    assert bench.log.cleaned_offset == 0


def test_a_compacted_log_opens_whatever_its_policy_is_by_then(bench, make_bench):
    for number in range(20):
        put(bench, [(b"k%d" % (number % 5), b"%d" % number)])
        if number % 5 == 4:
            bench.log.roll(0)
    compact(bench)
    before = records(bench)
    bench.config = type(bench.config)(segment_bytes=10_000)
    write_checkpoint(bench.store)
    bench.disk.remove("/data/recovery-point-offset-checkpoint")
    bench.reopen(checkpoint=False)
    assert records(bench) == before
    assert bench.log.log_end_offset == 20


def test_a_follower_takes_the_gaps_of_a_compacted_leader_and_keeps_them(bench, make_bench):
    for number in range(40):
        put(bench, [(b"k%d" % (number % 5), b"%d" % number)], epoch=number // 20)
    close_segment(bench, epoch=2)
    compact(bench)
    follower = make_bench(cleanup_policy="compact", segment_bytes=300)
    data = bench.read_all()
    assert follower.log.append_as_follower(data, 0) == 41
    assert records(follower) == records(bench)
    assert follower.log.cleaned_offset == 0
    write_checkpoint(follower.store)
    follower.reopen(checkpoint=False)
    assert records(follower) == records(bench)
    assert not follower.store.report.truncated_bytes


def test_a_follower_begins_a_segment_behind_a_gap_that_no_index_could_hold(make_bench, build):
    bench = make_bench(cleanup_policy="compact")
    far = 2**31 + 5
    bench.log.append_as_follower(build([b"1"], keys=[b"a"]) + build([b"2"], keys=[b"b"], base_offset=far), 0)
    assert [segment.base_offset for segment in bench.log.segments] == [0, far]
    bench.reopen(checkpoint=False)
    assert (bench.log.log_end_offset, [record[0] for record in records(bench)]) == (far + 1, [0, far])


def test_largest_timestamp_is_found_before_a_batch_that_lost_its_records(make_bench):
    bench = make_bench(index_interval_bytes=1, cleanup_policy="compact")
    put(bench, [(b"a", b"1")], timestamps=[10])
    put(bench, [(b"b", b"1")], timestamps=[50])
    put(bench, [(b"c", b"1")], timestamps=[99], producer_id=1, producer_epoch=0, sequence=0)
    put(bench, [(b"c", b"2")], timestamps=[20])
    bench.log.roll(0)
    put(bench, [(b"z", b"2")], timestamps=[5])
    compact(bench)
    assert [header.records_count for header in batches(bench)] == [1, 1, 0, 1, 1]
    assert tuple(bench.log.max_timestamp_search().run(bench.disk)) == (1, 50, 0)


def test_segment_without_timestamps_keeps_its_age_when_it_is_compacted(make_bench):
    bench = make_bench(cleanup_policy="compact,delete", retention_ms=100)
    bench.disk.clock = lambda: 1_000
    put(bench, [(b"a", b"1"), (b"b", b"1")], timestamps=[-1, -1])
    put(bench, [(b"a", b"2")], timestamps=[-1])
    bench.log.roll(1_000)
    bench.disk.clock = lambda: 1_090
    put(bench, [(b"z", b"1")], timestamps=[-1])
    compact(bench)
    assert len(records(bench)) == 3
    assert bench.log.expired_segment(1_100, 4) is None
    assert bench.log.expired_segment(1_101, 4) is bench.log.segments[0]


def test_segment_without_timestamps_is_compacted_when_its_last_write_is_old_enough(make_bench):
    bench = make_bench(cleanup_policy="compact", min_compaction_lag_ms=100)
    bench.disk.clock = lambda: 1_000
    put(bench, [(b"a", b"1")], timestamps=[-1])
    bench.log.roll(1_000)
    bench.flush()
    assert (cleanable(bench.log, 1, 1_099).end_offset, cleanable(bench.log, 1, 1_099).due_ms) == (0, 1_100)
    assert cleanable(bench.log, 1, 1_100).end_offset == 1


def test_gap_wider_than_an_index_is_remembered_when_the_policy_changes(bench, build):
    far = 2**31 + 10
    bench.append()
    bench.flush()
    bench.log.append_as_follower(build([b"x"], base_offset=far), 0)
    write_checkpoint(bench.store)
    bench.config = LogConfig(cleanup_policy="delete")
    bench.log.update_config(bench.config)
    for _ in range(2):
        assert (bench.log.log_end_offset, bench.log.may_have_gaps) == (far + 1, True)
        assert read_header(bytes(finished(bench.log.read(1, 100, far + 1, at_least_one=True)))).base_offset == far
        bench.reopen(checkpoint=False)


@pytest.mark.parametrize("clean", [True, False])
def test_first_round_that_ends_early_is_remembered_when_the_policy_changes(make_bench, clean):
    bench = make_bench(cleanup_policy="compact", segment_bytes=700)
    for number in range(30):
        put(bench, [(b"k%d" % (number % 3), b"%d" % number)])
    bench.flush()
    log = bench.log
    for done in pieces(Compaction(log, cleanable(log, log.log_end_offset, 0), MAP_BYTES, 0), log.disk):
        if isinstance(done, Replacement):
            log.replace_segments(done.replaced, done.cleaned).run(log.disk)
            break
    bench.config = LogConfig(cleanup_policy="delete", segment_bytes=700)
    log.update_config(bench.config)
    offsets = [header.base_offset for header in batches(bench)]
    assert offsets[:3] == [0, 8, 9]
    for _ in range(2):
        for wanted, found in ((5, 8), (8, 8), (9, 9)):
            bench.log.positions.clear()
            assert read_header(bytes(finished(bench.log.read(wanted, 100, 30, at_least_one=True)))).base_offset == found
        assert [header.base_offset for header in batches(bench)] == offsets
        bench.reopen(clean=clean)


def test_gaps_without_a_checkpoint_are_remembered_when_the_policy_changes_behind_a_kill(make_bench):
    bench = make_bench(cleanup_policy="compact", segment_bytes=700)
    for number in range(30):
        put(bench, [(b"k%d" % (number % 3), b"%d" % number)])
    bench.flush()
    write_checkpoint(bench.store)
    swap_all(bench.log)
    offsets = [header.base_offset for header in batches(bench)]
    bench.reopen(checkpoint=False)
    assert bench.log.cleaned_offset is None
    bench.config = LogConfig(cleanup_policy="delete", segment_bytes=700)
    bench.log.update_config(bench.config)
    for _ in range(2):
        bench.log.positions.clear()
        assert [header.base_offset for header in batches(bench)] == offsets
        bench.reopen()


CLEANER_CHECKPOINT = "/data/cleaner-offset-checkpoint"


def compact_then_append(make_bench):
    """A log compacted to offset 20, with 7 newer records and a checkpoint of all that."""
    bench = make_bench(cleanup_policy="compact", segment_bytes=10_000, index_interval_bytes=100)
    for number in range(20):
        put(bench, [(b"k%d" % (number % 3), b"%d" % number)])
    close_segment(bench)
    compact(bench)
    for number in range(5):
        put(bench, [(b"k%d" % (number % 2), b"new")])
    close_segment(bench)
    bench.flush()
    write_checkpoint(bench.store)
    assert bench.disk.read_file(CLEANER_CHECKPOINT) == b"0\n1\nt 0 20\n"
    return bench


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (b"0\n1\nt 0 99\n", "log-repaired"),
        (b"0\n1\nt 0 -20\n", "checkpoint-damaged"),
        (b"0\n1\nt 0 2 \n", "checkpoint-damaged"),
        (b"0\n1\nt 0 +20\n", "checkpoint-damaged"),
        (b"0\n2\nt 0 20\nt 0 26\n", "checkpoint-damaged"),
        (b"0\n1\nt 0 \0\0\0", "checkpoint-damaged"),
        (bytes(11), "checkpoint-damaged"),
        (b"", "checkpoint-damaged"),
    ],
)
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_damaged_cleaner_checkpoint_is_reported_and_compaction_starts_again(make_bench, data, event, policy):
    bench = compact_then_append(make_bench)
    before = records(bench)
    bench.config = LogConfig(cleanup_policy=policy, segment_bytes=10_000, index_interval_bytes=100)
    bench.disk.write_file(CLEANER_CHECKPOINT, data)
    bench.reopen(checkpoint=False)
    assert event in [each.event for each in bench.store.report.events]
    for _ in range(2):
        assert (bench.log.cleaned_offset, bench.log.may_have_gaps) == (0, True)
        assert cleanable(bench.log, 27, 0).first_dirty_offset == 0
        assert records(bench) == before
        assert read_header(bytes(finished(bench.log.read(5, 100, 27, at_least_one=True)))).base_offset > 5
        bench.reopen(clean=True)
        assert bench.store.report.events == []


def test_deleted_key_stays_deleted_when_the_cleaner_offset_was_beyond_the_log(make_bench):
    bench = make_bench(cleanup_policy="compact", delete_retention_ms=10)
    put(bench, [(b"a", b"1")])
    put(bench, [(b"a", None)])
    close_segment(bench)
    bench.flush()
    write_checkpoint(bench.store)
    bench.disk.write_file(CLEANER_CHECKPOINT, b"0\n1\nt 0 99\n")
    bench.reopen(checkpoint=False)
    for round_ in range(3):
        put(bench, [(b"b", b"%d" % round_)])
        close_segment(bench)
        compact(bench, now_ms=1000 * round_)
    assert b"a" not in [key for _offset, key, _value in records(bench)]


def test_cleaner_offset_is_lowered_by_a_truncation_before_the_next_checkpoint(make_bench):
    """An unclean election, and a kill: the tombstone counted as clean, and its removal brought the older record back."""
    bench = make_bench(cleanup_policy="compact", delete_retention_ms=10)
    for number in range(20):
        put(bench, [(b"k", b"%d" % number)])
    close_segment(bench)
    compact(bench)
    write_checkpoint(bench.store)
    assert (bench.truncate(3), bench.log.cleaned_offset) == (3, 3)
    for value in (b"1", None, *[b"2"] * 20):
        put(bench, [(b"a" if value != b"2" else b"k", value)], epoch=1)
    close_segment(bench, epoch=1)
    bench.flush()
    bench.reopen(checkpoint=False)
    assert bench.log.cleaned_offset == 3
    for round_ in range(3):
        put(bench, [(b"b", b"%d" % round_)], epoch=1)
        close_segment(bench, epoch=1)
        compact(bench, now_ms=1000 * round_)
    assert b"a" not in [key for _offset, key, _value in records(bench)]


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("merges", [True, False])
def test_read_of_a_consumer_skips_segments_without_records_and_of_a_follower_does_not(make_bench, is_cached, merges):
    bench = make_bench(cleanup_policy="compact", segment_bytes=1000 if merges else 300)
    for number in range(20):
        put(bench, [(b"k%d" % key, b"%d" % number) for key in range(4)])
        put(bench, [(b"k%d" % key, b"%d" % number) for key in range(4)])
        bench.log.roll(0)
    put(bench, [(b"z", b"1")])
    compact(bench)
    log = bench.log
    sizes = [segment.size for segment in log.segments]
    assert set(sizes[:-2]) == {61, 122}
    assert len(sizes) > 4
    bench.disk.cached_bytes = None if is_cached else 0
    for offset in (0, 3, 5, 30, log.segments[1].base_offset):
        found = bytes(finished(log.read(offset, 1000, 161, at_least_one=True, skips_emptied=True)))
        assert [(header.base_offset, header.records_count) for _, header in iterate_headers(found)] == [(156, 4)]
        copied = bytes(finished(log.read(offset, 1000, 161, at_least_one=True)))
        assert read_header(copied).records_count == 0
        assert 3 <= read_header(copied).last_offset < 156
    # a consumer that may read no further learns where it is
    end = log.segments[-2].base_offset
    found = bytes(finished(log.read(0, 1000, end, at_least_one=True, skips_emptied=True)))
    assert [(header.next_offset, header.records_count) for _, header in iterate_headers(found)] == [(end, 0)]
