"""`yak sim quorum`."""

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import OUTPUT, WHAT, command
from yak.commands.options import Globals
from yak.commands.sim_workers import Workers, in_order
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.sim.quorum.spec import QuorumSpec
    from yak.sim.seed_report import SeedReport

SEEDS_AT_ONCE = 20
"""The batch of seeds for a worker: a few seconds of work."""


@command(
    examples=(
        "yak sim quorum --seed 4711",
        "yak sim quorum --seed 1 --seeds 2000",
        "yak sim quorum --seed 5 --lines",
        "yak sim quorum --seed 1 --seeds 100 --faults kill,power",
    ),
)
def quorum(
    g: Globals,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.", rich_help_panel=WHAT)] = 1,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.", rich_help_panel=WHAT)] = 1,
    mutant: Annotated[
        str,
        typer.Option("--mutant", help="Apply a mutant first (yak sim mutants).", metavar="NAME", rich_help_panel=WHAT),
    ] = "",
    faults: Annotated[
        str | None,
        typer.Option("--faults", help="Only these classes of faults, or none.", metavar="NAMES", rich_help_panel=WHAT),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep", help="Only the faults with these numbers, or none.", metavar="NUMBERS", rich_help_panel=WHAT
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print the events (one seed).", rich_help_panel=OUTPUT)
    ] = False,
    workers: Workers = None,
) -> int:
    """Simulate metadata quorums by seed: 1, 3 or 5 voters and observers under faults. Checks every invariant after every event."""
    from yak.sim.quorum.spec import QuorumSpec

    spec = QuorumSpec(seed, 0, faults=_fault_classes(faults), mutant=_mutant(mutant), keep=_numbers(keep))
    if seeds > 1 and lines:
        raise UsageError(
            "bad-option", "--lines is for one seed", why=f"--seeds {seeds}", try_=(f"{spec.command()} --lines",)
        )
    if lines:
        return _run_told(g, spec)
    return _run_many(g, [replace(spec, seed=number) for number in range(seed, seed + seeds)], workers)


def _fault_classes(text: str | None) -> tuple[str, ...] | None:
    from yak.sim.quorum.faults import CLASSES

    if text is None:
        return None
    named = tuple(each for each in text.split(",") if each and each != "none")
    for name in named:
        if name not in CLASSES:
            raise UsageError(
                "bad-option", f'no class of faults is named "{name}"', why=f"there are: {', '.join(CLASSES)}"
            )
    return named


def _mutant(name: str) -> str:
    from yak.sim.quorum.mutants import BY_NAME

    if name and name not in BY_NAME:
        raise UsageError("bad-option", f"no mutant of the quorum is named {name}", try_=("yak sim mutants --list",))
    return name


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    named = [each for each in text.split(",") if each and each != "none"]
    if not all(each.isdecimal() for each in named):
        raise UsageError("bad-option", f'--keep "{text}" is not a list of numbers', try_=("--keep 3,7", "--keep none"))
    return tuple(sorted({int(each) for each in named}))


# ---------------------------------------------------------------------------------------------------------------- modes


def _run_many(g: Globals, specs: "list[QuorumSpec]", workers: int | None) -> int:
    from yak.sim.quorum.trial import run_quorum_spec

    totals: Counter[str] = Counter()
    failed = done = 0
    with g.out.progress("seeds", total=len(specs)) as bar:
        for report in in_order(run_quorum_spec, specs, workers, at_once=SEEDS_AT_ONCE):
            done += 1
            failed += _print_report(g, report)
            totals.update(report.counts)
            totals.update({"events": report.events_count, "simulated_ms": round(report.simulated_s * 1000)})
            bar.update(done)
    if len(specs) == 1 and not failed and g.out.for_people:
        g.out.line(_one_line(report))
    if g.out.for_people:
        g.out.line(
            f"{done - failed} of {done} seeds hold; {totals.pop('events')} events,"
            f" {totals.pop('simulated_ms') / 1000:.0f} s simulated; "
            + ", ".join(f"{name} {count}" for name, count in totals.items())
        )
    return 4 if failed else 0


def _run_told(g: Globals, spec: "QuorumSpec") -> int:
    from yak.sim.quorum.trial import run_quorum_spec

    told: list[str] = []
    report = run_quorum_spec(spec, lines=told)
    for line in told:
        g.out.line(line)
    if _print_report(g, report):
        return 4
    if g.out.for_people:
        g.out.line(_one_line(report))
    return 0


def _print_report(g: Globals, report: "SeedReport") -> bool:
    """Print a seed's report, as JSON or if it failed; returns whether it failed."""
    from yak.sim.seed_report import as_dict

    if not g.out.for_people:
        g.out.line(json.dumps(as_dict(report)))
    if report.error is None:
        return False
    g.out.warn(f"seed {report.seed}: {report.error}")
    g.out.warn(f"replay: {report.spec.command()} --lines")
    return True


def _one_line(report: "SeedReport") -> str:
    return (
        f"seed {report.seed}: {report.events_count} events, {report.simulated_s:.1f} s simulated,"
        f" trace {report.trace_hash[:16]}"
    )
