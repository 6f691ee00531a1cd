"""Samples of both sides, their medians, ratios and goals."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

YAK = "yak"
KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on YAK's median divided by Kafka's."""

    bound: float
    at_least: bool

    def met_by(self, ratio: float) -> bool:
        """Whether the ratio keeps the bound."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:.3g}"


AT_LEAST_KAFKA = Goal(1.0, at_least=True)
AT_MOST_KAFKA = Goal(1.0, at_least=False)


@dataclass(slots=True)
class Row:
    """One figure of both brokers, a sample for each round."""

    name: str
    unit: str
    goal: Goal | None
    samples: dict[str, list[float]] = field(default_factory=lambda: {YAK: [], KAFKA: []})
    client_limited: dict[str, int] = field(default_factory=lambda: {YAK: 0, KAFKA: 0})

    def median(self, side: str) -> float:
        """The median over the rounds."""
        return statistics.median(self.samples[side])

    @property
    def ratio(self) -> float:
        """YAK's median divided by Kafka's."""
        return self.median(YAK) / self.median(KAFKA) if self.median(KAFKA) else float("inf")

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        return None if self.goal is None else self.goal.met_by(self.ratio)

    def spread(self, side: str) -> str:
        """Lowest to highest sample."""
        return f"{short(min(self.samples[side]))} to {short(max(self.samples[side]))}"

    def note(self) -> str:
        """Which side's client was busy all the time, in more than half of the rounds."""
        limited = [side for side in (YAK, KAFKA) if self.client_limited[side] * 2 > len(self.samples[side])]
        return {0: "", 1: f"client ({limited[0]})" if limited else "", 2: "client"}[len(limited)]


class Table:
    """Rows in the order they were first measured."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def add(
        self, name: str, unit: str, goal: Goal | None, side: str, value: float, *, client_limited: bool = False
    ) -> None:
        """One sample."""
        row = self._rows.setdefault(name, Row(name, unit, goal))
        row.samples[side].append(value)
        row.client_limited[side] += client_limited

    def rows(self) -> list[Row]:
        """The rows that both sides have."""
        return [row for row in self._rows.values() if row.samples[YAK] and row.samples[KAFKA]]


def short(value: float) -> str:
    """Three significant digits, thousands apart."""
    if abs(value) >= 1000:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}".replace(",", " ")
    return f"{value:.3g}"


def met_word(met: bool | None) -> str:
    """For people."""
    return {True: "yes", False: "NO", None: ""}[met]


def table_lines(rows: Sequence[Row]) -> list[str]:
    """The table as text."""
    head = ("", "unit", "YAK", "Kafka", "ratio", "goal", "met", "limit")
    body = [
        (
            row.name,
            row.unit,
            short(row.median(YAK)),
            short(row.median(KAFKA)),
            f"{row.ratio:.2f}",
            str(row.goal or ""),
            met_word(row.met),
            row.note(),
        )
        for row in rows
    ]
    widths = [max(len(line[index]) for line in [head, *body]) for index in range(len(head))]
    right = (2, 3, 4)
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [head, *body]
    ]


def write_json(path: Path, rows: Sequence[Row]) -> None:
    """`[{"name","unit","yak","kafka","ratio","goal","met"}]`, plus every round's samples. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = [
        {
            "name": row.name,
            "unit": row.unit,
            "yak": row.median(YAK),
            "kafka": row.median(KAFKA),
            "ratio": row.ratio,
            "goal": str(row.goal) if row.goal else None,
            "met": row.met,
            "yak_samples": row.samples[YAK],
            "kafka_samples": row.samples[KAFKA],
            "client_limit": row.note() or None,
        }
        for row in rows
    ]
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
