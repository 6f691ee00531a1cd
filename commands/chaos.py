"""`yak chaos`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import CONNECTION, OUTPUT, STOP, WHAT, CommandGroup
from yak.commands.options import Globals
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.local.chaos.report import ChaosReport
    from yak.sim.history_checker.history import History

_SECONDS = (5.0, 86_400.0)
_BROKERS = (3, 9)
_RATE = (10.0, 5_000.0)
_SEED_MAX = 1_000_000

chaos = CommandGroup(
    "chaos",
    "Inject faults into real brokers, and check the clients' history.",
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
    duration: Annotated[
        str,
        typer.Option("--duration", metavar="DURATION", help="How long clients write: 30s, 5m, 1h.", rich_help_panel=STOP),
    ] = "60s",
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of the fault schedule.  [drawn, and printed]", rich_help_panel=WHAT,
                     show_default=False),
    ] = None,
    faults: Annotated[
        str,
        typer.Option("--faults", metavar="LIST", help="Kinds from yak chaos faults, all, none, all,-KIND.",
                     rich_help_panel=WHAT),
    ] = "all",
    brokers: Annotated[
        int, typer.Option("--brokers", metavar="N", min=_BROKERS[0], max=_BROKERS[1], help="How many.",
                          rich_help_panel=WHAT)
    ] = 3,
    metadata: Annotated[
        str, typer.Option("--metadata", metavar="STORE", help="Where the metadata are: redis, raft for a quorum of the brokers, or both.",
                          rich_help_panel=WHAT)
    ] = "redis",
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=_RATE[0], max=_RATE[1], help="Records a second; copies of the workers are on top.",
                            rich_help_panel=WHAT)
    ] = 150.0,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="ADDRESS", help="Check this Kafka cluster instead of a new one; creates two topics there.",
                     rich_help_panel=CONNECTION),
    ] = None,
    timeline: Annotated[
        str | None,
        typer.Option("--timeline", metavar="FILE", help="Draw the run as an SVG file.", rich_help_panel=OUTPUT),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="FILE", help="Write the clients' history, for yak chaos check.",
                     rich_help_panel=OUTPUT),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option("--data-dir", metavar="DIR", help="Work here.  [a temporary directory]", rich_help_panel=WHAT),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep logs and data (or the topic) even if all checks pass.", rich_help_panel=STOP)
    ] = False,
) -> int | None:  # fmt: skip
    """Start brokers and Redis, inject faults under load by a seed's schedule, and check the clients' history.

    Producers are idempotent with acks=all, or transactional. Consumers assign partitions or join a group; workers
    read, process and write in transactions. All connect through fault proxies. At the end, or after Ctrl+C, all faults are removed, and all records are
    read and compared between replicas. Returns 4 when an acknowledged record is lost, doubled or out of order, or any other promise was broken; then logs,
    data and the history are kept.
    """
    from yak.commands import interrupts
    from yak.commands.chaos_view import new_watcher, show
    from yak.local.chaos.faults import parse_faults
    from yak.local.chaos.run import ChaosRun, ChaosSettings
    from yak.local.chaos.timeline import draw
    from yak.server.options import METADATA

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
        _must_be_writable(path)
    number = _drawn() if seed is None else seed
    settings = ChaosSettings(number, seconds, kinds, brokers, bootstrap, rate, data_dir, keep, metadata)
    with interrupts.held() as held, new_watcher(g, settings) as watcher:
        work = ChaosRun(settings, watcher, lambda: held.signal is not None)
        report = work.run()
    if history is None and not report.holds and report.folder is not None:
        history = f"{report.folder}/history.jsonl"
    if history is not None:
        _write_history(history, work.history)
    if timeline is not None:
        title = f"yak chaos run --seed {number} --duration {duration}: {'holds' if report.holds else 'VIOLATED'}"
        _write(timeline, draw(work.history, report.struck, report.history_report.anomalies, title))
    show(
        g,
        report,
        again=_again(duration, faults, brokers, rate, bootstrap, number, metadata),
        history=history,
        timeline=timeline,
    )
    return _exit_code(g, report) or held.exit_code or None


@chaos.command("check", examples=("yak chaos check history.jsonl", "yak chaos check history.jsonl -o json"))
def check(
    g: Globals,
    file: Annotated[str, typer.Argument(help="File of yak chaos run --history.", metavar="FILE", show_default=False)],
) -> int | None:
    """Check a recorded history.

    Returns 4 if the history has a violation. Shows each violation with the operations around it.
    """
    from yak.commands.chaos_view import show_history_report
    from yak.sim.history_checker.json_lines import from_lines
    from yak.sim.history_checker.report import check_history

    try:
        with open(file, encoding="utf-8") as lines:
            history = from_lines(lines)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("history-unreadable", f"{file} cannot be read", why=str(error)) from None
    found = check_history(history)
    show_history_report(g, found, history)
    return None if found.holds else 4


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
    duration: Annotated[
        str,
        typer.Option("--duration", metavar="DURATION", help="How long each attack lasts.", rich_help_panel=STOP),
    ] = "10s",
    attacks: Annotated[
        str,
        typer.Option("--attacks", metavar="LIST", help="Names from the table, or all.", rich_help_panel=WHAT),
    ] = "all",
    p99: Annotated[
        str,
        typer.Option("--p99", metavar="DURATION", help="Largest p99 allowed for the healthy client.",
                     rich_help_panel=WHAT),
    ] = "50ms",
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="ADDRESS", help="Attack this Kafka cluster instead of a new broker; creates topics there.",
                     rich_help_panel=CONNECTION),
    ] = None,
    http: Annotated[
        str,
        typer.Option("--http", metavar="ADDRESS", help="The broker's HTTP address, for HTTP attacks.",
                     rich_help_panel=CONNECTION),
    ] = "",
    remote: Annotated[
        bool,
        typer.Option("--remote", help="Allow an address on another machine.", rich_help_panel=CONNECTION),
    ] = False,
) -> int | None:  # fmt: skip
    """Attack a broker with expensive requests, and measure the effect on a healthy client.

    Starts one broker and its Redis, measures a producer and a consumer without an attack, then during each attack. The
    attacker is a separate process. Returns 4 when the healthy client's p99 passes --p99 or one of its records is lost.
    """
    from yak.commands import interrupts
    from yak.commands.chaos_view import show_abuse
    from yak.commands.units import parse_duration_ms
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
    name: Annotated[str, typer.Argument(help="Of the table of yak chaos abuse.", metavar="NAME", show_default=False)],
    bootstrap: Annotated[str, typer.Option("--bootstrap", metavar="ADDRESS", help="The broker.",
                                           rich_help_panel=CONNECTION)],
    topics: Annotated[str, typer.Option("--topics", metavar="PLAIN,PACKED", help="Write to these.",
                                        rich_help_panel=WHAT)],
    duration: Annotated[str, typer.Option("--duration", metavar="DURATION", help="How long.",
                                          rich_help_panel=STOP)] = "10s",
    http: Annotated[str, typer.Option("--http", metavar="ADDRESS", help="Its HTTP address.",
                                      rich_help_panel=CONNECTION)] = "",
    remote: Annotated[bool, typer.Option("--remote", help="Also another machine.", rich_help_panel=CONNECTION)] = False,
) -> None:  # fmt: skip
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
    from yak.local.chaos.faults import KINDS

    rows: list[dict[str, Any]] = [
        {
            "fault": kind.name,
            "number": kind.number,
            "seconds": f"{kind.seconds[0]:g} to {kind.seconds[1]:g}",
            "anywhere": kind.by_clients,
            "what": kind.words,
        }
        for kind in KINDS
    ]
    g.out.table(rows, ("fault", "number", "seconds", "what"), ("anywhere",))


@chaos.command("prove", examples=("yak chaos prove", "yak chaos prove --seed 5 -o json"))
def prove_(
    g: Globals,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the generated histories.", rich_help_panel=WHAT)] = 1,
    clean: Annotated[
        int, typer.Option("--clean", metavar="N", min=1, help="Clean histories to accept.", rich_help_panel=WHAT)
    ] = 200,
) -> int | None:
    """Self-test the checker: corrupt clean histories in every way, and detect each.

    Returns 4 if a corruption is not detected, or a clean history is rejected.
    """
    from yak.sim.history_checker.anomalies import MEANINGS
    from yak.sim.history_checker.corruptions import clean_histories, prove

    found = list(prove(seed))
    accepted = clean_histories(seed, clean)
    rows = [
        {"invariant": MEANINGS[each.kind][0], "anomaly": str(each.kind), "found": each.is_found, "done": each.words,
         "told": each.told}
        for each in found
    ]  # fmt: skip
    g.out.table(rows, ("invariant", "anomaly", "found", "done"), ("told",))
    good = sum(each.is_found for each in found)
    g.out.note(f"{good} of {len(found)} found; {accepted} of {clean} clean histories accepted")
    return None if good == len(found) and accepted == clean else 4


def _exit_code(g: Globals, report: "ChaosReport") -> int | None:
    if not report.holds:
        return 4
    if report.is_void:
        g.out.warn("so little was acknowledged that this run proves nothing")
    return None


def _seconds(duration: str) -> float:
    from yak.commands.units import parse_duration_ms

    seconds = parse_duration_ms(duration, bare_unit="s") / 1000.0
    if not _SECONDS[0] <= seconds <= _SECONDS[1]:
        raise UsageError(
            "chaos-duration",
            f"--duration {duration} cannot be used",
            why="clients write for 5 s to 24 h",
            try_=("yak chaos run --duration 60s",),
        )
    return seconds


def _drawn() -> int:
    import secrets

    return secrets.randbelow(_SEED_MAX)


def _must_be_new(data_dir: str) -> None:
    import os

    if os.path.lexists(data_dir) and not (os.path.isdir(data_dir) and not os.listdir(data_dir)):
        raise UsageError(
            "chaos-data-dir",
            f"{data_dir} is not empty",
            why="every record of a run is counted, so it starts from nothing, and deletes what it made",
            try_=(f"yak chaos run --data-dir {data_dir}/chaos",),
        )


def _must_be_writable(path: str | None) -> None:
    """Fail before the run when the file cannot be written."""
    if path is not None:
        _write(path, "")


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError("chaos-file", f"{path} cannot be written", why=str(error)) from None


def _write_history(path: str, history: "History") -> None:
    from yak.sim.history_checker.json_lines import to_lines

    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in to_lines(history))


def _again(
    duration: str, faults: str, brokers: int, rate: float, bootstrap: str | None, seed: int, metadata: str
) -> str:
    """The command line that plans the same faults."""
    words = f"yak chaos run --seed {seed} --duration {duration} --faults {faults}"
    words += f" --brokers {brokers}" if brokers != _BROKERS[0] else ""
    words += f" --metadata {metadata}" if metadata != "redis" else ""
    words += f" --rate {rate:g}" if rate != 150.0 else ""
    return words + (f" --bootstrap {bootstrap}" if bootstrap is not None else "")
