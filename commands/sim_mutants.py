"""`yak sim mutants`."""

import time
from typing import Annotated, Any

import typer

from yak.commands.app import OUTPUT, WHAT, command
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.commands.sim_workers import Workers, in_order

COLUMNS = ("mutant", "found_at_seed", "found_by", "tried", "cpu_s", "rule_removed")


@command(examples=("yak sim mutants", "yak sim mutants --name ack-before-replication", "yak sim mutants -o json"))
def mutants(
    g: Globals,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Only this mutant; repeatable.", metavar="NAME", rich_help_panel=WHAT),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The first seed to try.", rich_help_panel=WHAT)] = 1,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, help="Try at most N seeds per mutant.", rich_help_panel=WHAT),
    ] = None,
    workers: Workers = None,
    listed: Annotated[bool, typer.Option("--list", help="Only list the mutants.", rich_help_panel=OUTPUT)] = False,
) -> int:
    """Mutation-test the simulator's checks: exit code 4 if a mutant is not detected."""
    from yak.errors import UsageError
    from yak.sim.mutants.catalogue import BY_NAME

    unknown = [each for each in name or () if each not in BY_NAME]
    if unknown:
        raise UsageError("bad-option", f"no mutant is named {unknown[0]}", try_=("yak sim mutants --list",))
    chosen = name or list(BY_NAME)
    if listed:
        rows = [{"mutant": each, "rule_removed": BY_NAME[each].rule, "within": BY_NAME[each].seeds} for each in chosen]
        g.out.table(rows, ("mutant", "within", "rule_removed"))
        return 0
    found = 0
    hunted: list[dict[str, Any]] = []
    with g.out.progress("mutants", total=len(chosen)) as bar:
        for row in in_order(_Hunt(seed, seeds), chosen, workers):
            hunted.append(row)
            found += row["found_at_seed"] is not None
            bar.update(len(hunted), row["mutant"])
    _show(g, hunted)
    if g.out.for_people:
        g.out.line(f"{found} of {len(chosen)} found")
    for row in hunted:
        if row["found_at_seed"] is None:
            g.out.warn(f"{row['mutant']}: no check noticed within {row['tried']} seeds")
    unsound = list(dict.fromkeys(replay for row in hunted for replay in row["unsound"]))
    for replay in unsound:
        g.out.warn(f"a seed fails without any mutant, and proves nothing: {replay}")
    return 0 if found == len(chosen) and not unsound else 4


def _show(g: Globals, rows: list[dict[str, Any]]) -> None:
    if g.out.for_people:
        for line in layout(rows, COLUMNS, headers=g.out.headers):
            g.out.line(line)
    else:
        g.out.table(rows, (*COLUMNS, "error", "replay", "unsound"))


class _Hunt:
    """A worker's function for a mutant name; an object, so that it can be pickled."""

    def __init__(self, first: int, seeds: int | None) -> None:
        self._first = first
        self._seeds = seeds

    def __call__(self, name: str) -> dict[str, Any]:
        from yak.sim.mutants.catalogue import BY_NAME
        from yak.sim.mutants.mutant import hunt

        began_s = time.process_time()
        finding = hunt(BY_NAME[name], first=self._first, seeds=self._seeds)
        return {
            "mutant": name,
            "rule_removed": finding.rule,
            "found_at_seed": finding.seed,
            "found_by": finding.found_by,
            "tried": finding.seeds_tried,
            "cpu_s": round(time.process_time() - began_s, 1),
            "error": finding.error,
            "replay": finding.replay,
            "unsound": list(finding.unsound),
        }
