"""The latency histogram against plain lists of numbers."""

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st

from yak.client.bench.histogram import Histogram, bucket_of, bucket_top, percentile_name

VALUES = st.integers(min_value=0, max_value=2**62)


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(VALUES)
def test_a_bucket_is_never_wider_than_a_thousandth_of_its_values(value: int) -> None:
    top = bucket_top(bucket_of(value))
    assert value <= top <= value * (1 + 1 / 1000)
    assert bucket_of(top) == bucket_of(value)
    assert bucket_of(top + 1) == bucket_of(value) + 1


@given(st.lists(VALUES, min_size=1, max_size=200), st.floats(min_value=0, max_value=100))
def test_a_percentile_is_within_a_thousandth_of_the_exact_one(values: list[int], percent: float) -> None:
    exact = sorted(values)[max(1, math.ceil(len(values) * percent / 100)) - 1]
    assert exact <= filled(values).percentile(percent) <= exact * (1 + 1 / 1000)


@given(st.lists(VALUES, min_size=1, max_size=100))
def test_minimum_maximum_and_mean_are_exact(values: list[int]) -> None:
    histogram = filled(values)
    assert (histogram.min, histogram.max, histogram.count) == (min(values), max(values), len(values))
    assert histogram.mean == sum(values) / len(values)


@given(st.lists(VALUES, max_size=50), st.lists(VALUES, max_size=50))
def test_adding_histograms_is_recording_all_their_values(first: list[int], second: list[int]) -> None:
    merged = filled(first)
    merged.add(filled(second))
    both = filled(first + second)
    assert (merged.counts, merged.count, merged.total) == (both.counts, both.count, both.total)
    assert (merged.min, merged.max) == (both.min, both.max)


def test_the_deviation_is_that_of_all_values() -> None:
    values = [1_000_000, 2_000_000, 7_000_000]
    assert math.isclose(filled(values).stddev, statistics.pstdev(values))


def test_a_value_below_zero_counts_as_zero() -> None:
    assert filled([-5]).max == 0


def test_an_empty_histogram_has_zeros() -> None:
    summary = Histogram().summary_ms()
    assert set(summary.values()) == {0.0}
    assert Histogram().buckets() == []


def test_the_summary_is_in_milliseconds_under_the_names_that_assertions_use() -> None:
    summary = filled([1_500_000] * 10).summary_ms()
    assert list(summary) == ["min", "mean", "stddev", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"]
    assert summary["p99.9"] == summary["max"] == 1.5
    assert percentile_name(99.9) == "p99.9"


def test_the_listed_buckets_count_every_value() -> None:
    buckets = filled([5, 5, 10_000_000]).buckets()
    assert [bucket["count"] for bucket in buckets] == [2, 1]
    assert buckets[0]["upto_ms"] == 5e-6
