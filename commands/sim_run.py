"""`yak sim run`."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import OUTPUT, WHAT, command
from yak.commands.options import Globals
from yak.commands.sim_seeds import fault_classes, numbers, run_many, run_told
from yak.commands.sim_workers import Workers
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.sim.coverage import Coverage
    from yak.sim.seed_report import SeedReport
    from yak.sim.spec import Spec

SMALLER = "Smaller than the seed (as --shrink prints it)"


@command(
    examples=(
        "yak sim run --seed 81723",
        "yak sim run --brokers 3 --seed 1 --seeds 2000",
        "yak sim run --seed 5 --lines",
        "yak sim run --brokers 3 --seed 38 --mutant divergence-not-looked-for --shrink",
    ),
)
def run(
    g: Globals,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.", rich_help_panel=WHAT)] = 1,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.", rich_help_panel=WHAT)] = 1,
    brokers: Annotated[
        int,
        typer.Option(
            "--brokers",
            min=1,
            max=9,
            help="Number of brokers; more than 1 replicate.",
            rich_help_panel=WHAT,
        ),
    ] = 1,
    swarm: Annotated[
        bool,
        typer.Option("--swarm", help="Each seed also draws the number of brokers, 2 to 5.", rich_help_panel=WHAT),
    ] = False,
    metadata: Annotated[
        str,
        typer.Option(
            "--metadata",
            metavar="STORE",
            help="Where the metadata are: redis, raft, or both (moved to and fro).",
            rich_help_panel=WHAT,
        ),
    ] = "redis",
    mutant: Annotated[
        str,
        typer.Option("--mutant", help="Apply a mutant first (yak sim mutants).", metavar="NAME", rich_help_panel=WHAT),
    ] = "",
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults",
            help="Only these classes of faults, or none.",
            metavar="NAMES",
            rich_help_panel=SMALLER,
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            help="Only the faults with these numbers, or none.",
            metavar="NUMBERS",
            rich_help_panel=SMALLER,
        ),
    ] = None,
    without: Annotated[
        str, typer.Option("--without", help="Leave out topics or clients.", metavar="NAMES", rich_help_panel=SMALLER)
    ] = "",
    producers: Annotated[
        int | None,
        typer.Option("--producers", min=0, help="At most N producers.", metavar="N", rich_help_panel=SMALLER),
    ] = None,
    values: Annotated[
        int | None,
        typer.Option("--values", min=1, help="At most N values per producer.", metavar="N", rich_help_panel=SMALLER),
    ] = None,
    shrink: Annotated[
        bool,
        typer.Option("--shrink", help="Minimize a failing seed, and print its command.", rich_help_panel=OUTPUT),
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print the events (one seed).", rich_help_panel=OUTPUT)
    ] = False,
    workers: Workers = None,
) -> int:
    """Simulate clusters by seed, with random clients, delays, crashes, network cuts and store outages. Checks every invariant after every event."""
    from yak.sim.coverage import Coverage
    from yak.sim.spec import METADATA, Spec, drawn_size

    if swarm and brokers > 1:
        raise UsageError("bad-option", "--swarm draws the number of brokers", why=f"--brokers {brokers}")
    if metadata not in METADATA or (metadata != "redis" and brokers == 1 and not swarm):
        why = f"it is one of {', '.join(METADATA)}, and a quorum needs --brokers 2 or more here"
        raise UsageError(
            "bad-option", f"--metadata {metadata}", why=why, try_=("yak sim run --brokers 3 --metadata raft",)
        )
    brokers = drawn_size(seed) if swarm else brokers
    spec = Spec(
        seed,
        brokers,
        faults=_fault_classes(faults, brokers),
        metadata=metadata,
        mutant=_mutant(mutant, brokers),
        keep=numbers(keep),
        values_max=values,
        producers_max=producers,
        without=tuple(name for name in without.split(",") if name),
    )
    if seeds > 1 and (lines or shrink):
        raise UsageError(
            "bad-option",
            f"{'--lines' if lines else '--shrink'} is for one seed",
            why=f"--seeds {seeds}",
            try_=(f"{spec.command()} {'--lines' if lines else '--shrink'}",),
        )
    if shrink:
        return _shrink(g, spec)
    if lines:
        return run_told(g, spec, _Tally(Coverage(spec.brokers)), shrinks=True)
    specs = [
        replace(spec, seed=number, brokers=drawn_size(number) if swarm else brokers)
        for number in range(seed, seed + seeds)
    ]
    return run_many(g, specs, workers, _Tally(Coverage(specs[0].brokers)), shrinks=True)


# ------------------------------------------------------------------------------------------------------ options


def _fault_classes(text: str | None, brokers: int) -> tuple[str, ...] | None:
    from yak.sim import cluster_faults, faults

    classes = faults.CLASSES if brokers == 1 else cluster_faults.ALL_CLASSES
    return fault_classes(text, classes, f"with {brokers} brokers")


def _mutant(name: str, brokers: int) -> str:
    from yak.sim.mutants.catalogue import BY_NAME

    if name and name not in BY_NAME:
        raise UsageError("bad-option", f"no mutant is named {name}", try_=("yak sim mutants --list",))
    if name and BY_NAME[name].brokers == 0:
        raise UsageError(
            "bad-option", f"{name} is a mutant of the metadata quorum", try_=(f"yak sim quorum --mutant {name}",)
        )
    if name and (BY_NAME[name].brokers == 1) != (brokers == 1):
        raise UsageError(
            "bad-option", f"{name} is a mutant for {BY_NAME[name].brokers} brokers", why=f"--brokers {brokers}"
        )
    return name


# ---------------------------------------------------------------------------------------------------------------- modes


@dataclass(slots=True)
class _Tally:
    coverage: "Coverage"
    events_count: int = 0
    simulated_s: float = 0.0

    def add(self, report: "SeedReport") -> None:
        self.coverage.add(report)
        self.events_count += report.events_count
        self.simulated_s += report.simulated_s

    def lines(self, done: int, failed: int) -> list[str]:
        totals = self.coverage.totals
        head = (
            f"{done - failed} of {done} seeds hold; {self.events_count} events, {self.simulated_s:.0f} s simulated;"
            f" {totals.get('acknowledged', 0)} acknowledged, {totals.get('read', 0)} read; reached (in so many seeds):"
        )
        return [head, *self.coverage.lines()]


def _shrink(g: Globals, spec: "Spec") -> int:
    from yak.sim.seed_report import as_dict
    from yak.sim.shrink import TRIES_MAX, NothingToShrink, shrink

    with g.out.progress("tries", total=TRIES_MAX) as bar:
        try:
            shrunk = shrink(spec, on_try=lambda tries, best: bar.update(tries, best.command()))
        except NothingToShrink:
            shrunk = None
    if shrunk is None:
        g.out.note(f"{spec.command()} holds: there is nothing to shrink")
        return 0
    before, after = shrunk.before, shrunk.after
    if not g.out.for_people:
        g.out.object(
            {"before": as_dict(before), "after": as_dict(after), "tries": shrunk.tries, "replay": after.spec.command()}
        )
        return 4
    g.out.line(f"{after.found_by}: {after.error}")
    g.out.line(f"from {_size(before)} to {_size(after)}, in {shrunk.tries} runs")
    g.out.line(f"{after.spec.command()} --lines")
    return 4


def _size(report: "SeedReport") -> str:
    spec = report.spec
    faults = report.strikes if spec.keep is None else len([each for each in spec.keep if each <= report.strikes])
    sent = report.counts.get("sent", 0)
    return f"{spec.brokers} brokers, {faults} faults, {sent} values, {report.events_count} events"
