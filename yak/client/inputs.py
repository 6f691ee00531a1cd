"""Turns lines, JSON lines and CSV files into records, and reports rows that cannot be converted."""

import csv
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from yak.client.csv_files import LINE_CHARACTERS_MAX, LineTooLong
from yak.client.produce import Outgoing
from yak.client.record_json import BadRecord, parse_record
from yak.errors import UsageError, closest
from yak.view.formats import counted

DELIMITERS = (",", ";", "\t", "|")
SNIFFED_LINES = 20
JSON_OF_OTHERS = "json"
JSON_OF_CHOSEN = "json:"
PARTITION_DIGITS = 9
"""More digits than any partition number has."""


@dataclass(slots=True)
class Row:
    """One row of the input, by number from 0: a record, or its problem and raw cells.

    `line` is where a CSV row begins in its file, from 1; 0 for other input.
    """

    number: int
    record: Outgoing | None
    problem: str = ""
    cells: tuple[str, ...] = ()
    line: int = 0


@dataclass(slots=True)
class CsvMapping:
    """Maps columns to the parts of a record.

    `value` is a column, `json` for an object of the columns not used elsewhere, or `json:a,b` for an object of these.
    """

    key: str | None = None
    value: str = JSON_OF_OTHERS
    headers: dict[str, str] = field(default_factory=dict)
    """Header name by column."""
    columns: tuple[str, ...] = ()
    """The column names, for a file without a header row."""
    null_value: str | None = None
    partition: str | None = None
    """The column with the partition number; an empty cell lets the key choose."""
    delimiter: str | None = None
    """None: detected from the first lines."""

    @property
    def is_json(self) -> bool:
        """Whether the value is a JSON object of columns, not a single column."""
        return self.value == JSON_OF_OTHERS or self.value.startswith(JSON_OF_CHOSEN)

    def chosen(self, columns: Sequence[str]) -> list[str]:
        """The columns of the JSON object."""
        if self.value.startswith(JSON_OF_CHOSEN):
            return [each.strip() for each in self.value.removeprefix(JSON_OF_CHOSEN).split(",") if each.strip()]
        used = {self.key, self.partition, *self.headers}
        return [column for column in columns if column not in used]


def line_rows(
    lines: Iterable[bytes], *, key_separator: bytes | None = None, null_value: bytes | None = None
) -> Iterator[Row]:
    """One record per line, split at the first separator; a line without one has no key."""
    stripped = (line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line for line in lines)
    return message_rows(stripped, key_separator=key_separator, null_value=null_value)


def message_rows(
    messages: Iterable[bytes], *, key_separator: bytes | None = None, null_value: bytes | None = None
) -> Iterator[Row]:
    """One record per message as it is, line ends included; split like `line_rows`."""
    for number, text in enumerate(messages):
        key: bytes | None = None
        if key_separator is not None and key_separator in text:
            key, _, text = text.partition(key_separator)
        value = None if null_value is not None and text == null_value else text
        key = None if null_value is not None and key == null_value else key
        yield Row(number, Outgoing(value=value, key=key))


def json_rows(lines: Iterable[bytes]) -> Iterator[Row]:
    """One record per line, in the form of `yak.client.record_json`; blank lines are skipped."""
    number = 0
    for line in lines:
        stripped = line.strip()
        if not stripped:
            continue
        try:
            row = Row(number, parse_record(stripped.decode("utf-8-sig")))  # a file may begin with a mark
        except BadRecord as error:
            row = Row(number, None, str(error), (stripped.decode(errors="replace"),))
        except UnicodeDecodeError:
            row = Row(number, None, "not UTF-8", (stripped.decode(errors="backslashreplace"),))
        yield row
        number += 1


def sniff_delimiter(sample: Sequence[str]) -> str:
    """The delimiter that splits most of the first lines into the same number of columns, preferring more columns; else
    a comma."""
    best, most = ",", 1
    for delimiter in DELIMITERS:
        try:
            counts = [len(cells) for cells in csv.reader(sample[:SNIFFED_LINES], delimiter=delimiter) if cells]
        except csv.Error:
            continue
        agree = sum(count == counts[0] for count in counts) if counts else 0
        if counts and counts[0] > most and agree * 2 > len(counts):
            best, most = delimiter, counts[0]
    return best


