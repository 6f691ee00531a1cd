"""The marks at a plot's side: round, few, and up to the top."""

from hypothesis import given
from hypothesis import strategies as st

from yak.tui.widgets.plot import marks_up_to


def test_marks_are_round() -> None:
    assert marks_up_to(0.0) == [0.0, 1.0]
    assert marks_up_to(730_000.0) == [0.0, 200_000.0, 400_000.0, 600_000.0, 800_000.0]
    assert marks_up_to(1_150.0) == [0.0, 500.0, 1_000.0, 1_500.0]


@given(st.floats(1e-6, 1e12))
def test_marks_are_few_and_reach_the_top(top: float) -> None:
    marks = marks_up_to(top)
    assert 3 <= len(marks) <= 7
    assert marks[-1] >= top * (1 - 1e-9)
    assert marks[-2] < top * (1 + 1e-9)
