"""What was read for one follower is given to the next, and to nobody for whom it would be wrong."""

from types import SimpleNamespace

import pytest

from yak.replication.recent_reads import BYTES_MAX, READS_MAX, RecentReads


class Log(SimpleNamespace):
    __hash__ = object.__hash__


def test_a_read_is_given_as_often_as_there_are_others_and_then_forgotten():
    log, recent = Log(generation=0, swaps=0), RecentReads()
    recent.keep(log, 5, b"batches", 2)
    assert recent.take(log, 4, 100) is None
    assert recent.take(log, 5, 100) == b"batches"
    assert recent.take(log, 5, 100) == b"batches"
    assert recent.take(log, 5, 100) is None


def test_more_than_may_be_given_is_not_given():
    log, recent = Log(generation=0, swaps=0), RecentReads()
    recent.keep(log, 5, b"batches", 1)
    assert recent.take(log, 5, 3) is None
    assert recent.take(log, 5, 7) == b"batches"


@pytest.mark.parametrize("change", ["generation", "swaps"])
def test_log_truncated_or_compacted_since_is_read_again(change):
    log, recent = Log(generation=0, swaps=0), RecentReads()
    recent.keep(log, 5, b"batches", 1)
    setattr(log, change, 1)
    assert recent.take(log, 5, 100) is None


def test_recent_reads_cache_nothing_for_no_follower_and_no_more_than_the_bound():
    log, recent = Log(generation=0, swaps=0), RecentReads()
    recent.keep(log, 0, b"x", 0)
    assert recent.take(log, 0, 100) is None
    half = bytes(BYTES_MAX // 2)
    for offset in (1, 2, 3):
        recent.keep(log, offset, half, 1)
    assert recent.take(log, 1, BYTES_MAX) is None
    assert recent.take(log, 2, BYTES_MAX) == half


def test_recent_reads_of_many_small_batches_cache_no_more_than_their_number():
    log, recent = Log(generation=0, swaps=0), RecentReads()
    for offset in range(READS_MAX + 1):
        recent.keep(log, offset, b"x", 1)
    assert recent.take(log, 0, 100) is None
    assert recent.take(log, 1, 100) == b"x"
