"""A directory as rows. Pure."""

from collections.abc import Sequence

from yak.tui.look import Look, ago
from yak.tui.produce.files import Entry
from yak.tui.rows.cells import Cell, Column, Row

COLUMNS = (
    Column("NAME", 20, most=200, flex=1),
    Column("SIZE", 9, is_right=True),
    Column("CHANGED", 14, is_right=True, rank=1),
)


def file_rows(entries: Sequence[Entry], look: Look, now_ms: int) -> list[Row]:
    """One row per entry. Directories end with a slash, CSV files are highlighted."""
    return [_row(entry, look, now_ms) for entry in entries]


def _row(entry: Entry, look: Look, now_ms: int) -> Row:
    if entry.is_directory:
        up = entry.name == ".."
        changed = Cell("" if up else ago(now_ms - entry.changed_ms), "dim", -entry.changed_ms)
        name = f"{entry.name}/" + (" up" if up else "")
        return Row(entry.path, (Cell(name, "accent", entry.name), Cell("", order=-1.0), changed))
    return Row(
        entry.path,
        (
            Cell(entry.name, "strong" if entry.is_likely else "dim"),
            Cell(look.size(entry.size_bytes), order=float(entry.size_bytes)),
            Cell(ago(now_ms - entry.changed_ms), "dim", -entry.changed_ms),
        ),
    )
