"""Lag of one partition."""

import pytest

from yak.client.groups.describing import Member
from yak.client.groups.lag import Marks, PartitionLag, lags_of
from yak.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("committed", "marks", "lag", "trouble"),
    [
        (20, Marks(0, 50), 30, None),
        (50, Marks(0, 50), 0, None),
        (None, Marks(0, 50), None, None),
        (20, None, None, "the topic is gone, or the partition has no leader"),
        (20, Marks(25, 50), 30, "5 of them are deleted: the log starts at 25"),
        (60, Marks(0, 50), 0, "the log ends at 50: it was truncated, or the topic was recreated"),
    ],
)
def test_lag_is_never_negative_and_unknown_is_not_zero(committed, marks, lag, trouble):
    found = PartitionLag(ORDERS, committed, marks)
    assert (found.lag, found.trouble) == (lag, trouble)


def test_the_age_is_that_of_the_first_unread_record():
    late = PartitionLag(ORDERS, 20, Marks(0, 50), oldest_unread_ms=1_000)
    assert late.age_ms(4_500) == 3_500
    assert late.age_ms(500) == 0, "a clock behind the producer's makes no negative age"
    assert PartitionLag(ORDERS, 20, Marks(0, 50)).age_ms(9) is None
    assert PartitionLag(ORDERS, 50, Marks(0, 50)).age_ms(9) == 0


def test_partitions_are_those_committed_and_those_assigned():
    other = TopicPartition("orders", 1)
    member = Member("m", "app", "/h", assigned=(other,))
    found = lags_of({ORDERS: 1}, [member, Member("n", "app", "/h", assigned=None)], {ORDERS: Marks(0, 2)})
    assert [(each.partition, each.committed, each.member) for each in found] == [
        (ORDERS, 1, None),
        (other, None, member),
    ]
