"""Events as rows. Pure."""

from collections.abc import Iterable

from yak.protocol.topic_names import is_internal
from yak.tui.formatter import Formatter
from yak.tui.rows.cells import Cell, Column, Row
from yak.tui.state.activity import Line

COLUMNS = (Column("TIME", 9), Column("WHAT", 12), Column("EVENT", 20, most=400, flex=1))
FOLDED_WITHIN_MS = 5_000


def activity_rows(lines: Iterable[Line], fmt: Formatter, now_ms: int) -> list[Row]:
    """Newest first. Each key is the line's number. Events of one kind for an internal topic are one row."""
    entries: list[tuple[Line, int]] = []
    positions: dict[tuple[str, str], int] = {}
    for line in lines:
        topic = str(line.event.get("topic", ""))
        position = positions.get((line.kind, topic))
        if position is not None and line.time_ms - entries[position][0].time_ms < FOLDED_WITHIN_MS:
            entries[position] = (entries[position][0], entries[position][1] + 1)
            continue
        if is_internal(topic):
            positions[line.kind, topic] = len(entries)
        entries.append((line, 1))
    return [_row(line, fmt, now_ms, count) for line, count in reversed(entries)]


def _row(line: Line, fmt: Formatter, now_ms: int, count: int) -> Row:
    if line.kind == "you":
        kind = Cell(f"{fmt.sign('here')} you", "accent")
        text = Cell(f"$ {line.message}", "accent")
    else:
        kind = Cell(f"{fmt.sign(line.tone)} {line.family}", line.tone)  # type: ignore[arg-type]
        text = Cell(line.message if count == 1 else f"{line.event['topic']}: {fmt.number(count)} partitions")
    return Row(str(line.number), Cell(fmt.time(line.time_ms, now_ms), "dim", line.time_ms), kind, text)
