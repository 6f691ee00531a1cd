"""Leader epochs of a log (LeaderEpochFileCache.java)."""

import pytest

from yak.storage.epoch_cache import EpochCache


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
