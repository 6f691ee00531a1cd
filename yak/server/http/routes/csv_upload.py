"""`POST /topics/{name}/csv`: uploads a CSV file of any size to a topic, each row as a JSON object, batch by batch.

While a batch is produced nothing is read. This slows the client down, and memory holds at most one batch and one piece.
"""

import codecs
import csv
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.acls.bindings import Operation
from yak.server import log
from yak.server.http.answers import Streamed, answer
from yak.server.http.bodies import body_pieces, query_text, text_of
from yak.server.http.context import Context
from yak.server.http.problems import Problem, bad_parameter, json_bytes
from yak.server.http.record_json import Row
from yak.server.http.record_producer import ACKS_ALL, RowDistribution, write
from yak.server.http.route import Answer, Body, Parameter, Routes
from yak.server.http.routes.topics import NAME
from yak.server.http.schemas import OFFSET, TEXT, listing, record
from yak.server.http.topic_partitions import find_or_create_topic

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
        csv.field_size_limit(max(csv.field_size_limit(), row_chars_max))  # of the process; the default is an eighth
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
        elif line.strip() or self._delimiter in line:  # a row of empty cells between tabs is not blank
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


NDJSON: Final = "application/x-ndjson"
_PROGRESS_SECONDS: Final = 1.0
_NO_DELIMITERS: Final = ('"', "\r", "\n", "\0")
COLUMNS_MAX: Final = 1000
_HINT: Final = "the first line must name each column once: id,name,price"


async def _progress(context: Context, upload: "CsvUpload") -> AsyncIterator[bytes]:
    """One line at once, at most one line a second, and a last line with the total and the error, if any."""
    reported_at = trio.current_time()
    yield json_bytes({"done": False, **upload.progress.as_json()})
    end: dict[str, Any] = {"done": True}
    try:
        async for progress in upload.upload_rest():
            if trio.current_time() - reported_at >= _PROGRESS_SECONDS:
                reported_at = trio.current_time()
                yield json_bytes({"done": False, **progress.as_json()})
    except Problem as problem:
        end |= problem.as_json()
    except Exception as error:  # noqa: BLE001 - our bug: the answer has begun, so this line must say it
        context.shell.counters.bugs += 1
        log.write("error", "http-bug", {"method": "POST", "route": "/topics/{name}/csv"}, error=error)
        end |= {"error": "internal-error", "message": "internal error in this broker", "hint": "its log says more"}
    yield json_bytes({**end, **_total(upload)})


def _total(upload: "CsvUpload") -> dict[str, Any]:
    return {"topic": upload.topic, "columns": upload.columns, **upload.progress.as_total()}


def _encoding(request: Request) -> str:
    text = query_text(request, "encoding")
    name = "utf-8" if text is None else text.lower()
    if name not in ENCODINGS:
        known = ", ".join(ENCODINGS)
        raise bad_parameter(f"encoding={name[:64]!r} is not known", f"one of {known}")
    return name


def _delimiter(request: Request) -> str:
    text = query_text(request, "delimiter")
    if text is None:
        return ","
    text = "\t" if text == "tab" else text
    if len(text) != 1 or text in _NO_DELIMITERS:
        raise bad_parameter(f"delimiter={text[:16]!r} is not one character", "as ; or | or tab")
    return text


@dataclass(slots=True)
class UploadProgress:
    """The counters of an upload so far."""

    rows: int = 0
    written: int = 0
    failed: int = 0
    received_bytes: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    """The first failures: line and reason."""
    partitions: dict[int, int] = field(default_factory=dict)
    """Rows written, by partition."""

    def fail(self, line: int, why: str, named_max: int) -> None:
        """Count one more row that is not written."""
        self.failed += 1
        if len(self.failures) < named_max:
            self.failures.append({"line": line, "why": why})

    def as_json(self) -> dict[str, Any]:
        """The counters."""
        return {
            "rows": self.rows,
            "written": self.written,
            "failed": self.failed,
            "received_bytes": self.received_bytes,
        }

    def as_total(self) -> dict[str, Any]:
        """The counters, the first failures, and the rows by partition."""
        partitions = {str(number): self.partitions[number] for number in sorted(self.partitions)}
        return {**self.as_json(), "failures": self.failures, "partitions": partitions}


