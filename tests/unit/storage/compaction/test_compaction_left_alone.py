"""What compaction does not touch: what is not committed, synced or sound, and logs whose time has not come."""

import errno

import pytest

from tests.unit.storage.compaction.rounds import MAP_BYTES, batches, close_segment, compact, pieces, put, records
from tests.unit.storage.conftest import build_batch
from yak.protocol.record_batch import CRC_START, HEADER_BYTES, compute_crc, read_header
from yak.storage.compaction import Compaction, CompactionDiscard, NoRoom, Uncleanable, Unreadable, cleanable

DAY = 86_400_000


def test_compaction_changes_neither_the_active_segment_nor_uncommitted_records(bench):
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


def test_compaction_does_not_change_records_that_are_not_flushed_yet(bench):
    for number in range(8):
        put(bench, [(b"k", b"%d" % number)])
    bench.log.roll(0)
    put(bench, [(b"k", b"active")])
    assert cleanable(bench.log, 9, 0).dirty_bytes == 0
    bench.flush()
    assert cleanable(bench.log, 9, 0).end_offset == 8


@pytest.mark.parametrize("is_dirty", [True, False])
def test_compaction_does_not_write_a_batch_that_the_disk_repeatedly_returns_corrupt(bench, is_dirty):
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
        close_segment(bench)
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
        close_segment(bench, epoch=3)
    path, before = bench.log.segments[0].path(".log"), bench.read_all()
    bench.disk.corrupt(path, 12, bit)
    with pytest.raises(Unreadable, match=r"leader epoch .* but the epoch cache says 0"):
        compact(bench)
    bench.disk.corrupt(path, 12, 0)
    compact(bench)
    assert bench.read_all() != before
    assert {header.partition_leader_epoch for header in batches(bench)} == {0, 3}


def test_broken_structure_is_reported_and_nothing_is_changed(bench):
    put(bench, [(b"a", b"1")])
    put(bench, [(b"a", b"2")])
    close_segment(bench)
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
    ready = next(done for done in pieces(compaction, bench.disk) if done is not None)
    bench.truncate(15)
    assert compaction.is_void(bench.log)
    assert not bench.log.holds_segments(ready.replaced)
    CompactionDiscard(compaction, ready).run(bench.disk)
    assert not [name for name in bench.files() if "cleaned" in name]
    bench.reopen()
    assert [record[0] for record in records(bench)] == list(range(15))


def test_no_round_begins_without_room_for_the_new_files(bench, monkeypatch):
    put(bench, [(b"a", b"1")])
    close_segment(bench)
    monkeypatch.setattr(bench.disk, "free_bytes", lambda _path: 1000)
    with pytest.raises(NoRoom):
        compact(bench)


def test_a_write_that_fails_leaves_no_files(bench):
    put(bench, [(b"a", b"1"), (b"a", b"2")])
    close_segment(bench)
    bench.flush()
    bench.disk.fail_next("append", errno.ENOSPC, path_contains="cleaned")
    with pytest.raises(OSError, match="ENOSPC"):
        compact(bench)
    assert not [name for name in bench.files() if "cleaned" in name]
    compact(bench)
    assert [record[0] for record in records(bench)] == [1, 2]


def test_cleanable_range_respects_lag_and_is_worth_cleaning_when_dirty_or_overdue(make_bench):
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


@pytest.mark.parametrize("is_dirty", [True, False])
def test_a_batch_whose_records_cannot_be_decoded_stays_as_it_is(bench, is_dirty):
    put(bench, [(b"a", b"1")])
    wrong = bytearray(build_batch([b"2"], keys=[b"a"]))
    wrong[HEADER_BYTES] ^= 0x40  # the record's length
    wrong[CRC_START - 4 : CRC_START] = compute_crc(wrong).to_bytes(4, "big")
    bench.log.append(read_header(wrong), wrong, 0, 0)
    put(bench, [(b"a", b"3")])
    bench.log.roll(0)
    put(bench, [(b"a", b"4")])
    if not is_dirty:
        assert compact(bench).unreadable_batches == 1
        close_segment(bench)
    assert compact(bench).unreadable_batches == 1
    assert bytes(wrong[HEADER_BYTES:]) in bench.read_all()
