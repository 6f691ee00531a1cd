"""`yak demo`: the guarantees of YAK on real brokers, step by step."""

from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import STOP, WHAT, CommandGroup
from yak.commands.options import Globals
from yak.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from yak.local.demo.failover_story import FailoverDemoResult
    from yak.local.demo.groups_result import GroupsDemoResult
    from yak.local.demo.story import DemoResult
    from yak.spark.demo.story import SparkDemoResult

_USUAL_SECONDS = 6.0
_FAST_SECONDS = 2.5
_SPARK_SECONDS = 36.0
_FAST_SPARK_SECONDS = 12.0
_LONGEST_SECONDS = 600.0
_BROKERS_MAX = 9
_USUAL_SESSION_MS = 6_000
_FAST_SESSION_MS = 3_000
_SESSIONS_MS = (1_500, 120_000)

demo = CommandGroup(
    "demo",
    "Kill a broker under load, and count the records.",
    examples=("yak demo", "yak demo --fast", "yak demo failover --brokers 4", "yak demo groups", "yak demo spark"),
    default="failover",
)

Fast = Annotated[bool, typer.Option("--fast", help="A shorter load: 2.5 s instead of 6.", rich_help_panel=WHAT)]
Duration = Annotated[
    str | None,
    typer.Option("--duration", metavar="DURATION", help="How long the clients send: 10s, 1m.", rich_help_panel=WHAT),
]
DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Keep the data here.  [a temporary directory]", rich_help_panel=WHAT
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the cluster running at the end.", rich_help_panel=STOP)]


@demo.command(
    "failover",
    examples=(
        "yak demo failover",
        "yak demo failover --brokers 4 --duration 20s",
        "yak demo failover --keep --data-dir ./demo",
        "yak demo failover -o json",
    ),
)
def failover(
    g: Globals,
    brokers: Annotated[
        int,
        typer.Option(
            "--brokers",
            metavar="N",
            min=3,
            max=_BROKERS_MAX,
            help="One leader and N-1 followers.",
            rich_help_panel=WHAT,
        ),
    ] = 3,
    fast: Fast = False,
    duration: Duration = None,
    data_dir: DataDir = None,
    keep: Keep = False,
) -> int | None:
    """Kill a leader under load without losing a record.

    Topics have a replica on each broker (up to four) and min.insync.replicas=2; producers use acks=all with
    idempotence, and all clients look for a new leader within 5 to 20 ms. Returns 4 if an acknowledged record is lost,
    duplicated or reordered.
    """
    from yak.commands.demo_view import COLUMNS, Printed, show_verdict, verdict_rows
    from yak.local.demo.failover_story import STEPS, FailoverDemoSettings, run

    seconds = _load_seconds(duration, fast=fast)
    if data_dir is not None:
        _must_be_new(data_dir)
    g.out.note("Real data, replicated; the leader killed; every acknowledged message counted.")
    g.out.note("")
    result = run(FailoverDemoSettings(seconds, brokers, keep, data_dir), Printed(g, STEPS))

    def show() -> None:
        more = _failover_times(result)
        show_verdict(g, result.verdicts, holds=result.holds, more=more, next_commands=_after_failover(result))

    return _end(g, result, show, verdict_rows(result.verdicts), COLUMNS)


@demo.command(
    "groups",
    examples=(
        "yak demo groups",
        "yak demo groups --fast",
        "yak demo groups --session-timeout 10s",
        "yak demo groups --keep --data-dir ./demo",
        "yak demo groups -o json",
    ),
)
def groups(
    g: Globals,
    session_timeout: Annotated[
        str | None,
        typer.Option(
            "--session-timeout",
            metavar="DURATION",
            help="Session timeout of the consumers.  [6s; 3s with --fast]",
            rich_help_panel=WHAT,
        ),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="A session timeout of 3 s, and a shorter load.", rich_help_panel=WHAT)
    ] = False,
    duration: Duration = None,
    data_dir: DataDir = None,
    keep: Keep = False,
) -> int | None:
    """Share a topic among three consumers, and kill one.

    Each consumer is a process and commits its offsets. The demo kills one consumer, and later the group's coordinator.
    Returns 4 if a record was not read, a committed record was read again, or a commit was lost. Records that were read
    but not committed are read again; the demo counts them.
    """
    from yak.commands.demo_groups_view import COLUMNS, PrintedGroups, show_groups_verdict, verdict_rows
    from yak.local.demo.groups_result import GroupsDemoSettings
    from yak.local.demo.groups_story import STEPS, run

    seconds = _load_seconds(duration, fast=fast)
    session_ms = _session_ms(session_timeout, fast=fast)
    if data_dir is not None:
        _must_be_new(data_dir)
    g.out.note("Consumers share a topic; one is killed, then a broker; every message counted.")
    g.out.note("")
    result = run(GroupsDemoSettings(seconds, session_ms, keep, data_dir), PrintedGroups(g, STEPS))
    return _end(g, result, lambda: show_groups_verdict(g, result), verdict_rows(result.verdicts), COLUMNS)


