"""`yak sim`."""

import json
from typing import Annotated

import typer

from yak.commands.app import OUTPUT, WHAT, CommandGroup
from yak.commands.options import Globals

sim = CommandGroup(
    "sim",
    "Run the broker in the deterministic simulator.",
    examples=("yak sim run --seed 81723", "yak sim run --brokers 3 --seeds 200", "yak sim run --seed 5 --lines | less"),
)


@sim.command(
    "run",
    examples=(
        "yak sim run --seed 81723",
        "yak sim run --brokers 3 --seed 1 --seeds 200",
        "yak sim run --seed 5 --lines",
    ),
)
def run(
    g: Globals,
    seed: Annotated[
        int, typer.Option("--seed", help="The seed to run, or the first of several.", rich_help_panel=WHAT)
    ] = 1,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.", rich_help_panel=WHAT)] = 1,
    brokers: Annotated[
        int,
        typer.Option(
            "--brokers",
            min=1,
            max=9,
            help="How many brokers: 1 alone, or a cluster that replicates.",
            rich_help_panel=WHAT,
        ),
    ] = 1,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print what happened, line by line (one seed).", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Run seeds; each draws clients, delays, crashes, cuts and store outages, and checks every invariant after every event."""
    from yak.errors import UsageError
    from yak.sim.cluster_run import run_cluster_seed
    from yak.sim.run import as_dict, replay_command, run_seed

    if lines and seeds > 1:
        raise UsageError(
            "bad-option",
            "--lines prints one seed",
            why=f"--seeds {seeds}",
            try_=(f"yak sim run --seed {seed}{f' --brokers {brokers}' if brokers > 1 else ''} --lines",),
        )
    failed = 0
    totals: dict[str, int] = {}
    events_count = 0
    with g.out.progress("seeds", total=seeds) as bar:
        for number in range(seed, seed + seeds):
            told: list[str] | None = [] if lines else None
            verdict = run_seed(number, lines=told) if brokers == 1 else run_cluster_seed(number, brokers, lines=told)
            for line in told or ():
                g.out.line(line)
            events_count += verdict.events_count
            for name, count in verdict.counts.items():
                totals[name] = totals.get(name, 0) + count
            if not g.out.for_people:
                g.out.line(json.dumps(as_dict(verdict)))
            if verdict.error is not None:
                failed += 1
                g.out.warn(f"seed {number}: {verdict.error}")
                g.out.warn(f"replay: {replay_command(verdict)} --lines")
            elif seeds == 1 and g.out.for_people:
                g.out.line(
                    f"seed {number}: {verdict.events_count} events, {verdict.simulated_s:.1f} s simulated, trace {verdict.trace_hash[:16]}"
                )
            bar.update(number - seed + 1)
    if g.out.for_people:
        told_counts = ", ".join(f"{name} {count}" for name, count in totals.items())
        g.out.line(f"{seeds - failed} of {seeds} seeds hold; {events_count} events; {told_counts}")
    return 4 if failed else 0
