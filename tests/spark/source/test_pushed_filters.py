"""Filters pushed into the source: what is read less, and what Spark must still check itself."""

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from yak.ids import TopicPartition
from yak.spark.source.batch import BatchReader
from yak.spark.source.filters import Pruning
from yak.spark.source.options import read_options
from yak.spark.source.schema import kafka_schema
from yak.spark.source.values import Decoding

COLUMNS = {name: name for name in ("topic", "partition", "offset", "timestamp", "value")}


def prune(*filters: Any) -> tuple[Pruning, list[Any]]:
    return Pruning.of(filters, COLUMNS)


def test_offsets_and_partitions_are_taken_over_whole() -> None:
    found, left = prune(
        EqualTo(("partition",), 3),
        IsNotNull(("partition",)),
        GreaterThanOrEqual(("offset",), 10),
        LessThan(("offset",), 20),
    )
    assert left == []
    assert [found.keeps(TopicPartition("t", number)) for number in (2, 3)] == [False, True]
    assert found.narrow(0, 100) == (10, 20)
    assert found.narrow(15, 17) == (15, 17)


def test_the_narrowest_of_several_bounds_counts() -> None:
    found, _ = prune(GreaterThan(("offset",), 4), GreaterThan(("offset",), 9), LessThanOrEqual(("offset",), 12))
    assert found.narrow(0, 100) == (10, 13)
    found, _ = prune(In(("partition",), (1, 2, 3)), In(("partition",), (2, 3, 4)), LessThan(("partition",), 3))
    assert [number for number in range(6) if found.keeps(TopicPartition("t", number))] == [2]


def test_a_time_from_below_narrows_and_is_checked_again() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    predicate = GreaterThanOrEqual(("timestamp",), when)
    found, left = prune(predicate)
    assert found.from_ms == int(when.timestamp()) * 1000 + 678
    assert left == [predicate]


@pytest.mark.parametrize(
    "predicate",
    [
        LessThan(("timestamp",), datetime(2026, 1, 1, tzinfo=UTC)),  # a later record may have an earlier time
        GreaterThan(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC)),  # a record without a time is of 1969
        Not(EqualTo(("partition",), 1)),
        EqualTo(("value",), b"x"),
        EqualTo(("other",), 1),
        EqualTo(("offset", "inner"), 1),
    ],
)
def test_filters_that_cannot_be_pushed_are_left_to_spark(predicate: Any) -> None:
    assert prune(predicate) == (Pruning(), [predicate])


def test_reader_works_with_push_down_off_and_takes_filters_twice_with_it_on() -> None:
    options = read_options({"bootstrap": "a:1", "subscribe": "t"})
    reader = BatchReader(options, kafka_schema(False), Decoding())
    # What Spark checks before it refuses a reader whose filters would not be pushed (plan_data_source_read.py).
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    for low in (5, 7):
        assert list(reader.pushFilters([GreaterThanOrEqual(("offset",), low)])) == []
        assert reader.pruning.low == low
    assert pickle.loads(pickle.dumps(reader)).pruning.low == 7
