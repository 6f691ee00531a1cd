from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from yak.tui.rows.cells import Cell, Column, Row
from yak.tui.widgets.columns import GAP, column_at, cut, fit

COLUMNS = st.lists(
    st.builds(
        Column,
        st.text("ABC", max_size=10),
        least=st.integers(0, 12),
        most=st.integers(4, 40),
        flex=st.integers(0, 2),
        rank=st.integers(0, 3),
    ),
    min_size=1,
    max_size=8,
)


@given(COLUMNS, st.integers(10, 200), st.data())
def test_columns_that_may_go_or_shrink_never_make_a_line_too_wide(columns, width, data):
    rows = [Row("a", tuple(Cell(data.draw(st.text("xyz", max_size=50))) for _ in columns))]
    widths = fit(columns, rows, [], width, is_wide=False)
    assert len(widths) == len(columns)
    fixed = sum(each + GAP for each, column in zip(widths, columns, strict=True) if each and not column.rank)
    total = sum(each + GAP for each in widths if each)
    if total > width:  # only what may not go is left, and it has shrunk as far as it may
        assert total == fixed
    assert all(
        width
        for width, column in zip(widths, columns, strict=True)
        if not column.rank and (column.label or column.least)
    )


def test_a_column_of_a_higher_rank_goes_first():
    columns = (Column("A", 10), Column("B", 10, rank=2), Column("C", 10, rank=1))
    assert fit(columns, [], [], 24, is_wide=False) == [10, 0, 10]
    assert fit(columns, [], [], 12, is_wide=False) == [10, 0, 0]
    assert fit(columns, [], [], 12, is_wide=True) == [10, 10, 10]


def test_what_is_left_goes_to_flexible_columns():
    assert fit((Column("A", 4), Column("B", 4, flex=1)), [], [], 30, is_wide=False) == [4, 22]


def test_widths_do_not_shrink_while_rows_change():
    columns = (Column("A", 2),)
    wide = fit(columns, [Row("a", (Cell("1234567890"),))], [], 30, is_wide=False)
    assert fit(columns, [Row("a", (Cell("1"),))], wide, 30, is_wide=False) == wide


@given(st.text(max_size=40), st.integers(1, 30), st.booleans())
def test_cut_text_is_exactly_as_wide_and_moves_no_cursor(text, width, is_right):
    found = cut(text, width, is_right=is_right)
    assert cell_len(found) == width
    assert not any(character in found for character in "\x1b\r\n\t\x07\x9b\u202e")


def test_a_column_is_found_by_where_it_stands():
    assert [column_at([3, 0, 2], x) for x in (0, 4, 5, 8, 9)] == [0, 0, 2, 2, None]
