"""Runs the failover benchmark for the command line: one line per kill, the result, assertions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yak.client.bench.result import check_against_baseline, machine, machine_line, outcomes, parse_check, read_baseline
from yak.commands.bench_run import broken_checks, check_line, write_event
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.errors import CheckFailed, UsageError, YakError
from yak.local.bench.failover import PAUSES, FailoverResult, FailoverSettings, Kill, document, run_failover
from yak.local.bench.fleet import own_fleet
from yak.view.formats import counted, group_digits

BROKERS = 3
COLUMNS = ("number", "node", "was_controller", "writes_ms", "reads_ms", "other_writes_ms", "return_ms")
CLIENT_SETTINGS = (
    "reconnect.backoff.ms",
    "retry.backoff.ms",
    "topic.metadata.refresh.fast.interval.ms",
    "enable.sparse.connections",
    "socket.timeout.ms",
)


def run(
    g: Globals,
    settings: FailoverSettings,
    asserts: Sequence[str],
    baseline: Path | None,
    *,
    progress_json: bool = False,
) -> None:
    """Run the benchmark, print the result, check it.

    Raises UsageError, YakError, CheckFailed (`records-lost`: a record is missing, duplicated or reordered;
    `assert-failed`).
    """
    checks = [parse_check(text) for text in asserts]
    before = read_baseline(baseline) if baseline else None
    check_against_baseline(checks, before)
    result = run_on_own(g, settings, progress_json=progress_json)
    found = document(result, machine())
    results = outcomes(checks, found, before)
    show(g, found, results)
    raise_if_bad(result, results)


def refuse_others_cluster(g: Globals) -> None:
    """Raise UsageError (`bench-own-cluster`) when brokers are named on the command line."""
    if g.flags.bootstrap_server is not None:
        raise UsageError(
            "bench-own-cluster",
            f"the brokers at {g.bootstrap_servers} are not killed",
            why="this benchmark starts brokers of its own, and kills only those",
            try_=("yak bench failover", "yak failover --kill          end a broker of a local cluster"),
        )


def run_on_own(g: Globals, settings: FailoverSettings, *, progress_json: bool = False) -> FailoverResult:
    """Run the benchmark on three brokers in a temporary directory, which is always deleted."""

    def report_kill(kill: Kill) -> None:
        if progress_json:
            write_event(g, "kill", of=settings.kills, **kill.as_json())
        else:
            g.out.note(kill_line(kill, settings))

    if progress_json:
        write_event(g, "starting")
    with own_fleet(BROKERS) as fleet:
        if progress_json:
            write_event(g, "started", kills=settings.kills)
        else:
            g.out.note(f"{BROKERS} brokers at {fleet.bootstrap}; {counted(settings.kills, settings.mode)} to come")
        return run_failover(fleet, settings, on_kill=report_kill)


def kill_line(kill: Kill, settings: FailoverSettings) -> str:
    """The line for one kill, printed when its node is back; durations are known only at the end."""
    role = "controller and leader" if kill.was_controller and kill.led else "leader"
    verb = "killed" if settings.mode == "kill" else "paused"
    back_s = kill.whole_s - kill.back_s
    return f"{kill.number} of {settings.kills}: node {kill.node_id} ({role}) {verb}; back in every ISR {back_s:.1f} s after its start"


def show(g: Globals, found: Mapping[str, Any], checks: Sequence[Mapping[str, object]]) -> None:
    """Print the result in the chosen format."""
    if g.out.for_programs({**found, "asserts": list(checks)}, found["per_kill"], COLUMNS):
        return
    for line in lines(found):
        g.out.line(line)
    for check in checks:
        g.out.line(check_line(check))
    g.out.line("  " + machine_line(dict(found["machine"])))


def lines(found: Mapping[str, Any]) -> list[str]:
    """The result for people: each kill, the pauses, the record counts, the client settings."""
    rows = [{"pause, ms": PAUSES[name], **(figures or {})} for name, figures in found["pauses_ms"].items()]
    kills = f"{found['controllers_killed']} of {found['kills']} were the controller"
    records = ", ".join(
        f"{group_digits(found[name])} {name}" for name in ("acknowledged", "lost", "duplicated", "reordered", "moved")
    )
    client = found["client"].get("writer", {})
    client_settings = ", ".join(f"{name}={client[name]}" for name in CLIENT_SETTINGS if name in client)
    text = [
        f"failover by {found['mode']}: {kills}",
        *layout(found["per_kill"], COLUMNS),
        "",
        *layout(rows, ("pause, ms", "p50", "p99", "max")),
        "",
        f"  {records}; {group_digits(found['seen_and_gone'])} seen by the reader and gone",
    ]
    if found["errors"]:
        text.append(f"  {group_digits(found['errors'])} records got an error: {found['first_error']}")
    return [*text, f"  clients: {client_settings}"]


def raise_if_bad(result: FailoverResult, checks: Sequence[Mapping[str, object]]) -> None:
    """Raise lost records, failed assertions and failed writes as errors."""
    if not result.holds:
        delivery = result.delivery
        why = (
            f"{delivery.lost} lost, {delivery.duplicated} duplicated, {delivery.out_of_order} reordered, "
            f"{delivery.moved} moved, {result.seen_and_gone} read and gone"
        )
        raise CheckFailed("records-lost", "not every acknowledged record is there, once and in order", why=why)
    broken_checks(checks)
    if result.failed:
        raise YakError("bench-errors", f"{group_digits(result.failed)} records failed", why=result.first_error)
