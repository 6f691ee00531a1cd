import io
import json
import os
import sys
from unittest.mock import Mock

import pytest
from rich.cells import cell_len

from yak.commands.options import wants_color
from yak.commands.output import Output, error_document
from yak.errors import YakError
from yak.view.error_lines import error_lines

ROWS = [
    {"name": "orders", "partitions": 3, "isr": [1, 2], "rack": None, "ok": True},
    {"name": "ünïcode", "partitions": 12, "isr": [], "rack": "a,b", "ok": False},
]


def printed(format_, **options):
    stdout, stderr = io.StringIO(), io.StringIO()
    out = Output(format_, stdout=stdout, stderr=stderr, **options)
    out.table(ROWS, ("name", "partitions", "isr"), ("rack", "ok"), empty="nothing")
    return stdout.getvalue()


@pytest.mark.parametrize("format_", ["table", "wide", "csv", "raw", "yaml", "json"])
def test_each_format_is_as_agreed(golden, format_):
    golden(f"tables/format.{format_}", printed(format_))


def test_headers_can_be_left_out():
    assert printed("table", headers=False).startswith("orders")
    assert printed("csv", headers=False).startswith("orders,3")


def test_columns_are_aligned_by_their_width_on_a_terminal():
    names = ["orders", "取引", "e\u0301te\u0301", "\U0001f680"]
    stdout = io.StringIO()
    Output("table", stdout=stdout).table([{"group": name, "state": "ok"} for name in names], ("group", "state"))
    assert {cell_len(line.partition("ok")[0]) for line in stdout.getvalue().splitlines()[1:]} == {8}


def test_an_empty_table_says_what_to_do_on_stderr_and_an_empty_list_in_json():
    stdout, stderr = io.StringIO(), io.StringIO()
    Output("table", stdout=stdout, stderr=stderr).table([], ("a",), empty="none yet")
    assert (stdout.getvalue(), stderr.getvalue()) == ("", "none yet\n")
    Output("json", stdout=stdout, stderr=stderr).table([], ("a",))
    assert json.loads(stdout.getvalue()) == []


def test_quiet_silences_notes_and_twice_also_warnings_and_errors():
    error = YakError("x", "y")
    for quiet, expected in ((0, 3), (1, 2), (2, 0)):
        stderr = io.StringIO()
        out = Output(quiet=quiet, stderr=stderr)
        out.note("a")
        out.warn("b")
        out.error(error)
        assert len(stderr.getvalue().splitlines()) == expected


def test_an_error_has_three_parts_and_five_lines_at_most():
    error = YakError("some-slug", "it broke", why="two\nlines", try_=("a", "b", "c", "d"))
    assert error_lines(error) == [
        "error[some-slug]: it broke", "  why:  two lines", "  try:  a", "        b", "        c",
    ]  # fmt: skip
    assert error_document(error)["error"] == {
        "code": "some-slug", "kafka_code": None, "message": "it broke", "why": "two\nlines", "try": ["a", "b", "c", "d"],
    }  # fmt: skip


def test_a_progress_line_is_only_for_terminals(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("CI", raising=False)
    for stream, quiet, expected in ((io.StringIO(), 0, False), (Terminal(), 1, False), (Terminal(), 0, True)):
        with Output(quiet=quiet, stderr=stream).progress("sending", 10) as bar:
            bar.update(5)
        assert bool(stream.getvalue()) is expected
    monkeypatch.setenv("CI", "1")
    stream = Terminal()
    with Output(stderr=stream).progress("sending", 10) as bar:
        bar.update(5)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("out", "err", "expected"), [(True, True, True), (False, True, False), (True, False, False)])
def test_colours_need_a_terminal_on_both_streams(monkeypatch, out, err, expected):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Mock(isatty=lambda: out))
    monkeypatch.setattr(sys, "stderr", Mock(isatty=lambda: err))
    assert wants_color(Mock(environment={})) is expected


def test_reader_that_went_away_is_noticed_without_a_write():
    read, write = os.pipe()
    with os.fdopen(write, "w") as stdout:
        Output(stdout=stdout).require_reader()
        os.close(read)
        with pytest.raises(BrokenPipeError):
            Output(stdout=stdout).require_reader()
    Output(stdout=io.StringIO()).require_reader()
