import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.offset_spec import END, START, Position, Range, parse_edge, parse_range
from yak.commands.units import parse_time_ms
from yak.errors import UsageError

NOW_MS = 1_795_176_000_000


def parse(*texts):
    return parse_range(list(texts), lambda text: parse_time_ms(text, now_ms=NOW_MS))


def at(ms):
    return Position("time", ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", Range(START)),
        ("beginning", Range(START)),
        ("earliest", Range(START)),
        ("end", Range(END)),
        ("latest", Range(END)),
        ("42", Range(Position("offset", 42))),
        ("+10", Range(Position("after_start", 10))),
        ("-10", Range(Position("before_end", 10))),
        ("10:20", Range(Position("offset", 10), Position("offset", 20))),
        ("10:", Range(Position("offset", 10))),
        (":20", Range(START, Position("offset", 20))),
        (":end", Range(START, END)),
        ("start:end", Range(START, END)),
        ("-10:end", Range(Position("before_end", 10), END)),
        ("@-1h", Range(at(NOW_MS - 3_600_000))),
        ("@-1h:-5m", Range(at(NOW_MS - 3_600_000), at(NOW_MS - 300_000))),
        ("@-1h:@now", Range(at(NOW_MS - 3_600_000), at(NOW_MS))),
        ("@-1h:end", Range(at(NOW_MS - 3_600_000), END)),
        ("@1795176000", Range(at(NOW_MS))),
        ("@2026-11-20T12:00:00Z", Range(at(NOW_MS))),
        ("@2026-11-20T11:00:00Z:2026-11-20T12:00:00Z", Range(at(NOW_MS - 3_600_000), at(NOW_MS))),
        ("s@1795176000", Range(at(NOW_MS))),
        ("e@1795176000", Range(START, at(NOW_MS))),
    ],
)
def test_the_grammar(text, expected):
    assert parse(text) == expected


def test_kcats_two_options_together():
    assert parse("s@-1h", "e@-5m") == parse("@-1h:-5m")


@pytest.mark.parametrize(
    "text", ["", "x", "1:2:3", "@", "@soon", "+x", "1-2", "s@soon", "²", "+²", "9" * 20, "9" * 5000]
)
def test_invalid_offset_text_is_refused(text):
    with pytest.raises(UsageError):
        parse(text)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**7))
def test_relative_edges_stay_in_the_log(low, length, distance):
    high = low + length
    for kind in ("after_start", "before_end"):
        assert low <= Position(kind, distance).resolve(low, high) <= high
    assert START.resolve(low, high) == low
    assert END.resolve(low, high) == high


def test_edges_are_keywords_or_times():
    parse_time = lambda text: parse_time_ms(text, now_ms=NOW_MS)  # noqa: E731
    assert parse_edge("end", parse_time) == END
    assert parse_edge("-15m", parse_time) == at(NOW_MS - 900_000)
