"""Prints the results of commands: data on stdout in the chosen format, everything else on stderr.

Tables are for people and may change; `-o json` is a contract (golden files cover its keys).
"""

import json
import os
import re
import select
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from yak.errors import YakError
from yak.plain_text import is_plain, json_text, one_line, one_line_with_tabs, spreadsheet_cell
from yak.view.error_lines import error_lines
from yak.view.formats import group_digits

Row = Mapping[str, Any]
NOTHING = "\u2013"
"""The text of an empty table cell."""


_COLOURS = re.compile("(\x1b\\[(?:[012]|(?:1;)?3[0-7])m)")
"""The colour codes of `Output.paint`. A record that contains them can colour its own text, but nothing else."""


def is_dumb() -> bool:
    """Whether the terminal knows no escape sequences."""
    return os.environ.get("TERM") == "dumb"


def to_json(value: object, indent: int | None = None) -> str:
    """JSON with non-ASCII characters unchanged; characters that control a terminal are escaped."""
    return json_text(json.dumps(value, ensure_ascii=False, default=str, indent=indent))


def to_yaml(document: object) -> str:
    """YAML of a document that JSON can express, with non-ASCII characters unchanged unless one controls a terminal."""
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text if is_plain(text) else yaml.safe_dump(document, sort_keys=False)  # escapes all of them