@demo.command(
    "member",
    examples=("yak demo member --group g --topic t --name m -b localhost:9092 --session-timeout 6s",),
    hidden=True,
)
def member(
    g: Globals,
    group: Annotated[str, typer.Option("--group", help="Group to join.", rich_help_panel=WHAT)],
    topic: Annotated[str, typer.Option("--topic", help="Topic to read.", rich_help_panel=WHAT)],
    name: Annotated[str, typer.Option("--name", help="Client id.", rich_help_panel=WHAT)],
    session_timeout: Annotated[
        str,
        typer.Option("--session-timeout", metavar="DURATION", help="As in `yak demo groups`.", rich_help_panel=WHAT),
    ] = "6s",
) -> None:
    """Run one of the consumers of `yak demo groups`.

    Joins after a line on standard input, prints each event as a JSON line, and leaves when standard input is closed.
    """
    import sys

    from yak.local.demo.group_member import MemberSettings, run_member

    settings = MemberSettings(g.bootstrap_servers, group, topic, name, _session_ms(session_timeout, fast=False))
    run_member(settings, stdin=sys.stdin.fileno(), stdout=sys.stdout.buffer)


@demo.command(
    "cluster",
    examples=("yak demo cluster --data-dir /tmp/demo",),
    hidden=True,
)
def cluster(
    g: Globals,  # noqa: ARG001 - every command has them
    data_dir: Annotated[str, typer.Option("--data-dir", metavar="DIR", help="Of its own.", rich_help_panel=WHAT)],
    brokers: Annotated[
        int, typer.Option("--brokers", min=1, max=_BROKERS_MAX, help="How many.", rich_help_panel=WHAT)
    ] = 3,
    keep: Keep = False,
) -> int:
    """Supervise the cluster and the clients of `yak ui --demo`.

    Prints events as JSON lines, and deletes the cluster when standard input is closed.
    """
    import sys

    from yak.tui.demo.keeper import Keeper, KeeperSettings

    return Keeper(KeeperSettings(data_dir, brokers, keep), sys.stdin.fileno(), sys.stdout.buffer).run()


@demo.command(
    "spark",
    examples=("yak demo spark", "yak demo spark --fast", "yak demo spark --duration 2m", "yak demo spark -o json"),
)
def spark(
    g: Globals,
    fast: Annotated[
        bool, typer.Option("--fast", help="A shorter load: 12 s instead of 36.", rich_help_panel=WHAT)
    ] = False,
    duration: Duration = None,
    data_dir: DataDir = None,
    keep: Keep = False,
) -> int | None:
    """Count live metrics with Spark, and kill Spark and a broker.

    Two jobs of yak spark aggregate this machine's metrics into topics. The demo kills and restarts Spark, and kills a
    broker meanwhile. Returns 4 if a window's result differs from the producer's own count.
    """
    from yak.commands.demo_spark_view import COLUMNS, ShownSpark, show_spark_verdict, verdict_rows
    from yak.commands.spark_python import hand_over
    from yak.spark.demo.story import STEPS, SparkDemoSettings, run

    seconds = _load_seconds(duration, fast=fast, usual=_SPARK_SECONDS, short=_FAST_SPARK_SECONDS)
    if data_dir is not None:
        _must_be_new(data_dir)
    code = hand_over()
    if code is not None:
        return code
    g.out.note("Live metrics through YAK and Spark; both killed on the way; every window checked.")
    g.out.note("")
    result = run(SparkDemoSettings(seconds, keep, data_dir), ShownSpark(g, STEPS))
    return _end(g, result, lambda: show_spark_verdict(g, result), verdict_rows(result.verdicts), COLUMNS)


@demo.command("restart", examples=("yak demo restart", "yak demo restart --fast", "yak demo restart -o json"))
def restart(
    g: Globals,
    fast: Fast = False,
    duration: Duration = None,
    no_kill: Annotated[bool, typer.Option("--no-kill", help="Leave the broker alone.", rich_help_panel=WHAT)] = False,
    data_dir: DataDir = None,
    keep: Keep = False,
) -> int | None:
    """Kill and restart the only broker without losing a record."""
    from yak.commands.demo_view import COLUMNS, Printed, show_verdict, verdict_rows
    from yak.local.demo.story import STEPS, DemoSettings, run

    seconds = _load_seconds(duration, fast=fast)
    if data_dir is not None:
        _must_be_new(data_dir)
    g.out.note("Real data, real clients, one kill -9, and every acknowledged message counted.")
    g.out.note("")
    result = run(DemoSettings(seconds, kill=not no_kill, keep=keep, data_dir=data_dir), Printed(g, STEPS))

    def show() -> None:
        more = _restart_times(result)
        show_verdict(g, result.verdicts, holds=result.holds, more=more, next_commands=_after_restart(result))

    return _end(g, result, show, verdict_rows(result.verdicts), COLUMNS)


