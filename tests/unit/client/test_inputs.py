import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import raises_error
from yak.client.inputs import CsvMapping, CsvSource, json_rows, line_rows, sniff_delimiter
from yak.errors import UsageError

CELL = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)


def csv_rows(text, **mapping):
    source = CsvSource(io.StringIO(text, newline=""), CsvMapping(**mapping), "f.csv")
    return source, list(source.rows())


def test_lines_become_values_without_their_ends():
    rows = list(line_rows([b"a\n", b"b\r\n", b"\n", b"c"]))
    assert [row.record.value for row in rows] == [b"a", b"b", b"", b"c"]


def test_a_separator_of_several_bytes_cuts_at_its_first_place():
    rows = list(line_rows([b"k::v::w\n", b"no key\n", b"::empty\n"], key_separator=b"::"))
    assert [(row.record.key, row.record.value) for row in rows] == [(b"k", b"v::w"), (None, b"no key"), (b"", b"empty")]


def test_line_with_the_null_value_text_becomes_a_tombstone():
    (row,) = line_rows([b"k:NULL\n"], key_separator=b":", null_value=b"NULL")
    assert (row.record.key, row.record.value) == (b"k", None)


def test_a_csv_row_becomes_json_of_the_columns_not_used_elsewhere():
    _, (row,) = csv_rows("id,total,src\nu1,12,web\n", key="id", headers={"src": "source"})
    assert row.record.key == b"u1"
    assert json.loads(row.record.value) == {"total": "12"}
    assert row.record.headers == [("source", b"web")]


def test_a_csv_value_can_be_one_column_and_the_header_row_can_be_given():
    source, rows = csv_rows("u1,12\nu2,13\n", key="a", value="b", columns=("a", "b"))
    assert source.columns == ("a", "b")
    assert [(row.record.key, row.record.value) for row in rows] == [(b"u1", b"12"), (b"u2", b"13")]


def test_a_byte_order_mark_is_not_part_of_the_first_column():
    source, _ = csv_rows("\ufeffid,total\n1,2\n", key="id")
    assert source.columns == ("id", "total")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter):
    lines = [delimiter.join(cells) + "\n" for cells in (("a", "b", "c"), ("1", '"2, 5"', "3"), ("4", "5", "6"))]
    assert sniff_delimiter(lines) == delimiter
    assert sniff_delimiter(["one column\n", "only\n"]) == ","


def test_bad_rows_say_what_is_wrong_and_do_not_stop_the_rest():
    text = "id,total\n1,2\n3\n4,5,6\n\udcff,7\n8,9\n"
    _, rows = csv_rows(text, key="id")
    assert [row.problem for row in rows] == ["", "1 column, not 2", "3 columns, not 2", "not UTF-8", ""]
    assert [row.number for row in rows] == [0, 1, 2, 3, 4]
    assert rows[2].cells == ("4", "5", "6")


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    with raises_error(UsageError, "csv-column") as caught:
        csv_rows("user_id,total\n", key="userid")
    assert caught.value.message == 'column "userid" is not in f.csv'
    assert caught.value.try_ == ("--csv-key user_id",)
    with pytest.raises(UsageError):
        csv_rows("")


def test_column_that_is_not_utf8_is_refused():
    with raises_error(UsageError, "csv-column", match="udce9"):
        csv_rows("id,\udce9t\udce9\n1,a\n")


@pytest.mark.parametrize(
    "mapping", [{}, {"key": "x"}, {"headers": {"x": "x"}}, {"value": "x"}, {"value": "json:x"}, {"partition": "x"}]
)
def test_two_columns_with_one_name_are_refused_if_they_are_sent(mapping):
    source, _ = csv_rows("id,x,x\n1,0,0\n", **({"value": "id"} | mapping if mapping else {}))
    with raises_error(UsageError, "csv-column", match='"x"'):
        source.require_distinct()
    csv_rows("id,x,x\n1,0,0\n", value="id")[0].require_distinct()


def test_an_empty_key_cell_is_no_key():
    _, (row,) = csv_rows("id,total\n,2\n", key="id")
    assert row.record.key is None


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6))
def test_rows_written_as_csv_are_read_back(cells):
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("first", "second"))
    writer.writerows(cells)
    source = CsvSource(io.StringIO(text.getvalue(), newline=""), CsvMapping(value="json"), "f")
    if source.delimiter != ",":
        return  # the cells look more like another delimiter; the note on stderr says which
    values = [json.loads(row.record.value) for row in source.rows() if row.record]
    assert values == [{"first": first, "second": second} for first, second in cells]


def test_json_file_with_a_byte_order_mark_has_all_its_records():
    rows = list(json_rows([b'\xef\xbb\xbf{"value":"a"}\n', b'{"value":"b"}\n']))
    assert [row.record.value for row in rows] == [b"a", b"b"]


def test_json_lines_that_are_no_records_are_distinguished():
    lines = [
        b'{"value":"a"}\n',
        b"\n",
        b"nope\n",
        b"[1]\n",
        b'{"total":1}\n',
        b'{"value":"!","value_encoding":"base64"}\n',
    ]
    rows = list(json_rows(lines))
    assert [row.number for row in rows] == [0, 1, 2, 3, 4]
    assert rows[0].record.value == b"a"
    assert [bool(row.problem) for row in rows] == [False, True, True, True, True]
    assert "--format lines" in rows[3].problem
