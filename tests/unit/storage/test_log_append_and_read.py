"""Appending, rolling, indexing and reading one log."""

import errno
import struct
from functools import partial

import pytest

from tests.unit.storage.conftest import finished
from yak.errors import LogDirectoryFailure, ProtocolViolation
from yak.protocol.record_batch import iterate_headers, read_header, with_append_time
from yak.storage.indexes import OffsetIndex
from yak.storage.reader import OffsetOutOfRange, PendingRead


def offsets(data):
    return [header.base_offset for _, header in iterate_headers(bytes(data))]


def test_a_batch_gets_the_logs_end_and_the_leaders_epoch_and_nothing_else_changes(bench):
    bench.append([b"a", b"b"], epoch=4)
    batch = bench.build([b"c"], epoch=99, base_offset=1234)
    assert bench.log.append(read_header(batch), memoryview(batch), 5, 0) == 2
    first, second = iterate_headers(bench.content("00000000000000000000.log"))
    assert (first[1].base_offset, first[1].partition_leader_epoch) == (0, 4)
    assert (second[1].base_offset, second[1].partition_leader_epoch) == (2, 5)
    assert bench.content("00000000000000000000.log")[second[0] + 16 :] == batch[16:]
    assert (bench.log.log_end_offset, bench.log.epochs.latest) == (3, 5)
    assert bench.log.epochs.entries == [(4, 0), (5, 2)]


def test_index_entries_hold_the_last_offset_and_the_start_of_a_batch(make_bench):
    bench = make_bench(index_interval_bytes=300)
    sizes = []
    for number in range(20):
        before = bench.log.size_bytes
        bench.append([b"x" * 30, b"y" * 30], timestamps=[number * 10, number * 10 + 1])
        sizes.append(bench.log.size_bytes - before)
    assert len(set(sizes)) == 1
    size = sizes[0]
    expected, last = [], 0
    for number in range(20):
        if number * size - last > 300:
            last = number * size
            expected.append((number * 2 + 1, last, number * 10 + 1))
    bench.log.roll(0)
    index = bench.content("00000000000000000000.index")
    assert [struct.unpack_from(">ii", index, at) for at in range(0, len(index), OffsetIndex.ENTRY_BYTES)] == [
        entry[:2] for entry in expected
    ]
    times = bench.content("00000000000000000000.timeindex")
    entries = [struct.unpack_from(">qi", times, at) for at in range(0, len(times), 12)]
    assert entries[: len(expected)] == [(timestamp, offset) for offset, _, timestamp in expected]
    assert entries[-1] == (191, 39), "the closing entry"


def test_a_segment_rolls_before_the_batch_that_would_not_fit(make_bench):
    bench = make_bench(segment_bytes=500)
    size = len(bench.build([b"x" * 100]))
    for _ in range(7):
        bench.append([b"x" * 100])
    a_segment = 500 // size
    assert [segment.base_offset for segment in bench.log.segments] == list(range(0, 7, a_segment))
    assert bench.log.has_unflushed_closed_segments
    bench.flush()
    assert not bench.log.has_unflushed_closed_segments


def test_a_batch_larger_than_a_segment_gets_one_alone(make_bench):
    bench = make_bench(segment_bytes=200)
    for _ in range(3):
        bench.append([b"x" * 400])
    assert [segment.base_offset for segment in bench.log.segments] == [0, 1, 2]


def test_a_segment_rolls_when_timestamps_span_segment_ms(make_bench):
    bench = make_bench(segment_ms=1000)
    bench.append(timestamps=[5000])
    bench.append(timestamps=[6000])
    assert len(bench.log.segments) == 1
    bench.append(timestamps=[6001])
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2]


def test_batches_without_timestamps_roll_by_the_clock(make_bench):
    bench = make_bench(segment_ms=1000)
    bench.append(timestamps=[-1], now_ms=0)
    bench.append(timestamps=[-1], now_ms=1000)
    assert len(bench.log.segments) == 1
    bench.append(timestamps=[-1], now_ms=1001)
    assert len(bench.log.segments) == 2


