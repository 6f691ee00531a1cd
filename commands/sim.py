"""`yak sim`: run, quorum, mutants, model."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from yak.client.numbers import parse_long
from yak.commands.app import OUTPUT, WHAT, CommandGroup, command, flag
from yak.commands.options import Globals
from yak.commands.parameters import option
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.sim.coverage import Coverage
    from yak.sim.model.rules import Step
    from yak.sim.seed_report import SeedReport
    from yak.sim.spec import Spec

_GC_THRESHOLDS = (100_000, 20, 50)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Workers = Annotated[int | None, option("--workers", "Processes [default: the cores there are].", OUTPUT, min=1)]


def in_order(
    work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int | None, *, at_once: int = 1
) -> Iterator[_Result]:
    """The results of `work` for the items, in order, from `workers` processes that take `at_once` items each.

    Too few items for two processes are processed in this one. `work` and its results must support pickle.
    """
    workers = min(workers or _cores(), -(-len(items) // at_once))
    if workers <= 1:
        collect_seldom()
        yield from map(work, items)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)
    try:
        yield from pool.map(work, items, chunksize=at_once)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _cores() -> int:
    """The number of cores for this process, if the system reports it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin() -> None:
    """Ignore Ctrl+C in a worker: the printing process ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_seldom()


def collect_seldom() -> None:
    """Collect cycles rarely. A run creates few cycles and keeps many objects; the default cost a sixth of its time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


SEEDS_AT_ONCE = 20
"""The batch of seeds for a worker: a few seconds of work."""


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
    if any(parse_long(each) is None for each in named):
        raise UsageError("bad-option", f'--keep "{text}" is not a list of numbers', try_=("--keep 3,7", "--keep none"))
    return tuple(sorted({int(each) for each in named}))


def _names(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.split(",") if each and each != "none")


def run_many(
    g: Globals, specs: Sequence[Spec], workers: int | None, coverage: Coverage | None, *, shrinks: bool = False
) -> int:
    """Run these seeds and print what fails; returns the exit code. `shrinks`: a failing seed can be minimized."""
    from yak.sim.trial import run_spec

    totals = _Totals(coverage)
    report = None
    try:
        with g.out.progress("seeds", total=len(specs)) as bar:
            for report in in_order(run_spec, specs, workers, at_once=SEEDS_AT_ONCE):
                _take_report(g, report, totals, shrinks=shrinks)
                bar.update(totals.done)
    except KeyboardInterrupt:
        if totals.done:
            _print_totals(g, totals)
        raise
    return _print_totals(g, totals, report if len(specs) == 1 else None)


def run_with_lines(g: Globals, spec: Spec, coverage: Coverage | None, *, shrinks: bool = False) -> int:
    """Run one seed and print its events; returns the exit code."""
    from yak.sim.trial import run_spec

    lines: list[str] = []
    report = run_spec(spec, lines=lines)
    for line in lines:
        g.out.line(line)
    totals = _Totals(coverage)
    _take_report(g, report, totals, shrinks=shrinks)
    return _print_totals(g, totals, report)


def _take_report(g: Globals, report: SeedReport, totals: _Totals, *, shrinks: bool) -> None:
    """Add a seed's report to the totals, and print it, as JSON or if it failed."""
    from yak.sim.seed_report import as_dict

    totals.add(report)
    if not g.out.for_people:
        g.out.line(json.dumps(as_dict(report)))
    if report.error is None:
        return
    g.out.warn(f"seed {report.seed}: {report.error}")
    g.out.warn(f"replay: {report.spec.command()} --lines")
    if shrinks:
        g.out.warn(f"shrink: {report.spec.command()} --shrink")