class CsvUpload:
    """`begin` reads up to the header, `upload_rest` the rest. Both raise Problem; `progress` then shows the progress."""

    def __init__(
        self, context: Context, topic: str, pieces: AsyncIterator[bytes], rows: CsvRows, key_column: str | None
    ) -> None:
        self.progress = UploadProgress()
        self.topic = topic
        self.columns: list[str] = []
        self._context = context
        self._pieces = pieces
        self._rows = rows
        self._key_column = key_column
        self._key_at: int | None = None
        self._held: Iterator[CsvRow] = iter(())
        """The rows after the header in the same piece."""
        self._is_at_end = False

    async def begin(self) -> None:
        """Find the header and the topic. Raises Problem 400 `no-header`, `bad-header`, `unknown-column`; 404."""
        while not self._is_at_end:
            self._held = await self._next_piece()
            header = next(self._held, None)
            if header is not None:
                self._take_header(header)
                await find_or_create_topic(self._context, self.topic)
                return
        raise Problem(400, "no-header", "the file is empty", _HINT)

    async def upload_rest(self) -> AsyncIterator[UploadProgress]:
        """Write all remaining rows; yields the counters after each batch. Raises Problem when a write fails."""
        batch: list[CsvRow] = []
        batch_chars = 0
        limits = self._context.limits
        while True:
            for row in self._held:
                batch.append(row)
                batch_chars += len(row.cells) + sum(map(len, row.cells))
                if len(batch) >= limits.csv_rows_per_batch or batch_chars >= limits.csv_batch_chars_max:
                    await self._write(batch)
                    yield self.progress
                    batch, batch_chars = [], 0
            if self._is_at_end:
                break
            self._held = await self._next_piece()
        if batch:
            await self._write(batch)
            yield self.progress

    async def _next_piece(self) -> Iterator[CsvRow]:
        piece = await anext(self._pieces, None)
        self._is_at_end = piece is None
        self.progress.received_bytes += len(piece or b"")
        return self._rows.feed(piece or b"", is_last=piece is None)

    def _take_header(self, header: CsvRow) -> None:
        names = header.cells
        if header.fault:
            raise Problem(400, "bad-header", f"line {header.line} cannot be the header: {header.fault}", _HINT)
        if len(names) > COLUMNS_MAX:
            raise Problem(400, "bad-header", f"{len(names)} columns, at most {COLUMNS_MAX}", _HINT)
        blank = next((place for place, name in enumerate(names, 1) if not name.strip()), None)
        if blank is not None:
            raise Problem(400, "no-header", f"column {blank} has no name", _HINT)
        if all(map(_is_number, names)):
            raise Problem(400, "no-header", "the first line has only numbers: the header is missing", _HINT)
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise Problem(400, "bad-header", f"two columns have the name {twice[:64]!r}", _HINT)
        if self._key_column is not None:
            if self._key_column not in names:
                known = ", ".join(name[:64] for name in names[:20])
                raise Problem(
                    400,
                    "unknown-column",
                    f"column {self._key_column[:64]!r} does not exist",
                    f"the columns are {known}",
                )
            self._key_at = names.index(self._key_column)
        self.columns = names

    async def _write(self, batch: Sequence[CsvRow]) -> None:
        progress, named_max = self.progress, self._context.limits.failed_rows_named_max
        rows: list[Row] = []
        lines: list[int] = []
        count = len(self.columns)
        for line, cells, fault in batch:
            progress.rows += 1
            if fault or len(cells) != count:
                progress.fail(line, fault or f"it has {len(cells)} cells, the header has {count}", named_max)
                continue
            # An empty cell means no key: with an empty key all such rows would go to one partition.
            key = (cells[self._key_at] or None) if self._key_at is not None else None
            value = text_of(dict(zip(self.columns, cells, strict=True)))
            rows.append(Row(self.topic, None, None if key is None else key.encode(), value, ()))
            lines.append(line)
        if not rows:
            await trio.lowlevel.checkpoint()
            return
        try:  # Found again: the topic may have gained partitions, or be deleted.
            topic = await find_or_create_topic(self._context, self.topic)
        except Problem as problem:
            for line in lines:
                progress.fail(line, problem.message, named_max)
            raise _stopped(problem, lines, "are not written") from None
        placing = RowDistribution(self._context, {self.topic: topic})
        placing.put(rows)
        for fault_at in placing.faults:
            progress.fail(lines[fault_at["row"]], fault_at["message"], named_max)
        progress.failed += placing.failed - len(placing.faults)
        queues = list(placing.queues.values())
        await write(self._context, queues, ACKS_ALL)
        for queue in queues:
            if queue.written:
                partition = queue.place.partition
                progress.partitions[partition] = progress.partitions.get(partition, 0) + queue.written
                progress.written += queue.written
            if queue.problem is not None:
                why = queue.problem.message + ("; it may be written all the same" if queue.is_unknown else "")
                for row in queue.rows[queue.written :]:
                    progress.fail(lines[row], why, named_max)
        stopped = next((queue.problem for queue in queues if queue.problem is not None), None)
        if stopped is not None:
            are = "may be written or not" if any(queue.is_unknown for queue in queues) else "are not written"
            raise _stopped(stopped, lines, are)


