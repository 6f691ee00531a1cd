"""How long a partition stood still, from the times of its acknowledgements."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.local.bench.ledger_load import longest_pause, longest_pause_within, worst

STEADY = [0.0, 0.1, 0.2, 0.3]


def test_a_pause_runs_from_the_last_arrival_before_the_kill_to_the_first_after_it() -> None:
    assert longest_pause([*STEADY, 1.5, 1.6], 0.35, 1.55) == pytest.approx(1.2)


def test_an_arrival_just_after_the_kill_does_not_hide_the_pause_behind_it() -> None:
    assert longest_pause([*STEADY, 0.36, 1.5, 1.6], 0.35, 1.55) == pytest.approx(1.14)


def test_a_pause_before_the_kill_does_not_count() -> None:
    assert longest_pause([0.0, 5.0, 5.1, 5.2], 5.05, 5.2) == pytest.approx(0.1)


def test_a_pause_that_lasts_past_the_end_counts_whole_or_not_at_all() -> None:
    times = [*STEADY, 0.4, 9.0]
    assert longest_pause(times, 0.35, 0.5) == pytest.approx(8.6)
    assert longest_pause_within(times, 0.35, 0.5) == pytest.approx(0.1)


@pytest.mark.parametrize("times", [[], STEADY, [0.9, 1.0]])
def test_no_pause_is_reported_without_arrivals_on_both_sides(times: list[float]) -> None:
    assert longest_pause(times, 0.8 if times == [0.9, 1.0] else 0.3, 2.0) is None


def test_the_worst_of_several_partitions_is_unknown_while_one_stands_still() -> None:
    assert worst([0.1, 0.3]) == 0.3
    assert worst([0.1, None]) is None
    assert worst([]) is None


@given(st.lists(st.floats(0, 100), min_size=2).map(sorted), st.floats(0, 100), st.floats(0, 100))
def test_longest_pause_is_the_longest_gap_that_touches_the_window(times: list[float], one: float, other: float) -> None:
    begin, end = min(one, other), max(one, other)
    gaps = [b - a for a, b in itertools.pairwise(times) if b > begin and a < end]
    found = longest_pause(times, begin, end)
    if times[0] <= begin < times[-1]:
        assert found == max(gaps, default=0.0)
    else:
        assert found is None
