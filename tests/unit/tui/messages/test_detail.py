"""A record as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.tui.formatter import Formatter
from yak.tui.messages import detail
from yak.tui.messages.detail import BIG_BYTES, PREVIEW_BYTES, VIEWS, cell_text, decoded, detail_lines, hex_dump
from yak.tui.messages.store import BufferedRecord


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
def test_cell_text_renders_the_data_in_its_view(data, view, text):
    assert cell_text(data, view) == text


def test_truncated_cell_text_is_marked_with_an_ellipsis():
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


@given(st.binary(min_size=9, max_size=100))
def test_hex_dump_of_a_narrow_pane_has_lines_of_8_bytes(data):
    lines = hex_dump(data, 73)
    assert bytes(int(each, 16) for line in lines for each in line[10:33].split()) == data
    assert all(len(line) <= 45 and line[35] == "|" for line in lines)
    assert len(hex_dump(data, 78)[0]) == 61 + min(16, len(data)) + 1


PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=6)
DOCUMENT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN, inner, max_size=4),
    max_leaves=20,
).filter(lambda value: isinstance(value, dict | list))


@given(DOCUMENT)
def test_the_lines_of_a_tree_are_the_json(value):
    assert json.loads("\n".join(line.text for line in detail.json_lines(value))) == value


@given(DOCUMENT.filter(bool))
def test_a_folded_document_is_one_line_with_its_count(value):
    (line,) = detail.json_lines(value, {""})
    assert f" … {len(value)} " in line.text


def test_a_tree_with_something_folded_in_it():
    value = {"total": 12, "lines": [{"sku": "a"}, {}], "none": None}
    text = [line.text for line in detail.json_lines(value, {".1.0"})]
    assert text == [
        "  {",
        '    "total": 12,',
        '    "lines": [',
        "      { … 1 },",
        "      {}",
        "    ],",
        '    "none": null',
        "  }",
    ]


def test_json_that_is_too_deep_is_folded_permanently():
    deep = []
    for _ in range(300):
        deep = [deep]
    lines = list(detail.json_lines(deep))
    assert len(lines) == 2 * detail.MAX_DEPTH + 1
    assert lines[detail.MAX_DEPTH].path is None


@pytest.mark.parametrize("data", [b"12", b"", b"{", b"[" * 100_000, b"\xff", b'"text"'])
def test_data_that_is_no_json_document_is_not_parsed_as_one(data):
    assert detail.parse_json(data) == (False, None)


def test_a_document_is_parsed_with_space_before_it():
    assert detail.parse_json(b' \n{"a": [1]}') == (True, {"a": [1]})


FMT = Formatter(is_ascii=True)
NOW_MS = 1_795_176_000_000


def record(value, *, key=b"u1", headers=(), timestamp_ms=NOW_MS, epoch=3):
    return BufferedRecord("orders", 1, 1042, timestamp_ms, "CreateTime", key, value, list(headers), epoch, 7)


def lines(made, **how):
    return detail_lines(made, FMT, NOW_MS, **how)


def text(made, **how):
    return [line.text for line in lines(made, **how)]


def test_all_about_a_record():
    visible = text(record(b'{"total": 12, "lines": []}', headers=[("source", b"web"), ("gone", None)]))
    assert visible == [
        "topic      orders",
        "partition  1",
        "offset     1 042",
        "time       2026-11-20 12:00:00.000Z",
        "           1795176000000 ms, CreateTime",
        "epoch      3",
        "size       41 B (key 2 B, value 26 B, headers 13 B)",
        "key text, 2 B",
        "  u1",
        "headers (2)",
        "  source = web",
        "  gone = null",
        "value JSON, 26 B",
        "  {",
        '    "total": 12,',
        '    "lines": []',
        "  }",
    ]


def test_record_detail_reports_missing_fields():
    visible = text(record(None, key=b"", timestamp_ms=-1, epoch=None))
    assert "time       none" in visible
    assert "epoch      unknown" in visible
    assert visible[-2:] == ["key empty", "value null"]


def test_times_follow_the_zone():
    visible = detail_lines(record(b"x"), Formatter(zone="relative"), NOW_MS + 4000)
    assert "time       4 s ago" in [line.text for line in visible]


def test_json_folds_by_its_path():
    made = record(b'{"a": {"b": 1}, "c": 2}')
    foldable = [line.path for line in lines(made) if line.path is not None]
    assert foldable == ["", ".0"]
    folded = lines(made, folded={".0"})
    assert '    "a": { … 1 },' in [line.text for line in folded]


def test_paths_do_not_grow_with_the_names_in_a_record():
    """Each line has one: with a name of 100 KB, 250 KB of JSON took 3 GB."""
    made = record(json.dumps({"k" * 1_000: [[1]] * 100}).encode())
    assert max(len(line.path) for line in lines(made) if line.path is not None) < 10


def test_name_with_a_dot_folds_alone():
    made = record(b'{"a": {"b": {"c": 1}}, "a.b": {"d": 2}}')
    paths = [line.path for line in lines(made) if line.path is not None]
    assert len(paths) == len(set(paths)) == 4


def test_json_has_tones_and_all_of_its_text():
    (line,) = [line for line in lines(record(b'{"a": 1}')) if '"a"' in line.text]
    assert line.spans == (("    ", ""), ('"a"', "accent"), (": ", "dim"), ("1", "warn"))


@pytest.mark.parametrize(
    ("view", "form", "first"),
    [
        ("auto", "JSON", "  {"),
        ("text", "text", '  {"a": 1}'),
        ("hex", "hex", '  00000000  7b 22 61 22 3a 20 31 7d                           |{"a": 1}|'),
    ],
)
def test_the_value_in_each_view(view, form, first):
    visible = text(record(b'{"a": 1}'), view=view)
    at = visible.index(f"value {form}, 8 B")
    assert visible[at + 1] == first


def test_bytes_that_are_no_text_are_dumped():
    assert text(record(b"\xff\x00"))[-1].startswith("  00000000  ff 00")


def test_large_value_is_cut_until_all_is_requested():
    made = record(b'{"text": "' + b"x" * 1_400_000 + b'"}')
    short = lines(made)
    assert short[-1].load
    assert short[-1].text == "  shown 2.0 KiB of 1.3 MiB: enter loads all"
    assert len(short[-2].text) == PREVIEW_BYTES + 2
    whole = lines(made, is_whole=True)
    assert not any(line.load for line in whole)
    assert "value JSON, 1.3 MiB" in [line.text for line in whole]
    assert not any(line.load for line in lines(record(b"x" * BIG_BYTES)))


def test_large_key_and_large_header_are_cut_until_all_is_requested():
    made = record(b"x", key=b"k" * (BIG_BYTES + 1), headers=[("trace", b"t" * (PREVIEW_BYTES + 1)), ("short", b"s")])
    loading = [line.text for line in lines(made) if line.load]
    assert loading == ["  shown 2.0 KiB of 32.0 KiB: enter loads all", "  shown 2.0 KiB of 2.0 KiB: enter loads all"]
    whole = lines(made, is_whole=True)
    assert not any(line.load for line in whole)
    assert {"  " + "k" * (BIG_BYTES + 1), "  trace = " + "t" * (PREVIEW_BYTES + 1)} <= {line.text for line in whole}


def test_headers_that_would_move_the_cursor_do_not():
    visible = text(record(b"x", headers=[("a\x1b[2J", b"b\x1b[2J\nc"), ("bin", b"\xff")]))
    assert "  a\\x1b[2J = b\\x1b[2J" in visible
    assert "    c" in visible
    assert "  bin = ⟨hex⟩ ff" in visible
    assert not any("\x1b" in line for line in visible)