def _stopped(problem: Problem, lines: Sequence[int], are: str) -> Problem:
    hint = (
        f"all lines to {lines[0] - 1} are done; some of lines {lines[0]} to {lines[-1]} {are}; no later line is written"
    )
    return Problem(problem.status, problem.error, problem.message, hint)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_TOTAL: Final = record(
    {
        "topic": TEXT,
        "columns": listing(TEXT),
        "rows": OFFSET,
        "written": OFFSET,
        "failed": OFFSET,
        "received_bytes": OFFSET,
        "failures": listing(record({"line": OFFSET, "why": TEXT})),
        "partitions": {"type": "object", "additionalProperties": OFFSET},
    }
)

ROUTES: Final = Routes("Data")


@ROUTES.add(
    "POST /topics/{name}/csv",
    "Upload CSV: each row becomes a JSON object",
    guard="change",
    parameters=(
        NAME,
        Parameter("key", {"type": "string"}, "the column with the record's key"),
        Parameter("delimiter", {"type": "string", "maxLength": 3, "default": ","}, "one character, or tab"),
        Parameter("encoding", {"enum": list(ENCODINGS), "default": "utf-8"}, "of the file"),
    ),
    body=Body({"type": "string"}, "id,name\n1,tea\n2,milk\n", "text/csv"),
    answers={200: Answer("the number of written rows, and the rejected rows", _TOTAL)},
    description="Cells are strings. Invalid rows are counted and the first of them listed; the others are "
    f"written. With `Accept: {NDJSON}` the response has a progress line each second, then the total.",
    operation=Operation.WRITE,
)
async def upload_csv(context: Context, request: Request) -> Response:
    """Upload CSV. The header is checked before anything is written."""
    content_type = request.headers.get("content-type", "")
    if content_type.startswith("multipart/"):
        raise Problem(415, "not-csv", "an HTML form is not CSV", "send the file itself: curl --data-binary @FILE")
    rows = CsvRows(_encoding(request), _delimiter(request), context.limits.csv_row_chars_max)
    pieces = body_pieces(context, request, bytes_max=None)
    upload = CsvUpload(context, request.path_params["name"], pieces, rows, query_text(request, "key"))
    await upload.begin()
    if NDJSON in request.headers.get("accept", ""):
        return Streamed(_progress(context, upload), media_type=NDJSON)
    try:
        async for _ in upload.upload_rest():
            pass
    except Problem as problem:
        problem.more |= _total(upload)
        raise
    return answer(_total(upload))