def _end(
    g: Globals,
    result: "DemoResult | FailoverDemoResult | GroupsDemoResult | SparkDemoResult",
    show: "Callable[[], None]",
    rows: "list[dict[str, object]]",
    columns: "tuple[str, ...]",
) -> int | None:
    """Print the result of a scenario in the chosen format; return 4 when a guarantee did not hold."""
    if g.out.for_people:
        if not (g.quiet and result.holds):
            show()
    elif g.out.format in {"json", "yaml"}:
        g.out.object(result.as_json())
    else:
        g.out.table(rows, columns)
    return None if result.holds else 4


def _load_seconds(
    duration: str | None, *, fast: bool, usual: float = _USUAL_SECONDS, short: float = _FAST_SECONDS
) -> float:
    if duration is None:
        return short if fast else usual
    from yak.commands.units import parse_duration_ms

    seconds = parse_duration_ms(duration, bare_unit="s") / 1000.0
    if fast or not 1.0 <= seconds <= _LONGEST_SECONDS:
        raise UsageError(
            "demo-duration",
            f"--duration {duration} cannot be used" + (" with --fast" if fast else ""),
            why="--fast is a duration of its own" if fast else "the clients can send for 1 s to 10 min",
            try_=("yak demo --duration 10s",),
        )
    return seconds


def _session_ms(session_timeout: str | None, *, fast: bool) -> int:
    if session_timeout is None:
        return _FAST_SESSION_MS if fast else _USUAL_SESSION_MS
    from yak.commands.units import parse_duration_ms

    session_ms = parse_duration_ms(session_timeout, bare_unit="s")
    if fast or not _SESSIONS_MS[0] <= session_ms <= _SESSIONS_MS[1]:
        raise UsageError(
            "demo-session",
            f"--session-timeout {session_timeout} cannot be used" + (" with --fast" if fast else ""),
            why="--fast has a session of its own" if fast else "a session of the demo is 1.5 s to 2 min",
            try_=("yak demo groups --session-timeout 6s",),
        )
    return session_ms


def _must_be_new(data_dir: str) -> None:
    import os

    if os.path.isdir(data_dir) and os.listdir(data_dir):
        raise UsageError(
            "demo-data-dir",
            f"{data_dir} is not empty",
            why="the demo counts every message of its topics, so it starts from nothing",
            try_=(f"yak demo --data-dir {data_dir}/demo",),
        )


def _failover_times(result: "FailoverDemoResult") -> list[str]:
    times, timeline = result.times, result.failover.timeline
    lines = [f"start {times.start_ms:.0f} ms, Redis included; the whole demo {times.total_ms / 1000.0:.1f} s"]
    if timeline.first_ack_ms is not None:
        first_ms = round(timeline.first_ack_ms, 1)  # the same value as in the printed timeline
        lines.append(f"from the kill of the leader to the next acknowledged write {first_ms:.0f} ms")
    lines.append("kill -9 is not power loss: against that, set flush.messages=1 on a topic")
    return lines


def _restart_times(result: "DemoResult") -> list[str]:
    times = result.times
    lines = [f"start {times.start_ms:.0f} ms, Redis included; the whole demo {times.total_ms / 1000.0:.1f} s"]
    if times.restart_ms is not None:
        line = f"restart after the kill {times.restart_ms:.0f} ms"
        if times.kill_to_first_ack_ms is not None:
            line += f"; from the kill to the next ack {times.kill_to_first_ack_ms:.0f} ms"
        lines.append(line)
        lines.append("kill -9 is not power loss: against that, set flush.messages=1 on a topic")
    return lines


def _after_failover(result: "FailoverDemoResult") -> list[str]:
    import shlex

    from yak.commands.demo_view import aligned

    if not result.settings.keep:
        return aligned(
            [
                ("yak up -d --brokers 3", "start a cluster that stays"),
                ("yak isr --watch", "see its replicas"),
                ("yak failover --controller --kill", "kill its leader"),
                ("yak demo --keep", "this again, and leave it running"),
            ]
        )
    where = shlex.quote(result.data_dir)
    return aligned(
        [
            (f"yak isr --watch --data-dir {where}", ""),
            (f"yak failover --controller --kill --data-dir {where}", ""),
            (f"yak down --data-dir {where}", ""),
        ]
    )


def _after_restart(result: "DemoResult") -> list[str]:
    import shlex

    from yak.commands.demo_view import aligned

    if not result.kept:
        return aligned(
            [
                ("yak up -d", "start a cluster that stays"),
                ('yak produce -m "hello"', "store a message"),
                ("yak consume --from-beginning --exit", "read it back"),
                ("yak demo restart --keep", "this again, and leave it running"),
            ]
        )
    where = shlex.quote(result.data_dir)
    return aligned(
        [
            (f"yak consume server_metrics --from-beginning --exit -b {result.bootstrap}", ""),
            (f"yak up --status --data-dir {where}", ""),
            (f"yak down --data-dir {where}", ""),
        ]
    )