class _Lookahead:
    """Lines whose first few were read ahead. An error of reading ahead is raised at its line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._seen: deque[str | LineTooLong] = deque()
        while len(self._seen) < SNIFFED_LINES:
            try:
                line = next(self._lines)
            except StopIteration:
                break
            except LineTooLong as error:
                self._seen.append(error)
            else:
                self._seen.append(line if self._seen else line.removeprefix("\ufeff"))
        self.sample = [line for line in self._seen if isinstance(line, str)]

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self._seen:
            return next(self._lines)
        line = self._seen.popleft()
        if isinstance(line, LineTooLong):
            raise line
        return line


class CsvSource:
    """A CSV file being read: its delimiter and columns are known before the first row.

    Raises UsageError (`csv-column`, `csv-empty`) when the mapping names an unknown column, or there is no header row.
    """

    def __init__(self, lines: Iterable[str], mapping: CsvMapping, name: str) -> None:
        self._mapping = mapping
        self._lost_lines = 0
        ahead = _Lookahead(lines)
        self.delimiter = mapping.delimiter or sniff_delimiter(ahead.sample)
        csv.field_size_limit(max(csv.field_size_limit(), LINE_CHARACTERS_MAX))  # the default is an eighth of that
        self._reader = csv.reader(ahead, delimiter=self.delimiter, strict=True)
        if mapping.columns:
            self.columns: tuple[str, ...] = mapping.columns
        else:
            try:
                self.columns = tuple(cell.strip() for cell in next(self._reader))
            except StopIteration:
                raise UsageError(
                    "csv-empty", f"{name} has no header row", why="the file is empty", try_=("--csv-columns a,b,c",)
                ) from None
            except (csv.Error, LineTooLong) as error:
                raise UsageError("csv-empty", f"{name} has no header row", why=str(error)) from None
        self._check(name)
        self._in_json = mapping.chosen(self.columns) if mapping.is_json else None

    def _check(self, name: str) -> None:
        mapping = self._mapping
        for column in self.columns:
            try:
                column.encode()
            except UnicodeEncodeError:
                raise UsageError(
                    "csv-column",
                    f"column {column!r} of {name} is not UTF-8",
                    why="the file has another encoding",
                    try_=("--csv-encoding cp1252",),
                ) from None
        wanted = {
            "--csv-key": [mapping.key] if mapping.key else [],
            "--csv-value": mapping.chosen(self.columns) if mapping.is_json else [mapping.value],
            "--csv-header": list(mapping.headers),
            "--csv-partition": [mapping.partition] if mapping.partition else [],
        }
        for flag, columns in wanted.items():
            for column in columns:
                if column not in self.columns:
                    guess = closest(column, self.columns) or self.columns[0]
                    raise UsageError(
                        "csv-column",
                        f'column "{column}" is not in {name}',
                        why=f"columns: {', '.join(self.columns)}",
                        try_=(f"{flag} {guess}",),
                    )

    def require_distinct(self) -> None:
        """Raise UsageError (`csv-column`) if columns that are sent have one name: a row has only the last of them."""
        mapping = self._mapping
        named = [mapping.value] if self._in_json is None else self._in_json
        for column in [*named, *mapping.headers, mapping.key, mapping.partition]:
            if column is not None and self.columns.count(column) > 1:
                raise UsageError(
                    "csv-column",
                    f'several columns have the name "{column}"',
                    why="only one of them would be sent",
                    try_=("give each column a name of its own in the first line",),
                )

    def rows(self) -> Iterator[Row]:
        """The rows; a bad row carries its problem and its cells."""
        number = 0
        while True:
            line = self._reader.line_num + self._lost_lines + 1
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except (csv.Error, LineTooLong) as error:
                self._lost_lines += isinstance(error, LineTooLong)
                yield Row(number, None, f"not CSV: {error}", line=line)
                number += 1
                continue
            if not cells:
                continue
            yield self._row(number, cells, line)
            number += 1

    def _row(self, number: int, cells: list[str], line: int) -> Row:
        values = tuple(cells)
        if len(cells) != len(self.columns):
            return Row(number, None, f"{counted(len(cells), 'column')}, not {len(self.columns)}", values, line)
        try:
            for cell in cells:
                cell.encode()
        except UnicodeEncodeError:
            return Row(number, None, "not UTF-8", values, line)
        try:
            record = self._record(dict(zip(self.columns, cells, strict=True)))
        except BadRecord as error:
            return Row(number, None, str(error), values, line)
        return Row(number, record, "", values, line)

    def _record(self, row: Mapping[str, str]) -> Outgoing:
        mapping = self._mapping
        if self._in_json is not None:
            content = {name: self._text(row[name]) for name in self._in_json}
            value: bytes | None = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        else:
            value = self._bytes(row[mapping.value])
        key = self._bytes(row[mapping.key]) if mapping.key else None
        headers = [(header, self._bytes(row[column])) for column, header in mapping.headers.items()]
        # An empty key cell means no key: an empty key would send all such rows to one partition.
        partition = self._partition(row[mapping.partition]) if mapping.partition else -1
        return Outgoing(value=value, key=key or None, headers=headers, partition=partition)

    def _partition(self, cell: str) -> int:
        text = (self._text(cell) or "").strip()
        if not text:
            return -1
        if not (text.isascii() and text.isdigit() and len(text) <= PARTITION_DIGITS):
            raise BadRecord(f'partition "{text}" is not a number')
        return int(text)

    def _text(self, cell: str) -> str | None:
        return None if self._mapping.null_value is not None and cell == self._mapping.null_value else cell

    def _bytes(self, cell: str) -> bytes | None:
        text = self._text(cell)
        return None if text is None else text.encode()
