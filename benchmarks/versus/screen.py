"""The one screen of `make bench`: figures, their ratios, and a mark at what Kafka does better."""

from collections.abc import Sequence

from versus.table import Row, aligned, short

RED, PLAIN = "\x1b[31m", "\x1b[0m"
MARK = "!"
COLUMNS = 110


def screen_lines(rows: Sequence[Row], alone: str, *, is_coloured: bool) -> list[str]:
    """A line for each row with a direction; `alone` says why there is one side and no ratio."""
    rows = [row for row in rows if row.goal is not None]
    if not rows:
        return ["nothing was measured"]
    sides = list(rows[0].samples)
    head = ("", "", "unit", *sides, "ratio", "limit")
    body = [
        (
            MARK if row.loses else "",
            row.name,
            row.unit,
            *(short(row.median(side)) for side in sides),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            row.note(),
        )
        for row in rows
    ]
    lines = aligned([head, *body], range(3, 4 + len(sides)))
    if is_coloured:
        coloured = [f"{RED}{line}{PLAIN}" if row.loses else line for line, row in zip(lines[1:], rows, strict=True)]
        lines = [lines[0], *coloured]
    if alone:
        return [*lines, f"No ratio: {alone}"[:COLUMNS]]
    losing = sum(row.loses for row in rows)
    return [
        *lines,
        f"{MARK} Kafka is better: {losing} of {len(rows)} rows. ratio: {sides[0]} / {sides[1]}, of medians.",
    ]
