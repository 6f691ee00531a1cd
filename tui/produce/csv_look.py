"""Inspects a CSV file before it is sent: its format, and the records that its first rows give."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal

from yak.client.csv_files import SNIFFED_BYTES, TextLines, check_encoding, open_binary, sniff_encoding
from yak.client.inputs import CsvMapping, CsvSource, Row

PREVIEWED: Final = 25
"""Rows in the preview; a low window shows five."""
CHECKED: Final = 1_000
"""Rows checked for mistakes: enough to notice a wrong delimiter or mapping, without a delay."""
MISTAKES_KEPT: Final = 3

Verdict = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One row as a record, or the reason why it cannot be sent."""

    line: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...]
    partition: int | None
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True, slots=True)
class CsvLook:
    """A file's properties.

    `mistakes` are (line, reason) of the first invalid rows, `bad` their number among `checked` rows.
    """

    path: str
    size_bytes: int
    encoding: str
    delimiter: str
    columns: tuple[str, ...]
    rows: tuple[PreviewRow, ...] = ()
    checked: int = 0
    bad: int = 0
    mistakes: tuple[tuple[int, str], ...] = ()
    doubled: tuple[str, ...] = ()
    """Column names that occur more than once: only the last of these columns can be used."""


def read_rows(path: str, mapping: CsvMapping, encoding: str) -> Iterator[tuple[CsvSource, TextLines, Row]]:
    """The rows of a file, with their reader. Raises YakError."""
    with open_binary(path) as file:
        lines = TextLines(file, encoding, os.path.basename(path))
        source = CsvSource(lines, mapping, os.path.basename(path))
        for row in source.rows():
            yield source, lines, row


def find_encoding(path: str) -> str:
    """The detected encoding of a file. Raises YakError (`file`)."""
    with open_binary(path) as file:
        return sniff_encoding(file.read(SNIFFED_BYTES))


def look_at(
    path: str, mapping: CsvMapping | None = None, *, encoding: str | None = None, partitions: int | None = None
) -> CsvLook:
    """Read the start of a file; without a mapping, only its columns.

    Raises YakError: `file`, `not-text`, `bad-encoding`, `csv-empty`, `csv-column`.
    """
    used = check_encoding(encoding) if encoding else find_encoding(path)
    with open_binary(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        lines = TextLines(file, used, os.path.basename(path))
        source = CsvSource(lines, mapping or CsvMapping(), os.path.basename(path))
        doubled = tuple(name for name, times in Counter(source.columns).items() if times > 1)
        look = CsvLook(path, size_bytes, used, source.delimiter, source.columns, doubled=doubled)
        if mapping is None:
            return look
        return _checked(look, islice(source.rows(), CHECKED), mapping, partitions)


def _checked(look: CsvLook, rows: Iterator[Row], mapping: CsvMapping, partitions: int | None) -> CsvLook:
    previews: list[PreviewRow] = []
    mistakes: list[tuple[int, str]] = []
    checked = bad = 0
    for row in rows:
        checked += 1
        preview = preview_of(row, mapping, partitions)
        if len(previews) < PREVIEWED:
            previews.append(preview)
        if preview.verdict == "bad":
            bad += 1
            if len(mistakes) < MISTAKES_KEPT:
                mistakes.append((row.line, preview.why))
    return replace(look, rows=tuple(previews), checked=checked, bad=bad, mistakes=tuple(mistakes))


def preview_of(row: Row, mapping: CsvMapping, partitions: int | None) -> PreviewRow:
    """One row as a record."""
    record = row.record
    if record is None:
        return PreviewRow(row.line, None, " ".join(row.cells) or None, (), None, "bad", row.problem)
    problem = partition_problem(record.partition, partitions)
    why = problem
    if not why and mapping.key is not None and record.key is None:
        why = "no key: any partition" if record.partition < 0 else "no key"
    if not why and record.value is None:
        why = "no value: a tombstone"
    return PreviewRow(
        row.line,
        _text(record.key),
        _text(record.value),
        tuple((name, _text(data)) for name, data in record.headers),
        record.partition if record.partition >= 0 else None,
        "bad" if problem else "warn" if why else "ok",
        why,
    )


def partition_problem(partition: int, partitions: int | None) -> str:
    """Why a partition is invalid; empty if it is valid, or unknown."""
    if partitions is None or partition < partitions:
        return ""
    return f"no partition {partition}: there are {partitions}, from 0 on"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")
