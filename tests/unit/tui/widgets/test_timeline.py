"""Where on the bar a value is, and the way back."""

from hypothesis import given
from hypothesis import strategies as st

from yak.tui.widgets.timeline import place_of, value_at


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(2, 200), st.data())
def test_the_cell_of_a_value_stands_for_one_near_it(first, length, room, data):
    last = first + length
    value = data.draw(st.integers(first, last))
    cell = place_of(value, first, last, room)
    assert 0 <= cell < room
    back = value_at(cell, first, last, room)
    assert first <= back <= last
    assert abs(back - value) <= length / (room - 1) + 1


def test_both_ends_are_at_the_ends():
    assert (place_of(1, 1, 500, 80), place_of(500, 1, 500, 80)) == (0, 79)
    assert (value_at(0, 1, 500, 80), value_at(79, 1, 500, 80)) == (1, 500)
    assert (value_at(-5, 1, 500, 80), value_at(99, 1, 500, 80)) == (1, 500)
    assert place_of(7, 7, 7, 80) == 79
    assert value_at(0, 3, 9, 1) == 9
