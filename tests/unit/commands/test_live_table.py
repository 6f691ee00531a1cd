"""A table that is printed again and again, in the place of the one before where there is a terminal."""

import io
import os
from datetime import UTC
from types import SimpleNamespace

from yak.commands import live_table
from yak.commands.live_table import CLEAR_BELOW, CLEAR_LINE, HOME, fitted, show_refresh
from yak.commands.output import Output


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, rows, *, size=(20, 6), format_="table"):
    """The lines of one refresh on a terminal of so many columns and rows."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live_table, "get_terminal_size", lambda: os.terminal_size(size))
    out = Output(format_, stdout=Terminal())
    show_refresh(SimpleNamespace(out=out, now_ms=lambda: 0, zone=UTC), rows, ("group", "lag"), ("host",), ())
    text = out.stdout.getvalue()
    assert text.startswith(HOME)
    assert text.endswith(CLEAR_BELOW)
    return text.removeprefix(HOME).removesuffix(CLEAR_BELOW).replace(CLEAR_LINE, "").splitlines()


def test_refresh_with_more_rows_than_the_terminal_fits_it(monkeypatch):
    rows = [{"group": f"g{number}", "lag": number, "host": "h"} for number in range(1_000)]
    lines = shown(monkeypatch, rows)
    assert lines[1:] == ["GROUP  LAG", "g0       0", "g1       1", "and 998 lines more"]
    assert len(shown(monkeypatch, rows[:2])) == 4


def test_refresh_with_a_row_wider_than_the_terminal_is_cut(monkeypatch):
    rows = [{"group": "取引" * 20, "lag": 3, "host": "\x1b[2J"}]
    lines = shown(monkeypatch, rows, format_="wide")
    assert lines[2] == "取引" * 5
    assert "\\x1b[2J" in shown(monkeypatch, rows, size=(200, 9), format_="wide")[2]


def test_a_long_table_is_cut_to_the_terminals_rows():
    table = [(f"line {number}", "") for number in range(50)]
    printed = fitted([("head", "")], table, [("", ""), ("summary", "")], rows=10, more=(": name a topic", "33"))
    assert len(printed) == 10
    assert printed[-3] == ("and 44 lines more: name a topic", "33")
    assert printed[-1][0] == "summary"
    assert len(fitted([("head", "")], table[:3], [("", "")], rows=10)) == 5
