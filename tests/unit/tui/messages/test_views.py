"""Bytes as text for the screen: never more than a cell, never what would drive the terminal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.tui.messages import json_tree
from yak.tui.messages.views import VIEWS, cell_text, decoded, hex_dump


@given(st.none() | st.binary(max_size=1000) | st.text(max_size=400).map(lambda t: t.encode("utf-8", "replace")))
def test_a_cell_is_one_printable_line_of_120_characters_at_most(data):
    for view in VIEWS:
        text = cell_text(data, view)
        assert len(text) <= 120
        assert not any(ord(each) < 32 or 127 <= ord(each) < 160 for each in text)


@pytest.mark.parametrize(
    ("data", "view", "text"),
    [
        (None, "auto", "null"),
        (b"", "auto", ""),
        (b"plain", "auto", "plain"),
        (b"two\nlines\tand\x1b[2J", "auto", "two\\nlines\\tand\\x1b[2J"),
        (b'{\n  "a": 1,\n  "b": [2]\n}', "auto", '{ "a": 1, "b": [2] }'),
        (b'{\n  "a": 1\n}', "text", '{\\n  "a": 1\\n}'),
        (b"\x00\x1f\x8b\x08", "auto", "⟨hex⟩ 00 1f 8b 08"),
        (b"\xff\xfe", "auto", "⟨hex⟩ ff fe"),
        (b"\xff", "text", "\ufffd"),
        (b"ab", "hex", "⟨hex⟩ 61 62"),
        ("abc\u202egnp.exe".encode(), "auto", "abc\\u202egnp.exe"),
    ],
)
def test_what_a_cell_says(data, view, text):
    assert cell_text(data, view) == text


def test_what_is_left_out_is_marked():
    assert cell_text(b"x" * 121).endswith("…")
    assert cell_text(b"x" * 120) == "x" * 120
    assert cell_text(b"\xff" * 41, "hex").endswith("…")
    assert len(cell_text(b"x" * 10_000_000, limit=20)) == 20


def test_a_character_cut_in_the_middle_is_still_text():
    data = "é".encode() * 500
    assert cell_text(data).startswith("ééé")
    assert decoded("é".encode()[:1]) == ""
    assert decoded(b"\xff") is None


@given(st.binary(max_size=100))
def test_a_dump_holds_every_byte(data):
    lines = hex_dump(data)
    digits = "".join(line[10:59] for line in lines).split()
    assert bytes(int(each, 16) for each in digits) == data
    assert all(len(line) >= 61 and line.index("|") == 60 for line in lines)


PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=6)
DOCUMENT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN, inner, max_size=4),
    max_leaves=20,
).filter(lambda value: isinstance(value, dict | list))


@given(DOCUMENT)
def test_the_lines_of_a_tree_are_the_json(value):
    assert json.loads("\n".join(line.text for line in json_tree.lines(value))) == value


@given(DOCUMENT.filter(bool))
def test_a_folded_document_is_one_line_with_its_count(value):
    (line,) = json_tree.lines(value, {""})
    assert line.is_folded
    assert f" … {len(value)} " in line.text


def test_a_tree_with_something_folded_in_it():
    value = {"total": 12, "lines": [{"sku": "a"}, {}], "none": None}
    text = [line.text for line in json_tree.lines(value, {".lines[0]"})]
    assert text == [
        "{",
        '  "total": 12,',
        '  "lines": [',
        "    { … 1 },",
        "    {}",
        "  ],",
        '  "none": null',
        "}",
    ]


def test_what_is_too_deep_is_folded_for_good():
    deep = []
    for _ in range(300):
        deep = [deep]
    lines = list(json_tree.lines(deep))
    assert len(lines) == 2 * json_tree.MAX_DEPTH + 1
    assert not lines[json_tree.MAX_DEPTH].is_foldable


@pytest.mark.parametrize("data", [b"12", b"", b"{", b"[" * 100_000, b"\xff", b'"text"'])
def test_what_is_no_document_is_not_taken_for_one(data):
    assert json_tree.parse(data) == (False, None)


def test_a_document_is_parsed_with_space_before_it():
    assert json_tree.parse(b' \n{"a": [1]}') == (True, {"a": [1]})
