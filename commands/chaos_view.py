"""Displays a running `yak chaos` and its report."""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.local.chaos.abuse import AbuseRow
    from yak.local.chaos.cluster import ChaosCluster
    from yak.local.chaos.nemesis import Struck
    from yak.local.chaos.recorder import Recorder
    from yak.local.chaos.report import ChaosReport
    from yak.local.chaos.run import ChaosSettings, Watcher
    from yak.sim.history_checker.history import History
    from yak.sim.history_checker.report import HistoryReport

SHOWN_MAX = 10
"""How many anomalies and violations are printed; JSON has more."""
_LAST_FAULTS = 8
_DRAW_SECONDS = 0.25
_SILENT_SECONDS = 1.0
_BAR = 40


class PrintedRun:
    """Prints a line on stderr for each phase, fault and note, without a terminal."""

    def __init__(self, g: Globals) -> None:
        self._out = g.out

    def phase(self, name: str, seconds: float | None = None) -> None:
        """Report the start of a phase."""
        self._out.note(name if seconds is None else f"{name} for {seconds:g} s")

    def fault(self, found: "Struck") -> None:
        """Report the start or the repair of a fault."""
        self._out.note(fault_line(found))

    def note(self, words: str) -> None:
        """Print a line."""
        self._out.note(f"  {words}")

    def tick(self, recorder: "Recorder", cluster: "ChaosCluster | None", struck: "Sequence[Struck]") -> None:
        """Do nothing: this reporter prints events only."""


class LiveRun:
    """A screen on stderr, redrawn four times a second: progress, brokers, counts, and the last faults."""

    def __init__(self, live: Any, settings: "ChaosSettings") -> None:
        self._live = live
        self._settings = settings
        self._phase = ""
        self._seconds: float | None = None
        self._began = time.monotonic()
        self._notes: list[str] = []
        self._drawn = 0.0
        self._last: tuple[Recorder, ChaosCluster | None, Sequence[Struck]] | None = None

    def phase(self, name: str, seconds: float | None = None) -> None:
        """Report the start of a phase."""
        self._phase, self._seconds, self._began = name, seconds, time.monotonic()
        self._draw()

    def fault(self, _found: "Struck") -> None:
        """Force a redraw at the next tick."""
        self._drawn = 0.0

    def note(self, words: str) -> None:
        """Add a line that stays on the screen."""
        self._notes.append(words)
        self._draw()

    def tick(self, recorder: "Recorder", cluster: "ChaosCluster | None", struck: "Sequence[Struck]") -> None:
        """Redraw if the interval has passed."""
        self._last = (recorder, cluster, struck)
        if time.monotonic() - self._drawn > _DRAW_SECONDS:
            self._draw()

    def _draw(self) -> None:
        from rich.text import Text

        self._drawn = time.monotonic()
        took = self._drawn - self._began
        self._live.update(Text("\n".join(self._lines(took))), refresh=True)

    def _lines(self, took: float) -> list[str]:
        head = f"yak chaos run --seed {self._settings.seed}   {self._phase}"
        lines = [head, progress_line(took, self._seconds)]
        if self._last is not None:
            recorder, cluster, struck = self._last
            lines += ["", counts_line(recorder), *partition_lines(recorder)]
            lines += [""] + broker_lines(cluster) if cluster is not None else []
            lines += ["", *(fault_line(found) for found in struck[-_LAST_FAULTS:])]
        return [*lines, *(f"  {words}" for words in self._notes)]


@contextlib.contextmanager
def new_watcher(g: Globals, settings: "ChaosSettings") -> "Iterator[Watcher]":
    """A live screen on a terminal, otherwise printed lines."""
    g.out.note(f"seed {settings.seed}")
    if not g.out.stderr.isatty() or g.quiet or os.environ.get("CI"):
        yield PrintedRun(g)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=g.out.stderr, no_color=not g.out.color, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveRun(live, settings)


def progress_line(took_s: float, of_s: float | None) -> str:
    """Progress of a phase, or its elapsed time."""
    if of_s is None:
        return f"{took_s:.0f} s"
    filled = min(_BAR, int(_BAR * took_s / of_s))
    return f"{'█' * filled}{'░' * (_BAR - filled)} {took_s:.0f} of {of_s:.0f} s"


def counts_line(recorder: "Recorder") -> str:
    """The clients' counters."""
    return (
        f"acknowledged {recorder.acknowledged}   refused {recorder.refused}   unknown {recorder.unknown}   "
        f"under way {recorder.under_way}   read {recorder.polled}"
    )


def partition_lines(recorder: "Recorder") -> list[str]:
    """Partitions without an acknowledgement for a second or more."""
    now = recorder.now()
    silent = [(name, now - at) for name, at in sorted(recorder.last_ack_at.items()) if now - at > _SILENT_SECONDS]
    return [f"silent       {', '.join(f'{name} {seconds:.0f} s' for name, seconds in silent)}"] if silent else []


def broker_lines(cluster: "ChaosCluster") -> list[str]:
    """One line per broker."""
    lines = []
    for node in cluster.nodes.values():
        state = "serves" if node.is_ready else "starts" if node.is_running else "down"
        lines.append(f"{node.name:<12} {state:<8} started {node.starts} times")
    return lines


def fault_line(found: "Struck") -> str:
    """Time and kind of a fault, and whether it is still active."""
    state = "began" if found.mended_s is None else f"ended after {found.mended_s - found.began_s:.1f} s"
    return f"  {found.began_s:7.1f} s  {found.planned.words()}  {state}  {found.note}".rstrip()


