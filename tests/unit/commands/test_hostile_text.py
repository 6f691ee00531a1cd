"""Text of clients on its way to a terminal, a pipe, JSON and a spreadsheet."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.test_plain_text import HOSTILE, drives
from yak.client.consumer import ConsumerRecord
from yak.commands.options import Flags, Globals
from yak.commands.output import Output
from yak.commands.produce import _header
from yak.commands.record_output import RecordPrinter
from yak.errors import YakError
from yak.plain_text import one_line
from yak.view.error_lines import error_lines

ROWS = [{"group": HOSTILE, "members": [HOSTILE], "lag": -5}]
SHOWN = one_line(HOSTILE)


class Terminal(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", "surrogateescape", newline="\n")

    def isatty(self) -> bool:
        return True

    def written(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode("utf-8", "surrogateescape")  # type: ignore[attr-defined]


class Pipe(Terminal):
    def isatty(self) -> bool:
        return False


def table(format_: str, stream: Terminal, **more: bool) -> str:
    Output(format_, stdout=stream, **more).table(ROWS, ("group", "members", "lag"))
    return stream.written()


@pytest.mark.parametrize("format_", ["table", "wide", "csv", "raw", "json", "yaml"])
def test_table_on_a_terminal_has_nothing_that_drives_it(format_: str) -> None:
    assert drives(table(format_, Terminal()), "\n\t") == []


@pytest.mark.parametrize("format_", ["table", "wide", "json", "yaml"])
def test_table_and_document_formats_are_harmless_in_a_pipe_too(format_: str) -> None:
    assert drives(table(format_, Pipe()), "\n") == []


def test_raw_output_into_a_pipe_or_with_unescaped_is_unchanged() -> None:
    text = HOSTILE.replace("\ud800", "")
    rows = [{"group": text}]
    for stream, more in ((Pipe(), {}), (Terminal(), {"unescaped": True})):
        Output("raw", stdout=stream, **more).table(rows, ("group",))
        assert stream.written() == text + "\n"


def test_json_holds_the_text_itself() -> None:
    assert json.loads(table("json", Pipe()))[0]["group"] == HOSTILE
    assert "größe" in _json("größe")


def _json(text: str) -> str:
    stream = Pipe()
    Output("json", stdout=stream).json({"name": text})
    return stream.written()


def test_messages_and_errors_are_one_line_each() -> None:
    stream = Terminal()
    out = Output(stderr=stream, color=True)
    out.note(f"group {HOSTILE}")
    out.warn(HOSTILE)
    out.error(YakError("some-slug", HOSTILE, why=HOSTILE.replace("\n", ""), try_=(HOSTILE,)))
    text = stream.written().replace("\x1b[1;31m", "").replace("\x1b[33m", "").replace("\x1b[0m", "")
    assert drives(text, "\n") == []
    assert text.count("\n") == 5
    assert len(error_lines(YakError("s", HOSTILE))) == 1


def test_colours_of_ours_stay_and_a_clients_are_no_more_than_colours() -> None:
    stream = Terminal()
    out = Output(stdout=stream, color=True)
    out.line(out.paint("red", "31") + " \x1b[8mhidden \x1b[2J")
    assert stream.written() == "\x1b[31mred\x1b[0m \\x1b[8mhidden \\x1b[2J\n"


def test_csv_quotes_what_a_spreadsheet_would_run() -> None:
    stream = Pipe()
    rows = [{"group": "=HYPERLINK(1)", "lag": -5, "client": "-2"}, {"group": "@x", "lag": 0, "client": "a=1"}]
    Output("csv", stdout=stream).table(rows, ("group", "lag", "client"))
    assert list(csv.reader(io.StringIO(stream.written())))[1:] == [["'=HYPERLINK(1)", "-5", "-2"], ["'@x", "0", "a=1"]]
    stream = Pipe()
    Output("csv", stdout=stream, unescaped=True).table(rows, ("group",))
    assert "'" not in stream.written()


def printed(format_: str, stream: Terminal, *, kcat: str | None = None, unescaped: bool = False) -> str:
    g = Globals.resolve(Flags(output=format_, unescaped=unescaped))
    g.out._stdout = stream
    data = b"\x1b]0;t\x07\x9b" + "\u202e=".encode()
    record = ConsumerRecord("orders", 0, 1, 0, "create", data, b"=1+1\x1b[2J", [("h\x1b", b"\x1b")], None)
    printer = RecordPrinter(g, "key,headers" if format_ == "table" else None, kcat, json_value=False)
    printer.show(record)
    printer.flush()
    return stream.written()


@pytest.mark.parametrize(
    ("format_", "kcat"),
    [("table", None), ("json", None), ("yaml", None), ("csv", None), ("raw", None), ("raw", "%k %s %h\\n")],
)
def test_consumed_record_on_a_terminal_drives_nothing(format_: str, kcat: str | None) -> None:
    text = printed(format_, Terminal(), kcat=kcat)
    assert drives(text, "\n\t") == []
    assert not any(0xDC80 <= ord(each) < 0xDD00 for each in text), "bytes that are not UTF-8"


def test_consumed_value_into_a_pipe_is_byte_exact() -> None:
    for stream, unescaped in ((Pipe(), False), (Terminal(), True)):
        assert printed("raw", stream, unescaped=unescaped) == "=1+1\x1b[2J\n"
    assert printed("raw", Pipe(), kcat="%s") == "=1+1\x1b[2J"


def test_consumed_csv_quotes_formulas() -> None:
    assert ",'=1+1" in printed("csv", Pipe())
    assert ",=1+1" in printed("csv", Pipe(), unescaped=True)


@pytest.mark.parametrize("config", ["\udcff=1", "retention.ms=\udcff"])
def test_config_that_is_not_utf8_is_refused_before_librdkafka_has_it(yak: Callable[..., Any], config: str) -> None:
    ran = yak("topics", "create", "t", "-c", config)
    assert (ran.code, ran.err.split("\n")[0]) == (2, "error[usage]: an argument is not UTF-8")


def test_name_of_a_header_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        _header("\udcff=1")
    assert _header("a=\udcff") == ("a", b"\xff")
