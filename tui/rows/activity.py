"""Events as rows. Pure."""

from collections.abc import Iterable

from yak.tui.look import Look
from yak.tui.rows.cells import Cell, Column, Row
from yak.tui.state.activity import Line

COLUMNS = (Column("TIME", 9), Column("WHAT", 12), Column("EVENT", 20, most=400, flex=1))
_SIGNS = {"good": "good", "warn": "warn", "bad": "bad"}


def activity_rows(lines: Iterable[Line], look: Look, now_ms: int) -> list[Row]:
    """Newest first. Each key is the line's number."""
    rows = [_row(line, look, now_ms) for line in lines]
    rows.reverse()
    return rows


def _row(line: Line, look: Look, now_ms: int) -> Row:
    if line.kind == "you":
        kind = Cell(f"{look.sign('here')} you", "accent")
        words = Cell(f"$ {line.message}", "accent")
    else:
        kind = Cell(f"{look.sign(_SIGNS[line.tone])} {line.family}", line.tone)  # type: ignore[arg-type]
        words = Cell(line.message)
    return Row(str(line.number), (Cell(look.time(line.time_ms, now_ms), "dim", line.time_ms), kind, words))
