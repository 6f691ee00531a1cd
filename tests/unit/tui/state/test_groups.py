"""Groups from one question to the next: trends, and when all is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.tui.state.groups import Group, Groups, Trend, Unread


def trend(*lags, every_ms=2_000):
    made = Trend()
    for number, lag in enumerate(lags):
        made.note(number * every_ms, lag)
    return made, (len(lags) - 1) * every_ms


def said(lag, members=0):
    return {
        "group": "g", "coordinator": 1, "type": "classic", "state": "Stable", "lag": lag,
        "members": [{"client_id": "c", "host": "/h"}] * members, "partitions": [],
    }  # fmt: skip


def listed(*names, silent=()):
    return {
        "groups": [{"group": name, "type": "classic", "state": "Empty", "coordinator": 2} for name in names],
        "silent": [{"node_id": node, "reason": "no"} for node in silent],
    }


def test_a_lag_that_falls_steadily_says_how_fast():
    made, now_ms = trend(1_000, 900, 800, 700, 600)
    assert made.per_second(now_ms) == pytest.approx(-50)


def test_a_lag_that_goes_up_and_down_says_nothing():
    made, now_ms = trend(10, 50, 12, 48, 11, 52, 9, 50)
    assert made.per_second(now_ms) is None


def test_trend_of_a_constant_lag_is_zero():
    made, now_ms = trend(7, 7, 7, 7)
    assert made.per_second(now_ms) == 0.0


def test_trend_of_few_seconds_has_no_slope():
    made, now_ms = trend(100, 50)
    assert made.per_second(now_ms) is None


def test_trend_ignores_values_older_than_a_minute():
    made = Trend()
    for second in range(0, 30, 2):
        made.note(second * 1_000, 1_000_000)
    for second in range(90, 100, 2):
        made.note(second * 1_000, 100 - second)
    assert made.per_second(98_000) == pytest.approx(-1)


def test_a_spark_has_the_last_value_of_each_part_of_the_minute():
    made = Trend()
    for second, lag in ((0, 5), (31, 3), (59, 1)):
        made.note(second * 1_000, lag)
    assert made.values(60_000, 6) == [5, 5, 5, 3, 3, 1]
    assert Trend().values(60_000, 6) == []


@given(st.lists(st.integers(0, 10**9), max_size=80), st.integers(1, 40))
def test_trend_values_fit_the_width(lags, width):
    made, now_ms = trend(*lags)
    found = made.values(max(now_ms, 0), width)
    assert len(found) <= width
    assert set(found) <= set(map(float, lags))
    assert bool(found) is bool(lags)


def test_the_eta_is_the_lag_by_how_fast_it_falls():
    group = Group("g")
    for second in range(0, 12, 2):
        group.update(said(1_000 - 50 * second), second * 1_000)
    assert group.eta_ms(10_000) == pytest.approx(500 / 50 * 1_000)
    assert not group.is_growing(10_000)
    for second in range(0, 12, 2):
        group.update(said(500 + 50 * second), 80_000 + second * 1_000)
    assert group.eta_ms(90_000) is None
    assert group.is_growing(90_000)


def test_lag_of_a_group_whose_offsets_were_reset_does_not_grow_while_it_falls():
    group = Group("g")
    for second in range(0, 40, 2):
        group.update(said_of(committed=1_000, end=1_000), second * 1_000)
    for second in range(40, 60, 2):
        group.update(said_of(committed=10 * (second - 40), end=1_000), second * 1_000)
        assert not group.is_growing(second * 1_000)
    assert group.eta_ms(58_000) == pytest.approx((1_000 - 180) / 10 * 1_000)
    assert group.trend.values(58_000, 60)[0] == 0.0


def said_of(committed, end):
    partition = {"topic": "orders", "partition": 0, "committed": committed}
    return {**said(end - committed), "partitions": [partition]}


def test_group_lag_without_committed_offsets_is_unknown_and_not_zero():
    group = Group("g")
    assert (group.lag, group.members) == (None, None)
    group.update(said(None), 0)
    assert (group.lag, group.members) == (None, 0)
    group.update(said(0, members=2), 2_000)
    assert (group.lag, group.members, group.eta_ms(2_000)) == (0, 2, None)


def test_group_that_is_no_longer_listed_is_removed_unless_a_broker_did_not_answer():
    groups = Groups()
    groups.listed(listed("a", "b"))
    groups.update("a", said(4), 0)
    groups.listed(listed("b", silent=(3,)))
    assert sorted(groups.by_name) == ["a", "b"]
    groups.listed(listed("b"))
    assert sorted(groups.by_name) == ["b"]


def test_group_retains_its_answer_when_a_request_fails():
    groups = Groups()
    groups.listed(listed("a"))
    groups.update("a", said(4), 0)
    groups.failed("a", "no coordinator")
    assert (groups.by_name["a"].lag, groups.by_name["a"].why) == (4, "no coordinator")
    groups.failed("nobody", "no")
    assert "nobody" not in groups.by_name


def test_the_age_of_what_is_unread_stands_still_once_the_group_went_on():
    found = Unread(committed=5, timestamp_ms=1_000, read_ms=4_000)
    assert found.until_ms(5, 10_000) == 10_000
    assert found.until_ms(6, 10_000) == 4_000
