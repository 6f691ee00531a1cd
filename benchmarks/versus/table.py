"""Samples of both sides, taken in turns, their medians, ratios and goals."""

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

YAK = "yak"
KAFKA = "kafka"
Side = TypeVar("Side")


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the first side's median divided by the second's."""

    bound: float
    at_least: bool

    def met_by(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:.3g}"


AT_LEAST_KAFKA = Goal(1.0, at_least=True)
AT_MOST_KAFKA = Goal(1.0, at_least=False)


@dataclass(slots=True)
class Row:
    """One figure of all sides, a sample for each round."""

    name: str
    unit: str
    goal: Goal | None
    samples: dict[str, list[float]]
    client_limited: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def median(self, side: str) -> float:
        return statistics.median(self.samples[side])

    @property
    def ratio(self) -> float | None:
        """The first side's median divided by the second's; None with one side."""
        first, *others = [self.median(side) for side in self.samples]
        if not others:
            return None
        return first / others[0] if others[0] else float("inf")

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal, or with one side."""
        return None if self.goal is None or self.ratio is None else self.goal.met_by(self.ratio)

    @property
    def loses(self) -> bool:
        if self.goal is None or self.ratio is None:
            return False
        return self.ratio < 1 if self.goal.at_least else self.ratio > 1

    def spread(self, side: str) -> str:
        return f"{short(min(self.samples[side]))} to {short(max(self.samples[side]))}"

    def note(self) -> str:
        """Which side's client was busy all the time, in more than half of the rounds."""
        limited = [side for side, samples in self.samples.items() if self.client_limited[side] * 2 > len(samples)]
        return "client" if len(limited) == len(self.samples) else f"client ({limited[0]})" if limited else ""


class Table:
    """Rows in the order they were first measured. The ratio is the first side's to the second's."""

    def __init__(self, sides: Sequence[str] = (YAK, KAFKA)) -> None:
        self._sides = sides
        self._rows: dict[str, Row] = {}

    def add(
        self, name: str, unit: str, goal: Goal | None, side: str, value: float, *, client_limited: bool = False
    ) -> None:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = Row(name, unit, goal, {each: [] for each in self._sides})
        row.samples[side].append(value)
        row.client_limited[side] += client_limited

    def clear(self) -> None:
        self._rows.clear()

    def rows(self) -> list[Row]:
        return [row for row in self._rows.values() if all(row.samples.values())]


class Turns(Generic[Side]):
    """All sides one after the other; the one that goes first alternates."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = sides
        self._turn = 0

    def take(self, body: Callable[[Side], object]) -> None:
        """Once for each side. What it raises has a note that names the side."""
        self._turn += 1
        for side in self._sides if self._turn % 2 else self._sides[::-1]:
            try:
                body(side)
            except Exception as error:
                error.add_note(f"side: {getattr(side, 'name', side)}")
                raise


def short(value: float) -> str:
    if abs(value) >= 1000:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}".replace(",", " ")
    return f"{value:.3g}"


def met_word(met: bool | None) -> str:
    return {True: "yes", False: "NO", None: ""}[met]


def table_lines(rows: Sequence[Row], *, spread: bool = False) -> list[str]:
    """The table as text, with the range of the samples if requested."""
    sides = list(rows[0].samples) if rows else []

    def figure(row: Row, side: str) -> str:
        return short(row.median(side)) + (f" ({row.spread(side)})" if spread else "")

    body = [
        (
            row.name,
            row.unit,
            *(figure(row, side) for side in sides),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            str(row.goal or ""),
            met_word(row.met),
            row.note(),
        )
        for row in rows
    ]
    return aligned([("", "unit", *sides, "ratio", "goal", "met", "limit"), *body], range(2, 3 + len(sides)))


def aligned(lines: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
    """The columns of all lines below each other; those of `right` end below each other."""
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def write_json(path: Path, rows: Sequence[Row], **facts: object) -> None:
    """`[{"name","unit","yak","kafka","ratio","goal","met"}]` with every round's samples; beside facts, as `rows`.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [
        {"name": row.name, "unit": row.unit}
        | {side: row.median(side) for side in row.samples}
        | {"ratio": row.ratio, "goal": str(row.goal) if row.goal else None, "met": row.met}
        | {f"{side}_samples": samples for side, samples in row.samples.items()}
        | {"client_limit": row.note() or None}
        for row in rows
    ]
    document = facts | {"rows": found} if facts else found
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
