"""Leader epochs of a log (LeaderEpochFileCache.java)."""

import pytest

from yak.storage.epoch_cache import EpochCache
from yak.storage.names import BOOT_MARK


@pytest.fixture
def cache():
    cache = EpochCache()
    for epoch, offset in ((2, 0), (4, 10), (7, 25)):
        cache.assign(epoch, offset)
    return cache


@pytest.mark.parametrize(
    ("requested", "answer"),
    [(-1, (-1, -1)), (1, (1, 0)), (2, (2, 10)), (3, (2, 10)), (4, (4, 25)), (6, (4, 25)), (7, (7, 40)), (8, (-1, -1))],
)
def test_end_offsets_are_where_the_next_epoch_begins(cache, requested, answer):
    assert cache.end_offset_for(requested, 40) == answer


def test_empty_epoch_cache_returns_no_epoch_and_no_end_offset():
    assert EpochCache().end_offset_for(3, 40) == (-1, -1)


def test_assigning_drops_what_it_contradicts(cache):
    cache.assign(7, 30)
    assert cache.entries[-1] == (7, 25), "a known epoch keeps its start"
    cache.assign(8, 20)
    assert cache.entries == [(2, 0), (4, 10), (8, 20)]
    cache.assign(3, 30)
    assert cache.entries == [(2, 0), (3, 30)]


def test_truncation_from_both_ends(cache):
    cache.truncate_from_end(25)
    assert cache.entries == [(2, 0), (4, 10)]
    assert cache.latest == 4
    cache.dirty = False
    cache.truncate_from_start(12)
    assert cache.entries == [(4, 12)]
    assert cache.dirty
    assert cache.to_bytes() == b"0\n1\n4 12\n"


def test_the_epoch_of_an_offset(cache):
    assert [cache.epoch_for(offset) for offset in (0, 9, 10, 30)] == [2, 2, 4, 7]


# A follower whose leader of epoch 3 never had the records of epoch 2, and has epoch 1 where its log begins.


def follow(bench, offsets, epoch):
    for offset in offsets:
        bench.log.append_as_follower(bench.build([b"x" * 20], base_offset=offset, epoch=epoch), 0)


@pytest.fixture
def diverged(make_bench):
    bench = make_bench(segment_bytes=1_000)
    follow(bench, range(30), 1)
    follow(bench, range(30, 50), 2)
    bench.flush()
    bench.truncate(30)
    return bench


def reopened(bench, *, same_boot):
    """The log after a kill, with or without the knowledge that the machine stayed up."""
    boot = {"kernel_boot_id": "1", "is_replicated": lambda _where: True} if same_boot else {}
    bench.disk.write_file(f"/data/{BOOT_MARK}", b"1\n")
    bench.disk.kill()
    store = bench.open(**boot)
    assert not store.unavailable
    return store.logs[bench.partition]


@pytest.mark.parametrize("same_boot", [False, True])
def test_kill_after_a_full_resync_keeps_records_of_an_epoch_below_the_former_ones(diverged, same_boot):
    diverged.truncate_fully(60)
    follow(diverged, range(60, 90), 1)
    follow(diverged, range(90, 95), 3)
    log = reopened(diverged, same_boot=same_boot)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (60, 95, [(1, 60), (3, 90)])


@pytest.mark.parametrize("same_boot", [False, True])
def test_kill_after_retention_keeps_records_of_an_epoch_below_the_former_ones(diverged, same_boot):
    """The flush of the closed segments, which writes the epochs, had not run."""
    follow(diverged, range(30, 60), 1)
    follow(diverged, range(60, 65), 3)
    segments = [each for each in diverged.log.segments if each.base_offset < 40]
    diverged.log.remove_segments(segments)
    start = diverged.log.log_start_offset
    assert 30 < start < 60
    log = reopened(diverged, same_boot=same_boot)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (start, 65, [(1, start), (3, 60)])


def test_epoch_without_records_need_not_be_saved():
    cache = EpochCache([(1, 0)])
    cache.assign(2, 10)
    assert cache.dirty
    assert cache.is_saved(10)
    assert not cache.is_saved(11)


def test_changed_entries_are_saved_once_they_are_taken():
    cache = EpochCache()
    cache.assign(1, 0)
    assert not cache.is_saved(5)
    assert cache.take_changes() == cache.to_bytes()
    assert cache.is_saved(5)
    assert cache.take_changes() is None
    cache.truncate_from_end(0)
    assert not cache.is_saved(5)
