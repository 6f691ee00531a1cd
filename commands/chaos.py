"""`yak chaos`."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.app import CONNECTION, OUTPUT, STOP, WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.commands.parameters import argument, option
from yak.commands.units import parse_duration_ms
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.local.chaos.abuse import AbuseRow
    from yak.local.chaos.cluster import ChaosCluster
    from yak.local.chaos.nemesis import InjectedFault
    from yak.local.chaos.recorder import Recorder
    from yak.local.chaos.report import ChaosReport
    from yak.local.chaos.run import ChaosSettings, Watcher
    from yak.sim.history_checker.history import History
    from yak.sim.history_checker.report import HistoryReport

LISTED_MAX = 10
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
        self._out.note(name if seconds is None else f"{name} for {seconds:g} s")

    def fault(self, found: "InjectedFault") -> None:
        self._out.note(fault_line(found))

    def note(self, text: str) -> None:
        self._out.note(f"  {text}")

    def tick(self, recorder: "Recorder", cluster: "ChaosCluster | None", injected: "Sequence[InjectedFault]") -> None:
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
        self._last: tuple[Recorder, ChaosCluster | None, Sequence[InjectedFault]] | None = None

    def phase(self, name: str, seconds: float | None = None) -> None:
        self._phase, self._seconds, self._began = name, seconds, time.monotonic()
        self._draw()

    def fault(self, _found: "InjectedFault") -> None:
        self._drawn = 0.0

    def note(self, text: str) -> None:
        self._notes.append(text)
        self._draw()

    def tick(self, recorder: "Recorder", cluster: "ChaosCluster | None", injected: "Sequence[InjectedFault]") -> None:
        self._last = (recorder, cluster, injected)
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
            recorder, cluster, injected = self._last
            lines += ["", counts_line(recorder), *partition_lines(recorder)]
            lines += [""] + broker_lines(cluster) if cluster is not None else []
            lines += ["", *(fault_line(found) for found in injected[-_LAST_FAULTS:])]
        return [*lines, *(f"  {text}" for text in self._notes)]


@contextlib.contextmanager
def new_watcher(g: Globals, settings: "ChaosSettings") -> "Iterator[Watcher]":
    """A live screen on a terminal, otherwise printed lines."""
    g.out.note(f"seed {settings.seed}")
    if not g.out.is_live:
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


def fault_line(found: "InjectedFault") -> str:
    """Time and kind of a fault, and whether it is still active."""
    state = "began" if found.repaired_s is None else f"ended after {found.repaired_s - found.began_s:.1f} s"
    return f"  {found.began_s:7.1f} s  {found.planned.description()}  {state}  {found.note}".rstrip()


# ----------------------------------------------------------------------------------------------------------- the report


def show(g: Globals, report: "ChaosReport", *, again: str, history: str | None, timeline: str | None) -> None:
    """Print the report in the chosen format."""
    if g.out.document(report.as_json()):
        return
    rows = [_totals(report.history_report) | {"violations": len(report.violations)}]
    g.out.table(rows, tuple(rows[0]))
    if not g.out.for_people or (g.out.quiet and report.holds):
        return
    out = g.out
    out.stdout.flush()
    for line in report_lines(report):
        out.note(line)
    out.note("")
    out.note(_conclusion(g, report.history_report, holds=report.holds, ok="all promises held", fail="see above"))
    for label, value in (("again", again), ("history", history), ("timeline", timeline), ("kept", report.folder)):
        if value is not None:
            out.note(f"{label:<9} {value}")


def _conclusion(g: Globals, found: "HistoryReport", *, holds: bool, ok: str, fail: str) -> str:
    """The last line for people: what was checked holds, proves nothing, or fails."""
    if not holds:
        return g.out.paint(f"FAIL  {fail}", "1;31")
    if found.why_void is not None:
        return g.out.paint(f"VOID  it proves nothing: {found.why_void}", "1;33")
    return g.out.paint(f"OK    {ok}", "1;32")


def _totals(found: "HistoryReport") -> dict[str, Any]:
    document = found.as_json(0)
    names = ("operations", "acknowledged", "refused", "unknown", "polled", "lost", "duplicated", "reordered")
    return {name: document[name] for name in names}


def report_lines(report: "ChaosReport") -> list[str]:
    """The lines for people, below the counts."""
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
        lines.append("reached: " + ", ".join(f"{name} {count}" for name, count in report.reached.items()))
    if report.compared_bytes:
        lines.append(f"compared {report.compared_bytes} bytes of replicas")
    lines += [f"note: {note}" for note in report.notes[:LISTED_MAX]]
    lines += [f"violated {each.invariant}: {each.text}" for each in report.violations[:LISTED_MAX]]
    return lines + anomaly_lines(report.history_report)


def transaction_lines(found: "HistoryReport") -> list[str]:
    """The transactions by outcome, and the guarantees that held for them."""
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
    documents = [row.as_json() for row in rows]
    whole = {"ok": all(row.holds for row in rows), "attacks": documents}
    if g.out.for_programs(whole, documents, tuple(documents[0])):
        return
    table: list[dict[str, Any]] = [
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
    g.out.table(table, tuple(table[0])[:7], tuple(table[0])[7:])
    g.out.stdout.flush()
    for row in rows:
        if not row.holds:
            g.out.note(f"violated beside {row.attack}: {row.reason}")
    if rows and not rows[0].holds:
        g.out.warn("the promise does not hold without an attack either: this machine is too busy to measure")


def show_history_report(g: Globals, found: "HistoryReport", history: "History") -> None:
    """Print the report of `yak chaos check`."""
    from yak.sim.history_checker.report import around

    if g.out.document({"ok": found.holds and found.why_void is None, **found.as_json()}):
        return
    totals = _totals(found)
    g.out.table([totals], tuple(totals))
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
    conclusions = {"ok": "the history contradicts nothing", "fail": "it cannot be explained"}
    g.out.note(_conclusion(g, found, holds=found.holds, **conclusions))


_SECONDS = (5.0, 86_400.0)
_BROKERS = (3, 9)
_RATE = (10.0, 5_000.0)
_SEED_MAX = 1_000_000

chaos = CommandGroup(
    "chaos",
    examples=(
        "yak chaos run",
        "yak chaos abuse",
        "yak chaos run --duration 5m --seed 7 --faults kill,pause,cut",
        "yak chaos check history.jsonl",
    ),
)


@chaos.command(
    "run",
    examples=(
        "yak chaos run",
        "yak chaos run --duration 5m --seed 7",
        "yak chaos run --faults all,-disk --timeline run.svg",
        "yak chaos run --bootstrap localhost:9092 --faults clients",
        "yak chaos run -o json > run.json",
    ),
)
def run(
    g: Globals,
    duration: str = flag("--duration", "How long clients write: 30s, 5m, 1h.", STOP, default="60s", metavar="DURATION"),
    seed: int | None = flag(
        "--seed", "Seed of the fault schedule.  [drawn, and printed]", WHAT, min=0, show_default=False
    ),
    faults: str = flag(
        "--faults", "Kinds from yak chaos faults, all, none, all,-KIND.", WHAT, default="all", metavar="LIST"
    ),
    brokers: int = flag("--brokers", "How many.", WHAT, default=3, metavar="N", min=_BROKERS[0], max=_BROKERS[1]),
    metadata: str = flag(
        "--metadata",
        "Where the metadata are: redis, raft for a quorum of the brokers, or both.",
        WHAT,
        default="redis",
        metavar="STORE",
    ),
    rate: float = flag(
        "--rate",
        "Records a second; copies of the workers are on top.",
        WHAT,
        default=150.0,
        metavar="N",
        min=_RATE[0],
        max=_RATE[1],
    ),
    bootstrap: str | None = flag(
        "--bootstrap",
        "Check this Kafka cluster instead of a new one; creates two topics there.",
        CONNECTION,
        metavar="ADDRESS",
    ),
    timeline: str | None = flag("--timeline", "Draw the run as an SVG file.", OUTPUT, metavar="FILE"),
    history: str | None = flag("--history", "Write the clients' history, for yak chaos check.", OUTPUT, metavar="FILE"),
    data_dir: str | None = flag("--data-dir", "Work here.  [a temporary directory]", WHAT, metavar="DIR"),
    keep: bool = flag("--keep", "Keep logs and data (or the topic) even if all checks pass.", STOP, default=False),
) -> int | None:
    """Start brokers and Redis, inject faults under load by a seed's schedule, and check the clients' history.

    Producers are idempotent with acks=all, or transactional. Consumers assign partitions or join a group; workers
    read, process and write in transactions. All connect through fault proxies. At the end, or after Ctrl+C, all faults
    are removed, and all records are read and compared between replicas. Returns 4 when an acknowledged record is lost,
    doubled or out of order, any other promise was broken, or so little was acknowledged that the run proves nothing;
    then logs, data and the history are kept.
    """
    import secrets

    from yak.commands import interrupts
    from yak.local.chaos.report import draw
    from yak.local.chaos.run import ChaosRun, ChaosSettings
    from yak.local.chaos.schedule import parse_faults
    from yak.server.options import METADATA
    from yak.sim.history_checker.json_lines import to_lines

    if metadata not in METADATA:
        raise UsageError(
            "bad-metadata",
            f"no such metadata store: {metadata}",
            why="it is redis, raft (a quorum of brokers), or both (moved from one to the other)",
            try_=("yak chaos run --metadata raft",),
        )
    kinds = parse_faults(faults, own_processes=bootstrap is None, metadata=metadata)
    seconds = _seconds(duration)
    if bootstrap is not None:
        g.must_not_be_readonly("writing test records to a topic")
    if data_dir is not None:
        _must_be_new(data_dir)
    for path in (timeline, history):
        if path is not None:
            _write(path, ())
    number = secrets.randbelow(_SEED_MAX) if seed is None else seed
    settings = ChaosSettings(number, seconds, kinds, brokers, bootstrap, rate, data_dir, keep, metadata)
    with interrupts.held() as held, new_watcher(g, settings) as watcher:
        work = ChaosRun(settings, watcher, lambda: held.signal is not None)
        report = work.run()
    if history is None and report.folder is not None and (report.is_void or not report.holds):
        history = f"{report.folder}/history.jsonl"
    show(
        g,
        report,
        again=_again(duration, faults, brokers, rate, bootstrap, number, metadata),
        history=history,
        timeline=timeline,
    )
    if history is not None:
        _write(history, to_lines(work.history))
    if timeline is not None:
        title = f"yak chaos run --seed {number} --duration {duration}: {'holds' if report.holds else 'VIOLATED'}"
        _write(timeline, draw(work.history, report.injected, report.history_report.anomalies, title).splitlines())
    if not report.holds:
        return 4
    return held.exit_code or (4 if report.is_void else None)


@chaos.command("check", examples=("yak chaos check history.jsonl", "yak chaos check history.jsonl -o json"))
def check(
    g: Globals,
    file: Annotated[str, argument("FILE", "File of yak chaos run --history.", show_default=False)],
) -> int | None:
    """Check a recorded history.

    Returns 4 if the history has a violation, or proves nothing: no consumer read it to its end. Shows each violation
    with the operations around it.
    """
    from yak.sim.history_checker.json_lines import from_lines
    from yak.sim.history_checker.report import check_history

    try:
        with open(file, encoding="utf-8") as lines:
            history = from_lines(lines)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError("history-unreadable", f"{file} cannot be read", why=why) from None
    found = check_history(history)
    show_history_report(g, found, history)
    return None if found.holds and found.why_void is None else 4


@chaos.command(
    "abuse",
    examples=(
        "yak chaos abuse",
        "yak chaos abuse --attacks pipelined,large-frames --duration 20s",
        "yak chaos abuse --bootstrap localhost:9092 --http localhost:8080",
        "yak chaos abuse -o json > abuse.json",
    ),
)
def abuse(
    g: Globals,
    duration: str = flag("--duration", "How long each attack lasts.", STOP, default="10s", metavar="DURATION"),
    attacks: str = flag("--attacks", "Names from the table, or all.", WHAT, default="all", metavar="LIST"),
    p99: str = flag("--p99", "Largest p99 allowed for the healthy client.", WHAT, default="50ms", metavar="DURATION"),
    bootstrap: str | None = flag(
        "--bootstrap",
        "Attack this Kafka cluster instead of a new broker; creates topics there.",
        CONNECTION,
        metavar="ADDRESS",
    ),
    http: str = flag(
        "--http", "The broker's HTTP address, for HTTP attacks.", CONNECTION, default="", metavar="ADDRESS"
    ),
    remote: bool = flag("--remote", "Allow an address on another machine.", CONNECTION, default=False),
) -> int | None:
    """Attack a broker with expensive requests, and measure the effect on a healthy client.

    Starts one broker and its Redis, measures a producer and a consumer without an attack, then during each attack. The
    attacker is a separate process. Returns 4 when the healthy client's p99 passes --p99 or one of its records is lost.
    """
    from yak.commands import interrupts
    from yak.local.chaos.abuse import AbuseRun, AbuseSettings, refuse_remote
    from yak.local.chaos.attacks import chosen

    settings = AbuseSettings(
        chosen(attacks, has_http=bootstrap is None or bool(http)),
        _seconds(duration),
        parse_duration_ms(p99, bare_unit="ms"),
        bootstrap,
        http,
        is_remote=remote,
    )
    if bootstrap is not None:
        g.must_not_be_readonly("attacking a cluster")
        if not remote:
            refuse_remote(bootstrap, http)
    with interrupts.held() as held:
        rows = AbuseRun(settings, g.out.note, lambda: held.signal is not None).run()
    show_abuse(g, rows)
    return (None if all(row.holds for row in rows) else 4) or held.exit_code or None


@chaos.command("attack", examples=("yak chaos attack regex --bootstrap localhost:9092 --topics a,b",), hidden=True)
def attack(
    g: Globals,
    name: Annotated[str, argument("NAME", "Of the table of yak chaos abuse.", show_default=False)],
    bootstrap: Annotated[str, option("--bootstrap", "The broker.", CONNECTION, metavar="ADDRESS")],
    topics: Annotated[str, option("--topics", "Write to these.", WHAT, metavar="PLAIN,PACKED")],
    duration: str = flag("--duration", "How long.", STOP, default="10s", metavar="DURATION"),
    http: str = flag("--http", "Its HTTP address.", CONNECTION, default="", metavar="ADDRESS"),
    remote: bool = flag("--remote", "Also another machine.", CONNECTION, default=False),
) -> None:
    """Run the attacker of `yak chaos abuse`: attack for a duration, and print the number of requests."""
    import json
    import os

    from yak.local.chaos.abuse import refuse_remote
    from yak.local.chaos.attacks import Target, chosen, run_attack

    if not remote:
        refuse_remote(bootstrap, http)
    plain, _, packed = topics.partition(",")
    os.nice(10)  # the benchmark measures the broker, not the competition of local clients for processors
    (found,) = chosen(name, has_http=True)
    rounds = run_attack(found, Target(bootstrap, http, plain, packed), _seconds(duration))
    g.out.stdout.write(json.dumps({"attack": name, "rounds": rounds}) + "\n")


@chaos.command("faults", examples=("yak chaos faults", "yak chaos faults -o json"))
def faults(g: Globals) -> None:
    """List the faults of yak chaos run."""
    from yak.local.chaos.schedule import KINDS

    rows: list[dict[str, Any]] = [
        {
            "fault": kind.name,
            "number": kind.number,
            "seconds": f"{kind.seconds[0]:g} to {kind.seconds[1]:g}",
            "anywhere": kind.by_clients,
            "what": kind.description,
        }
        for kind in KINDS
    ]
    g.out.table(rows, ("fault", "number", "seconds", "what"), ("anywhere",))


@chaos.command("prove", examples=("yak chaos prove", "yak chaos prove --seed 5 -o json"))
def self_test(
    g: Globals,
    seed: int = flag("--seed", "Seed of the generated histories.", WHAT, default=1),
    clean: int = flag("--clean", "Clean histories to accept.", WHAT, default=200, metavar="N", min=1),
) -> int | None:
    """Self-test the checker: corrupt clean histories in every way, and detect each.

    Returns 4 if a corruption is not detected, or a clean history is rejected.
    """
    from yak.sim.history_checker.anomalies import MEANINGS
    from yak.sim.history_checker.corruptions import clean_histories, self_test

    found = list(self_test(seed))
    accepted = clean_histories(seed, clean)
    rows = [
        {"invariant": MEANINGS[each.kind][0], "anomaly": str(each.kind), "found": each.is_found, "done": each.name,
         "reported": each.reported}
        for each in found
    ]  # fmt: skip
    g.out.table(rows, ("invariant", "anomaly", "found", "done"), ("reported",))
    good = sum(each.is_found for each in found)
    g.out.note(f"{good} of {len(found)} found; {accepted} of {clean} clean histories accepted")
    return None if good == len(found) and accepted == clean else 4


def _seconds(duration: str) -> float:
    seconds = parse_duration_ms(duration, bare_unit="s") / 1000.0
    if not _SECONDS[0] <= seconds <= _SECONDS[1]:
        raise UsageError(
            "chaos-duration",
            f"--duration {duration} cannot be used",
            why="clients write for 5 s to 24 h",
            try_=("yak chaos run --duration 60s",),
        )
    return seconds


def _must_be_new(data_dir: str) -> None:
    import os

    if os.path.lexists(data_dir) and not (os.path.isdir(data_dir) and not os.listdir(data_dir)):
        raise UsageError(
            "chaos-data-dir",
            f"{data_dir} is not empty",
            why="a run counts every record, so it starts from an empty directory, and deletes its own data",
            try_=(f"yak chaos run --data-dir {data_dir}/chaos",),
        )


def _write(path: str, lines: Iterable[str]) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise UsageError("chaos-file", f"{path} cannot be written", why=error.strerror or str(error)) from None


def _again(
    duration: str, faults: str, brokers: int, rate: float, bootstrap: str | None, seed: int, metadata: str
) -> str:
    """The command line that plans the same faults."""
    command = f"yak chaos run --seed {seed} --duration {duration} --faults {faults}"
    command += f" --brokers {brokers}" if brokers != _BROKERS[0] else ""
    command += f" --metadata {metadata}" if metadata != "redis" else ""
    command += f" --rate {rate:g}" if rate != 150.0 else ""
    return command + (f" --bootstrap {bootstrap}" if bootstrap is not None else "")
