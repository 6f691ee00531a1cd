"""Where a log can be truncated, next to the gaps that compaction leaves."""

import pytest

from yak.storage.truncation import find_batch_end_before

GAP_BEHIND, GAP_END = 10, 25


@pytest.mark.parametrize("index_interval_bytes", [1, 150, 4096])
@pytest.mark.parametrize(
    ("offset", "end"), [(0, 0), (5, 5), (GAP_BEHIND, GAP_BEHIND), (GAP_END, GAP_BEHIND), (GAP_END + 3, GAP_END + 3)]
)
def test_batch_end_before_an_offset_is_below_a_gap_there(make_bench, build, index_interval_bytes, offset, end):
    bench = make_bench(cleanup_policy="compact", segment_bytes=100_000, index_interval_bytes=index_interval_bytes)
    for number in (*range(GAP_BEHIND), *range(GAP_END, GAP_END + 10)):
        bench.log.append_as_follower(build([b"x" * 30], base_offset=number), 0)
    log = bench.log
    assert find_batch_end_before(log.segments, offset, log.log_end_offset) == end
    log.truncate_to(end)
    assert log.log_end_offset == end
    assert len(log.segments) == 1


def test_batch_end_is_found_with_indexes_that_are_not_in_memory(make_bench, build):
    """After a start, the index of the active segment is read at the first append that needs an entry."""
    bench = make_bench(cleanup_policy="compact", index_interval_bytes=150)
    for number in range(30):
        bench.log.append_as_follower(build([b"x" * 30], base_offset=number), 0)
    log = bench.log
    log.active.save_indexes()
    log.active.offset_index.unload()
    assert log.active.offset_index.entries is None
    assert find_batch_end_before(log.segments, 20, log.log_end_offset) == 20
