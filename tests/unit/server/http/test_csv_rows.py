"""CSV in pieces: the rows of Python's csv where the text is sound, and going on where it is not."""

import csv
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.server.http.fake_context import context_of, image_of
from yak.server.http.bodies import text_of
from yak.server.http.problems import Problem
from yak.server.http.routes import csv_upload
from yak.server.http.routes.csv_upload import CsvRow, CsvRows, CsvUpload, ends_open

ROW_CHARS_MAX = 200


def read(data, piece_bytes=7, encoding="utf-8", delimiter=",", row_chars_max=ROW_CHARS_MAX):
    rows = CsvRows(encoding, delimiter, row_chars_max)
    found = []
    for at in range(0, len(data), piece_bytes):
        found += rows.feed(data[at : at + piece_bytes])
    return found + list(rows.feed(b"", is_last=True))


cells = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8)


@given(
    st.lists(st.lists(cells, min_size=2, max_size=4), max_size=8),
    st.integers(1, 9),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-16", "utf-16-le"]),
)
@settings(max_examples=150)
def test_csv_rows_are_read_as_written_whatever_the_piece_size(table, piece_bytes, delimiter, line_end, encoding):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows(table)
    found = read(text.getvalue().encode(encoding), piece_bytes, encoding, delimiter, 10_000)
    assert [row.fault for row in found] == [""] * len(table)
    assert [row.cells for row in found] == table


def test_csv_cell_longer_than_pythons_default_limit_is_read_up_to_the_limit_of_a_row():
    before = csv.field_size_limit(131_072)
    try:
        cell = "x" * 200_000
        assert read(f"a,{cell}\n".encode(), 65_536, row_chars_max=1024 * 1024) == [CsvRow(1, ["a", cell])]
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("piece_bytes", [1, 3, 1000])
def test_broken_rows_are_named_and_the_others_are_read(piece_bytes):
    data = b'\xef\xbb\xbfa,b\n\n1,\xff\n"x"y,2\n"open,3\n4,"two\nlines"\n5,5" pipe\n"never closed,6\n7,7'
    assert read(data, piece_bytes) == [
        CsvRow(1, ["a", "b"]),
        CsvRow(3, [], "it has bytes that are not utf-8"),
        CsvRow(4, [], "it is not CSV: ',' expected after '\"'"),
        # its quote is closed by the next one, two lines on, and what follows is no cell
        CsvRow(5, [], "it is not CSV: ',' expected after '\"'"),
        CsvRow(7, ['lines"']),
        CsvRow(8, ["5", '5" pipe']),
        CsvRow(9, [], "a quote is not closed"),
        CsvRow(10, ["7", "7"]),
    ]


def test_behind_a_quote_that_is_never_closed_each_line_is_a_row_again():
    data = b'a,b\n"open,1\n2,2\n3,3\n'
    assert read(data) == [
        CsvRow(1, ["a", "b"]),
        CsvRow(2, [], "a quote is not closed"),
        CsvRow(3, ["2", "2"]),
        CsvRow(4, ["3", "3"]),
    ]


def test_a_row_has_a_bound_and_what_follows_is_read():
    for long in (b"x" * 300, b'"' + b"y\n" * 150 + b'"'):
        found = read(b"a\n" + long + b"\nz\n", row_chars_max=100)
        assert found[0].cells == ["a"]
        assert found[1].fault
        assert found[-1].cells == ["z"]


def test_memory_stays_within_the_bound_of_a_row():
    rows = CsvRows("utf-8", ",", 100)
    for _ in range(1000):
        assert len(list(rows.feed(b"x" * 90))) <= 1
        assert len(rows._tail) <= 100


def test_unclosed_quotes_are_rescanned_within_a_bound(monkeypatch):
    monkeypatch.setattr(csv_upload, "_RESCAN_FREE_CHARS", 0)
    rows = CsvRows("utf-8", ",", 10_000)
    line = b'"a","b\n'
    count = sum(len(list(rows.feed(line * 100))) for _ in range(100)) + len(list(rows.feed(b"", is_last=True)))
    assert count == 100 * 100
    # one look more than the bound may have begun
    assert rows._rescanned_chars <= 4 * rows._read_chars + 20_000


@given(st.text('a,"', max_size=12), st.booleans())
def test_a_line_ends_open_where_a_csv_reader_would_read_on(line, is_open):
    text = ('"' if is_open else "") + line
    expected = False
    try:
        list(csv.reader([text], strict=True))
    except csv.Error as error:
        # a reader that meets the end within quotes says so; one that meets rubbish before gives up
        expected = "unexpected end of data" in str(error)
        if not expected:
            return
    assert ends_open(line, ",", is_open=is_open) == expected