def _print_totals(g: Globals, totals: _Totals, only: SeedReport | None = None) -> int:
    """Print the totals, below a line of the only seed if it held; returns the exit code."""
    if g.out.for_people:
        if only is not None and only.error is None:
            g.out.line(
                f"seed {only.seed}: {only.events_count} events, {only.simulated_s:.1f} s simulated,"
                f" trace {only.trace_hash[:16]}"
            )
        for line in totals.lines():
            g.out.line(line)
    return 4 if totals.failed else 0


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
    seed: int = flag("--seed", "The first seed.", WHAT, default=1),
    seeds: int = flag("--seeds", "How many seeds to run.", WHAT, default=1, min=1),
    brokers: int = flag("--brokers", "Number of brokers; more than 1 replicate.", WHAT, default=1, min=1, max=9),
    swarm: bool = flag("--swarm", "Each seed also draws the number of brokers, 2 to 5.", WHAT, default=False),
    metadata: str = flag(
        "--metadata",
        "Where the metadata are: redis, raft, or both (moved back and forth).",
        WHAT,
        default="redis",
        metavar="STORE",
    ),
    mutant: str = flag("--mutant", "Apply a mutant first (yak sim mutants).", WHAT, default="", metavar="NAME"),
    faults: str | None = flag("--faults", "Only these classes of faults, or none.", SMALLER, metavar="NAMES"),
    keep: str | None = flag("--keep", "Only the faults with these numbers, or none.", SMALLER, metavar="NUMBERS"),
    without: str = flag("--without", "Leave out topics or clients.", SMALLER, default="", metavar="NAMES"),
    producers: int | None = flag("--producers", "At most N producers.", SMALLER, min=0, metavar="N"),
    values: int | None = flag("--values", "At most N values per producer.", SMALLER, min=1, metavar="N"),
    shrink: bool = flag("--shrink", "Minimize a failing seed, and print its command.", OUTPUT, default=False),
    lines: bool = flag("--lines", "Print the events (one seed).", OUTPUT, default=False),
    workers: Workers = None,
) -> int:
    """Simulate clusters by seed, with random clients, delays, crashes, network cuts and store outages. Checks every
    invariant after every event.
    """
    from yak.sim.cluster_faults import classes_with
    from yak.sim.coverage import Coverage
    from yak.sim.spec import METADATA, Spec, drawn_size

    if swarm and brokers > 1:
        raise UsageError("bad-option", "--swarm draws the number of brokers", why=f"--brokers {brokers}")
    if metadata not in METADATA or (metadata != "redis" and brokers == 1 and not swarm):
        why = f"it is one of {', '.join(METADATA)}, and a quorum needs --brokers 2 or more here"
        raise UsageError(
            "bad-option",
            f"--metadata {metadata} cannot be used",
            why=why,
            try_=("yak sim run --brokers 3 --metadata raft",),
        )
    brokers = drawn_size(seed) if swarm else brokers
    spec = Spec(
        seed,
        brokers,
        faults=fault_classes(
            faults, classes_with(brokers, metadata), f"with {brokers} brokers and --metadata {metadata}"
        ),
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
        return run_with_lines(g, spec, Coverage(spec.brokers), shrinks=True)
    specs = [
        replace(spec, seed=number, brokers=drawn_size(number) if swarm else brokers)
        for number in range(seed, seed + seeds)
    ]
    return run_many(g, specs, workers, Coverage(specs[0].brokers), shrinks=True)


# ------------------------------------------------------------------------------------------------------ options


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
class _Totals:
    coverage: Coverage | None
    """None for runs of the quorum."""
    totals: Counter[str] = field(default_factory=Counter)
    done: int = 0
    failed: int = 0
    events_count: int = 0
    simulated_s: float = 0.0

    def add(self, report: SeedReport) -> None:
        self.done += 1
        self.failed += report.error is not None
        self.events_count += report.events_count
        self.simulated_s += report.simulated_s
        self.totals.update(report.counts)
        if self.coverage is not None:
            self.coverage.add(report)

    def lines(self) -> list[str]:
        holding, totals = f"{self.done - self.failed} of {self.done} seeds hold", self.totals
        head = f"{holding}; {self.events_count} events, {self.simulated_s:.0f} s simulated; "
        if self.coverage is None:
            return [head + ", ".join(f"{name} {count}" for name, count in totals.items())]
        head += f"{totals['acknowledged']} acknowledged, {totals['read']} read; reached (in so many seeds):"
        return [head, *self.coverage.lines()]


def _shrink(g: Globals, spec: Spec) -> int:
    from yak.sim.seed_report import as_dict
    from yak.sim.shrink import TRIES_MAX, NothingToShrink, Shrinker

    with g.out.progress("tries", total=TRIES_MAX) as bar:
        try:
            shrunk = Shrinker(spec, lambda tries, best: bar.update(tries, best.command())).run()
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


def _size(report: SeedReport) -> str:
    spec = report.spec
    faults = report.strikes if spec.keep is None else len([each for each in spec.keep if each <= report.strikes])
    sent = report.counts.get("sent", 0)
    return f"{spec.brokers} brokers, {faults} faults, {sent} values, {report.events_count} events"


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
    records: int = flag("--records", "Records written.", BOUNDS, default=1, min=0),
    crashes: int = flag("--crashes", "Kills, and losses of power.", BOUNDS, default=1, min=0),
    outages: int = flag("--outages", "Outages of the store.", BOUNDS, default=0, min=0),
    elections: int = flag("--elections", "Elections and fencings.", BOUNDS, default=1, min=0),
    changes: int = flag("--changes", "Changes of the ISR by leaders.", BOUNDS, default=0, min=0),
    states: int | None = flag("--states", "Stop after N states.", BOUNDS, min=1, metavar="N"),
    walks: int = flag("--walks", "Random walks after the search.", WHAT, default=2_000, min=0),
    lacks: str = flag("--lacks", "Remove this rule.", WHAT, default="", metavar="RULE"),
    mutants: bool = flag("--mutants", "Remove each rule, and walk until a check fails.", OUTPUT, default=False),
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
        return _print_violation(g, found.violation, found.path)
    # A rule removed from the model is still in the broker.
    walked = walk(walks, lacks=lacks, drives=not lacks)
    beside = "" if lacks else "; the broker's partitions did the same"
    g.out.line(f"{walked.walks} walks, {walked.steps} steps{beside}")
    if walked.violation:
        return _print_violation(g, walked.violation, walked.path)
    g.out.line("nothing is violated")
    return 0


def _print_violation(g: Globals, violation: str, path: tuple[Step, ...]) -> int:
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
    seed: int = flag("--seed", "The first seed.", WHAT, default=1),
    seeds: int = flag("--seeds", "How many seeds to run.", WHAT, default=1, min=1),
    mutant: str = flag("--mutant", "Apply a mutant first (yak sim mutants).", WHAT, default="", metavar="NAME"),
    faults: str | None = flag("--faults", "Only these classes of faults, or none.", WHAT, metavar="NAMES"),
    keep: str | None = flag("--keep", "Only the faults with these numbers, or none.", WHAT, metavar="NUMBERS"),
    lines: bool = flag("--lines", "Print the events (one seed).", OUTPUT, default=False),
    workers: Workers = None,
) -> int:
    """Simulate metadata quorums by seed: 1, 3 or 5 voters and observers under faults. Checks every invariant after every event."""
    from yak.sim.mutants.catalogue import BY_NAME
    from yak.sim.quorum.faults import CLASSES
    from yak.sim.spec import Spec

    if mutant and (mutant not in BY_NAME or BY_NAME[mutant].brokers > 0):
        raise UsageError("bad-option", f"no mutant of the quorum is named {mutant}", try_=("yak sim mutants --list",))
    classes = fault_classes(faults, CLASSES, "in a quorum")
    spec = Spec(seed, brokers=0, faults=classes, mutant=mutant, keep=numbers(keep))
    if seeds > 1 and lines:
        raise UsageError(
            "bad-option", "--lines is for one seed", why=f"--seeds {seeds}", try_=(f"{spec.command()} --lines",)
        )
    if lines:
        return run_with_lines(g, spec, None)
    return run_many(g, [replace(spec, seed=number) for number in range(seed, seed + seeds)], workers, None)


