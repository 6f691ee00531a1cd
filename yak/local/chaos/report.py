"""The report of a run: counts, violated guarantees, and the write unavailability under each kind of fault."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final
from xml.sax.saxutils import escape

from yak.local.chaos.liveness import Violation
from yak.local.chaos.nemesis import InjectedFault
from yak.local.chaos.recorder import Acks
from yak.sim.history_checker.anomalies import Anomaly
from yak.sim.history_checker.history import History
from yak.sim.history_checker.report import HistoryReport

AFTERWARDS_SECONDS: Final = 5.0
"""For how long after its repair a pause still counts as the fault's own."""


@dataclass(frozen=True, slots=True)
class Unavailability:
    """One kind of fault: its count, and the longest time without acknowledgements of a partition, in seconds."""

    kind: str
    count: int
    median_s: float
    longest_s: float


@dataclass(slots=True)
class ChaosReport:
    """The result of a run. `holds` is the overall result."""

    seed: int
    duration_s: float
    brokers: int
    faults: tuple[str, ...]
    history_report: HistoryReport
    injected: tuple[InjectedFault, ...] = ()
    unavailability: tuple[Unavailability, ...] = ()
    quiet_s: float = 0.0
    """The longest pause of a partition without any fault."""
    violations: tuple[Violation, ...] = ()
    took_s: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    compared_bytes: int = 0
    reached: dict[str, int] = field(default_factory=dict)
    """Events of the brokers, by their logs: elections, truncations and so on."""
    folder: str | None = None
    """The folder of logs and data, if they were not deleted."""

    @property
    def holds(self) -> bool:
        return self.history_report.holds and not self.violations

    @property
    def is_void(self) -> bool:
        """Whether nothing was violated, and so little was checked that the run proves nothing."""
        return self.holds and self.history_report.why_void is not None

    def as_json(self) -> dict[str, Any]:
        """The JSON contract for scripts: these keys stay."""
        return {
            "ok": self.holds and not self.is_void,
            "seed": self.seed,
            "duration_s": self.duration_s,
            "brokers": self.brokers,
            "faults": list(self.faults),
            **self.history_report.as_json(),
            "violations": [each.as_json() for each in self.violations],
            "struck": [each.as_json() for each in self.injected],
            "unavailability": [asdict(each) for each in self.unavailability],
            "quiet_s": self.quiet_s,
            "took_s": self.took_s,
            "compared_bytes": self.compared_bytes,
            "reached": self.reached,
            "notes": list(self.notes),
            "folder": self.folder,
        }


def unavailability(history: History, injected: Sequence[InjectedFault]) -> tuple[tuple[Unavailability, ...], float]:
    """The unavailability by kind of fault, the worst first; and the longest pause before the first fault.

    A pause under overlapping faults counts for each of them. A fault that was not carried out is ignored.
    """
    acks = Acks(history)
    pauses: dict[str, list[float]] = {}
    for found in injected:
        if not found.note.startswith("not done"):
            end = acks.end() if found.repaired_s is None else found.repaired_s
            pause = acks.longest_pause(found.began_s, end + AFTERWARDS_SECONDS)
            pauses.setdefault(found.planned.kind, []).append(pause)
    rows = [Unavailability(kind, len(each), round(median(each), 3), max(each)) for kind, each in pauses.items()]
    first = min((found.began_s for found in injected), default=acks.end())
    began = max((times[0] for times in acks.by_partition.values()), default=0.0)
    quiet = acks.longest_pause(began, first, inside=True) if first > began else 0.0
    return tuple(sorted(rows, key=lambda row: -row.longest_s)), quiet


def store_alone_costs_nothing(history_report: HistoryReport, kinds: Sequence[str]) -> list[Violation]:
    """L5: when only the store was killed or paused, no send failed."""
    if not kinds or not set(kinds) <= {"redis-kill", "redis-pause"} or not history_report.unknown:
        return []
    return [Violation("L5", f"{history_report.unknown} sends failed though only the metadata store was away")]


