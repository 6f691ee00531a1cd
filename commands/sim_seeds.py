"""What `yak sim run` and `yak sim quorum` share: options that are lists, and running the seeds."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from yak.commands.options import Globals
from yak.commands.sim_workers import in_order
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.sim.seed_report import SeedReport
    from yak.sim.spec import Spec

SEEDS_AT_ONCE = 20
"""The batch of seeds for a worker: a few seconds of work."""


class Tally(Protocol):
    """What the reports of many seeds come to."""

    def add(self, report: "SeedReport") -> None:
        """One more seed."""

    def lines(self, done: int, failed: int) -> list[str]:
        """The totals, for people."""


def fault_classes(text: str | None, classes: Iterable[str], where: str) -> tuple[str, ...] | None:
    """The classes of faults of `--faults`; None without it. Raises UsageError (`bad-option`)."""
    if text is None:
        return None
    named = _names(text)
    for name in named:
        if name not in classes:
            raise UsageError(
                "bad-option", f'no class of faults is named "{name}"', why=f"{where} there are: {', '.join(classes)}"
            )
    return named


def numbers(text: str | None) -> tuple[int, ...] | None:
    """The numbers of `--keep`; None without it. Raises UsageError (`bad-option`)."""
    if text is None:
        return None
    named = _names(text)
    if not all(each.isdecimal() for each in named):
        raise UsageError("bad-option", f'--keep "{text}" is not a list of numbers', try_=("--keep 3,7", "--keep none"))
    return tuple(sorted({int(each) for each in named}))


def _names(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.split(",") if each and each != "none")


def run_many(g: Globals, specs: "Sequence[Spec]", workers: int | None, tally: Tally, *, shrinks: bool = False) -> int:
    """Run these seeds and print what fails; returns the exit code. `shrinks`: a failing seed can be minimized."""
    from yak.sim.trial import run_spec

    done = failed = 0
    report = None
    try:
        with g.out.progress("seeds", total=len(specs)) as bar:
            for report in in_order(run_spec, specs, workers, at_once=SEEDS_AT_ONCE):
                done += 1
                failed += _print_report(g, report, shrinks=shrinks)
                tally.add(report)
                bar.update(done)
    except KeyboardInterrupt:
        if done:
            _tell(g, tally, done, failed)
        raise
    if len(specs) == 1 and report is not None and not failed and g.out.for_people:
        g.out.line(_one_line(report))
    return _tell(g, tally, done, failed)


def run_told(g: Globals, spec: "Spec", tally: Tally, *, shrinks: bool = False) -> int:
    """Run one seed and print its events; returns the exit code."""
    from yak.sim.trial import run_spec

    told: list[str] = []
    report = run_spec(spec, lines=told)
    for line in told:
        g.out.line(line)
    failed = _print_report(g, report, shrinks=shrinks)
    tally.add(report)
    if not failed and g.out.for_people:
        g.out.line(_one_line(report))
    return _tell(g, tally, 1, int(failed))


def _print_report(g: Globals, report: "SeedReport", *, shrinks: bool) -> bool:
    """Print a seed's report, as JSON or if it failed; returns whether it failed."""
    from yak.sim.seed_report import as_dict

    if not g.out.for_people:
        g.out.line(json.dumps(as_dict(report)))
    if report.error is None:
        return False
    g.out.warn(f"seed {report.seed}: {report.error}")
    g.out.warn(f"replay: {report.spec.command()} --lines")
    if shrinks:
        g.out.warn(f"shrink: {report.spec.command()} --shrink")
    return True


def _tell(g: Globals, tally: Tally, done: int, failed: int) -> int:
    if g.out.for_people:
        for line in tally.lines(done, failed):
            g.out.line(line)
    return 4 if failed else 0


def _one_line(report: "SeedReport") -> str:
    return (
        f"seed {report.seed}: {report.events_count} events, {report.simulated_s:.1f} s simulated,"
        f" trace {report.trace_hash[:16]}"
    )
