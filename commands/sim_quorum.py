"""`yak sim quorum`."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import OUTPUT, WHAT, command
from yak.commands.options import Globals
from yak.commands.sim_seeds import fault_classes, numbers, run_many, run_told
from yak.commands.sim_workers import Workers
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.sim.seed_report import SeedReport


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

    spec = QuorumSpec(seed, 0, faults=_fault_classes(faults), mutant=_mutant(mutant), keep=numbers(keep))
    if seeds > 1 and lines:
        raise UsageError(
            "bad-option", "--lines is for one seed", why=f"--seeds {seeds}", try_=(f"{spec.command()} --lines",)
        )
    if lines:
        return run_told(g, spec, _Tally())
    return run_many(g, [replace(spec, seed=number) for number in range(seed, seed + seeds)], workers, _Tally())


def _fault_classes(text: str | None) -> tuple[str, ...] | None:
    from yak.sim.quorum.faults import CLASSES

    return fault_classes(text, CLASSES, "in a quorum")


def _mutant(name: str) -> str:
    from yak.sim.quorum.mutants import BY_NAME

    if name and name not in BY_NAME:
        raise UsageError("bad-option", f"no mutant of the quorum is named {name}", try_=("yak sim mutants --list",))
    return name


@dataclass(slots=True)
class _Tally:
    totals: Counter[str] = field(default_factory=Counter)
    events_count: int = 0
    simulated_s: float = 0.0

    def add(self, report: "SeedReport") -> None:
        self.totals.update(report.counts)
        self.events_count += report.events_count
        self.simulated_s += report.simulated_s

    def lines(self, done: int, failed: int) -> list[str]:
        head = f"{done - failed} of {done} seeds hold; {self.events_count} events, {self.simulated_s:.0f} s simulated; "
        return [head + ", ".join(f"{name} {count}" for name, count in self.totals.items())]
