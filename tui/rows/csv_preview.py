"""The first rows of a CSV file as records. Pure."""

from yak.tui.look import Look
from yak.tui.produce.csv_look import CsvLook, PreviewRow
from yak.tui.rows.cells import Cell, Column, Row, Tone

COLUMNS = (
    Column("LINE", 4, most=9, is_right=True),
    Column("KEY", 6, most=24),
    Column("VALUE", 16, most=400, flex=1),
    Column("HEADERS", 7, most=30, rank=2),
    Column("P", 1, most=6, is_right=True, rank=1),
    Column("SENT?", 10, most=44),
)
_VERDICTS: dict[str, tuple[str, Tone]] = {"ok": ("good", "good"), "warn": ("warn", "warn"), "bad": ("bad", "bad")}


def preview_rows(look_at: CsvLook, look: Look) -> list[Row]:
    """One row each, with ok, warn or bad, and why."""
    return [_row(number, row, look) for number, row in enumerate(look_at.rows)]


def _row(number: int, row: PreviewRow, look: Look) -> Row:
    sign, tone = _VERDICTS[row.verdict]
    none = look.sign("none")
    partition = none if row.partition is None else str(row.partition)
    headers = " ".join(f"{name}={none if value is None else value}" for name, value in row.headers)
    words = f"{look.sign(sign)} {row.why or 'yes'}"
    return Row(
        str(number),
        (
            Cell(str(row.line)),
            Cell(none if row.key is None else row.key, "dim" if row.key is None else ""),
            Cell(none if row.value is None else row.value, "dim" if row.verdict == "bad" else ""),
            Cell(headers or none, "" if headers else "dim"),
            Cell(partition, "dim" if row.partition is None else ""),
            Cell(words, tone),
        ),
    )


def file_words(look_at: CsvLook, lines: int | None, look: Look) -> str:
    """The frame's title: `12 400 rows, 1.2 MiB, delimiter ",", utf-8`."""
    delimiter = {"\t": "tab", " ": "space"}.get(look_at.delimiter, f'"{look_at.delimiter}"')
    rows = "counting rows" if lines is None else f"{look.number(lines)} rows"
    return f"{rows}, {look.size(look_at.size_bytes)}, delimiter {delimiter}, {look_at.encoding}"


def judgement(look_at: CsvLook, look: Look) -> list[Cell]:
    """The result of checking the first rows."""
    if look_at.doubled:
        return [Cell(f"{look.sign('warn')} two columns are called {look_at.doubled[0]}: the last one is used", "warn")]
    if not look_at.checked:
        return [Cell(f"{look.sign('warn')} there is no row behind the header", "warn")]
    if not look_at.bad:
        return [Cell(f"{look.sign('good')} the first {look.number(look_at.checked)} rows can be sent", "good")]
    line, why = look_at.mistakes[0]
    words = f"{look.number(look_at.bad)} of the first {look.number(look_at.checked)} rows cannot be sent"
    return [Cell(f"{look.sign('warn')} {words}, line {look.number(line)}: {why}", "warn")]
