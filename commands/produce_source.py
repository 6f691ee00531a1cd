"""The input of `yak produce`: `-m`, a file, or stdin; and the files for bad rows and for progress."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from yak.commands.units import parse_time_ms
from yak.errors import UsageError, YakError

if TYPE_CHECKING:
    from yak.client.checkpoint import Checkpoint
    from yak.client.inputs import CsvMapping, Row
    from yak.client.produce import Outgoing
    from yak.client.record_template import RecordTemplate
    from yak.client.rejects import Rejects
    from yak.commands.options import Globals
    from yak.commands.producing import Request

FORMATS = ("lines", "json", "csv")
BY_EXTENSION = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
COUNT_CHUNK_BYTES = 1 << 20


class Source:
    """The rows of one run, with the options for all rows applied."""

    def __init__(self, g: "Globals", request: "Request", topic: str) -> None:
        self._g = g
        self._request = request
        self._columns: tuple[str, ...] = ()
        self._rejects: Rejects | None = None
        self._skipped = 0
        self.rejected = 0
        self.kept_rows = 0
        self.is_tee = request.tee
        self.format = _format_of(request)
        if request.key_separator is not None and self.format != "lines":
            raise UsageError(
                "usage",
                f"--key-separator splits lines, and the format is {self.format}",
                why="a column or a field names the key there",
                try_=("--csv-key COLUMN", "--format lines"),
            )
        name = request.file if request.file not in (None, "-") else "stdin"
        self.rejected_path = f"{name}.rejected.csv"
        self.checkpoint: Checkpoint | None = None
        if request.resume is not None and request.file is not None:
            from yak.client.checkpoint import Checkpoint as Kept

            with _readable(request.file):
                self.checkpoint = Kept(request.resume, request.file, topic)
        self._headers = [_header(text) for text in request.headers]
        self._separator = _unescape(request.key_separator)
        self._null = None if request.null_value is None else request.null_value.encode()
        self._timestamp_ms = (
            0 if request.timestamp is None else parse_time_ms(request.timestamp, now_ms=g.now_ms(), zone=g.zone)
        )

    def skip(self, rows: int) -> None:
        """Skip the first rows, which an earlier run has settled."""
        self._skipped = self.kept_rows = rows
        if rows:
            self._g.out.note(f"resuming after row {rows}")

    def keep(self, settled: int) -> None:
        """Write the checkpoint: the number of rows that this run has settled, from its first row."""
        self.kept_rows = self._skipped + settled
        if self.checkpoint is not None:
            self.checkpoint.write(self.kept_rows)

    def total_rows(self) -> int | None:
        """The number of rows, counted by lines; None if it is unknown, or no progress is shown."""
        request = self._request
        if request.repeat == 0:
            return None
        if request.messages:
            return len(request.messages) * request.repeat
        if request.file in (None, "-") or not sys.stderr.isatty():
            return None
        assert request.file is not None
        with open(request.file, "rb") as file:
            lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(COUNT_CHUNK_BYTES), b""))
        return max(lines * request.repeat - self._skipped, 1)

    def rows(self) -> "Iterator[Row]":
        """All rows, including repetitions, without the skipped ones."""
        if self._request.template:
            yield from self._made()
            return
        for turn in range(self._request.repeat) if self._request.repeat else count():
            for row in islice(self._once(), self._skipped if turn == 0 else 0, None):
                if row.record is not None:
                    self._dress(row.record)
                yield row

    def _made(self) -> "Iterator[Row]":
        """Rows of templates: -m, -k and -H are evaluated again for each row."""
        from yak.client.inputs import Row

        partition = -1 if self._request.partition is None else self._request.partition
        sources = [
            template.records(self._g.now_ms, partition=partition) for template in record_templates(self._request)
        ]
        turns = range(self._request.repeat) if self._request.repeat else count()
        for number, source in enumerate(source for _ in turns for source in sources):
            record = next(source)
            record.timestamp_ms = self._timestamp_ms
            yield Row(number, record)

    def _once(self) -> "Iterator[Row]":
        from yak.client.inputs import json_rows, line_rows, message_rows

        if self._request.messages:
            given = (text.encode("utf-8", "surrogateescape") for text in self._request.messages)
            yield from message_rows(given, key_separator=self._separator, null_value=self._null)
            return
        with _opened(self._request.file) as file:
            if self.format == "csv":
                yield from self._csv(file)
            elif self.format == "json":
                yield from json_rows(file)
            else:
                yield from line_rows(file, key_separator=self._separator, null_value=self._null)

    def _csv(self, file: IO[bytes]) -> "Iterator[Row]":
        from yak.client.csv_files import TextLines, check_encoding
        from yak.client.inputs import CsvSource

        name = self._request.file or "stdin"
        encoding = check_encoding(self._request.csv_encoding)
        source = CsvSource(
            TextLines(cast("BinaryIO", file), encoding, os.path.basename(name)),
            _mapping(self._request),
            os.path.basename(name),
        )
        first_time = not self._columns
        self._columns = source.columns
        if first_time:
            shown = {"\t": "tab"}.get(source.delimiter, f'"{source.delimiter}"')
            self._g.out.note(f"{os.path.basename(name)}: delimiter {shown}, columns {', '.join(source.columns)}")
        yield from source.rows()

    def _dress(self, record: "Outgoing") -> None:
        """Apply -k, -H, -p and --timestamp, which override the input's values."""
        request = self._request
        if request.key is not None:
            record.key = request.key.encode("utf-8", "surrogateescape")
        if self._headers:
            record.headers = [*record.headers, *self._headers]
        if request.partition is not None:
            record.partition = request.partition
        if self._timestamp_ms:
            record.timestamp_ms = self._timestamp_ms

    def reject(self, row: "Row") -> None:
        """Write a bad row to FILE.rejected.csv with its reason."""
        from yak.client.rejects import Rejects

        self.rejected += 1
        if self._rejects is None:
            self._rejects = Rejects(self.rejected_path, is_resumed=self._skipped > 0)
        self._rejects.add(row, self._columns)

    def close(self) -> None:
        """Close the file for bad rows."""
        if self._rejects is not None:
            self._rejects.close()


