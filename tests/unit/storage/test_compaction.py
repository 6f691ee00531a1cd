"""Key-based compaction: what stays, what goes, and what readers, producers and a restart see of it."""

import errno

import pytest

from yak.protocol.record_batch import DELETE_HORIZON_BIT, iterate_headers, read_header
from yak.protocol.record_walk import walk_records
from yak.storage import swap
from yak.storage.cleanable import cleanable
from yak.storage.compaction import Abandoned, Compaction, NoRoom, Replacement, Uncleanable, Unreadable

MAP_BYTES = 10_000_000
DAY = 86_400_000


def put(bench, pairs, **fields):
    """One batch of these (key, value) pairs; a value of None is a tombstone."""
    keys, values = zip(*pairs, strict=True)
    return bench.append(list(values), keys=list(keys), **fields)


def compact(bench, *, now_ms=0, map_bytes=MAP_BYTES, high_watermark=None, flush=True):
    """One whole round, as the broker makes it; the job that deletes the old files is run at once."""
    log = bench.log
    if flush:
        bench.flush()
    end = log.log_end_offset if high_watermark is None else high_watermark
    compaction = Compaction(log, cleanable(log, end, now_ms), map_bytes, now_ms)
    for done in compaction.work():
        if isinstance(done, Replacement):
            swap.replace(log, done.replaced, done.cleaned)()
    log.cleaned_offset = compaction.result.end_offset
    return compaction.result


def swap_all(log):
    """A round whose old files are not deleted yet; the jobs that will."""
    work = Compaction(log, cleanable(log, log.log_end_offset, 0), MAP_BYTES, 0).work()
    return [swap.replace(log, done.replaced, done.cleaned) for done in work if isinstance(done, Replacement)]


def records(bench):
    """(offset, key, value) of all records, as a consumer gets them."""
    found = []
    data = bench.read_all()
    for position, header in iterate_headers(data):
        found += [(r.offset, r.key, r.value) for r in walk_records(data[position : position + header.size_bytes])]
    return found


def batches(bench):
    return [header for _, header in iterate_headers(bench.read_all())]


def logs(bench):
    return [name for name in bench.files() if ".log" in name]


@pytest.fixture
def bench(make_bench):
    return make_bench(cleanup_policy="compact", segment_bytes=10_000, index_interval_bytes=100)


def test_of_each_key_the_last_record_stays_where_it_was(bench):
    for number in range(30):
        put(bench, [(b"k%d" % (number % 3), b"v%d" % number)])
    bench.log.roll(0)
    put(bench, [(b"k0", b"newest")])
    result = compact(bench)
    assert records(bench) == [(27, b"k0", b"v27"), (28, b"k1", b"v28"), (29, b"k2", b"v29"), (30, b"k0", b"newest")]
    assert (result.end_offset, result.dropped_records, result.keys) == (30, 27, 3)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (0, 31)
    assert bench.log.size_bytes == sum(segment.size for segment in bench.log.segments)
    assert put(bench, [(b"k0", b"on")]) == 31


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_batch_is_cut_in_the_middle_and_keeps_offsets_epoch_sequence_and_codec(bench, codec):
    pairs = [(b"a", b"1"), (b"b", b"2" * 50), (b"a", b"3"), (b"c", b"4"), (b"c", b"5")]
    put(
        bench, pairs, codec=codec, timestamps=[50, 90, 60, 70, 80], producer_id=9, producer_epoch=2, sequence=7, epoch=4
    )
    put(bench, [(b"b", b"6")], epoch=4)
    bench.log.roll(0)
    put(bench, [(b"z", b"")], epoch=5)
    compact(bench)
    assert records(bench) == [(2, b"a", b"3"), (4, b"c", b"5"), (5, b"b", b"6"), (6, b"z", b"")]
    first = batches(bench)[0]
    assert (first.base_offset, first.last_offset_delta, first.records_count) == (0, 4, 2)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (9, 2, 7, 11)
    assert (first.partition_leader_epoch, first.codec, first.base_timestamp, first.max_timestamp) == (4, codec, 50, 80)