class Output:
    """The two output streams of a command."""

    def __init__(
        self,
        format_: str = "table",
        *,
        quiet: int = 0,
        verbose: int = 0,
        color: bool = False,
        headers: bool = True,
        unescaped: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.format = format_
        self.quiet = quiet
        self.verbose = verbose
        self.color = color
        self.headers = headers
        self.unescaped = unescaped
        """Whether text from clients is printed unchanged, even to a terminal and into CSV."""
        self._stdout = stdout
        self._stderr = stderr
        self._warned: set[str] = set()

    @property
    def stdout(self) -> TextIO:
        return self._stdout or sys.stdout

    @property
    def stderr(self) -> TextIO:
        """The stream for everything else."""
        return self._stderr or sys.stderr

    @property
    def is_live(self) -> bool:
        """Whether stderr is a terminal on which a line can be drawn again, and no option silences it."""
        return self.stderr.isatty() and not is_dumb() and not self.quiet and not os.environ.get("CI")

    @property
    def draws_in_place(self) -> bool:
        """Whether stdout is a terminal on which a table can replace the one before."""
        return self.stdout.isatty() and not is_dumb()

    @property
    def for_people(self) -> bool:
        """Whether the format is `table` or `wide`."""
        return self.format in ("table", "wide")

    @property
    def escapes(self) -> bool:
        """Whether output must be escaped: a format for people, or a terminal, but not bytes into a pipe."""
        return not self.unescaped and (self.for_people or self.stdout.isatty())

    def require_reader(self) -> None:
        """Raise BrokenPipeError if the reader of stdout is gone, for commands that wait until there is something to print."""
        try:
            poll = select.poll()
            poll.register(self.stdout.fileno(), 0)
        except (OSError, ValueError):  # not a file, as in tests
            return
        if any(found & select.POLLERR for _file, found in poll.poll(0)):
            raise BrokenPipeError

    def line(self, text: str = "") -> None:
        self.stdout.write((self._harmless(text) if self.escapes else text) + "\n")

    def _harmless(self, text: str) -> str:
        """The text without terminal control characters, except the colours of `paint` if colours are enabled."""
        if text.isprintable():
            return text
        if not self.color:
            return one_line_with_tabs(text)
        parts = _COLOURS.split(text)
        return "".join(part if number % 2 else one_line_with_tabs(part) for number, part in enumerate(parts))

    def json(self, value: object) -> None:
        """One JSON document, indented for a terminal, one line for a pipe."""
        self.stdout.write(to_json(value, indent=2 if self.stdout.isatty() else None) + "\n")

    def object(self, value: object) -> None:
        """Print a document as yaml or json. Callers print the formats for people themselves."""
        if self.format == "yaml":
            self.stdout.write(to_yaml(json.loads(json.dumps(value, default=str))))
        else:
            self.json(value)

    def document(self, value: Any) -> bool:
        """Print a document if the format is yaml or json; returns whether it is."""
        if is_wanted := self.format in ("json", "yaml"):
            self.object(value)
        return is_wanted

    def table(
        self, rows: Sequence[Row], columns: Sequence[str], wide_columns: Sequence[str] = (), *, empty: str = ""
    ) -> None:
        """Print rows: `table` shows `columns`, `wide` and CSV also `wide_columns`, JSON and YAML all keys.

        `empty` is a note for people when there are no rows: it says what is missing and what to do.
        """
        if self.format in ("json", "yaml"):
            self.object([dict(row) for row in rows])
            return
        names = [*columns, *wide_columns] if self.format in ("wide", "csv") else list(columns)
        if self.format == "csv":
            self._csv(rows, names)
        elif self.format == "raw":
            for row in rows:
                cells = [cell(row.get(name)) for name in names]
                self.line("\t".join(map(one_line, cells) if self.escapes else cells))
        elif rows:
            for line in layout(rows, names, headers=self.headers):
                self.line(line)
        elif empty:
            self.note(empty)

    def for_programs(self, document: Any, rows: Sequence[Row], columns: Sequence[str]) -> bool:
        """Print the document as yaml or json, its rows as CSV or raw; False with a format for people: the caller prints."""
        if self.format in ("csv", "raw"):
            self.table(rows, columns)
        elif not self.for_people:
            self.object(document)
        return not self.for_people

    def results(self, rows: Sequence[Row]) -> None:
        """Print what came of each name, or of each of its partitions: notes for people, rows for programs."""
        if self.for_people:
            for row in rows:
                where = f" {row['topic']}-{row['partition']}" if "topic" in row else ""
                self.note(f"{row['name']}{where}: {row['result']}")
        elif not self.quiet:
            has_partitions = any("topic" in row for row in rows)
            self.table(rows, ("name", *(("topic", "partition") if has_partitions else ()), "result"))

    def _csv(self, rows: Sequence[Row], names: Sequence[str]) -> None:
        if self.headers:
            self.csv_row(names)
        for row in rows:
            self.csv_row([row.get(name) for name in names])

    def csv_row(self, values: Sequence[Any]) -> None:
        """Print a row of CSV. No cell is a formula, and on a terminal none contains control characters."""
        from yak.client.csv_files import csv_row

        cells = [flat(value) for value in values]
        if self.escapes:
            cells = [one_line(each) for each in cells]
        if not self.unescaped:
            cells = [each if isinstance(value, int | float) else spreadsheet_cell(each)
                     for each, value in zip(cells, values, strict=True)]  # fmt: skip
        self.stdout.write(csv_row(cells))

    def note(self, text: str) -> None:
        """Print a line for people on stderr; nothing with -q."""
        if not self.quiet:
            self.stderr.write(self._harmless(text) + "\n")
            self.stderr.flush()

    def note_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.note(text)

    def detail(self, text: str) -> None:
        if self.verbose and not self.quiet:
            self.note(text)

    def warn(self, text: str) -> None:
        """Print a warning on stderr; nothing with -qq."""
        if self.quiet < 2:
            self.stderr.write(self.paint("warning:", "33") + f" {self._harmless(text)}\n")
            self.stderr.flush()

    def warn_once(self, texts: Sequence[str]) -> None:
        for text in texts:
            if text not in self._warned:
                self._warned.add(text)
                self.warn(text)

    def paint(self, text: str, ansi: str) -> str:
        """The text in a colour, if colours are enabled; a colour never carries meaning alone."""
        return f"\x1b[{ansi}m{text}\x1b[0m" if self.color else text

    def progress(self, label: str, total: int | None = None) -> "Progress":
        """A progress line on stderr, only on a terminal, without -q, and not in CI."""
        is_live = self.is_live
        return Progress(self.stderr, label, total, is_live=is_live)

    def error(self, error: YakError) -> None:
        """Print an error in three parts on stderr, or as a JSON object with -o json; nothing with -qq."""
        if self.quiet >= 2:
            return
        if self.format == "json":
            text = to_json(error_document(error))
        else:
            text = "\n".join(error_lines(error, lambda head: self.paint(head, "1;31")))
        self.stderr.write(text + "\n")
        self.stderr.flush()


class Progress:
    """A progress line: label, bar or count, rate, remaining time. Use it as a context manager."""

    EVERY_S = 0.1

    def __init__(self, stream: TextIO, label: str, total: int | None, *, is_live: bool) -> None:
        self._stream = stream
        self._label = label
        self.total = total
        self._is_live = is_live
        self._started = time.monotonic()
        self._drawn = 0.0
        self._width = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()

    def update(self, done: int, note: str = "") -> None:
        """Draw, at most ten times a second."""
        now = time.monotonic()
        if not self._is_live or now - self._drawn < self.EVERY_S:
            return
        self._drawn = now
        rate = done / max(now - self._started, 1e-6)
        parts = [self._label]
        if self.total:
            filled = min(20, 20 * done // self.total)
            parts.append("█" * filled + "░" * (20 - filled))
            parts.append(f"{group_digits(done)}/{group_digits(self.total)}")
        else:
            parts.append(group_digits(done))
        parts.append(f"{group_digits(round(rate))}/s")
        if self.total and rate > 0:
            parts.append(f"{max(self.total - done, 0) / rate:.0f} s left")
        text = "  ".join([*parts, note] if note else parts)
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)


def cell(value: object) -> str:
    """The text of a value in a table."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(cell(part) for part in value) or NOTHING
    if isinstance(value, dict):
        return to_json(value)
    return str(value)


def flat(value: object) -> str:
    """The text of a value in CSV: empty for None, lists with commas, `true` and `false`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(flat(part) for part in value) if isinstance(value, list | tuple) else cell(value)


def layout(rows: Sequence[Row], columns: Sequence[str], *, headers: bool = True) -> list[str]:
    """The lines of a table: columns two spaces apart, numbers right-aligned, no wrapping."""
    right = [
        all(isinstance(row.get(name), int | float | None) for row in rows)
        and any(row.get(name) is not None for row in rows)
        for name in columns
    ]
    lines = [[one_line(cell(row.get(name))) for name in columns] for row in rows]
    if headers:
        lines.insert(0, [name.upper().replace("_", " ") for name in columns])
    widths = [max(width_of(line[index]) for line in lines) for index in range(len(columns))]

    def padded(text: str, index: int) -> str:
        room = " " * (widths[index] - width_of(text))
        return room + text if right[index] else text + room

    return ["  ".join(padded(text, index) for index, text in enumerate(line)).rstrip() for line in lines]


def width_of(text: str) -> int:
    """The columns of a text on a terminal: a Chinese character takes two, a combining one none."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(each) in ("Mn", "Me", "Cf") else 1 + (east_asian_width(each) in "FW") for each in text)


def cropped(text: str, columns: int) -> str:
    """The beginning of a text that fits into these columns of a terminal."""
    if width_of(text) <= columns:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, columns)


def error_document(error: YakError) -> dict[str, object]:
    """The JSON form of an error."""
    return {"error": {**error.as_json(), "kafka_code": error.kafka_code}}
