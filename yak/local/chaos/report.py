"""The report of a run: counts, violated guarantees, and the write unavailability under each kind of fault."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

from yak.local.chaos.nemesis import Struck
from yak.local.chaos.recorder import Acks
from yak.local.chaos.settling import Violation
from yak.sim.history_checker.history import History
from yak.sim.history_checker.report import HistoryReport

AFTERWARDS_SECONDS: Final = 5.0
"""For how long after its repair a pause still counts as the fault's own."""
_OK_SHARE_MIN: Final = 0.3
"""A run with a smaller acknowledged share proves little (docs/reliability.md)."""


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
    struck: tuple[Struck, ...] = ()
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
    """The folder of logs and data, when they were kept."""

    @property
    def holds(self) -> bool:
        """Whether every guarantee held."""
        return self.history_report.holds and not self.violations

    @property
    def is_void(self) -> bool:
        """Whether so little was acknowledged that the run proves nothing."""
        found = self.history_report
        no_commit = found.committed == 0 and found.aborted + found.undecided > 0
        is_little = found.acknowledged < _OK_SHARE_MIN * (found.acknowledged + found.unknown)
        return found.acknowledged == 0 or is_little or no_commit

    def as_json(self) -> dict[str, Any]:
        """The JSON contract for scripts: these keys stay."""
        return {
            "ok": self.holds,
            "seed": self.seed,
            "duration_s": self.duration_s,
            "brokers": self.brokers,
            "faults": list(self.faults),
            **self.history_report.as_json(),
            "violations": [each.as_json() for each in self.violations],
            "struck": [each.as_json() for each in self.struck],
            "unavailability": [asdict(each) for each in self.unavailability],
            "quiet_s": self.quiet_s,
            "took_s": self.took_s,
            "compared_bytes": self.compared_bytes,
            "reached": self.reached,
            "notes": list(self.notes),
            "folder": self.folder,
        }


def unavailability(history: History, struck: Sequence[Struck]) -> tuple[tuple[Unavailability, ...], float]:
    """The unavailability by kind of fault, the worst first; and the longest pause before the first fault.

    A pause under overlapping faults counts for each of them. A fault that was not carried out is ignored.
    """
    acks = Acks(history)
    pauses: dict[str, list[float]] = {}
    for found in struck:
        if not found.note.startswith("not done"):
            end = acks.end() if found.mended_s is None else found.mended_s
            pause = acks.longest_pause(found.began_s, end + AFTERWARDS_SECONDS)
            pauses.setdefault(found.planned.kind, []).append(pause)
    rows = [Unavailability(kind, len(each), round(median(each), 3), max(each)) for kind, each in pauses.items()]
    first = min((found.began_s for found in struck), default=acks.end())
    began = max((times[0] for times in acks.by_partition.values()), default=0.0)
    quiet = acks.longest_pause(began, first, inside=True) if first > began else 0.0
    return tuple(sorted(rows, key=lambda row: -row.longest_s)), quiet


def store_alone_costs_nothing(history_report: HistoryReport, kinds: Sequence[str]) -> list[Violation]:
    """L5: when only the store was killed or paused, no send failed."""
    if not kinds or not set(kinds) <= {"redis-kill", "redis-pause"} or not history_report.unknown:
        return []
    return [Violation("L5", f"{history_report.unknown} sends failed though only the metadata store was away")]