def test_every_offset_can_still_be_read_from(bench):
    for number in range(60):
        put(bench, [(b"k%d" % (number % 7), b"v%d" % number), (b"x", b"%d" % number)])
    bench.log.roll(0)
    put(bench, [(b"x", b"last")])
    compact(bench)
    log, all_records = bench.log, records(bench)
    for offset in range(log.log_end_offset):
        data = bytes(log.read(offset, 1, log.log_end_offset, at_least_one=True))
        header = read_header(data)
        assert header.last_offset >= offset
        expected = next(record for record in all_records if record[0] >= offset)
        got = [r.offset for r in walk_records(data) if r.offset >= offset]
        assert not got or got[0] == expected[0]


def test_neither_the_active_segment_nor_what_is_not_committed_is_touched(bench):
    for number in range(12):
        put(bench, [(b"k", b"%d" % number)])
        if number % 4 == 3:
            bench.log.roll(0)
    put(bench, [(b"k", b"active")])
    compact(bench, high_watermark=7)
    assert [record[0] for record in records(bench)] == [3, *range(4, 13)]
    compact(bench, high_watermark=8)
    assert [record[0] for record in records(bench)] == [7, *range(8, 13)]
    assert {header.base_offset for header in batches(bench) if not header.records_count} <= {0, 3}


def test_what_is_not_on_the_device_yet_is_not_touched(bench):
    for number in range(8):
        put(bench, [(b"k", b"%d" % number)])
    bench.log.roll(0)
    put(bench, [(b"k", b"active")])
    assert cleanable(bench.log, 9, 0).dirty_bytes == 0
    bench.flush()
    assert cleanable(bench.log, 9, 0).end_offset == 8


def test_a_tombstone_stays_for_delete_retention_and_its_timestamps_are_kept(make_bench):
    bench = make_bench(cleanup_policy="compact", delete_retention_ms=1000)
    put(bench, [(b"a", b"1"), (b"b", b"2")], timestamps=[100, 200])
    put(bench, [(b"c", b"3"), (b"a", None)], timestamps=[300, 450])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench, now_ms=5000)
    assert records(bench) == [(1, b"b", b"2"), (2, b"c", b"3"), (3, b"a", None), (4, b"z", b"")]
    marked = batches(bench)[1]
    assert marked.attributes & DELETE_HORIZON_BIT
    assert (marked.delete_horizon_ms, marked.max_timestamp) == (6000, 450)
    data = bench.read_all()
    stamps = [r.timestamp for at, h in iterate_headers(data) for r in walk_records(data[at : at + h.size_bytes])]
    assert stamps[:3] == [200, 300, 450]
    # a later round before the horizon leaves it, and does not move the horizon
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench, now_ms=5999)
    assert (3, b"a", None) in records(bench)
    assert batches(bench)[1].delete_horizon_ms == 6000
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench, now_ms=6000)
    assert [record[0] for record in records(bench)] == [1, 2, 5, 6]


def test_records_without_a_key_go(bench):
    put(bench, [(None, b"1"), (b"k", b"2"), (None, b"3")])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench)
    assert [record[0] for record in records(bench)] == [1, 3]


def test_the_last_batch_of_a_producer_stays_without_its_records_so_that_its_sequence_does(bench):
    for number in range(3):
        put(bench, [(b"k", b"%d" % number)], producer_id=5, producer_epoch=1, sequence=number)
    put(bench, [(b"k", b"other")])
    put(bench, [(b"m", b"")])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench)
    # the first one stays too: a leader epoch begins there
    assert [(h.base_offset, h.records_count) for h in batches(bench)] == [(0, 0), (2, 0), (3, 1), (4, 1), (5, 1)]
    for name in bench.files():
        if name.endswith(".snapshot"):
            bench.disk.remove(f"/data/t-0/{name}")
    bench.reopen()
    assert [(p.producer_id, p.last_sequence) for p in bench.log.producers.describe()] == [(5, 2)]
    assert records(bench)[0] == (3, b"k", b"other")


def test_the_last_batch_of_a_round_stays_so_that_the_offset_of_its_end_does(bench):
    put(bench, [(b"a", b"1")])
    put(bench, [(None, b"none")])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench)
    assert [(h.base_offset, h.records_count) for h in batches(bench)] == [(0, 1), (1, 0), (2, 1)]


def test_small_segments_become_one_up_to_segment_bytes(make_bench):
    bench = make_bench(cleanup_policy="compact", segment_bytes=800)
    for number in range(40):
        put(bench, [(b"k%d" % (number % 20), b"x" * 60)])
    before = len(bench.log.segments)
    first = compact(bench)
    bases = [segment.base_offset for segment in bench.log.segments]
    # the first round cannot know how small they get, the second groups what it left
    put(bench, [(b"k0", b"x" * 60)])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    second = compact(bench)
    assert before == first.segments_before + 1
    assert second.segments_after < first.segments_after
    assert all(segment.size <= 800 for segment in bench.log.segments)
    assert bench.log.segments[0].base_offset == bases[0] == 0
    assert len(records(bench)) == len({record[1] for record in records(bench)}) == 21