COLUMNS = ("mutant", "found_at_seed", "found_by", "tried", "cpu_s", "rule_removed")


@command(examples=("yak sim mutants", "yak sim mutants --name ack-before-replication", "yak sim mutants -o json"))
def mutants(
    g: Globals,
    name: list[str] | None = flag("--name", "Only this mutant; repeatable.", WHAT, metavar="NAME"),
    seed: int = flag("--seed", "The first seed to try.", WHAT, default=1),
    seeds: int | None = flag("--seeds", "Try at most N seeds per mutant.", WHAT, min=1),
    workers: Workers = None,
    listed: bool = flag("--list", "Only list the mutants.", OUTPUT, default=False),
) -> int:
    """Mutation-test the simulator's checks: exit code 4 if a mutant is not detected."""
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
        for row in in_order(partial(_hunted, first=seed, seeds=seeds), chosen, workers):
            hunted.append(row)
            found += row["found_at_seed"] is not None
            bar.update(len(hunted), row["mutant"])
    g.out.table(hunted, COLUMNS if g.out.for_people else (*COLUMNS, "error", "replay", "unsound"))
    if g.out.for_people:
        g.out.line(f"{found} of {len(chosen)} found")
    for row in hunted:
        if row["found_at_seed"] is None:
            g.out.warn(f"{row['mutant']}: no check noticed within {row['tried']} seeds")
    unsound = list(dict.fromkeys(replay for row in hunted for replay in row["unsound"]))
    for replay in unsound:
        g.out.warn(f"a seed fails without any mutant, and proves nothing: {replay}")
    return 0 if found == len(chosen) and not unsound else 4


def _hunted(name: str, *, first: int, seeds: int | None) -> dict[str, Any]:
    """What became of one mutant, in a worker."""
    from yak.sim.mutants.catalogue import BY_NAME
    from yak.sim.mutants.hunt import hunt

    began_s = time.process_time()
    finding = hunt(BY_NAME[name], first=first, seeds=seeds)
    return {
        "mutant": name,
        "rule_removed": BY_NAME[name].rule,
        "found_at_seed": finding.seed,
        "found_by": finding.found_by,
        "tried": finding.seeds_tried,
        "cpu_s": round(time.process_time() - began_s, 1),
        "error": finding.error,
        "replay": finding.replay,
        "unsound": list(finding.unsound),
    }


sim = CommandGroup(
    "sim",
    examples=(
        "yak sim run --seed 81723",
        "yak sim run --brokers 3 --seeds 200",
        "yak sim run --seed 5 --lines | less",
        "yak sim quorum --seeds 200",
        "yak sim mutants",
    ),
    leaves={"run": run, "quorum": quorum, "mutants": mutants, "model": model},
)
