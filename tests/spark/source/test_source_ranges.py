"""Ranges cut into tasks, and a trigger's limit shared: nothing lost, nothing twice, as Spark does it."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from yak.ids import TopicPartition
from yak.spark.columnar.schema import OffsetRange
from yak.spark.source import stream_offsets
from yak.spark.source.errors import SourceError
from yak.spark.source.ranges import share_limit, split

OFFSETS = st.integers(0, (1 << 63) - 1)
RANGES = st.lists(st.tuples(OFFSETS, st.one_of(st.integers(0, 50), OFFSETS)), max_size=6).map(
    lambda pairs: [OffsetRange("t", number, low, max(low, high)) for number, (low, high) in enumerate(pairs)]
)
PARTITIONS = st.dictionaries(st.integers(0, 5).map(lambda number: TopicPartition("t", number)), OFFSETS, max_size=5)


@given(RANGES, st.one_of(st.none(), st.integers(1, 40)))
def test_parts_cover_each_range_once_and_in_order(ranges: list[OffsetRange], minimum: int | None) -> None:
    parts = split(ranges, minimum)
    for each in ranges:
        own = [part for part in parts if part.partition == each.partition]
        assert sum(part.end - part.start for part in own) == each.end - each.start
        edges = [edge for part in own for edge in (part.start, part.end)]
        assert edges == sorted(edges)
        assert all(one.end == other.start for one, other in itertools.pairwise(own))
        assert not own or (own[0].start, own[-1].end) == (each.start, each.end)
    assert all(part.end > part.start for part in parts)


def test_a_large_partition_gets_most_of_the_tasks() -> None:
    parts = split([OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 100, 1090)], 5)
    assert [part.partition for part in parts] == [0, 1, 1, 1, 1]
    assert parts[1:] == [
        OffsetRange("t", 1, 100, 347),
        OffsetRange("t", 1, 347, 594),
        OffsetRange("t", 1, 594, 842),
        OffsetRange("t", 1, 842, 1090),
    ]


def test_no_task_has_more_records_than_allowed() -> None:
    parts = split([OffsetRange("t", 0, 0, 25)], None, 10)
    assert [part.end - part.start for part in parts] == [8, 8, 9]


@given(PARTITIONS, st.integers(1, 1 << 62), st.data())
def test_limit_holds_and_starves_no_partition(start: dict[TopicPartition, int], most: int, data: st.DataObject) -> None:
    end = {each: data.draw(st.integers(low, (1 << 63) - 1)) for each, low in start.items()}
    found = share_limit(most, start, end)
    assert found.keys() == end.keys()
    assert all(start[each] <= found[each] <= end[each] for each in end)
    assert all(found[each] > start[each] for each in end if end[each] > start[each])
    assert sum(found[each] - start[each] for each in end) <= most + len(end)
    if sum(end[each] - start[each] for each in end) <= most:
        assert found == end


@given(PARTITIONS)
def test_offsets_are_the_same_after_a_checkpoint(offsets: dict[TopicPartition, int]) -> None:
    stored = stream_offsets.to_json(offsets)
    assert stream_offsets.from_json(json.loads(json.dumps(stored))) == offsets
    turned = dict(reversed(list(offsets.items())))
    assert json.dumps(stream_offsets.to_json(turned)) == json.dumps(stored)


def test_the_first_batch_is_run_again_from_where_it_began() -> None:
    zero = TopicPartition("orders", 0)
    first = stream_offsets.end_after(stream_offsets.initial({zero: 10}), {zero: 15})
    # After a crash Spark asks for the beginning anew, and the log's end has moved since.
    later = stream_offsets.initial({zero: 40})
    assert stream_offsets.start_of(later, first) == ({zero: 10}, {})
    second = stream_offsets.end_after(first, {zero: 40})
    assert stream_offsets.start_of(first, second) == ({zero: 15}, {})
    assert second == {"orders": {"0": 40}}


def test_a_batch_with_nothing_to_read_ends_where_it_starts() -> None:
    zero = TopicPartition("orders", 0)
    start = stream_offsets.initial({zero: 10})
    assert stream_offsets.end_after(start, {zero: 10}) == start
    # Spark runs such a batch when it is the first. Run again after a crash it is empty again, whatever came meanwhile.
    assert stream_offsets.start_of(stream_offsets.initial({zero: 40}), start) == ({zero: 10}, {})


def test_offsets_of_a_topic_that_was_created_again_are_a_new_end() -> None:
    zero, one = TopicPartition("orders", 0), TopicPartition("other", 0)
    ids = {"orders": "a", "other": "b"}
    start = stream_offsets.initial({zero: 10, one: 5}, ids)
    assert stream_offsets.end_after(start, {zero: 10, one: 5}, ids) == start
    first = stream_offsets.end_after(start, {zero: 10, one: 5}, ids | {"orders": "c"})
    assert stream_offsets.ids_in(first) == {"orders": "c", "other": "b"}
    assert stream_offsets.start_of(stream_offsets.initial({zero: 99}), first) == ({zero: 10, one: 5}, ids)
    assert stream_offsets.recreated(ids, stream_offsets.ids_in(first)) == ["orders"]
    of_an_earlier_version = {"orders": {"0": 10}, "other": {"0": 5}}
    assert stream_offsets.end_after(of_an_earlier_version, {zero: 10, one: 5}, ids) == of_an_earlier_version
    assert stream_offsets.recreated({}, ids) == stream_offsets.recreated(ids, {}) == []


@pytest.mark.parametrize("stored", [{"offset": 5}, {"orders": {"zero": 5}}, {"orders": {"0": "5"}}])
def test_another_sources_checkpoint_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(SourceError, match=r"\[spark-checkpoint\] the checkpoint is another query's"):
        stream_offsets.from_json(stored)
