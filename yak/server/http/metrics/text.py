"""Families and samples, and their text in both formats, which differ in counter heads, units, and the last line.

Formats: prometheus.io/docs/instrumenting/exposition_formats (0.0.4) and OpenMetrics 1.0. Tests check the text with
prometheus-client's parsers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from yak.plain_text import one_line
from yak.server.latencies import BOUNDS_SECONDS, Histogram

Kind = Literal["counter", "gauge", "histogram"]
END_OF_OPENMETRICS: Final = b"# EOF\n"
_LINES_PER_PIECE: Final = 1_000
_UNITS: Final = ("seconds", "bytes")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: `name` without the suffixes of samples (`_total`, `_bucket`)."""

    name: str
    what: str
    """The HELP text; without quotes, backslashes and line breaks."""
    kind: Kind

    def head(self, *, open_metrics: bool) -> str:
        """HELP, TYPE and, if the format has it, UNIT."""
        name = f"{self.name}_total" if self.kind == "counter" and not open_metrics else self.name
        head = f"# HELP {name} {self.what}\n# TYPE {name} {self.kind}\n"
        unit = self.name.rpartition("_")[2]
        return f"{head}# UNIT {name} {unit}\n" if open_metrics and unit in _UNITS else head


counter = partial(Family, kind="counter")
gauge = partial(Family, kind="gauge")
histogram = partial(Family, kind="histogram")


class Samples:
    """Lines by family, in the order in which the families were first used."""

    def __init__(self) -> None:
        self.lines: dict[Family, list[str]] = {}

    def of(self, family: Family) -> list[str]:
        """The lines of a family, for callers that append many."""
        return self.lines.setdefault(family, [])

    def add(self, family: Family, value: float, **labels: str) -> None:
        """Add one sample of a counter or a gauge."""
        suffix = "_total" if family.kind == "counter" else ""
        self.of(family).append(f"{family.name}{suffix}{label_text(labels)} {value}\n")

    def add_histogram(self, family: Family, histogram: Histogram, **labels: str) -> None:
        """Add all samples of a histogram of times."""
        totals, count, seconds = histogram.cumulative()
        self.add_buckets(family, BOUNDS_SECONDS, totals, count, seconds, labels)

    def add_buckets(
        self,
        family: Family,
        bounds: Iterable[float],
        totals: Sequence[int],
        count: int,
        total: float,
        labels: Mapping[str, str],
    ) -> None:
        """Add all samples of a histogram: the count up to each bound, the total count, and the sum."""
        lines = self.of(family)
        front = "".join(f'{name}="{escaped(text)}",' for name, text in labels.items())
        name = family.name
        for bound, below in zip(bounds, totals, strict=True):
            lines.append(f'{name}_bucket{{{front}le="{float(bound)}"}} {below}\n')
        lines.append(f'{name}_bucket{{{front}le="+Inf"}} {count}\n')
        text = label_text(labels)
        lines.append(f"{name}_count{text} {count}\n{name}_sum{text} {total}\n")


def in_pieces(samples: Samples, *, open_metrics: bool) -> Iterator[bytes]:
    """The text in pieces of some tens of kilobytes, without OpenMetrics' last line."""
    waiting: list[str] = []
    for family, lines in samples.lines.items():
        waiting.append(family.head(open_metrics=open_metrics))
        for start in range(0, len(lines), _LINES_PER_PIECE):
            waiting += lines[start : start + _LINES_PER_PIECE]
            if len(waiting) >= _LINES_PER_PIECE:
                yield "".join(waiting).encode()
                waiting.clear()
    yield "".join(waiting).encode()


def label_text(labels: Mapping[str, str]) -> str:
    """`{topic="orders"}`; empty without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items()) + "}"


def escaped(text: str) -> str:
    """The value of a label, escaped; control characters become visible escapes."""
    visible = one_line(text.replace("\\", "\\\\"))  # a backslash is doubled, so that no two texts become one label
    return visible.replace("\\", "\\\\").replace('"', '\\"')
