import pytest

from yak.errors import UsageError
from yak.tui.rows.cells import Cell, Row, RowList, sorted_rows
from yak.tui.rows.filtering import filtered

ROWS = [
    Row(name, (Cell(name), Cell(str(size), order=size)))
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


def test_an_expression_that_is_none_is_told():
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