_WIDTH: Final = 1200
_LEFT: Final = 150
_RIGHT: Final = 20
_GRAPH_HEIGHT: Final = 120
_ROW_HEIGHT: Final = 18
_BUCKETS: Final = 300
_STYLE: Final = (
    "svg{background:#fff;font:12px ui-monospace,monospace}text{fill:#222}.axis{stroke:#bbb}.acks{fill:#2b8a3e}"
    ".fault{fill:#e8590c;opacity:.75}.undone{fill:#ced4da}.bad{stroke:#c92a2a;stroke-width:2}.gap{fill:#c92a2a;opacity:.6}"
    "@media(prefers-color-scheme:dark){svg{background:#16181d}text{fill:#ddd}.axis{stroke:#555}.acks{fill:#69db7c}}"
)
_GAP_SECONDS: Final = 0.5
"""A pause of a partition gets a bar from this length on."""


def draw(history: History, injected: Sequence[InjectedFault], anomalies: Sequence[Anomaly], title: str) -> str:
    """The whole picture."""
    acks = Acks(history)
    end = max([acks.end(), *(found.repaired_s or found.began_s for found in injected), 1.0])
    kinds = list(dict.fromkeys(found.planned.kind for found in injected))
    partitions = sorted(acks.by_partition)
    parts = [_text(_LEFT, 18, title)]
    top = 30
    parts += _graph(acks, end, top)
    row = top + _GRAPH_HEIGHT + 24
    for name in partitions:
        parts.append(_text(8, row + 12, name))
        parts += _gaps(acks.by_partition[name], end, row)
        row += _ROW_HEIGHT
    row += 8
    for kind in kinds:
        parts.append(_text(8, row + 12, kind))
        parts += [_fault(found, end, row) for found in injected if found.planned.kind == kind]
        row += _ROW_HEIGHT
    parts += _marks(anomalies, end, top, row)
    height = row + 16
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">'
    )
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>", ""])


def _x(seconds: float, end: float) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(seconds, 0.0), end) / end, 1)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'


def _graph(acks: Acks, end: float, top: int) -> list[str]:
    width_s = end / _BUCKETS
    counts = [0] * _BUCKETS
    for times in acks.by_partition.values():
        for at in times:
            counts[min(_BUCKETS - 1, int(at / width_s))] += 1
    most = max([*counts, 1])
    bottom = top + _GRAPH_HEIGHT
    parts = [_text(8, top + 12, f"{most / width_s:.0f} acks/s")]
    bar = (_WIDTH - _LEFT - _RIGHT) / _BUCKETS
    for index, count in enumerate(counts):
        if count:
            high = _GRAPH_HEIGHT * count / most
            x, y = _LEFT + index * bar, bottom - high
            parts.append(f'<rect class="acks" x="{x:.1f}" y="{y:.1f}" width="{bar:.1f}" height="{high:.1f}"/>')
    parts.append(f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH - _RIGHT}" y2="{bottom}"/>')
    parts += [_text(_x(end * part / 10, end), bottom + 14, f"{end * part / 10:.0f} s") for part in range(10)]
    return parts


def _gaps(times: Sequence[float], end: float, row: int) -> list[str]:
    found = [(low, high) for low, high in itertools.pairwise(times) if high - low >= _GAP_SECONDS]
    return [_bar("gap", low, high, end, row, f"no acknowledgement for {high - low:.2f} s") for low, high in found]


def _fault(found: InjectedFault, end: float, row: int) -> str:
    kind = "undone" if found.note.startswith("not done") else "fault"
    text = f"{found.planned.description()} {found.note}".strip()
    return _bar(kind, found.began_s, found.repaired_s or end, end, row, text)


def _bar(kind: str, low: float, high: float, end: float, row: int, title: str) -> str:
    x = _x(low, end)
    width = max(2.0, _x(high, end) - x)
    where = f'x="{x}" y="{row + 2}" width="{width:.1f}" height="{_ROW_HEIGHT - 4}"'
    return f'<rect class="{kind}" {where}><title>{escape(title)}</title></rect>'


def _marks(anomalies: Sequence[Anomaly], end: float, top: int, bottom: int) -> list[str]:
    parts = []
    for each in anomalies:
        if each.at is not None:
            x = _x(each.at, end)
            title = escape(f"{each.kind} {each.partition}: {each.words}")
            line = f'<line class="bad" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}">'
            parts.append(f"{line}<title>{title}</title></line>")
    return parts
