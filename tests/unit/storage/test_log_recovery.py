"""What a start makes of what a stop left."""

import errno
import uuid

import pytest

from tests.unit.storage.conftest import checkpoint_plan, write_checkpoint
from yak.errors import LogDirectoryFailure, PeerError
from yak.ids import TopicPartition
from yak.protocol.record_batch import read_header
from yak.sim.seeded_random import SeededRandom
from yak.storage.producer_state import EarlierUnread

FIRST = "/data/t-0/00000000000000000000.log"

RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def fill(bench, count=40):
    for number in range(count):
        bench.append([b"x" * 30], timestamps=[number], producer_id=5, producer_epoch=0, sequence=number)


def test_a_clean_start_reads_no_log_data(make_bench):
    bench = make_bench(segment_bytes=800)
    fill(bench)
    log = bench.reopen(clean=True)
    assert not [path for path in bench.disk.reads if path.endswith(".log")]
    assert bench.store.report.was_clean
    assert [directory.clean_epoch for directory in bench.store.directories] == [3]
    assert (log.log_end_offset, log.recovery_point, log.size_bytes) == (40, 40, sum(s.size for s in log.segments))
    assert [(p.producer_id, p.last_sequence) for p in log.producers.describe()] == [(5, 39)]
    bench.append(producer_id=5, producer_epoch=0, sequence=40)
    assert log.log_end_offset == 41


def test_the_clean_mark_counts_once(bench):
    fill(bench)
    bench.reopen(clean=True)
    assert "/data/.kafka_cleanshutdown" not in [f"/data/{name}" for name in bench.disk.names("/data")]
    bench.reopen(checkpoint=False)
    assert not bench.store.report.was_clean
    assert bench.log.log_end_offset == 40


def test_incomplete_tail_is_truncated_and_the_indexes_are_rebuilt(make_bench):
    bench = make_bench(segment_bytes=800, index_interval_bytes=150)
    fill(bench)
    whole = bench.read_all()
    kept = {name: bench.content(name) for name in bench.files() if name.endswith("index")}
    write_checkpoint(bench.store)
    path = bench.log.active.path(".log")
    bench.disk.open(path).append([whole[:75]])
    bench.reopen(checkpoint=False)
    assert bench.log.log_end_offset == 40
    assert bench.store.report.truncated_bytes == 75
    assert bench.read_all() == whole
    bench.store.close_plan(1).run(bench.disk)
    for name, content in kept.items():
        if content:
            assert bench.content(name) == content


def test_a_broken_batch_in_the_unflushed_tail_cuts_all_after_it(make_bench):
    bench = make_bench(segment_bytes=800)
    fill(bench)
    size = bench.log.segments[0].size
    bench.disk.corrupt(FIRST, size - 3, 255)
    end = bench.log.segments[1].base_offset - 1
    bench.reopen(checkpoint=False)
    assert bench.log.log_end_offset == end
    assert len(bench.log.segments) == 1
    assert [p.last_sequence for p in bench.log.producers.describe()] == [end - 1]
    assert [name for name in bench.files() if name.endswith(".log")] == ["00000000000000000000.log"]
    assert bench.store.report.events[-1].event == "log-tail-truncated"


