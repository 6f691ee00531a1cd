"""`yak demo`: the guarantees of YAK on real brokers, step by step."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import STOP, WHAT, CommandGroup
from yak.commands.options import Globals
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.local.demo.scenario import Settings

_BROKERS_MAX = 9

demo = CommandGroup(
    "demo",
    "Kill a broker under load, and count the records.",
    examples=("yak demo", "yak demo --fast", "yak demo failover --brokers 4", "yak demo election", "yak demo groups"),
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
Brokers = Annotated[
    int,
    typer.Option(
        "--brokers", metavar="N", min=3, max=_BROKERS_MAX, help="One leader and N-1 followers.", rich_help_panel=WHAT
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
    brokers: Brokers = 3,
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
    from yak.commands.demo_view import play
    from yak.local.demo.failover import FailoverScenario

    settings = _settings(duration, data_dir, fast=fast, keep=keep, brokers=brokers)
    return play(g, FailoverScenario, settings)


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
    from yak.commands.demo_view import play
    from yak.local.demo.groups import GroupsScenario

    session_ms = _session_ms(session_timeout, fast=fast)
    settings = _settings(duration, data_dir, fast=fast, keep=keep, session_timeout_ms=session_ms)
    return play(g, GroupsScenario, settings)


@demo.command("member", examples=("yak demo member --group g --topic t --name m -b localhost:9092",), hidden=True)
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


@demo.command("cluster", examples=("yak demo cluster --data-dir /tmp/demo",), hidden=True)
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

    from yak.local.demo.scenario import Settings
    from yak.tui.demo.supervisor import Supervisor

    settings = Settings(0.0, brokers=brokers, keep=keep, data_dir=data_dir)
    return Supervisor(settings, sys.stdin.fileno(), sys.stdout.buffer).supervise()


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
    from yak.commands.demo_spark_view import SparkTerminal
    from yak.commands.demo_view import play
    from yak.commands.spark_python import hand_over
    from yak.spark.demo.scenario import SparkScenario

    settings = _settings(duration, data_dir, fast=fast, keep=keep, usual_ms=(36_000, 12_000))
    code = hand_over()
    if code is not None:
        return code
    return play(g, SparkScenario, settings, SparkTerminal)


@demo.command(
    "election",
    examples=("yak demo election", "yak demo election --fast", "yak demo election --keep", "yak demo election -o json"),
)
def election(
    g: Globals,
    fast: Fast = False,
    duration: Duration = None,
    data_dir: DataDir = None,
    keep: Keep = False,
) -> int | None:
    """Kill the leader of a metadata quorum under load.

    Three brokers keep the metadata themselves, without Redis. The demo shows the election, and that partitions without
    a replica on the killed broker go on. Returns 4 if an acknowledged record is lost, duplicated or reordered.
    """
    from yak.commands.demo_view import play
    from yak.local.demo.election import ElectionScenario

    return play(g, ElectionScenario, _settings(duration, data_dir, fast=fast, keep=keep))


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
    from yak.commands.demo_view import play
    from yak.local.demo.restart import RestartScenario

    settings = _settings(duration, data_dir, fast=fast, keep=keep, kill=not no_kill)
    return play(g, RestartScenario, settings)


def _settings(
    duration: str | None,
    data_dir: str | None,
    *,
    fast: bool,
    keep: bool,
    usual_ms: tuple[int, int] = (6_000, 2_500),
    **more: Any,
) -> "Settings":
    """The settings of a demo. Raises UsageError."""
    from yak.local.demo.scenario import Settings

    limits_ms, why = (1_000, 600_000), "the clients can send for 1 s to 10 min"
    load_ms = _duration_ms("demo-duration", "--duration", duration, usual_ms, limits_ms, why, fast=fast)
    if data_dir is not None and os.path.isdir(data_dir) and os.listdir(data_dir):
        raise UsageError(
            "demo-data-dir",
            f"{data_dir} is not empty",
            why="the demo counts every message of its topics, so it starts from nothing",
            try_=(f"yak demo --data-dir {data_dir}/demo",),
        )
    return Settings(load_ms / 1000.0, keep=keep, data_dir=data_dir, **more)


def _session_ms(text: str | None, *, fast: bool) -> int:
    why = "a session of the demo is 1.5 s to 2 min"
    return _duration_ms("demo-session", "--session-timeout", text, (6_000, 3_000), (1_500, 120_000), why, fast=fast)


def _duration_ms(
    code: str,
    option: str,
    text: str | None,
    usual_ms: tuple[int, int],
    limits_ms: tuple[int, int],
    why: str,
    *,
    fast: bool,
) -> int:
    """The value of an option, in milliseconds. `usual_ms`: without it, and with --fast. Raises UsageError."""
    if text is None:
        return usual_ms[fast]
    from yak.commands.units import parse_duration_ms

    found = parse_duration_ms(text, bare_unit="s")
    if fast or not limits_ms[0] <= found <= limits_ms[1]:
        raise UsageError(
            code,
            f"{option} {text} cannot be used" + (" with --fast" if fast else ""),
            why="--fast has a value of its own" if fast else why,
            try_=(f"yak demo {'groups ' if code == 'demo-session' else ''}{option} 6s",),
        )
    return found