def test_a_full_index_rolls_the_segment(make_bench):
    bench = make_bench(index_interval_bytes=1, segment_index_bytes=80)
    for number in range(30):
        bench.append(timestamps=[number])
    assert len(bench.log.segments) > 1
    for segment in bench.log.segments[:-1]:
        assert segment.offset_index.count * 8 <= 80
        assert segment.time_index.count * 12 <= 80
    assert bench.read_all()


def test_an_offset_too_far_from_the_base_rolls_the_segment(bench):
    bench.append()
    bench.log.log_end_offset = 2**31 + 5
    bench.append()
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2**31 + 5]


@pytest.mark.parametrize("max_bytes", [1, 100, 200, 999, 5000, 10**6])
def test_reader_sees_every_batch_once_for_any_requested_size(make_bench, max_bytes):
    bench = make_bench(segment_bytes=3000, index_interval_bytes=400)
    for number in range(120):
        bench.append([b"x" * (number % 90)] * (number % 3 + 1))
    whole = b"".join(bench.content(name) for name in bench.files() if name.endswith(".log"))
    assert bench.read_all(max_bytes) == whole
    bench.log.positions.clear()
    assert bench.read_all(max_bytes) == whole
    bench.reopen(clean=True)
    assert bench.read_all(max_bytes) == whole
    bench.disk.cached_bytes = 0
    assert bench.read_all(max_bytes) == whole, "all from the device"
    bench.disk.cached_bytes = 150
    assert bench.read_all(max_bytes) == whole, "only the front is cached"