def test_crc_error_below_the_recovery_point_is_reported_and_nothing_is_truncated(bench):
    fill(bench)
    bench.flush()
    size = bench.log.size_bytes
    bench.disk.corrupt(FIRST, size // 2 + 70, 255)
    log = bench.reopen()
    assert (log.log_end_offset, log.size_bytes) == (40, size)
    (event,) = [event for event in bench.store.report.events if event.event == "log-damaged"]
    assert event.level == "error"
    assert "CRC-32C" in str(event.fields["reason"])


def test_crc_error_in_a_timestamp_below_the_recovery_point_changes_no_segment_timestamp(bench):
    fill(bench)
    bench.flush()
    bench.disk.corrupt(FIRST, 41, 0x10)  # of the first batch's max_timestamp, which becomes 4096 ms
    segment = bench.reopen().segments[0]
    assert segment.max_timestamp == 39
    assert segment.first_timestamp < 0


def test_a_broken_structure_below_the_recovery_point_takes_the_log_out_of_service_untouched(bench):
    fill(bench)
    bench.flush()
    write_checkpoint(bench.store)
    bench.disk.corrupt(FIRST, 8, 255)
    before = bench.content("00000000000000000000.log")
    bench.disk.kill()
    store = bench.open()
    assert bench.partition not in store.logs
    assert "batch length" in store.unavailable[bench.partition].reason
    assert bench.content("00000000000000000000.log") == before
    with pytest.raises(LogDirectoryFailure):
        store.create(bench.partition, bench.topic_id, bench.config)
    assert bench.content("00000000000000000000.log") == before


def test_lost_last_segment_after_a_clean_stop_is_reported_and_the_log_continues(make_bench):
    """It was served with a hole: a consumer that reached it got nothing, without an error and for good."""
    bench = make_bench(segment_bytes=300)
    for _ in range(10):
        bench.append()
    end = bench.log.active.base_offset
    assert end < 10
    bench.store.close_plan(3).run(bench.disk)
    bench.disk.kill()
    bench.disk.remove(bench.log.active.path(".log"))
    bench.store = bench.open()
    bench.log = bench.store.logs[bench.partition]
    assert bench.log.log_end_offset == end
    damaged = [event.fields["reason"] for event in bench.store.report.events if event.event == "log-damaged"]
    assert [str(reason).partition(": ")[2] for reason in damaged] == ["flushed records are missing"]
    assert bench.append() == end
    assert len(bench.read_all()) == bench.log.size_bytes


def test_missing_flushed_data_is_reported(bench):
    fill(bench)
    bench.flush()
    write_checkpoint(bench.store)
    size = bench.log.size_bytes // 40
    bench.disk.open(FIRST).truncate(size * 30)
    log = bench.reopen(checkpoint=False)
    assert (log.log_end_offset, log.recovery_point) == (30, 30)
    assert "ends at offset 30" in str(bench.store.report.events[-1].fields["reason"])


@pytest.mark.parametrize("damage", ["remove", "cut", "garbage"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_unusable_index_files_are_rebuilt(make_bench, damage, suffix):
    bench = make_bench(segment_bytes=1500, index_interval_bytes=150)
    fill(bench, 60)
    whole = bench.read_all()
    bench.store.close_plan(1).run(bench.disk)
    path = f"/data/t-0/00000000000000000000{suffix}"
    good = bench.disk.read_file(path)
    assert len(good) > 24
    if damage == "remove":
        bench.disk.remove(path)
    elif damage == "cut":
        bench.disk.write_file(path, good[:-3])
    else:
        bench.disk.write_file(path, b"\xff" * len(good))
    bench.reopen(checkpoint=False)
    bench.log.positions.clear()
    assert bench.read_all() == whole
    if damage != "garbage":
        assert bench.disk.read_file(path) == good
    assert bench.log.read(7, 100, 60, at_least_one=True)


@pytest.mark.parametrize(
    ("suffix", "zeros", "clean"),
    [
        (".timeindex", "all", True),
        (".timeindex", "tail", True),
        (".timeindex", "longer", True),
        (".timeindex", "all", False),
        (".timeindex", "tail", False),
        (".timeindex", "longer", False),
        (".timeindex", "none left", False),
        (".index", "all", False),
        (".index", "tail", False),
        (".index", "longer", False),
    ],
)
def test_index_file_with_zeros_is_rebuilt_and_its_records_are_not_old(make_bench, suffix, zeros, clean):
    bench = make_bench(segment_bytes=1500, index_interval_bytes=150, retention_ms=1000)
    for number in range(60):
        bench.append([b"x" * 30], timestamps=[1_000_000 + number])
    bench.flush()
    bench.store.close_plan(1).run(bench.disk)
    if not clean:
        bench.disk.remove("/data/.kafka_cleanshutdown")
    path = f"/data/t-0/00000000000000000000{suffix}"
    good = bench.disk.read_file(path)
    assert len(good) > 36
    bad = {"all": bytes(len(good)), "tail": good[:-36] + bytes(36), "longer": good + bytes(600), "none left": b""}
    bench.disk.write_file(path, bad[zeros])
    bench.reopen(checkpoint=False)
    assert bench.log.expired_segment(1_000_900, 60) is None
    assert bench.log.timestamp_search(1_000_003).run(bench.disk)[:2] == (3, 1_000_003)
    assert bench.disk.read_file(path) == good
    whats = [event.fields["what"] for event in bench.store.report.events if event.event == "log-repaired"]
    assert "rebuilt the indexes of segment 0" in whats


def test_records_of_1970_and_records_without_timestamps_need_no_new_index(make_bench):
    for timestamp_ms in (0, -1):
        bench = make_bench(segment_bytes=500)
        for _ in range(20):
            bench.append([b"x" * 30], timestamps=[timestamp_ms])
        bench.flush()
        bench.reopen()
        assert (bench.log.log_end_offset, bench.store.report.events) == (20, [])


def test_epochs_survive_without_their_file(bench):
    for number in range(6):
        bench.append(epoch=number // 2)
    bench.reopen()
    assert bench.log.epochs.entries == [(0, 0), (1, 2), (2, 4)]
    bench.reopen(clean=True)
    assert bench.content("leader-epoch-checkpoint") == b"0\n3\n0 0\n1 2\n2 4\n"
    bench.disk.write_file("/data/t-0/leader-epoch-checkpoint", b"garbage")
    bench.reopen(clean=False, checkpoint=False)
    assert bench.log.epochs.entries == [(0, 0), (1, 2), (2, 4)]


@pytest.mark.parametrize("lost", ["file", "content"])
def test_epochs_that_are_missing_after_a_clean_stop_are_rebuilt(make_bench, lost):
    bench = make_bench(segment_bytes=200)
    for number in range(6):
        bench.append(epoch=number // 2)
    bench.store.close_plan(3).run(bench.disk)
    bench.disk.remove("/data/t-0/leader-epoch-checkpoint")
    if lost == "content":
        bench.disk.write_file("/data/t-0/leader-epoch-checkpoint", b"")
    bench.reopen(checkpoint=False)
    assert bench.log.epochs.entries == [(0, 0), (1, 2), (2, 4)]
    assert [event.event for event in bench.store.report.events] == ["log-repaired"]
    bench.reopen(clean=True)
    assert (bench.log.epochs.entries, bench.store.report.events) == ([(0, 0), (1, 2), (2, 4)], [])


@pytest.mark.parametrize("cut_at", [0, 3, 4, 5, 6])
@pytest.mark.parametrize("segment_bytes", [1 << 20, 160])
def test_epochs_before_those_of_the_cache_are_found_when_the_log_start_is_an_older_one(
    make_bench, cut_at, segment_bytes
):
    """The log start's file is written later than the epochs': after a kill records are there again."""
    bench = make_bench(segment_bytes=segment_bytes)
    for number in range(8):
        bench.append(epoch=number // 2 * 3)
    bench.store.close_plan(1).run(bench.disk)
    kept = [(epoch, start) for epoch, start in ((0, 0), (3, 2), (6, 4), (9, 6)) if start > cut_at]
    first = max(epoch for epoch, start in ((0, 0), (3, 2), (6, 4), (9, 6)) if start <= cut_at)
    lines = [(first, cut_at), *kept]
    text = "".join(f"{epoch} {start}\n" for epoch, start in lines)
    bench.disk.write_file("/data/t-0/leader-epoch-checkpoint", f"0\n{len(lines)}\n{text}".encode())
    bench.reopen(checkpoint=False)
    assert bench.log.log_start_offset == 0
    assert bench.log.epochs.entries == [(0, 0), (3, 2), (6, 4), (9, 6)]
    assert bench.log.epochs.end_offset_for(4, 8) == (3, 4)


def test_producers_are_restored_from_the_newest_good_snapshot(make_bench):
    bench = make_bench(segment_bytes=800)
    fill(bench)
    bench.flush()
    snapshots = [name for name in bench.files() if name.endswith(".snapshot")]
    assert len(snapshots) == len(bench.log.segments) - 1
    write_checkpoint(bench.store)
    bench.disk.write_file(f"/data/t-0/{snapshots[-1]}", b"incomplete")
    bench.reopen(checkpoint=False)
    assert [(p.producer_id, p.last_sequence) for p in bench.log.producers.describe()] == [(5, 39)]


def test_only_snapshots_at_segment_base_offsets_are_retained(bench):
    for _ in range(3):
        bench.append(producer_id=5, producer_epoch=0, sequence=bench.log.log_end_offset)
        bench.reopen(clean=True)
    assert [name for name in bench.files() if name.endswith(".snapshot")] == ["00000000000000000003.snapshot"]


def test_leftovers_of_kafka_are_finished_or_removed(make_bench):
    bench = make_bench(segment_bytes=800)
    fill(bench)
    whole = bench.read_all()
    bases = [segment.base_offset for segment in bench.log.segments]
    bench.store.close_plan(1).run(bench.disk)
    folder = "/data/t-0/"
    merged = bench.content(f"{bases[0]:020d}.log") + bench.content(f"{bases[1]:020d}.log")
    for name in ("00000000000000000077.log.deleted", "00000000000000000000.log.cleaned", "x.tmp"):
        bench.disk.write_file(folder + name, b"rest")
    bench.disk.write_file(f"{folder}{bases[0]:020d}.log.swap", merged)
    bench.reopen(checkpoint=False)
    assert [segment.base_offset for segment in bench.log.segments] == [bases[0], *bases[2:]]
    assert bench.read_all() == whole
    assert not [name for name in bench.files() if name.endswith((".swap", ".deleted", ".cleaned", ".tmp"))]


def test_an_fsync_that_fails_fails_the_directory_and_moves_nothing(bench):
    fill(bench)
    plan = bench.log.flush_plan()
    bench.disk.fail_next("sync", errno.EIO)
    with pytest.raises(LogDirectoryFailure) as caught:
        plan.run(bench.disk)
    assert caught.value.error.errno == errno.EIO
    assert bench.log.recovery_point == 0


def test_a_flush_does_not_count_for_what_a_truncation_replaced(bench):
    fill(bench)
    plan = bench.log.flush_plan()
    missing = plan.run(bench.disk)
    bench.truncate(10)
    bench.append()
    bench.log.flushed(plan, missing)
    assert bench.log.recovery_point <= 10


def test_truncating_flushed_data_lowers_the_recovery_point_on_disk_first(bench):
    fill(bench)
    bench.flush()
    write_checkpoint(bench.store)
    bench.truncate(10)
    for _ in range(40):
        bench.append([b"other" * 30])
    bench.disk.crash(bench.random_source)
    store = bench.open()
    assert bench.partition in store.logs, "an incomplete tail here is no damage"
    assert not [event for event in store.report.events if event.level == "error"]
    assert store.logs[bench.partition].log_end_offset >= 10
    bench.store, bench.log = store, store.logs[bench.partition]
    for _ in range(2):
        write_checkpoint(store)
    checkpoint_plan(store)
    assert "recovery-point-offset-checkpoint.lowered" not in bench.disk.names("/data")


def test_truncation_cuts_whole_batches_and_everything_follows(make_bench):
    bench = make_bench(segment_bytes=800, index_interval_bytes=100)
    for number in range(30):
        bench.append(
            [b"x" * 30] * 2,
            timestamps=[number] * 2,
            epoch=number // 10,
            producer_id=5,
            producer_epoch=0,
            sequence=number * 2,
        )
    for offset, end in ((61, 60), (45, 44), (44, 44), (21, 20), (20, 20)):
        assert bench.truncate(offset) == end
        assert bench.log.log_end_offset == end
        assert [p.last_sequence for p in bench.log.producers.describe()] == [end - 1]
        assert bench.log.active.max_timestamp == (end // 2 - 1 if bench.log.active.size else -1)
        assert bench.log.epochs.latest == (end - 1) // 20
        bench.read_all()
    bench.append(epoch=9)
    assert bench.log.log_end_offset == 21
    bench.reopen()
    assert bench.log.log_end_offset == 21
    bench.truncate(0)
    assert (bench.log.log_end_offset, bench.log.size_bytes, len(bench.log.producers)) == (0, 0, 0)


def test_full_resync_restarts_the_log_at_an_offset(make_bench):
    bench = make_bench(segment_bytes=800)
    fill(bench)
    bench.truncate_fully(1000)
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.log.size_bytes) == (1000, 1000, 0)
    assert [name for name in bench.files() if name.endswith(".log")] == ["00000000000000001000.log"]
    assert bench.append() == 1000
    bench.reopen()
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (1000, 1001)


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_log_that_begins_earlier_after_a_full_resync_keeps_its_records_before_the_next_checkpoint(
    make_bench, crash, policy
):
    bench = make_bench(cleanup_policy=policy)
    fill(bench, 10)
    bench.log.roll(0)
    fill(bench, 10)
    bench.flush()
    bench.log.advance_log_start(15)
    write_checkpoint(bench.store)
    bench.truncate_fully(2)
    for _ in range(3):
        bench.append()
    bench.flush()
    for _ in range(2):
        bench.reopen(crash=crash, checkpoint=False)
        assert (bench.log.log_start_offset, bench.log.log_end_offset) == (2, 5)
    bench.reopen(crash=crash)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (2, 5)
    assert "fresh.yak" not in bench.files()


def test_log_that_begins_earlier_after_a_full_resync_may_still_have_gaps(bench, build):
    fill(bench, 10)
    bench.log.advance_log_start(5)
    bench.log.cleaned_offset = 7
    bench.flush()
    write_checkpoint(bench.store)
    bench.truncate_fully(2)
    bench.log.append_as_follower(build([b"x"], base_offset=2) + build([b"x"], base_offset=6), 0)
    bench.reopen(checkpoint=False)
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.log.cleaned_offset) == (2, 7, 0)


@pytest.mark.parametrize("content", [None, b"version: 0\ntopic_id: rubbish"])
def test_records_of_an_unknown_topic_are_neither_served_nor_replaced(bench, content):
    fill(bench, 3)
    bench.disk.remove("/data/t-0/partition.metadata")
    if content is not None:
        bench.disk.write_file("/data/t-0/partition.metadata", content)
    bench.disk.kill()
    store = bench.open()
    assert TopicPartition("t", 0) not in store.logs
    assert "the topic of these records" in store.unavailable[TopicPartition("t", 0)].reason
    with pytest.raises(LogDirectoryFailure):
        store.create(TopicPartition("t", 0), bench.topic_id, bench.config)
    assert bench.disk.open(FIRST).size() > 0


def test_a_folder_without_partition_metadata_and_records_is_taken_for_a_half_made_one(bench):
    bench.disk.remove("/data/t-0/partition.metadata")
    bench.disk.kill()
    store = bench.open()
    assert store.create(TopicPartition("t", 0), bench.topic_id, bench.config).log_end_offset == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_log_stays_untouched_over_any_number_of_restarts(bench, clean):
    fill(bench)
    bench.flush()
    write_checkpoint(bench.store)
    bench.disk.corrupt(FIRST, 8, 255)
    before = bench.content("00000000000000000000.log")
    for _ in range(3):
        bench.disk.kill()
        store = bench.open()
        assert bench.partition not in store.logs
        assert bench.content("00000000000000000000.log") == before
        if clean:
            store.close_plan(3).run(store.disk)
        else:
            write_checkpoint(store)


def test_emptied_file_of_flushed_records_is_reported(bench):
    fill(bench)
    bench.flush()
    bench.store.close_plan(3).run(bench.disk)
    bench.disk.kill()
    bench.disk.open(FIRST).truncate(0)
    bench.store = bench.open()
    assert "ends at offset 0" in str(bench.store.report.events[-1].fields["reason"])


def search(log):
    log.producers.earlier_read(log.producers.search_plan(log.segments, log.producers.unread_before).run(log.disk))


@pytest.mark.parametrize("clean", [False, True])
def test_all_batches_that_may_be_sent_again_are_known_after_a_stop_though_the_snapshot_holds_one(make_bench, clean):
    bench = make_bench(segment_bytes=250)
    batches = []
    for number in range(9):
        batches.append(bench.build([b"x" * 20], producer_id=5, producer_epoch=1, sequence=number))
        bench.log.append(read_header(batches[-1]), batches[-1], 0, 0)
    assert len(bench.log.segments) > 3
    bench.flush()
    log = bench.reopen(clean=clean)
    if clean:
        with pytest.raises(EarlierUnread):
            log.producers.check(read_header(batches[4]))
        search(log)
    for number in range(4, 9):
        found = log.producers.check(read_header(batches[number]))
        assert found is not None, number
        assert found.base_offset == number
    with pytest.raises(PeerError):
        log.producers.check(read_header(batches[3]))
    following = bench.build([b"x"], producer_id=5, producer_epoch=1, sequence=9)
    assert log.producers.check(read_header(following)) is None


def test_producer_search_skips_segments_that_retention_removed_since_a_clean_start(make_bench):
    bench = make_bench(segment_bytes=250)
    batches = [bench.build([b"x" * 20], producer_id=5, producer_epoch=1, sequence=number) for number in range(9)]
    for batch in batches:
        bench.log.append(read_header(batch), batch, 0, 0)
    log = bench.reopen(clean=True)
    plan = log.producers.search_plan(log.segments, log.producers.unread_before)
    log.remove_segments(list(log.segments)).run(log.disk)
    log.producers.earlier_read(plan.run(bench.disk))
    with pytest.raises(PeerError):
        log.producers.check(read_header(batches[6]))
    assert log.producers.check(read_header(batches[8])) is not None


def recreate(bench, count):
    """The topic is deleted and made again, and gets some records, before the next checkpoint."""
    bench.store.delete(bench.log).run(bench.disk)
    bench.topic_id = type(bench.topic_id)(int=bench.topic_id.int + 1)
    bench.log = bench.store.create(bench.partition, bench.topic_id, bench.config)
    fill(bench, count)


def test_the_points_of_a_deleted_topic_are_not_those_of_the_next_of_its_name(bench):
    fill(bench)
    bench.flush()
    bench.log.advance_log_start(30)
    write_checkpoint(bench.store)
    recreate(bench, 5)
    bench.flush()
    log = bench.reopen(checkpoint=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    log = bench.reopen(checkpoint=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    log = bench.reopen(checkpoint=True)
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert "fresh.yak" not in bench.files()


def test_incomplete_tail_of_a_recreated_topic_is_truncated(bench):
    fill(bench)
    bench.flush()
    write_checkpoint(bench.store)
    recreate(bench, 2)
    bench.disk.open(FIRST).truncate(bench.log.size_bytes - 5)
    log = bench.reopen(checkpoint=False)
    assert log.log_end_offset == 1


def test_a_checkpoint_begun_before_a_topic_was_made_again_does_not_count_for_it(bench):
    fill(bench)
    bench.flush()
    late = checkpoint_plan(bench.store)
    recreate(bench, 2)
    bench.store.checkpointed(late, late.run(bench.disk))
    bench.disk.open(FIRST).truncate(bench.log.size_bytes - 5)
    log = bench.reopen(checkpoint=False)
    assert log.log_end_offset == 1
    bench.store.close_plan(3).run(bench.disk)
    assert "fresh.yak" not in bench.files()


def test_a_checkpoint_that_has_a_topic_which_is_then_made_again_does_not_count_for_the_new_one(bench):
    fill(bench)
    bench.flush()
    bench.store.begin_checkpoint()
    bench.store.add_to_checkpoint(bench.partition, 0)
    recreate(bench, 2)
    assert "fresh.yak" in bench.files()
    late = bench.store.checkpoint_plan()
    bench.store.checkpointed(late, late.run(bench.disk))
    bench.disk.open(FIRST).truncate(bench.log.size_bytes - 5)
    log = bench.reopen(checkpoint=False)
    assert log.log_end_offset == 1


def test_a_topic_that_is_deleted_before_its_turn_is_not_in_the_checkpoint(bench):
    fill(bench)
    bench.store.begin_checkpoint()
    bench.store.delete(bench.log).run(bench.disk)
    bench.store.add_to_checkpoint(bench.partition, 0)
    (plan,) = bench.store.checkpoint_plan().directories
    assert not any(plan.offsets.values())


def test_checkpoint_begun_before_a_topic_was_made_again_leaves_the_mark_of_the_new_log(bench):
    fill(bench)
    bench.flush()
    write_checkpoint(bench.store)
    recreate(bench, 2)
    late = checkpoint_plan(bench.store)
    recreate(bench, 2)
    assert "fresh.yak" in bench.files()
    bench.store.checkpointed(late, late.run(bench.disk))
    assert "fresh.yak" in bench.files()
    write_checkpoint(bench.store)
    assert "fresh.yak" not in bench.files()


def test_index_entries_from_before_their_segment_was_emptied_are_not_used_later(make_bench):
    bench = make_bench(index_interval_bytes=50)
    fill(bench, 5)
    bench.reopen(clean=True)
    bench.truncate(0)
    bench.reopen(checkpoint=False)
    bench.append([b"x" * 100] * 3)
    bench.reopen(clean=True)
    assert bench.content("00000000000000000000.index") == b""
    assert read_header(bytes(bench.log.read(2, 1, 3, at_least_one=True))).base_offset == 0


def test_a_segment_that_a_crash_took_the_end_of_is_no_gap_that_compaction_left(make_bench):
    bench = make_bench(cleanup_policy="compact")
    bench.append()
    bench.append()
    bench.log.roll(0)
    bench.append()
    size = bench.log.segments[0].size
    bench.disk.open(FIRST).truncate(size // 2)
    bench.reopen(checkpoint=False)
    assert bench.log.log_end_offset == 1
    assert [segment.base_offset for segment in bench.log.segments] == [0]
    assert bench.append() == 1


def test_a_gap_between_segments_that_kafka_compacted_is_no_loss(make_bench):
    bench = make_bench(cleanup_policy="compact")
    bench.append()
    bench.append()
    bench.log.roll(0)
    bench.append()
    bench.flush()
    write_checkpoint(bench.store)
    bench.disk.open(FIRST).truncate(bench.log.segments[0].size // 2)
    bench.disk.write_file("/data/recovery-point-offset-checkpoint", b"0\n1\nt 0 2\n")
    bench.reopen(checkpoint=False)
    assert bench.log.log_end_offset == 3
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2]


@pytest.mark.parametrize("power_loss", range(8))
def test_recovery_point_of_a_checkpoint_that_fails_half_way_covers_no_unflushed_removed_segment(bench, power_loss):
    """Retention removed a segment that was never flushed: the recovery point follows the log start, and not before it."""
    fill(bench, 5)
    write_checkpoint(bench.store)
    bench.log.roll(0)
    bench.log.remove_segments(bench.log.segments[:1], 0)
    plan = checkpoint_plan(bench.store)
    bench.disk.fail_next("write_file", path_contains="/log-start-offset-checkpoint")
    assert plan.run(bench.disk)[0].failure is not None
    bench.random_source = SeededRandom(power_loss)
    bench.reopen(crash=True, checkpoint=False)
    assert not [event for event in bench.store.report.events if event.level == "error"]


LOSABLE = [("t-0/leader-epoch-checkpoint", True), ("t-0/leader-epoch-checkpoint", False), (RECOVERY_POINTS, True)]


@pytest.mark.parametrize(("name", "clean"), LOSABLE)
def test_damaged_small_file_makes_the_start_truncate_no_flushed_batch_behind_a_corrupt_one(bench, name, clean):
    fill(bench, 5)
    bench.log.roll(0)
    fill(bench, 5)
    stop_with_damaged(bench, name, clean=clean)
    bench.disk.corrupt(FIRST, 170, 99)
    bench.disk.corrupt(f"/data/t-0/{5:020d}.log", 170, 99)
    bench.reopen(checkpoint=False)
    assert (bench.log.log_end_offset, bench.log.recovery_point, bench.store.report.truncated_bytes) == (10, 10, 0)
    assert bench.append() == 10


@pytest.mark.parametrize(("name", "clean"), LOSABLE)
def test_damaged_small_file_makes_the_start_truncate_no_flushed_segment_behind_a_gap(make_bench, name, clean):
    bench = make_bench(cleanup_policy="compact")
    fill(bench, 5)
    bench.log.roll(0)
    bench.log.log_end_offset = 10  # as after compaction by Kafka
    bench.log.roll(0)
    fill(bench, 2)
    stop_with_damaged(bench, name, clean=clean)
    bench.reopen(checkpoint=False)
    assert (bench.log.log_end_offset, bench.store.report.truncated_bytes) == (12, 0)
    assert bench.append() == 12


@pytest.mark.parametrize("points", [b"0\n0\n", b"0\n1\nt 0 5\n", b"rubbish", None])
def test_gap_that_kafkas_cleaner_left_above_the_last_recovery_point_is_no_loss(make_bench, points):
    bench = make_bench(cleanup_policy="compact")
    fill(bench, 5)
    bench.log.roll(0)
    bench.log.log_end_offset = 10  # as after compaction by Kafka, which writes recovery points once a minute
    bench.log.roll(0)
    fill(bench, 2)
    bench.log.roll(0)
    bench.flush()
    bench.log.cleaned_offset = 12
    write_checkpoint(bench.store)
    if points is None:
        bench.disk.remove(f"/data/{RECOVERY_POINTS}")
    else:
        bench.disk.write_file(f"/data/{RECOVERY_POINTS}", points)
    bench.reopen(checkpoint=False)
    assert (bench.log.log_end_offset, bench.store.report.truncated_bytes) == (12, 0)
    assert bench.append() == 12


@pytest.mark.parametrize("offset", [0, 5, 30, 39, 41, 60])
@pytest.mark.parametrize("is_rolled", [True, False])
def test_recovery_point_of_a_clean_stop_that_is_not_the_log_end_is_ignored(make_bench, offset, is_rolled):
    bench = make_bench(segment_bytes=1500)
    fill(bench)
    if is_rolled:
        bench.log.roll(0)
    else:
        assert bench.log.active.base_offset < 39
    before = bench.read_all()
    bench.store.close_plan(3).run(bench.disk)
    bench.disk.write_file(f"/data/{RECOVERY_POINTS}", b"0\n1\nt 0 %d\n" % offset)
    bench.reopen(checkpoint=False)
    assert [event.event for event in bench.store.report.events] == ["log-repaired"]
    assert (bench.log.log_end_offset, bench.log.recovery_point) == (40, 40)
    assert bench.read_all() == before
    assert bench.append() == 40
    assert bench.log.producers.remembered_offsets() >= {39}


def test_log_start_above_the_log_end_of_a_clean_stop_deletes_no_record(make_bench):
    bench = make_bench(segment_bytes=1500)
    fill(bench)
    bench.log.advance_log_start(10)
    bench.store.close_plan(3).run(bench.disk)
    bench.disk.write_file("/data/log-start-offset-checkpoint", b"0\n1\nt 0 90\n")
    bench.reopen(checkpoint=False)
    assert [event.event for event in bench.store.report.events] == ["log-repaired"]
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (0, 40)
    assert len(bench.read_all()) == bench.log.size_bytes


def test_damaged_log_stays_untouched_though_the_recovery_points_were_lost_at_its_first_start(bench):
    fill(bench, 5)
    stop_with_damaged(bench, RECOVERY_POINTS, clean=True)
    bench.disk.corrupt(FIRST, 88 + 16, 9)
    bench.disk.kill()
    before = bench.disk.read_file(FIRST)
    for _ in range(3):
        bench.store = bench.open()
        assert list(bench.store.unavailable) == [bench.partition]
        bench.store.close_plan(3).run(bench.disk)
        bench.disk.kill()
    assert bench.disk.read_file(FIRST) == before


def test_empty_active_segment_is_no_loss_after_a_clean_stop_without_recovery_points(bench):
    fill(bench, 5)
    bench.log.roll(0)
    stop_with_damaged(bench, RECOVERY_POINTS, clean=True)
    bench.reopen(checkpoint=False)
    assert [event.event for event in bench.store.report.events] == ["checkpoint-damaged"]
    assert (bench.log.log_end_offset, bench.log.recovery_point) == (5, 5)


def stop_with_damaged(bench, name, *, clean):
    bench.flush()
    if clean:
        bench.store.close_plan(3).run(bench.disk)
    else:
        write_checkpoint(bench.store)
    bench.disk.write_file(f"/data/{name}", b"rubbish")


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize(
    ("position", "why"),
    [(150, "the CRC-32C does not match"), (16, "the batch has message format 3, and this YAK reads 2"), (-1, "")],
)
def test_after_a_kill_only_a_last_write_that_is_too_short_is_cut_where_others_have_the_rest(
    bench, position, why, others
):
    bench.disk.kill()
    bench.store = bench.open(kernel_boot_id="b", is_replicated=lambda _place: others)
    bench.log = bench.store.logs[bench.partition]
    fill(bench, 3)
    if why:
        bench.disk.corrupt(FIRST, position, bench.disk.peek(FIRST, position)[0] ^ 1)
    else:
        bench.disk.open(FIRST).truncate(bench.log.size_bytes - 1)
    bench.disk.kill()
    bench.store = bench.open(kernel_boot_id="b", is_replicated=lambda _place: others)
    if why and others:
        assert bench.store.unavailable[bench.partition].reason.endswith(why)
    else:
        assert bench.store.logs[bench.partition].log_end_offset == {150: 1, 16: 0, -1: 2}[position]


def lost_after_a_clean_stop(bench, lose):
    """The events that say `log-damaged` at the start behind a clean stop, after which `lose` took something away."""
    bench.store.close_plan(3).run(bench.disk)
    bench.disk.kill()
    lose()
    bench.disk.sync_file_system("/data")
    bench.store = bench.open()
    return [str(each.fields["reason"]) for each in bench.store.report.events if each.event == "log-damaged"]


def test_active_segment_that_is_cut_after_a_clean_stop_is_reported_and_the_log_ends_there(make_bench):
    """It was served with a hole: the next record got the old end as its offset, behind missing ones."""
    bench = make_bench(segment_bytes=800)
    fill(bench)
    path = bench.log.active.path(".log")
    base = bench.log.active.base_offset
    (reason,) = lost_after_a_clean_stop(bench, lambda: bench.disk.open(path).truncate(bench.log.active.size - 10))
    assert reason.endswith("ends at offset 39, below its recovery point 40: flushed records are missing")
    bench.log = bench.store.logs[bench.partition]
    assert base < bench.log.log_end_offset == 39
    assert bench.append() == 39
    assert len(bench.read_all()) == bench.log.size_bytes


def test_first_segment_that_is_removed_after_a_clean_stop_is_reported(make_bench):
    """As the leader it would have the followers remove these records too."""
    bench = make_bench(segment_bytes=800)
    fill(bench)
    second = bench.log.segments[1].base_offset
    (reason,) = lost_after_a_clean_stop(bench, lambda: bench.disk.remove(FIRST))
    assert reason.endswith(f"begins at offset {second}, above its log start offset 0: flushed records are missing")
    damaged = bench.store.logs[bench.partition].damage_at_load
    assert damaged.offset == second


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("is_clean", [False, True])
def test_hole_between_closed_segments_is_damage_and_with_other_replicas_the_log_is_withheld(
    make_bench, is_clean, is_cut
):
    """Consumers that reached it got nothing, without an error, from a log that was in the ISR."""
    bench = make_bench(segment_bytes=800)
    fill(bench, 60)
    bench.flush()
    write_checkpoint(bench.store)
    first, second = bench.log.segments[1].base_offset, bench.log.segments[2].base_offset
    path, size = bench.log.segments[1].path(""), bench.log.segments[1].size
    if is_clean:
        bench.store.close_plan(3).run(bench.disk)
    bench.disk.kill()
    if is_cut:
        bench.disk.open(f"{path}.log").truncate(size // 2)
    else:
        for suffix in (".log", ".index", ".timeindex"):
            bench.disk.remove(f"{path}{suffix}")
    store = bench.open(is_replicated=lambda _topic_partition: True)
    reason = store.unavailable[bench.partition].reason
    assert f"to {second - 1} are missing: a file was cut or removed" in reason
    bench.disk.kill()
    log = bench.open().logs[bench.partition]
    assert (log.log_start_offset, log.log_end_offset) == (0, 60)
    assert first <= log.damage_at_load.offset < second


def test_short_log_with_other_replicas_keeps_its_recovery_point_until_it_left_the_isr(bench):
    fill(bench)
    bench.flush()
    write_checkpoint(bench.store)
    bench.disk.open(FIRST).truncate(bench.log.size_bytes // 40 * 30)
    for _ in range(2):
        bench.disk.kill()
        bench.store = bench.open(is_replicated=lambda _topic_partition: True)
        assert bench.store.is_lost(bench.partition)
        assert "ends at offset 30" in bench.store.unavailable[bench.partition].reason
        bench.store.close_plan(3).run(bench.disk)
    assert bench.store.take_short(bench.partition, uuid.UUID(int=9)) is None
    log = bench.store.take_short(bench.partition, bench.topic_id)
    assert (log.log_end_offset, bench.store.logs) == (30, {bench.partition: log})