@pytest.mark.parametrize("piece_bytes", [1, 3, 1000])
@pytest.mark.parametrize("end", [b'b"\n1,2\n', b""])
def test_a_row_whose_quotes_hold_a_line_that_is_too_long_is_not_written_without_it(piece_bytes, end):
    found = read(b'x,"a\n' + b"y" * 50 + b"\n" + end, piece_bytes, row_chars_max=20)
    assert found[:2] == [
        CsvRow(1, [], "a quote is not closed"),
        CsvRow(2, [], "it has more than 20 characters"),
    ]
    assert found[2:] == ([CsvRow(3, ['b"']), CsvRow(4, ["1", "2"])] if end else [])


pieces = st.binary(max_size=60) | st.lists(
    st.sampled_from([b",", b'"', b"\r", b"\n", b"\0", b"a", b"\xff", b"\xfe", b"\xd8", b"\xdc", b"\xef\xbb\xbf"]),
    max_size=40,
).map(b"".join)


@pytest.mark.parametrize("encoding", list(csv_upload.ENCODINGS))
@given(pieces, st.integers(1, 9), st.sampled_from([",", ";", "\t", "é", "\u2028", " "]), st.sampled_from([5, 1000]))
@example(b"", 1, ",", 1000)
@example(b"a", 1, ",", 1000)
@example(b"\xff\xfe", 1, ",", 1000)
@example(b"\xfe\xff", 2, ",", 1000)
@example(b"\xff\xfea", 1, ",", 1000)
@example(b"\xef\xbb\xbf", 1, ",", 1000)
@example("a,b\n1,2\n".encode("utf-16-le"), 3, ",", 1000)
def test_any_bytes_in_any_encoding_are_rows_or_a_problem(encoding, data, piece_bytes, delimiter, row_chars_max):
    if encoding == "utf-16" and len(data) >= 2 and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        with pytest.raises(Problem) as refused:
            read(data, piece_bytes, encoding, delimiter, row_chars_max)
        assert (refused.value.status, refused.value.error) == (400, "no-byte-order")
        return
    found = read(data, piece_bytes, encoding, delimiter, row_chars_max)
    lines = [row.line for row in found]
    assert lines == sorted(lines)
    for row in found:
        assert bool(row.fault) != bool(row.cells)
        text_of(row.cells)  # whatever passes for a row can be written as JSON


def test_utf_16_without_its_byte_order_is_refused_with_a_hint():
    with pytest.raises(Problem) as refused:
        list(CsvRows("utf-16", ",", 1000).feed(b"id,name\n1,tea\n"))
    assert (refused.value.status, refused.value.error) == (400, "no-byte-order")
    assert "utf-16-le" in refused.value.hint


@pytest.mark.parametrize(
    ("row", "rows_in_batches"),
    [(b"x" * 10, [500, 500, 20]), (b"x" * 5_000, [10] * 12), (b"," * 5_000, [10] * 12)],
    ids=["narrow", "wide", "many cells"],
)
async def test_rows_written_at_once_are_bounded_in_number_and_in_characters(monkeypatch, row, rows_in_batches):
    context = context_of(image_of({"t": [1]}), None, csv_batch_chars_max=50_000)
    written = []

    async def write(_context, queues, _acks):
        (queue,) = queues
        queue.written = len(queue.records)
        written.append(queue.written)

    async def pieces():
        yield b",".join([b"c%d" % number for number in range(row.count(b",") + 1)]) + b"\n"
        yield (row + b"\n") * sum(rows_in_batches)

    monkeypatch.setattr(csv_upload, "write", write)
    monkeypatch.setattr(csv_upload, "COLUMNS_MAX", 10_000)
    upload = CsvUpload(context, "t", pieces(), CsvRows("utf-8", ",", 1_000_000), None)
    await upload.begin()
    async for _ in upload.upload_rest():
        pass
    assert upload.progress.written == sum(rows_in_batches)
    assert written == rows_in_batches


def test_row_of_empty_cells_between_tabs_is_a_row():
    assert [row.cells for row in read(b"a\tb\n\t\n\n \n1\t2\n", delimiter="\t")] == [["a", "b"], ["", ""], ["1", "2"]]


@pytest.mark.parametrize(
    ("is_unknown", "why", "hint"),
    [
        (True, "closed; it may be written all the same", "some of lines 2 to 3 may be written or not; no later line"),
        (False, "closed", "some of lines 2 to 3 are not written; no later line"),
    ],
)
async def test_upload_says_whether_its_last_rows_may_be_written(monkeypatch, is_unknown, why, hint):
    async def write(_context, queues, _acks):
        queues[0].problem, queues[0].is_unknown = Problem(503, "broker-unreachable", "closed"), is_unknown

    async def pieces():
        yield b"id\n1\n2\n"

    monkeypatch.setattr(csv_upload, "write", write)
    upload = CsvUpload(context_of(image_of({"t": [1]}), None), "t", pieces(), CsvRows("utf-8", ",", 1_000), None)
    await upload.begin()
    with pytest.raises(Problem) as stopped:
        async for _ in upload.upload_rest():
            pass
    assert hint in stopped.value.hint
    assert upload.progress.failures == [{"line": 2, "why": why}, {"line": 3, "why": why}]