def test_a_read_begins_with_the_batch_that_holds_the_offset_and_ends_before_up_to(make_bench):
    bench = make_bench(index_interval_bytes=300)
    for _ in range(50):
        bench.append([b"x" * 20] * 3)
    for tail in (True, False):
        if not tail:
            bench.log.positions.clear()
        for offset in (0, 1, 2, 3, 74, 75, 146, 149):
            for up_to in (75, 78, 150):
                data = bench.log.read(offset, 10**6, up_to, at_least_one=True)
                assert offsets(data) == list(range(offset // 3 * 3, up_to, 3)) if offset < up_to else not data


def test_at_least_one_batch_comes_whole_and_else_none(bench):
    bench.append([b"x" * 1000])
    bench.append([b"y"])
    assert len(bench.log.read(0, 10, 2, at_least_one=True)) > 1000
    assert not bench.log.read(0, 10, 2, at_least_one=False)
    assert offsets(bench.log.read(0, 1100, 2, at_least_one=False)) == [0]


def test_offsets_outside_the_log_are_named(bench):
    bench.append()
    with pytest.raises(OffsetOutOfRange) as caught:
        bench.log.read(2, 100, 1, at_least_one=True)
    assert (caught.value.offset, caught.value.log_start_offset, caught.value.log_end_offset) == (2, 0, 1)
    assert bench.log.read(1, 100, 1, at_least_one=True) == b""


def test_a_tail_read_is_one_read_of_the_file(bench):
    for _ in range(1000):
        bench.append()
    path = "/data/t-0/00000000000000000000.log"
    bench.disk.reads.clear()
    for offset in range(990, 1000):
        assert offsets(bench.log.read(offset, 10**6, 1000, at_least_one=True))[0] == offset
    assert bench.disk.reads == {path: 9}, "and the newest batch needs none"


def test_the_newest_batch_is_given_as_it_is_in_the_file_if_it_is_small(bench):
    for size in (1, 1000, 5000):
        base, before = bench.append([b"x" * size], epoch=3), bench.log.active.size
        bench.disk.reads.clear()
        read = bench.log.read(base, 10**6, base + 1, at_least_one=True)
        assert bool(bench.disk.reads) == (size == 5000)
        assert read == bench.content("00000000000000000000.log")[-len(read) :]
        assert before == bench.log.active.size


def test_the_newest_batch_is_not_given_for_another_that_took_its_place(bench, build):
    bench.append([b"a"])
    bench.append([b"b"])
    bench.truncate(1)
    assert bench.log.read(1, 100, 1, at_least_one=True) == b""
    other = build([b"c"], base_offset=1)
    bench.log.append_as_follower(other, 0)
    assert bench.log.read(1, 10**6, 2, at_least_one=True) == other
    bench.append([b"d"])
    assert offsets(bench.log.read(1, 10**6, 3, at_least_one=True)) == [1, 2]
    assert bench.log.read(2, 5, 3, at_least_one=False) == b""


def test_a_sequential_reader_of_old_data_makes_one_read_an_answer(make_bench):
    bench = make_bench(index_interval_bytes=200)
    for _ in range(1000):
        bench.append()
    bench.reopen(clean=True)
    bench.read_all(2000)
    path = "/data/t-0/00000000000000000000.log"
    answers = bench.log.size_bytes / 2000
    assert bench.disk.reads[path] < answers * 1.35 + 3


def test_a_cold_read_is_pending_and_survives_what_happens_meanwhile(make_bench):
    bench = make_bench(segment_bytes=300)
    for _ in range(10):
        bench.append()
    bench.disk.cached_bytes = 0
    reads = [bench.log.read(offset, 10**6, 10, at_least_one=True) for offset in (0, 7)]
    assert all(isinstance(read, PendingRead) for read in reads)
    assert offsets(finished(reads[1]))[0] == 7
    expired = bench.log.segments[:2]
    remove = bench.log.remove_segments(expired)
    assert offsets(finished(reads[0]))[0] == 0, "renamed files are still read"
    remove.run(bench.disk)
    bench.truncate(7)
    assert finished(reads[1]) == b""


def test_a_pending_read_gives_nothing_that_was_written_after_a_truncation(bench):
    for _ in range(4):
        bench.append([b"x" * 50])
    bench.disk.cached_bytes = 0
    read = bench.log.read(2, 10**6, 4, at_least_one=True)
    bench.truncate(1)
    bench.append([b"other"] * 20)
    assert all(base < 4 for base in offsets(finished(read)))


def test_a_failed_write_names_the_directory_and_leaves_the_log_as_it_was(bench):
    bench.append()
    bench.disk.fail_next("append", errno.ENOSPC)
    with pytest.raises(LogDirectoryFailure) as caught:
        bench.append()
    assert (caught.value.directory, caught.value.error.errno) == ("/data", errno.ENOSPC)
    assert bench.log.log_end_offset == 1


@pytest.mark.parametrize("as_follower", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_append_where_the_index_cannot_be_read_fails_before_anything_is_written(make_bench, build, as_follower, count):
    bench = make_bench(index_interval_bytes=100)
    for _ in range(4):
        bench.append([b"x" * 200])
    log = bench.reopen(clean=True)
    bench.append([b"x" * 200])
    file, before = bench.content("00000000000000000000.log"), (log.log_end_offset, log.size_bytes, log.active.size)
    bench.disk.fail_next("read", errno.EIO, path_contains=".index")
    run = b"".join(build([b"y" * 200], base_offset=5 + number, producer_id=7) for number in range(count))
    append = partial(log.append_as_follower, run, 0) if as_follower else partial(bench.append, producer_id=7)
    with pytest.raises(LogDirectoryFailure):
        append()
    assert (log.log_end_offset, log.size_bytes, log.active.size) == before
    assert bench.content("00000000000000000000.log") == file
    assert not len(log.producers)
    assert bench.append([b"z" * 200]) == 5


@pytest.mark.parametrize(("max_bytes", "cut"), [(1000, b"half a batch"), (1000, b""), (1, b"")])
def test_a_follower_keeps_offsets_and_epochs_and_files_are_the_leaders(make_bench, max_bytes, cut):
    leader, follower = make_bench(segment_bytes=700), make_bench(segment_bytes=700)
    for number in range(30):
        leader.append([b"x" * 40] * (number % 2 + 1), epoch=number // 10, timestamps=[number] * (number % 2 + 1))
    chunk, offset = b"", 0
    while offset < leader.log.log_end_offset:
        chunk = bytes(leader.log.read(offset, max_bytes, leader.log.log_end_offset, at_least_one=True))
        offset = follower.log.append_as_follower(chunk + cut, 0)
    logs = [name for name in leader.files() if name.endswith((".log", ".index", ".timeindex"))]
    assert len(logs) > 9
    assert [leader.content(name) for name in logs] == [follower.content(name) for name in logs]
    assert follower.log.epochs.entries == leader.log.epochs.entries
    assert (follower.log.size_bytes, follower.log.positions.recent) == (
        leader.log.size_bytes,
        leader.log.positions.recent,
    )


def test_a_followers_failed_write_leaves_its_log_as_it_was(bench, build):
    for number in range(2):
        bench.log.append_as_follower(build([b"a"], base_offset=number), 0)
    size = bench.log.size_bytes
    bench.disk.fail_next("append", errno.ENOSPC)
    with pytest.raises(LogDirectoryFailure):
        bench.log.append_as_follower(build([b"a"], base_offset=2), 0)
    assert (bench.log.log_end_offset, bench.log.size_bytes, bench.log.active.size) == (2, size, size)


def test_a_follower_refuses_what_does_not_follow(bench, build):
    good = [build([b"a"], base_offset=0, epoch=3), build([b"b"], base_offset=1, epoch=3)]
    broken = bytearray(build([b"c"], base_offset=2, epoch=3))
    broken[-2] ^= 1
    for bad in (
        build([b"c"], base_offset=3, epoch=3),
        build([b"c"], base_offset=1, epoch=3),
        build([b"c"], base_offset=2, epoch=2),
        bytes(broken),
    ):
        bench.truncate(0)
        with pytest.raises(ProtocolViolation):
            bench.log.append_as_follower(b"".join([*good, bad]), 0)
        assert bench.log.log_end_offset == 2, "what came before it counts"
        with pytest.raises(ProtocolViolation):
            bench.log.append_as_follower(bad, 0)
        assert bench.log.log_end_offset == 2, "by itself it is refused as well"


def test_records_are_found_by_time(make_bench):
    bench = make_bench(segment_bytes=1200, index_interval_bytes=150)
    expected = {}
    for number in range(60):
        times = [number * 10 + 3, number * 10 + 1, number * 10 + 5]
        base = bench.append([b"v"] * 3, timestamps=times, epoch=2)
        expected |= {base + index: time for index, time in enumerate(times)}
    for wanted in (0, 1, 2, 4, 100, 101, 306, 594, 595):
        found = bench.log.timestamp_search(wanted).run(bench.disk)
        offset = next(offset for offset, time in expected.items() if time >= wanted)
        assert (found.offset, found.timestamp, found.leader_epoch) == (offset, expected[offset], 2)
    assert bench.log.timestamp_search(596).run(bench.disk) is None
    assert tuple(bench.log.max_timestamp_search().run(bench.disk)) == (179, 595, 2)
    bench.log.advance_log_start(100)
    assert bench.log.timestamp_search(0).run(bench.disk).offset == 100


def test_time_is_not_rising_and_the_largest_one_may_be_old(make_bench):
    bench = make_bench(segment_bytes=500, index_interval_bytes=100)
    for timestamp in (5, 900, 7, 8, 400, 10, 11, 900, 12):
        bench.append(timestamps=[timestamp])
    assert bench.log.max_timestamp_search().run(bench.disk).offset == 1
    assert bench.log.timestamp_search(6).run(bench.disk).offset == 1
    assert bench.log.timestamp_search(900).run(bench.disk).offset == 1
    bench.log.advance_log_start(2)
    assert bench.log.timestamp_search(6).run(bench.disk).offset == 2
    assert bench.log.max_timestamp_search().run(bench.disk).offset == 7
    bench.reopen()
    assert bench.log.timestamp_search(401).run(bench.disk).offset in (1, 7)


def test_the_largest_time_of_a_batch_with_append_time_is_that_of_its_first_record(make_bench, build):
    """All its records have the batch's time, and Kafka's RecordBatch.offsetOfMaxTimestamp takes the first."""
    bench = make_bench(message_timestamp_type="LogAppendTime")
    for now_ms in (500, 700, 700):
        batch = with_append_time(build([b"v"] * 3), now_ms)
        bench.log.append(read_header(batch), batch, 4, now_ms)
    assert tuple(bench.log.max_timestamp_search().run(bench.disk)) == (3, 700, 4)
    bench.log.advance_log_start(4)
    assert tuple(bench.log.max_timestamp_search().run(bench.disk)) == (4, 700, 4)


def test_a_log_without_timestamps_has_no_largest_one(bench):
    assert bench.log.max_timestamp_search().run(bench.disk) is None
    bench.append(timestamps=[-1])
    assert bench.log.max_timestamp_search().run(bench.disk) is None
    assert bench.log.timestamp_search(0).run(bench.disk) is None
