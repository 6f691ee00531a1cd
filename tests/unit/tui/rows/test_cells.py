"""Filters of tables, and widths of columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from yak.errors import UsageError
from yak.tui.rows.cells import GAP, Cell, Column, Row, RowList, column_at, cut, filtered, fit, sorted_rows

ROWS = [
    Row(name, Cell(name), Cell(str(size), order=size))
    for name, size in (("orders", 10), ("Payments", 9), ("audit", 100))
]


def names(rows):
    return [row.key for row in rows]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ["orders", "Payments", "audit"]),
        ("pay", ["Payments"]),
        ("!pay", ["orders", "audit"]),
        ("~^o|t 100", ["orders", "audit"]),
        ("!~s", ["audit"]),
        ("10", ["orders", "audit"]),
    ],
)
def test_a_filter_is_a_text_its_opposite_or_an_expression(text, wanted):
    assert names(filtered(ROWS, text)) == wanted


def test_invalid_regular_expression_is_refused():
    with pytest.raises(UsageError, match="no regular expression") as refused:
        filtered(ROWS, "~(")
    assert refused.value.code == "bad-filter"
    assert refused.value.why
    assert refused.value.try_


def test_rows_are_sorted_by_number_where_they_have_one_and_by_text_without_case():
    assert names(sorted_rows(ROWS, 1, is_reverse=False)) == ["Payments", "orders", "audit"]
    assert names(sorted_rows(ROWS, 0, is_reverse=True)) == ["Payments", "orders", "audit"]


def test_a_row_is_found_by_its_key():
    assert RowList(ROWS).place_of("audit") == 2
    assert RowList(ROWS).place_of("nosuch") is None


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
    rows = [Row("a", *(Cell(data.draw(st.text("xyz", max_size=50))) for _ in columns))]
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


def test_column_with_preferred_width_is_cut_only_after_columns_of_rank_2_are_hidden():
    columns = (Column("NAME", 4, flex=1, preferred=8), Column("B", 10, rank=1), Column("C", 10, rank=2))
    rows = [Row("a", Cell("a-long-name"), Cell(""), Cell(""))]
    assert fit(columns, rows, [], 34, is_wide=False) == [8, 10, 10]
    assert fit(columns, rows, [], 33, is_wide=False) == [19, 10, 0]
    assert fit(columns, rows, [], 18, is_wide=False) == [4, 10, 0]
    assert fit(columns, rows, [], 17, is_wide=False) == [15, 0, 0]
    short = [Row("a", Cell("ab"), Cell(""), Cell(""))]
    assert fit(columns, short, [], 32, is_wide=False) == [6, 10, 10]


def test_remaining_width_goes_to_flexible_columns():
    assert fit((Column("A", 4), Column("B", 4, flex=1)), [], [], 30, is_wide=False) == [4, 22]


def test_column_is_as_wide_as_the_escapes_of_its_text():
    assert (
        fit((Column("A"), Column("B", flex=1)), [Row("k", Cell("a\n\x1bb"), Cell(""))], (), 40, is_wide=False)[0] == 8
    )


def test_widths_do_not_shrink_while_rows_change():
    columns = (Column("A", 2),)
    wide = fit(columns, [Row("a", Cell("1234567890"))], [], 30, is_wide=False)
    assert fit(columns, [Row("a", Cell("1"))], wide, 30, is_wide=False) == wide


@given(st.text(max_size=40), st.integers(1, 30), st.booleans())
def test_cut_text_is_exactly_as_wide_and_moves_no_cursor(text, width, is_right):
    found = cut(text, width, is_right=is_right)
    assert cell_len(found) == width
    assert not any(character in found for character in "\x1b\r\n\t\x07\x9b\u202e")


def test_a_column_is_found_by_where_it_stands():
    assert [column_at([3, 0, 2], x) for x in (0, 4, 5, 8, 9)] == [0, 0, 2, 2, None]
