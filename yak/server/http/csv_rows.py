"""Incremental CSV: complete rows with the line each began in, and the fault of each invalid one.

Python's `csv` parses a row once its text is complete. This module finds the ends of rows in bounded memory and recovers
from broken rows: after a quote that is never closed, the next line is read as a row again.
"""

import codecs
import csv
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from yak.server.http.problems import Problem

ENCODINGS: Final = {
    "utf-8": "utf-8-sig",
    "utf-16": "utf-16",
    "utf-16-le": "utf-16-le",
    "utf-16-be": "utf-16-be",
    "latin-1": "latin-1",
    "windows-1252": "cp1252",
    "ascii": "ascii",
}
"""By the name in the request; UTF-8 may begin with a byte order mark."""
_BAD_BYTE: Final = "\udcff"
"""Stands for bytes invalid in the encoding: no decoder produces a lone surrogate by itself."""
_MARKER: Final = "yak-mark-bad-bytes"
_RESCAN_FREE_CHARS: Final = 4 * 1024 * 1024
_RESCAN_RATIO_MAX: Final = 4
"""Lines after unclosed quotes are scanned again, up to about this many times the input."""


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _BAD_BYTE, error.end


codecs.register_error(_MARKER, _mark)


class CsvRow(NamedTuple):
    """A row, or its fault; `line` is where it began, counted from 1."""

    line: int
    cells: list[str]
    fault: str = ""


class CsvRows:
    """Turns bytes into rows; skips blank lines."""

    def __init__(self, encoding: str, delimiter: str, row_chars_max: int) -> None:
        self.encoding = encoding
        self._decoder = codecs.getincrementaldecoder(ENCODINGS[encoding])(_MARKER)
        self._delimiter = delimiter
        self._row_chars_max = row_chars_max
        self._tail = ""
        self._is_skipping = False
        """Inside a line that is too long, up to its end."""
        self._line = 0
        self._open: list[tuple[int, str]] = []
        """The lines of a row in which a quote is open."""
        self._open_chars = 0
        self._read_chars = 0
        self._rescanned_chars = 0

    def feed(self, data: bytes, *, is_last: bool = False) -> Iterator[CsvRow]:
        """The rows that end in these bytes. Exhaust it before the next call. Raises Problem 400 `no-byte-order`."""
        try:
            text = self._decoder.decode(data, is_last)
        except UnicodeError:  # raised for this alone; invalid bytes become marks
            hint = "without one, use encoding=utf-16-le or encoding=utf-16-be"
            raise Problem(400, "no-byte-order", "UTF-16 needs a byte-order mark", hint) from None
        self._read_chars += len(text)
        lines = (self._tail + text).split("\n")
        self._tail = lines.pop()
        if is_last and self._tail:
            lines.append(self._tail)
            self._tail = ""
        for line in lines:
            self._line += 1
            if self._is_skipping:
                self._is_skipping = False
            elif len(line) > self._row_chars_max:
                yield from self._too_long(self._line)
            else:
                yield from self._take(self._line, line)
        if self._is_skipping:
            self._tail = ""
        elif len(self._tail) > self._row_chars_max:
            self._is_skipping, self._tail = True, ""
            yield from self._too_long(self._line + 1)
        if is_last:
            while self._open:
                yield from self._give_up()

    def _take(self, number: int, line: str) -> Iterator[CsvRow]:
        line = line.removesuffix("\r")
        if self._open:
            self._open.append((number, line))
            self._open_chars += len(line) + 1
            if not ends_open(line, self._delimiter, is_open=True):
                first, text = self._open[0][0], "\n".join([each for _, each in self._open])
                self._open, self._open_chars = [], 0
                yield self._row(first, text)
            elif self._open_chars > self._row_chars_max:
                yield from self._give_up()
        elif '"' in line and ends_open(line, self._delimiter, is_open=False):
            self._open, self._open_chars = [(number, line)], len(line)
        elif line.strip():
            yield self._row(number, line)

    def _give_up(self) -> Iterator[CsvRow]:
        """The quote is never closed: its line is a fault, and the lines after it are parsed again."""
        lines, self._open, chars, self._open_chars = deque(self._open), [], self._open_chars, 0
        number, _ = lines.popleft()
        yield CsvRow(number, [], "a quote is not closed")
        if self._rescanned_chars > _RESCAN_FREE_CHARS + _RESCAN_RATIO_MAX * self._read_chars:
            for number, _ in lines:
                yield CsvRow(number, [], "too many unclosed quotes come before it")
            return
        self._rescanned_chars += chars
        for number, line in lines:
            yield from self._take(number, line)

    def _row(self, number: int, text: str) -> CsvRow:
        if _BAD_BYTE in text:
            return CsvRow(number, [], f"it has bytes that are not {self.encoding}")
        try:
            return CsvRow(number, next(csv.reader((text,), delimiter=self._delimiter, strict=True)))
        except csv.Error as error:
            return CsvRow(number, [], f"it is not CSV: {error}")

    def _too_long(self, number: int) -> Iterator[CsvRow]:
        """Report a line that is too long. An open row cannot continue without it, so it is a fault too."""
        while self._open:
            yield from self._give_up()
        yield CsvRow(number, [], f"it has more than {self._row_chars_max} characters")


def ends_open(line: str, delimiter: str, *, is_open: bool) -> bool:
    """Whether a line ends inside quotes. A quote opens a cell only at its start; a doubled one is a character."""
    position = 0
    while True:
        if not is_open:
            if line[position : position + 1] != '"':
                position = line.find(delimiter, position) + 1
                if not position:
                    return False
                continue
            position += 1
        quote = line.find('"', position)
        if quote < 0:
            return True
        if line[quote + 1 : quote + 2] == '"':
            is_open, position = True, quote + 2
            continue
        is_open = False
        position = line.find(delimiter, quote + 1) + 1
        if not position:
            return False
