"""Runs one benchmark for the command line: progress, printing, assertions."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yak.client.bench.clients import LoadSample, run_benchmark
from yak.client.bench.load import Load
from yak.client.bench.result import (
    CSV_COLUMNS,
    Result,
    check_against_baseline,
    client_row,
    comparison,
    document,
    machine,
    machine_line,
    outcomes,
    parse_check,
    read_baseline,
    write_csv,
)
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.errors import CheckFailed, UsageError, YakError
from yak.view.formats import group_digits

if TYPE_CHECKING:
    from yak.commands.bench import Report

VERBS = {"produce": "producing", "consume": "reading", "latency": "timing", "e2e": "timing", "workload": "producing"}
EVENT_SECONDS = 0.25
RECEIVED = ("consume", "e2e")


def run(g: Globals, load: Load, partitions: int | None, report: "Report") -> None:
    """Run the benchmark, print the result, write files, check assertions.

    Raises UsageError, Unreachable, YakError (`bench-errors`: records failed), CheckFailed (`assert-failed`).
    """
    checks = [parse_check(text) for text in report.asserts or []]
    baseline = read_baseline(report.baseline) if report.baseline else None
    check_against_baseline(checks, baseline)
    if report.progress_json:
        result = run_with_events(g, load, partitions)
    elif report.no_progress:
        result = run_benchmark(load, partitions)
    else:
        with g.out.progress(f"{VERBS[load.kind]} {load.topic}", load.messages) as bar:
            result = run_benchmark(load, partitions, on_progress=bar.update)
    found = document(result, machine())
    found["asserts"] = outcomes(checks, found, baseline)
    found["compared"] = comparison(found, baseline) if baseline else []
    rows = [*(client_row(str(each.client), each) for each in result.clients), client_row("total", result)]
    if not g.out.for_programs(found, rows, CSV_COLUMNS):
        for line in lines(result, found):
            g.out.line(line)
    if report.csv is not None:
        save_csv(report.csv, result)
    if limit := result.client_limit():
        g.out.note(f"the client was the limit: {limit}")
    broken_checks(found["asserts"])
    if result.errors:
        raise YakError("bench-errors", f"{group_digits(result.errors)} records failed", why=result.first_error)


def write_event(g: Globals, kind: str, **fields: object) -> None:
    """Print a line of JSON on stderr, for programs that watch a benchmark."""
    g.out.stderr.write(json.dumps({"kind": kind, **fields}) + "\n")
    g.out.stderr.flush()


def run_with_events(g: Globals, load: Load, partitions: int | None) -> Result:
    """Run the benchmark with a line of JSON at its start and four times a second."""
    began_s, written_s = time.monotonic(), 0.0

    def started() -> None:
        nonlocal began_s
        began_s = time.monotonic()
        write_event(g, "started", messages=load.messages, duration_s=load.duration_s)

    def moment(now: LoadSample) -> None:
        nonlocal written_s
        elapsed_s = time.monotonic() - began_s
        if elapsed_s - written_s >= EVENT_SECONDS:
            written_s = elapsed_s
            latency = {name: round(value, 3) for name, value in zip(("p50", "p99", "max"), now[1:], strict=True)}
            write_event(g, "progress", elapsed_s=round(elapsed_s, 3), records=now.records, latency_ms=latency)

    write_event(g, "starting")
    return run_benchmark(load, partitions, on_start=started, on_moment=moment)


def save_csv(path: Path, result: Result) -> None:
    """Write the CSV. Raises UsageError (`cannot-write`)."""
    try:
        write_csv(path, result)
    except OSError as error:
        raise UsageError("cannot-write", f"{path} was not written", why=error.strerror or str(error)) from None


def broken_checks(checks: Sequence[Mapping[str, object]]) -> None:
    """Raise CheckFailed (`assert-failed`) when an assertion does not hold."""
    broken = [check for check in checks if not check["held"]]
    if broken:
        names = ", ".join(str(check["assert"]) for check in broken)
        figures = "; ".join(f"{check['assert']}: {format_value(check['value'])}" for check in broken)
        raise CheckFailed("assert-failed", f"does not hold: {names}", why=f"measured {figures}")


def check_line(check: Mapping[str, object]) -> str:
    """An assertion's outcome for people."""
    return f"  {'ok' if check['held'] else 'FAIL'}  {check['assert']}  (measured {format_value(check['value'])})"


def format_value(value: object) -> str:
    """A figure of an assertion for people."""
    return "nothing" if value is None else f"{float(str(value)):,.3f}".replace(",", " ")


def rate_text(records: int, byte_count: int, seconds: float) -> str:
    """`1 038 605 records/s, 103.9 MB/s`."""
    return f"{group_digits(round(records / seconds))} records/s, {byte_count / seconds / 1e6:.1f} MB/s"


def latency_line(what: str, latency: Mapping[str, float]) -> str:
    """The percentiles of a latency for people."""
    return f"  {what} after, ms: " + "  ".join(f"{name} {value:.3f}" for name, value in latency.items())


def lines(result: Result, found: Mapping[str, Any]) -> list[str]:
    """The result and its document for people, in the order of nats bench: total, each client, spread, latency."""
    load = result.load
    plural = "client" if len(result.clients) == 1 else "clients"
    errors = group_digits(result.errors)
    text = [
        f"{load.kind} {load.topic}: {rate_text(result.records, result.bytes, result.seconds)}",
        f"  {group_digits(result.records)} records, {len(result.clients)} {plural}, {result.seconds:.2f} s, {errors} errors",
    ]
    if len(result.clients) > 1:
        for each in result.clients:
            rate = rate_text(each.records, each.bytes, each.seconds)
            text.append(f"  [{each.client}] {rate} ({group_digits(each.records)} records, {each.seconds:.2f} s)")
        over = found["records_per_s_by_client"]
        parts = (f"{name} {group_digits(round(value))}" for name, value in over.items())
        text.append("  " + " | ".join(parts) + " records/s")
    if latency := found["latency_ms"]:
        text.append(latency_line("received" if load.kind in RECEIVED else "acknowledged", latency))
    if consumed := found.get("consumed"):
        rate = f"{group_digits(round(consumed['records_per_s']))} records/s, {consumed['mb_per_s']:.1f} MB/s"
        text.append(f"  consumed by {consumed['consumers']}: {rate} ({group_digits(consumed['records'])} records)")
        if consumed["latency_ms"]:
            text.append(latency_line("received", consumed["latency_ms"]))
    if found["compared"]:
        text += ["", *layout(found["compared"], ("figure", "before", "now", "ratio"))]
    text += [check_line(check) for check in found["asserts"]]
    text.append("  " + machine_line(found["machine"]))
    return text
