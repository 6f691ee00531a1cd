"""Lag in records and in time, of one partition and of a group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.ids import TopicPartition
from yak.view.groups import Group, Member, PartitionLag, partition_lags
from yak.view.lag import lag_records, total_lag

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
OFFSETS = st.none() | st.integers(0, 2**63 - 1)


@given(OFFSETS, OFFSETS)
def test_lag_in_records_is_unknown_or_at_least_0(position, end):
    lag = lag_records(position, end)
    assert (lag is None) is (position is None or end is None)
    assert lag is None or lag == (end - position if end > position else 0)


@given(st.lists(OFFSETS))
def test_total_lag_is_the_sum_of_the_known_ones(lags):
    known = [each for each in lags if each is not None]
    assert total_lag(lags) == (sum(known) if known else None)


@pytest.mark.parametrize(
    ("committed", "marks", "lag", "trouble"),
    [
        (20, (0, 50), 30, None),
        (50, (0, 50), 0, None),
        (None, (0, 50), None, None),
        (20, (), None, "the topic is gone, or the partition has no leader"),
        (20, (25, 50), 30, "5 of them are deleted: the log starts at 25"),
        (20, (None, 50), 30, None),
        (60, (0, 50), 0, "the log ends at 50: it was truncated, or the topic was recreated"),
    ],
)
def test_partition_lag_names_a_committed_offset_outside_the_log(committed, marks, lag, trouble):
    found = PartitionLag(ORDERS, committed, *marks)
    assert (found.lag, found.trouble) == (lag, trouble)


def test_lag_in_time_is_the_age_of_the_first_unread_record():
    late = PartitionLag(ORDERS, 20, 0, 50, oldest_unread_ms=1_000)
    assert late.lag_ms(4_500) == 3_500
    assert late.lag_ms(500) == 0, "a clock behind the producer's makes no negative age"
    assert PartitionLag(ORDERS, 20, 0, 50).lag_ms(9) is None
    assert PartitionLag(ORDERS, 50, 0, 50).lag_ms(9) == 0


def test_group_has_the_partitions_with_commits_and_those_of_its_members():
    member = Member("m", "app", "/h", assigned=(OTHER,))
    group = Group("g", "classic", "Stable", "consumer", 1, (member, Member("n", "app", "/h")))
    lags = partition_lags(group, {ORDERS: 1}, {ORDERS: (0, 9), OTHER: (0, 4)}, {ORDERS: "text"})
    assert lags == (PartitionLag(ORDERS, 1, 0, 9, None, "text"), PartitionLag(OTHER, None, 0, 4, member))


def test_group_lag_is_the_sum_in_records_and_the_largest_in_time():
    lags = (
        PartitionLag(ORDERS, 1, 0, 9, oldest_unread_ms=5_000),
        PartitionLag(OTHER, 9, 0, 9),
        PartitionLag(TopicPartition("gone", 0), 3),
    )
    group = Group("g", "classic", "Empty", "", 1, partitions=lags)
    assert (group.lag, group.lag_ms(6_000)) == (8, 1_000)
    assert (Group("g", "classic", "Empty", "", 1).lag, Group("g", "classic", "Empty", "", 1).lag_ms(0)) == (None, None)
