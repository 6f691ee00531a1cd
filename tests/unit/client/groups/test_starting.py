"""Where a member starts in a partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.consume import Window
from yak.client.groups.group_reader import start_of
from yak.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("committed", "own", "window", "marks", "offset"),
    [
        (None, None, 0, (0, 50), 0),
        (None, None, 50, (0, 50), 50),
        (None, 20, 0, (0, 50), 20),
        (30, None, 0, (0, 50), 30),
        (30, 40, 0, (0, 50), 40),
        (30, None, 0, None, 30),
        (None, None, 7, None, 7),
        (0, None, 50, (0, 50), 0),
    ],
)
def test_the_committed_offset_comes_first_and_the_window_where_there_is_none(committed, own, window, marks, offset):
    found = start_of(ORDERS, committed, own, Window(window, None), marks)
    assert (found.offset, found.committed, found.trouble) == (offset, committed, "")


def test_records_deleted_before_the_group_read_them_are_reported():
    found = start_of(ORDERS, 3, None, Window(50, None), (10, 50))
    assert (found.offset, found.trouble) == (10, "7 records were deleted before the group read them")


def test_an_offset_beyond_the_end_counts_as_not_committed():
    found = start_of(ORDERS, 90, None, Window(0, None), (0, 50))
    assert found.offset == 0
    assert "the log ends at 50" in found.trouble


@given(
    st.none() | st.integers(0, 99), st.none() | st.integers(0, 50), st.integers(0, 99), st.integers(0, 40), st.integers(0, 20)
)  # fmt: skip
def test_no_start_is_before_the_log_and_none_skips_what_is_committed_and_there(committed, own, window, low, length):
    found = start_of(ORDERS, committed, None, Window(window, None), (low, low + length))
    assert low <= found.offset <= low + length
    if committed is not None and low <= committed <= low + length:
        assert found.offset == committed
    assert start_of(ORDERS, committed, own, Window(window, None), (low, low + length)).offset >= found.offset
