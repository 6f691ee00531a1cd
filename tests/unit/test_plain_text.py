"""One function for text of clients: nothing that it gives can drive a terminal, and ordinary text is untouched."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak import plain_text

HOSTILE = "a\x1b]0;t\x07\x9b31m\r\n\x7f\u202eb\u2066\u2028\ud800\U000e0041"
ANY = st.text(st.characters(exclude_categories=()), max_size=60)


def drives(text: str, allowed: str = "") -> list[str]:
    """Characters that a terminal could act upon."""
    turning = ("RLO", "LRO", "RLE", "LRE", "PDF", "LRI", "RLI", "FSI", "PDI", "B")
    return [
        each
        for each in text
        if each not in allowed
        and (unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(each) in turning)
    ]


@given(ANY)
def test_any_text_formatted_as_plain_text_has_no_terminal_control_characters(text: str) -> None:
    assert drives(plain_text.one_line(text)) == []
    assert drives(plain_text.one_line_with_tabs(text), "\t") == []
    assert drives(plain_text.lines(text), "\t\n") == []


@given(st.binary(max_size=60))
def test_any_bytes_as_lines_drive_no_terminal(data: bytes) -> None:
    assert drives(plain_text.bytes_as_lines(data), "\t\n") == []


@given(ANY)
def test_json_text_has_the_same_content_and_drives_no_terminal(text: str) -> None:
    written = plain_text.json_text(json.dumps({"id": text}, ensure_ascii=False))
    assert json.loads(written) == {"id": text}
    assert drives(written) == []


@pytest.mark.parametrize("text", ["", "orders", "größe", "日本語", "👩\u200d🚀", "a b", "a\u00a0b"])
def test_ordinary_text_is_untouched(text: str) -> None:
    assert plain_text.one_line(text) == plain_text.lines(text) == plain_text.json_text(text) == text


def test_hostile_text_is_displayed_with_escapes() -> None:
    shown = plain_text.one_line(HOSTILE)
    assert shown == "a\\x1b]0;t\\x07\\x9b31m\\r\\n\\x7f\\u202eb\\u2066\\u2028\\ud800\\U000e0041"
    assert plain_text.is_plain(shown)
    assert not plain_text.is_plain(HOSTILE)


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\uff1d1"])
def test_cell_that_a_spreadsheet_would_run_stands_behind_an_apostrophe(text: str) -> None:
    assert plain_text.spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=1", "-5", "+3.25", "-1,000.5", "-1e-3", "-12%", "'=1"])
def test_numbers_and_other_cells_stay_as_they_are(text: str) -> None:
    assert plain_text.spreadsheet_cell(text) == text
