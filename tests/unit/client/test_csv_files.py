import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import raises_error
from yak.client import csv_files
from yak.client.csv_files import LineTooLong, TextLines, check_encoding, count_lines, open_binary, sniff_encoding
from yak.client.inputs import CsvMapping, CsvSource
from yak.errors import YakError


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"", "utf-8"),
        (b"id,total\n", "utf-8"),
        ("id,größe\n".encode(), "utf-8"),
        ("id,größe\n".encode()[:6], "utf-8"),  # cut within a character
        ("id,größe\n".encode("cp1252"), "cp1252"),
        ("\ufeffid\n".encode(), "utf-8"),
        ("id,x\n".encode("utf-16"), "utf-16"),
        ("id,x\n".encode("utf-16-le"), "utf-16-le"),
        ("id,x\n".encode("utf-16-be"), "utf-16-be"),
    ],
)
def test_the_encoding_is_found(head, encoding):
    assert sniff_encoding(head) == encoding


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.sampled_from(["utf-8", "utf-16"]))
def test_lines_are_the_text_again(text, encoding):
    lines = TextLines(io.BufferedReader(io.BytesIO(text.encode(encoding))), encoding, "f")
    assert "".join(lines) == text


def test_a_line_that_is_too_long_is_passed_over_and_the_next_one_is_read(monkeypatch):
    monkeypatch.setattr(csv_files, "LINE_CHARACTERS_MAX", 10)
    lines = TextLines(io.BufferedReader(io.BytesIO(b"x" * 25 + b"\nab\n" + b"y" * 9 + b"\n" + b"z" * 10)), "utf-8", "f")
    with pytest.raises(LineTooLong):
        next(lines)
    assert next(lines) == "ab\n"
    assert next(lines) == "y" * 9 + "\n"
    with pytest.raises(LineTooLong):
        next(lines)
    assert list(lines) == []
    assert lines.bytes_read == 49


def test_a_row_that_is_too_long_is_bad_and_keeps_the_lines_counted(monkeypatch):
    monkeypatch.setattr(csv_files, "LINE_CHARACTERS_MAX", 10)
    text = "a,b\n1,2\n" + "x" * 30 + "\n" + "3,4\n" * 30 + '"' + "y" * 30 + '\n"5",6\n'
    lines = TextLines(io.BufferedReader(io.BytesIO(text.encode())), "utf-8", "f")
    rows = list(CsvSource(lines, CsvMapping(), "f").rows())
    assert [(row.line, row.problem[:26]) for row in rows if row.record is None] == [
        (3, "not CSV: a line of more th"),
        (34, "not CSV: a line of more th"),
    ]
    assert (rows[-1].line, rows[-1].cells) == (35, ("5", "6"))


def test_bytes_that_are_no_text_are_found_in_their_row_or_end_the_file():
    lines = list(TextLines(io.BufferedReader(io.BytesIO(b"a\nb\xff\n")), "utf-8", "f"))
    assert lines == ["a\n", "b\udcff\n"]
    with raises_error(YakError, "not-text"):
        list(TextLines(io.BufferedReader(io.BytesIO("ab".encode("utf-16") + b"\x00\xd8")), "utf-16", "f"))
    with pytest.raises(YakError) as caught:
        list(TextLines(io.BufferedReader(io.BytesIO(b"id,total\n")), "utf-16", "f"))
    reason = caught.value.why.removeprefix("UTF-16 ").capitalize()  # Python 3.13 does not name the encoding
    assert (caught.value.code, reason) == ("not-text", "Stream does not start with bom, before byte 9")


def test_lines_of_a_pipe_are_read_to_its_end():
    reader, writer = os.pipe()
    os.write(writer, b"a,b\n1,2\n")
    os.close(writer)
    with open(reader, "rb") as file:
        assert list(TextLines(file, "utf-8", "stdin")) == ["a,b\n", "1,2\n"]


def test_lines_are_counted_whatever_ends_the_last_one(tmp_path):
    path = tmp_path / "f"
    for text, lines in ((b"", 0), (b"a", 1), (b"a\n", 1), (b"a\r\nb", 2), ("a\nb\n".encode("utf-16"), 2)):
        path.write_bytes(text)
        assert count_lines(str(path)) == lines


def test_unreadable_file_or_unknown_encoding_is_reported_with_the_reason(tmp_path):
    with raises_error(YakError, "file", match="cannot be read"):
        open_binary(str(tmp_path / "none"))
    with pytest.raises(YakError) as caught:
        open_binary(str(tmp_path))
    assert caught.value.why == "it is a directory"
    for name in ("klingon", "base64", "a\0b"):
        with raises_error(YakError, "bad-encoding"):
            check_encoding(name)
    assert check_encoding("UTF8") == "utf-8"
