"""The report of a simulator run, and the command that replays it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

from yak.cluster.payload import BadRecord
from yak.errors import FailStop, StartRefused
from yak.sim.deliveries import Violation
from yak.sim.spec import Spec
from yak.sim.world import Stuck, World


@dataclass(slots=True)
class SeedReport:
    """The result of one run. `error` is the violation, `found_by` the check or assertion that found it."""

    spec: Spec
    trace_hash: str
    events_count: int
    simulated_s: float
    counts: dict[str, int] = field(default_factory=dict)
    strikes: int = 0
    """The number of the seed's faults."""
    parts: tuple[str, ...] = ()
    """Parts that `Spec.without` can leave out of the run."""
    error: str | None = None
    found_by: str = ""

    @classmethod
    def of(
        cls, spec: Spec, world: World, counts: dict[str, int], *, strikes: int, parts: tuple[str, ...] = ()
    ) -> SeedReport:
        """The report of a run so far."""
        return cls(spec, world.trace_hash(), world.events_count, world.elapsed_s, counts, strikes, parts)

    @property
    def seed(self) -> int:
        return self.spec.seed

    def fail(self, error: Exception, lines: list[str] | None) -> SeedReport:
        """The run ended by this error; `lines` gets the traceback."""
        self.error = f"{type(error).__name__}: {error}"
        self.found_by = found_by(error)
        if lines is not None:
            lines.extend(traceback.format_exception(error))
        return self


def found_by(error: BaseException) -> str:
    """The check, or the broker's assertion, that raised an error; empty for an unexpected error."""
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _line in traceback.walk_tb(error.__traceback__)]
    last = modules[-1] if modules else ""
    if check := getattr(error, "check", ""):
        return str(check)
    if isinstance(error, Stuck):
        return "the run has to end"
    if isinstance(error, Violation):
        if str(error)[:2] in ("L1", "L2"):
            return f"{str(error)[:2]}, liveness"
        checks = [name for name in modules if name.startswith(("yak.sim.checks.", "yak.sim.deliveries"))]
        return (checks or [last])[-1].rpartition(".")[2]
    if isinstance(error, AssertionError):
        return f"an assertion in {last}"
    if isinstance(error, FailStop) and isinstance(error.__cause__, FailStop | AssertionError | None):
        return f"a fail-stop in {last}"
    if isinstance(error, StartRefused):
        return f"a refused start: {error.code}"
    if isinstance(error, BadRecord):
        return "metadata that no start can read"
    return ""


def as_dict(report: SeedReport) -> dict[str, Any]:
    """The report as JSON fields."""
    return {
        "seed": report.seed,
        "brokers": report.spec.brokers,
        "trace_hash": report.trace_hash,
        "events": report.events_count,
        "simulated_s": round(report.simulated_s, 6),
        "counts": report.counts,
        "error": report.error,
        "found_by": report.found_by,
    }