def test_indexes_of_a_cleaned_segment_are_those_that_a_rebuild_makes(bench):
    for number in range(80):
        put(bench, [(b"k%d" % (number % 50), b"v%d" % number)], timestamps=[number % 60])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench)
    segment = bench.log.segments[0]
    names = [f"{segment.base_offset:020d}{suffix}" for suffix in (".index", ".timeindex")]
    made = [bench.content(name) for name in names]
    assert all(made)
    for name in names:
        bench.disk.remove(f"/data/t-0/{name}")
    bench.reopen(clean=True)
    assert [bench.content(name) for name in names] == made
    newest = bench.log.segments[0]
    assert (newest.max_timestamp, newest.max_timestamp_offset) == (segment.max_timestamp, segment.max_timestamp_offset)
    found = bench.log.offset_for_timestamp(55)()
    assert found.timestamp >= 55
    assert bench.log.offset_of_max_timestamp()().timestamp == max(
        header.max_timestamp for header in batches(bench) if header.records_count
    )


def test_a_full_map_ends_the_round_where_it_got_full_and_the_next_goes_on(bench):
    for number in range(20):
        put(bench, [(b"k%d" % (number % 10), b"%d" % number), (b"same", b"%d" % number)])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    ends = []
    while not ends or ends[-1] < 40:
        result = compact(bench, map_bytes=800)
        assert result.keys <= 4
        assert result.end_offset > (ends[-1] if ends else 0)
        assert result.is_full == (result.end_offset < 40)
        ends.append(result.end_offset)
    assert len(ends) > 2
    assert [record[0] for record in records(bench)] == [*range(20, 40, 2), 39, 40]


def test_a_key_longer_than_the_map_keeps_is_told_from_others(bench):
    long = b"x" * 500
    put(bench, [(long + b"1", b"1"), (long + b"2", b"2"), (long + b"1", b"3")])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench)
    assert [record[0] for record in records(bench)] == [1, 2, 3]


@pytest.mark.parametrize("is_dirty", [True, False])
def test_what_a_disk_gives_wrong_again_and_again_is_not_written_down(bench, is_dirty):
    """Its disk may give it right the next time; a copy with a wrong byte stays wrong."""
    put(bench, [(b"a", b"1"), (b"b", b"1")])
    put(bench, [(b"a", b"2")])
    put(bench, [(b"b", b"2")])
    segment = bench.log.active
    bench.log.roll(0)
    put(bench, [(b"b", b"3")])
    if not is_dirty:
        compact(bench)
        segment = bench.log.segments[0]
        bench.log.roll(0)
        put(bench, [(b"z", b"")])
    before = bench.read_all()
    at = segment.size - 2
    right = bench.disk.peek(segment.path(".log"), at)[0]
    bench.disk.corrupt(segment.path(".log"), at, right ^ 1)
    with pytest.raises(Unreadable, match="CRC"):
        compact(bench)
    assert not [name for name in bench.files() if "cleaned" in name]
    bench.disk.corrupt(segment.path(".log"), at, right)
    assert bench.read_all() == before
    compact(bench)
    assert records(bench)[0][0] == 2


@pytest.mark.parametrize("is_dirty", [True, False])
@pytest.mark.parametrize("bit", [0x40, 0x80])
def test_a_leader_epoch_that_is_not_the_logs_is_not_written_down(bench, is_dirty, bit):
    """No checksum covers it; in the new files nothing would tell that it is wrong (seed 201688)."""
    put(bench, [(b"a", b"1"), (b"b", b"1")])
    put(bench, [(b"a", b"2")])
    put(bench, [(b"b", b"2")], epoch=3)
    bench.log.roll(0)
    put(bench, [(b"b", b"3")], epoch=3)
    if not is_dirty:
        compact(bench)
        bench.log.roll(0)
        put(bench, [(b"z", b"")], epoch=3)
    path, before = bench.log.segments[0].path(".log"), bench.read_all()
    bench.disk.corrupt(path, 12, bit)
    with pytest.raises(Unreadable, match=r"leader epoch .* in what leader epoch 0 wrote"):
        compact(bench)
    bench.disk.corrupt(path, 12, 0)
    compact(bench)
    assert bench.read_all() != before
    assert {header.partition_leader_epoch for header in batches(bench)} == {0, 3}