# ----------------------------------------------------------------------------------------------------------- the report


def show(g: Globals, report: "ChaosReport", *, again: str, history: str | None, timeline: str | None) -> None:
    """Print the report in the chosen format."""
    if g.out.format in {"json", "yaml"}:
        g.out.object(report.as_json())
        return
    rows = [_totals(report)]
    g.out.table(rows, tuple(rows[0]))
    if not g.out.for_people or (g.quiet and report.holds):
        return
    out = g.out
    out.stdout.flush()
    for line in report_lines(report):
        out.note(line)
    out.note("")
    out.note(
        out.paint("OK    every promise was kept", "1;32") if report.holds else out.paint("FAIL  see above", "1;31")
    )
    for label, value in (("again", again), ("history", history), ("timeline", timeline), ("kept", report.folder)):
        if value is not None:
            out.note(f"{label:<9} {value}")


def _totals(report: "ChaosReport") -> dict[str, Any]:
    document = report.history_report.as_json(0)
    names = ("operations", "acknowledged", "refused", "unknown", "polled", "lost", "duplicated", "reordered")
    return {name: document[name] for name in names} | {"violations": len(report.violations)}


def report_lines(report: "ChaosReport") -> list[str]:
    """The lines for people, below the counts."""
    from yak.commands.output import layout

    lines = [""]
    if report.unavailability:
        rows = [
            {"fault": each.kind, "times": each.count, "pause p50 s": each.median_s, "longest s": each.longest_s}
            for each in report.unavailability
        ]
        lines += ["Longest time without an acknowledgement of a partition, by fault (of faults at a time each has it)"]
        lines += [*layout(rows, list(rows[0])), f"without any fault: {report.quiet_s} s", ""]
    lines += transaction_lines(report.history_report)
    lines += [f"{name}: {seconds} s" for name, seconds in report.took_s.items()]
    if report.reached:
        lines.append("reached: " + ", ".join(f"{words} {count}" for words, count in report.reached.items()))
    if report.compared_bytes:
        lines.append(f"compared {report.compared_bytes} bytes of replicas")
    lines += [f"note: {words}" for words in report.notes[:SHOWN_MAX]]
    lines += [f"violated {each.invariant}: {each.words}" for each in report.violations[:SHOWN_MAX]]
    return lines + anomaly_lines(report.history_report)


def transaction_lines(found: "HistoryReport") -> list[str]:
    """The transactions by outcome, and the promises that were kept to them."""
    if not found.committed + found.aborted + found.undecided:
        return []
    lines = [f"transactions: committed {found.committed}, aborted {found.aborted}, unknown {found.undecided}"]
    cycles = f"G0 {found.write_cycles}, G1c {found.mixed_cycles}"
    lines.append(f"cycles of transactions through writes, which Kafka allows: {cycles}")
    if found.holds:
        lines += [
            "read_committed: each committed transaction was read whole and once, no record of an aborted one was read",
            f"read-process-write: {found.processed} records were processed exactly once",
        ]
    return lines


def anomaly_lines(found: "HistoryReport") -> list[str]:
    """The kinds of anomalies with their counts, and the first of each."""
    lines = []
    for kind, count in found.by_kind.items():
        first = next(each for each in found.anomalies if each.kind == kind)
        lines.append(f"violated {first.invariant}: {kind}, {count} times; the first: {first.partition}: {first.words}")
    return lines


def show_abuse(g: Globals, rows: "Sequence[AbuseRow]") -> None:
    """Print the table of `yak chaos abuse`, and the reasons for failed promises."""
    if g.out.format in {"json", "yaml"}:
        g.out.object({"ok": all(row.holds for row in rows), "attacks": [row.as_json() for row in rows]})
        return
    shown: list[dict[str, Any]] = [
        {
            "attack": row.attack,
            "p50 ms": row.p50_ms,
            "p99 ms": row.p99_ms,
            "max ms": row.max_ms,
            "rss MB": None if row.rss_before_bytes is None else row.rss_before_bytes // 1_000_000,
            "after MB": None if row.rss_after_bytes is None else row.rss_after_bytes // 1_000_000,
            "verdict": "holds" if row.holds else "VIOLATED",
            "rounds": row.rounds,
            "records": row.records,
        }
        for row in rows
    ]
    g.out.table(shown, tuple(shown[0])[:7], tuple(shown[0])[7:])
    if g.out.for_people:
        g.out.stdout.flush()
        for row in rows:
            if not row.holds:
                g.out.note(f"violated beside {row.attack}: {row.reason}")
    if rows and not rows[0].holds:
        g.out.warn("the promise does not hold without an attack either: this machine is too busy to measure")


def show_history_report(g: Globals, found: "HistoryReport", history: "History") -> None:
    """Print the report of `yak chaos check`."""
    from yak.sim.history_checker.report import around

    if g.out.format in {"json", "yaml"}:
        g.out.object({"ok": found.holds, **found.as_json()})
        return
    document = found.as_json(0)
    names = ("operations", "acknowledged", "refused", "unknown", "polled", "lost", "duplicated", "reordered")
    g.out.table([{name: document[name] for name in names}], names)
    if not g.out.for_people:
        return
    g.out.stdout.flush()
    for line in (*transaction_lines(found), *anomaly_lines(found)):
        g.out.note(line)
    if found.anomalies:
        g.out.note("")
        g.out.note("Around the first one:")
        for line in around(history, found.anomalies[0]):
            g.out.note(line)
    g.out.note("OK    the history contradicts nothing" if found.holds else "FAIL  it cannot be explained")