@contextmanager
def open_source(g: "Globals", request: "Request", topic: str) -> Iterator[Source]:
    """Provide a source and close it at the end. Raises YakError (`file`) when the input cannot be opened."""
    if request.file not in (None, "-"):
        assert request.file is not None
        with _readable(request.file):
            open(request.file, "rb").close()
    elif not request.messages and sys.stdin.isatty():
        g.out.note("reading records from the terminal, one a line; Ctrl+D ends")
    source = Source(g, request, topic)
    try:
        yield source
    finally:
        source.close()


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise YakError(
            "file", f"{path} cannot be read", why=str(error.strerror), try_=("check the path; nothing was sent",)
        ) from None


@contextmanager
def _opened(path: str | None) -> Iterator[IO[bytes]]:
    if path in (None, "-"):
        yield sys.stdin.buffer
        return
    assert path is not None
    with open(path, "rb") as file:
        yield file


def _format_of(request: "Request") -> str:
    if request.format is not None:
        if request.format not in FORMATS:
            raise UsageError(
                "usage",
                f'--format "{request.format}" is not an input format',
                why=f"formats are {', '.join(FORMATS)}",
                try_=("--format csv",),
            )
        return request.format
    if (
        request.csv_key
        or request.csv_columns
        or request.csv_headers
        or request.csv_value != "json"
        or request.csv_partition
    ):
        return "csv"
    if request.key_separator is not None:
        return "lines"
    return BY_EXTENSION.get(os.path.splitext(request.file or "")[1].lower(), "lines")


def _mapping(request: "Request") -> "CsvMapping":
    from yak.client.inputs import CsvMapping

    headers: dict[str, str] = {}
    for text in request.csv_headers:
        column, equals, name = text.partition("=")
        headers[column] = name if equals else column
    columns = tuple(each.strip() for each in (request.csv_columns or "").split(",") if each.strip())
    return replace(
        CsvMapping(key=request.csv_key, value=request.csv_value, headers=headers, null_value=request.null_value),
        columns=columns,
        partition=request.csv_partition,
        delimiter=_delimiter(request.csv_delimiter),
    )


def _delimiter(text: str | None) -> str | None:
    character = {"tab": "\t", "\\t": "\t"}.get(text or "", text)
    if character is not None and (len(character) != 1 or character in '"\r\n\0'):
        raise UsageError(
            "usage",
            f'--csv-delimiter "{text}" is not one character',
            try_=("--csv-delimiter ';'", "--csv-delimiter tab"),
        )
    return character


def record_templates(request: "Request") -> "list[RecordTemplate]":
    """-m, -k and -H as templates. Raises UsageError (`bad-template`) with the position of an error."""
    from yak.client.record_template import PLACEHOLDERS, RecordTemplate, TemplateError

    headers: list[tuple[str, str | None]] = []
    for text in request.headers:
        name, value = _header(text)
        headers.append((name, None if value is None else value.decode("utf-8", "surrogateescape")))
    try:
        return [
            RecordTemplate.parse(request.key, None if value == request.null_value else value, headers)
            for value in request.messages
        ]
    except TemplateError as error:
        raise UsageError(
            "bad-template",
            f"the template of the {error.part} cannot be read",
            why=str(error),
            try_=(f"use {PLACEHOLDERS}", "leave --template out to send braces as they are"),
        ) from None


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError("usage", f'header "{text}" has no name', try_=("-H NAME=VALUE",))
    return name, value.encode("utf-8", "surrogateescape") if equals else None


def _unescape(text: str | None) -> bytes | None:
    r"""A separator with `\t`, `\n`, `\xNN` and `\\` decoded; several bytes are allowed."""
    if text is None:
        return None
    if not text:
        raise UsageError("usage", "--key-separator is empty", try_=("--key-separator :",))
    try:
        return text.encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1")
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise UsageError("usage", f'--key-separator "{text}" cannot be read', why=str(error)) from None