@pytest.mark.parametrize("attributes", [0x10, 0x30])
def test_a_log_with_transactions_is_left_alone(bench, attributes):
    put(bench, [(b"a", b"1")], attributes=attributes, producer_id=1, producer_epoch=0, sequence=0)
    put(bench, [(b"a", b"2")])
    bench.log.roll(0)
    before = bench.read_all()
    with pytest.raises(Uncleanable, match="transaction"):
        compact(bench)
    assert bench.read_all() == before
    assert not [name for name in bench.files() if "cleaned" in name]


def test_a_broken_structure_is_told_and_nothing_is_changed(bench):
    put(bench, [(b"a", b"1")])
    put(bench, [(b"a", b"2")])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    bench.disk.corrupt(bench.log.segments[0].path(".log"), 8, 255)
    with pytest.raises(Uncleanable):
        compact(bench)
    assert not [name for name in bench.files() if "cleaned" in name]


def test_a_log_that_is_cut_meanwhile_is_left_alone(bench):
    for number in range(20):
        put(bench, [(b"k", b"%d" % number)])
        if number % 10 == 9:
            bench.log.roll(0)
    put(bench, [(b"z", b"")])
    bench.flush()
    compaction = Compaction(bench.log, cleanable(bench.log, 21, 0), MAP_BYTES, 0)
    work = compaction.work()
    ready = next(done for done in work if done is not None)
    bench.cut(15)
    assert compaction.is_void()
    assert not swap.holds(bench.log, ready.replaced)
    with pytest.raises(Abandoned):
        next(work)
    bench.reopen()
    assert [record[0] for record in records(bench)] == list(range(15))


def test_a_cut_into_the_compacted_part_is_remembered_whatever_the_end_falls_on(bench):
    for number in range(20):
        put(bench, [(b"k%d" % (number % 2), b"%d" % number)])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    compact(bench)
    assert bench.cut(12) == 12
    assert (bench.log.log_end_offset, bench.log.cleaned_offset) == (12, 12)
    bench.flush()
    bench.reopen(crash=True)
    assert bench.log.log_end_offset == 12
    assert not [event for event in bench.store.report.events if event.level == "error"]
    assert put(bench, [(b"k", b"anew")]) == 12
    assert records(bench) == [(12, b"k", b"anew")]


def test_no_round_begins_without_room_for_the_new_files(bench, monkeypatch):
    put(bench, [(b"a", b"1")])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    monkeypatch.setattr(bench.disk, "free_bytes", lambda _path: 1000)
    with pytest.raises(NoRoom):
        compact(bench)


def test_a_write_that_fails_leaves_no_files(bench):
    put(bench, [(b"a", b"1"), (b"a", b"2")])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    bench.flush()
    bench.disk.fail_next("append", errno.ENOSPC, path_contains="cleaned")
    with pytest.raises(OSError, match="ENOSPC"):
        compact(bench)
    assert not [name for name in bench.files() if "cleaned" in name]
    compact(bench)
    assert [record[0] for record in records(bench)] == [1, 2]


def test_readers_of_the_old_files_read_on(make_bench):
    bench = make_bench(cleanup_policy="compact")
    for number in range(600):
        put(bench, [(b"k%d" % (number % 3), b"x" * 100)])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    bench.flush()
    log = bench.log
    whole = bench.read_all()
    part = log.slice(0, 90_000, log.log_end_offset)
    by_time = log.offset_for_timestamp(1000)
    bench.disk.cached_bytes = 0
    pending = log.read(0, 90_000, log.log_end_offset, at_least_one=True)
    bench.disk.cached_bytes = None
    deletes = swap_all(log)
    assert bytes(part) == whole[: len(part)]
    assert bytes(pending.run()) == whole[: len(part)]
    assert by_time().offset == 0
    for delete in deletes:
        delete()
    assert [name for name in bench.files() if "deleted" in name] == []
    assert len(records(bench)) == 4


