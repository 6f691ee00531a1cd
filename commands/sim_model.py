"""`yak sim model`."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import OUTPUT, WHAT, command
from yak.commands.options import Globals
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.sim.model.rules import Step

BOUNDS = "Bounds of the search"
HUNT_WALKS = 30_000
"""Finding the absence of the rarest rule took 13,506 walks."""


@command(
    examples=(
        "yak sim model",
        "yak sim model --records 2 --crashes 0 --elections 1",
        "yak sim model --walks 100000",
        "yak sim model --lacks epoch-start",
        "yak sim model --mutants",
    )
)
def model(
    g: Globals,
    records: Annotated[int, typer.Option("--records", min=0, help="Records written.", rich_help_panel=BOUNDS)] = 1,
    crashes: Annotated[
        int, typer.Option("--crashes", min=0, help="Kills, and losses of power.", rich_help_panel=BOUNDS)
    ] = 1,
    outages: Annotated[int, typer.Option("--outages", min=0, help="Outages of the store.", rich_help_panel=BOUNDS)] = 0,
    elections: Annotated[
        int, typer.Option("--elections", min=0, help="Elections and fencings.", rich_help_panel=BOUNDS)
    ] = 1,
    changes: Annotated[
        int, typer.Option("--changes", min=0, help="Changes of the ISR by leaders.", rich_help_panel=BOUNDS)
    ] = 0,
    states: Annotated[
        int | None,
        typer.Option("--states", min=1, help="Stop after N states.", metavar="N", rich_help_panel=BOUNDS),
    ] = None,
    walks: Annotated[
        int, typer.Option("--walks", min=0, help="Random walks after the search.", rich_help_panel=WHAT)
    ] = 2_000,
    lacks: Annotated[str, typer.Option("--lacks", help="Remove this rule.", metavar="RULE", rich_help_panel=WHAT)] = "",
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Remove each rule, and walk until a check fails.", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Visit all states of a small replication model within bounds, then walk farther with the broker's real partitions."""
    from yak.sim.model.rules import RULES, SPARE
    from yak.sim.model.search import Bounds, search
    from yak.sim.model.walk import walk

    if lacks and lacks not in RULES and lacks not in SPARE:
        raise UsageError("bad-option", f"no rule is named {lacks}", why=f"there are: {', '.join((*RULES, *SPARE))}")
    if mutants:
        return _hunt(g)
    bounds = Bounds(records, crashes, outages, elections, changes)
    began_s = time.process_time()
    with g.out.progress("states") as bar:
        found = search(
            bounds,
            lacks=lacks,
            states_max=states,
            on_level=lambda depth, seen, _next: bar.update(seen, f"depth {depth}"),
        )
    how = "every state within the bounds" if found.is_complete else "the search ended early"
    seconds = time.process_time() - began_s
    g.out.line(f"{found.states} states, {found.steps} steps, {found.depth} deep, {seconds:.1f} s of CPU: {how}")
    if found.violation:
        return _told(g, found.violation, found.path)
    # A rule removed from the model is still in the broker.
    walked = walk(walks, lacks=lacks, drives=not lacks)
    beside = "" if lacks else "; the broker's partitions did the same"
    g.out.line(f"{walked.walks} walks, {walked.steps} steps{beside}")
    if walked.violation:
        return _told(g, walked.violation, walked.path)
    g.out.line("nothing is violated")
    return 0


def _told(g: Globals, violation: str, path: "tuple[Step, ...]") -> int:
    for step in path:
        g.out.line("  " + " ".join(map(str, step)))
    g.out.warn(violation)
    return 4


def _hunt(g: Globals) -> int:
    from yak.sim.model.rules import RULES
    from yak.sim.model.walk import walk

    rows, found = [], 0
    with g.out.progress("rules", total=len(RULES)) as bar:
        for name, rule in RULES.items():
            walked = walk(HUNT_WALKS, lacks=name)
            found += bool(walked.violation)
            rows.append({"lacks": name, "walks": walked.walks, "violation": walked.violation, "rule_removed": rule})
            bar.update(len(rows), name)
    g.out.table(rows, ("lacks", "walks", "violation", "rule_removed"))
    if g.out.for_people:
        g.out.line(f"{found} of {len(RULES)} found")
    return 0 if found == len(RULES) else 4
