"""Which records and batches compaction keeps, and how the files that it writes are made."""

import pytest

from tests.unit.storage.compaction.rounds import batches, close_segment, compact, put, records
from yak.config.log_config import NEVER
from yak.protocol.record_batch import DELETE_HORIZON_BIT, iterate_headers, read_header
from yak.protocol.record_walk import walk_records


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
    close_segment(bench, epoch=5)
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


def test_tombstone_stays_for_delete_retention_and_its_timestamps_are_unchanged(make_bench):
    bench = make_bench(cleanup_policy="compact", delete_retention_ms=1000)
    put(bench, [(b"a", b"1"), (b"b", b"2")], timestamps=[100, 200])
    put(bench, [(b"c", b"3"), (b"a", None)], timestamps=[300, 450])
    close_segment(bench)
    compact(bench, now_ms=5000)
    assert records(bench) == [(1, b"b", b"2"), (2, b"c", b"3"), (3, b"a", None), (4, b"z", b"")]
    marked = batches(bench)[1]
    assert marked.attributes & DELETE_HORIZON_BIT
    assert (marked.delete_horizon_ms, marked.max_timestamp) == (6000, 450)
    data = bench.read_all()
    stamps = [r.timestamp for at, h in iterate_headers(data) for r in walk_records(data[at : at + h.size_bytes])]
    assert stamps[:3] == [200, 300, 450]
    # a later round before the horizon leaves it, and does not move the horizon
    close_segment(bench)
    compact(bench, now_ms=5999)
    assert (3, b"a", None) in records(bench)
    assert batches(bench)[1].delete_horizon_ms == 6000
    close_segment(bench)
    compact(bench, now_ms=6000)
    assert [record[0] for record in records(bench)] == [1, 2, 5, 6]


def test_tombstone_with_the_longest_delete_retention_stays_for_good(make_bench):
    bench = make_bench(cleanup_policy="compact", delete_retention_ms=NEVER)
    put(bench, [(b"a", b"1"), (b"a", None)], timestamps=[100, 200])
    for now_ms in (5_000, 10**13):
        close_segment(bench)
        compact(bench, now_ms=now_ms)
        assert records(bench)[0] == (1, b"a", None)
        assert batches(bench)[0].delete_horizon_ms == NEVER
    assert next(walk_records(bench.read_all())).timestamp == 200


def test_records_without_a_key_go(bench):
    put(bench, [(None, b"1"), (b"k", b"2"), (None, b"3")])
    close_segment(bench)
    compact(bench)
    assert [record[0] for record in records(bench)] == [1, 3]


def test_batches_that_a_producer_may_repeat_stay_without_their_records(bench):
    for number in range(7):
        put(bench, [(b"k", b"%d" % number)], producer_id=5, producer_epoch=1, sequence=number)
    put(bench, [(b"k", b"other")])
    put(bench, [(b"m", b"")])
    close_segment(bench)
    compact(bench)
    # the first one stays too: a leader epoch begins there
    left = [(0, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 1), (8, 1), (9, 1)]
    assert [(h.base_offset, h.records_count) for h in batches(bench)] == left
    for name in bench.files():
        if name.endswith(".snapshot"):
            bench.disk.remove(f"/data/t-0/{name}")
    bench.reopen()
    assert [(p.producer_id, p.last_sequence) for p in bench.log.producers.describe()] == [(5, 6)]
    repeated = next(header for header in batches(bench) if header.base_offset == 3)
    assert bench.log.producers.check(repeated).base_offset == 3
    assert records(bench)[0] == (7, b"k", b"other")


def test_repeatable_batches_stay_in_a_log_that_was_opened_with_the_last_batch_of_each_producer(bench):
    """Seed 1200562: a snapshot has one batch of a producer, and the round kept only that one."""
    for number in range(7):
        put(bench, [(b"k", b"%d" % number)], producer_id=5, producer_epoch=1, sequence=number)
    put(bench, [(b"k", b"other")])
    close_segment(bench)
    bench.reopen(clean=True)
    assert bench.log.producers.unread_before is not None
    compact(bench)
    assert [h.base_offset for h in batches(bench) if h.producer_id == 5 and h.base_offset] == [2, 3, 4, 5, 6]


def test_the_last_batch_of_a_round_stays_so_that_the_offset_of_its_end_does(bench):
    put(bench, [(b"a", b"1")])
    put(bench, [(None, b"none")])
    close_segment(bench)
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
    close_segment(bench)
    second = compact(bench)
    assert before == first.segments_before + 1
    assert second.segments_after < first.segments_after
    assert all(segment.size <= 800 for segment in bench.log.segments)
    assert bench.log.segments[0].base_offset == bases[0] == 0
    assert len(records(bench)) == len({record[1] for record in records(bench)}) == 21


def test_indexes_of_a_cleaned_segment_are_those_that_a_rebuild_makes(bench):
    for number in range(80):
        put(bench, [(b"k%d" % (number % 50), b"v%d" % number)], timestamps=[number % 60])
    close_segment(bench)
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
    found = bench.log.timestamp_search(55).run(bench.disk)
    assert found.timestamp >= 55
    assert bench.log.max_timestamp_search().run(bench.disk).timestamp == max(
        header.max_timestamp for header in batches(bench) if header.records_count
    )


def test_full_map_ends_the_round_where_the_map_filled_and_the_next_round_continues(bench):
    for number in range(20):
        put(bench, [(b"k%d" % (number % 10), b"%d" % number), (b"same", b"%d" % number)])
    close_segment(bench)
    ends = []
    while not ends or ends[-1] < 40:
        result = compact(bench, map_bytes=800)
        assert result.keys <= 4
        assert result.end_offset > (ends[-1] if ends else 0)
        assert result.is_full == (result.end_offset < 40)
        ends.append(result.end_offset)
    assert len(ends) > 2
    assert [record[0] for record in records(bench)] == [*range(20, 40, 2), 39, 40]


def test_key_longer_than_the_map_stores_is_distinguished_from_others(bench):
    long = b"x" * 500
    put(bench, [(long + b"1", b"1"), (long + b"2", b"2"), (long + b"1", b"3")])
    close_segment(bench)
    compact(bench)
    assert [record[0] for record in records(bench)] == [1, 2, 3]


def test_timestamps_behind_a_record_without_one_are_unchanged_by_compaction(make_bench):
    bench = make_bench(cleanup_policy="compact", delete_retention_ms=1000)
    put(bench, [(b"a", b"1"), (b"b", None), (b"c", b"1")], timestamps=[-1, 700, 900])
    bench.log.roll(0)
    put(bench, [(b"c", b"2")])
    close_segment(bench)
    compact(bench)
    data = bench.read_all()
    first = read_header(data)
    assert (first.delete_horizon_ms, first.max_timestamp) == (1000, 700)
    assert [record.timestamp for record in walk_records(data[: first.size_bytes])] == [-1, 700]