def test_two_swaps_within_the_delay_leave_each_others_old_files_alone(bench):
    deletes = []
    for _ in range(2):
        for number in range(10):
            put(bench, [(b"k", b"%d" % number)])
        bench.log.roll(0)
        put(bench, [(b"z", b"")])
        bench.flush()
        deletes += swap_all(bench.log)
    set_aside = [name for name in bench.files() if name.endswith(".deleted")]
    deletes[0]()
    left = [name for name in bench.files() if name.endswith(".deleted")]
    assert left
    assert set(left) < set(set_aside)
    bench.reopen()
    assert not [name for name in bench.files() if name.endswith(".deleted")]


def test_what_may_be_cleaned_and_when_it_is_worth_it(make_bench):
    bench = make_bench(
        cleanup_policy="compact",
        segment_bytes=10_000,
        min_cleanable_dirty_ratio=0.5,
        min_compaction_lag_ms=100,
        max_compaction_lag_ms=1000,
    )
    log = bench.log
    assert not cleanable(log, 0, 0).is_worth(log.config)
    for number in range(3):
        for _ in range(5):
            put(bench, [(b"k%d" % number, b"x")], timestamps=[number * 1000 + 1])
        log.roll(0)
    bench.flush()
    scope = cleanable(log, 15, 2050)
    assert (scope.first_dirty_offset, scope.end_offset, scope.due_ms) == (0, 10, 2101)
    assert (scope.dirty_ratio, scope.is_overdue) == (1.0, True)
    log.cleaned_offset = 10
    scope = cleanable(log, 15, 2200)
    assert (scope.first_dirty_offset, scope.end_offset, scope.is_overdue, scope.due_ms) == (10, 15, False, 3002)
    assert 0.3 < scope.dirty_ratio < 0.4
    assert not scope.is_worth(log.config)
    assert cleanable(log, 15, 3002).is_worth(log.config)


def test_the_active_segment_closes_in_time_to_be_compacted(make_bench):
    bench = make_bench(cleanup_policy="compact", max_compaction_lag_ms=1000, segment_ms=DAY)
    for timestamp in (100, 1100, 1101):
        put(bench, [(b"k", b"")], timestamps=[timestamp])
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2]


def test_how_far_a_log_is_clean_survives_restarts_in_kafkas_file(bench):
    for number in range(10):
        put(bench, [(b"k", b"%d" % number)])
    bench.log.roll(0)
    put(bench, [(b"z", b"")])
    bench.store.checkpoint_plan({})()
    assert not bench.disk.exists("/data/cleaner-offset-checkpoint")
    compact(bench)
    bench.reopen(crash=True)
    assert bench.disk.read_file("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 10\n"
    assert bench.log.cleaned_offset == 10
    assert cleanable(bench.log, 11, 0).dirty_bytes == 0
    bench.cut(4)
    bench.reopen(clean=True)
    assert bench.log.cleaned_offset == 4


def test_a_topic_made_anew_does_not_inherit_how_far_the_old_one_was_clean(bench):
    put(bench, [(b"k", b"")])
    bench.log.roll(0)
    compact(bench)
    bench.store.checkpoint_plan({})()
    bench.store.delete(bench.log)()
    bench.log = bench.store.create(bench.partition, bench.topic_id, bench.config)
    bench.reopen(checkpoint=False)
    assert bench.log.cleaned_offset is None


def test_a_compacted_log_opens_whatever_its_policy_is_by_then(bench, make_bench):
    for number in range(20):
        put(bench, [(b"k%d" % (number % 5), b"%d" % number)])
        if number % 5 == 4:
            bench.log.roll(0)
    compact(bench)
    before = records(bench)
    bench.config = type(bench.config)(segment_bytes=10_000)
    bench.store.checkpoint_plan({})()
    bench.disk.remove("/data/recovery-point-offset-checkpoint")
    bench.reopen(checkpoint=False)
    assert records(bench) == before
    assert bench.log.log_end_offset == 20


def test_a_follower_takes_the_gaps_of_a_compacted_leader_and_keeps_them(bench, make_bench):
    for number in range(40):
        put(bench, [(b"k%d" % (number % 5), b"%d" % number)], epoch=number // 20)
    bench.log.roll(0)
    put(bench, [(b"z", b"")], epoch=2)
    compact(bench)
    follower = make_bench(cleanup_policy="compact", segment_bytes=300)
    data = bench.read_all()
    assert follower.log.append_as_follower(data, 0) == 41
    assert records(follower) == records(bench)
    assert follower.log.cleaned_offset == 0
    follower.store.checkpoint_plan({})()
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
