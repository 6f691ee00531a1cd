"""`yak demo`: the guarantees of YAK on real brokers, step by step."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from yak.commands.app import STOP, WHAT, Bundle, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.commands.parameters import option
from yak.commands.units import parse_duration_ms
from yak.errors import UsageError
from yak.local.demo.scenario import Reporter, Result, Row, Scenario, Settings

if TYPE_CHECKING:
    from yak.local.failover import Failover
    from yak.spark.demo.scenario import Snapshot


class Terminal(Reporter):
    """Reports a scenario's steps on stderr, with a live count on a terminal."""

    def __init__(self, g: Globals) -> None:
        self._out = g.out
        self._live = g.out.is_live
        self._counting = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End a display of its own."""

    def step(self, number: int, steps: int, title: str) -> None:
        self._clear_count()
        self._out.note(self._out.paint(f"{number}/{steps}", "1;36") + "   " + self._out.paint(title, "1"))

    def say(self, text: str) -> None:
        self._clear_count()
        self._out.note(f"      {text}")

    def table(self, rows: Sequence[Row], is_good: Sequence[bool]) -> None:
        """Print a table under the step; rows that are not as they should be are red."""
        from yak.commands.isr import BAD, GOOD

        if not rows:
            return
        colours = [GOOD, *(GOOD if each else BAD for each in is_good)]
        for line, colour in zip(layout(rows, list(rows[0])), colours, strict=True):
            self.say(self._out.paint(line, colour) if colour else line)

    def timeline(self, failover: "Failover") -> None:
        from yak.commands.failover import timeline_lines

        for line in timeline_lines(failover.timeline, "killed"):
            self.say(line)

    def progress(self, text: str, state: object = None) -> None:  # noqa: ARG002 - for a display of its own
        """Print the running counts on a terminal, on the same line."""
        if self._live:
            self._out.stderr.write(f"\r      {text}")
            self._out.stderr.flush()
            self._counting = True

    def _clear_count(self) -> None:
        if self._counting:
            self._out.stderr.write("\r" + " " * 40 + "\r")
            self._counting = False


def play(g: Globals, scenario: type[Scenario], settings: Settings, terminal: type[Terminal] = Terminal) -> int | None:
    """Run a demo and print its result in the chosen format; return 4 when a guarantee did not hold."""
    g.out.note(scenario.SUMMARY)
    g.out.note("")
    with terminal(g) as terminal_view:
        result = scenario(settings, terminal_view).run()
    show_result(g, result)
    return None if result.holds else 4


def show_result(g: Globals, result: Result) -> None:
    """Print a result."""
    out = g.out
    columns = tuple(result.rows[0]) if result.rows else ()
    if out.for_programs(result.as_json(), result.rows, columns) or (out.quiet and result.holds):
        return
    out.note("")
    out.table(result.rows, columns)
    out.stdout.flush()
    out.note("")
    if result.holds:
        out.note(out.paint(f"OK    {result.promise}", "1;32"))
    else:
        out.note(out.paint("FAIL  the check did not hold", "1;31"))
    for line in result.notes:
        out.note(f"      {line}")
    out.note("")
    out.note(out.paint("What to type next", "1"))
    for line in aligned(result.next_commands):
        out.note(f"  {line}")


def aligned(commands: Sequence[tuple[str, str]]) -> list[str]:
    """Commands with their descriptions, and first the command that puts yak on PATH, if it is not."""
    reach = _reach_yak()
    rows = commands if reach is None else [(reach, "so that the shell finds yak"), *commands]
    return [f"{command:<37} {why}".rstrip() for command, why in rows]


def _reach_yak() -> str | None:
    """The command that puts this `yak` on PATH; None when it is on PATH, as after `pip install`."""
    import shlex
    import shutil
    import sys

    if shutil.which("yak") is not None:
        return None
    folder = os.path.dirname(os.path.realpath(sys.executable) if getattr(sys, "frozen", False) else sys.executable)
    activate = os.path.join(folder, "activate")
    if not os.path.exists(activate):
        return f"export PATH={shlex.quote(folder)}:$PATH"
    nearby = os.path.relpath(activate)
    return ". " + shlex.quote(activate if nearby.startswith("..") else nearby)


_HEIGHT: Final = 13
_WINDOWS_MAX: Final = 24
_LINES_EVERY_S: Final = 5.0
"""Interval of progress lines without a terminal."""
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "red", "white")


class SparkTerminal(Terminal):
    """Reports the steps; on a terminal, a live panel is below them while this context is open."""

    def __init__(self, g: "Globals") -> None:
        super().__init__(g)
        self._view: Any = None
        self._printed_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._out.stderr, no_color=not self._out.color, highlight=False)
            self._view = Live(console=console, auto_refresh=False, transient=False)
            self._view.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._view is not None:
            self._view.stop()

    def step(self, number: int, steps: int, title: str) -> None:
        if self._view is None:
            super().step(number, steps, title)
        else:
            self._view.console.print(f"[bold cyan]{number}/{steps}[/]   [bold]{_plain(title)}[/]")

    def say(self, text: str) -> None:
        if self._view is None:
            super().say(text)
        else:
            self._view.console.print(f"      {_plain(text)}")

    def progress(self, text: str, state: Any = None) -> None:
        """Redraw the panel; without a terminal, print a progress line at intervals."""
        if self._view is not None:
            self._view.update(panel(state, self._view.console.width), refresh=True)
        elif time.monotonic() - self._printed_at >= _LINES_EVERY_S:
            self._printed_at = time.monotonic()
            self.say(text)


def panel(state: "Snapshot", width: int) -> Any:
    """The panel: the state of all parts, a plot of each metric's mean, and a table of the latest windows."""
    from rich.panel import Panel
    from rich.table import Table

    grid = Table.grid(expand=True, padding=(0, 1))
    wide = width >= 78
    plot_width = max(30, width - 46) if wide else max(30, width - 6)
    grid.add_column(ratio=1)
    if wide:
        grid.add_column(width=38)
        grid.add_row(plot(state, plot_width), latest(state))
    else:
        grid.add_row(plot(state, plot_width))
    totals = f" sent {state.sent}   counted {state.counted}   in stats {state.in_stats} "
    return Panel(
        grid, title=_state(state), title_align="left", subtitle=totals, subtitle_align="left", border_style="cyan"
    )


def _state(state: "Snapshot") -> str:
    spark = {
        "": "Spark comes next",
        "starting": "[yellow]◐ Spark starting[/]",
        "running": f"[green]● Spark[/] batch {state.batch}, {state.records_per_second:.0f} records/s",
        "killed": "[bold red]○ Spark killed[/]",
    }[state.spark]
    brokers = " ".join(
        f"[green]●{node}[/]" if is_up else f"[bold red]○{node} killed[/]" for node, is_up in state.brokers
    )
    return f" {spark}   brokers {brokers} "


def plot(state: "Snapshot", width: int) -> Any:
    """A plot of each metric's mean per window, from the `stats` topic."""
    import plotext
    from rich.text import Text

    plotext.clear_figure()
    plotext.plotsize(width, _HEIGHT)
    plotext.theme("clear")
    plotext.ylim(0, 100)
    windows = sorted({start for _, start in state.stats})[-_WINDOWS_MAX:]
    metrics = sorted({metric for metric, _ in state.stats})
    for number, metric in enumerate(metrics):
        points = [(start, state.stats[metric, start]["mean"]) for start in windows if (metric, start) in state.stats]
        xs = [(start - windows[0]) / 1000.0 for start, _ in points]
        plotext.plot(xs, [mean for _, mean in points], label=metric, color=_COLOURS[number % len(_COLOURS)])
    plotext.title("mean of each window, % (topic metric_stats)")
    return Text.from_ansi(plotext.build())


def latest(state: "Snapshot") -> Any:
    """The counts of the newest windows: one row per window, one column per metric."""
    from rich.table import Table

    table = Table(box=None, title="records (topic metric_counts)", title_style="", pad_edge=False)
    metrics = sorted({metric for metric, _ in state.counts})[:4] or ["nothing yet"]
    table.add_column("window", style="dim")
    for metric in metrics:
        table.add_column(metric, justify="right")
    for start in sorted({start for _, start in state.counts}, reverse=True)[: _HEIGHT - 3]:
        clock = time.strftime("%H:%M:%S", time.localtime(start / 1000))
        table.add_row(clock, *[str(state.counts.get((metric, start), "")) for metric in metrics])
    return table


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


_BROKERS_MAX = 9

demo = CommandGroup(
    "demo",
    examples=("yak demo", "yak demo --fast", "yak demo failover --brokers 4", "yak demo election", "yak demo groups"),
    default="failover",
)

Brokers = Annotated[
    int, option("--brokers", "One leader and N-1 followers.", WHAT, metavar="N", min=3, max=_BROKERS_MAX)
]
Keep = Annotated[bool, option("--keep", "Leave the cluster running at the end.", STOP)]
Fast = Annotated[bool, option("--fast", "A shorter load: 2.5 s instead of 6.", WHAT)]


@dataclass(frozen=True, slots=True)
class Options(Bundle):
    """The options that the demos share."""

    duration: str | None = flag("--duration", "How long the clients send: 10s, 1m.", WHAT, metavar="DURATION")
    data_dir: str | None = flag("--data-dir", "Keep the data here.  [a temporary directory]", WHAT, metavar="DIR")
    keep: Keep = False

    def settings(self, *, fast: bool, usual_ms: tuple[int, int] = (6_000, 2_500), **more: Any) -> Settings:
        """The settings of a demo. `usual_ms`: the load without --duration, and with --fast. Raises UsageError."""
        limits_ms, why = (1_000, 600_000), "the clients can send for 1 s to 10 min"
        load_ms = _duration_ms("demo-duration", "--duration", self.duration, usual_ms, limits_ms, why, fast=fast)
        folder = self.data_dir
        if folder is not None and os.path.isdir(folder) and os.listdir(folder):
            raise UsageError(
                "demo-data-dir",
                f"{folder} is not empty",
                why="the demo counts every message of its topics, so it starts from an empty directory",
                try_=(f"yak demo --data-dir {folder}/demo",),
            )
        return Settings(load_ms / 1000.0, keep=self.keep, data_dir=folder, **more)


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
    *,
    options: Options,
) -> int | None:
    """Kill a leader under load without losing a record.

    Topics have a replica on each broker (up to four) and min.insync.replicas=2; producers use acks=all with
    idempotence, and all clients look for a new leader within 5 to 20 ms. Returns 4 if an acknowledged record is lost,
    duplicated or reordered.
    """
    from yak.local.demo.failover import FailoverScenario

    return play(g, FailoverScenario, options.settings(fast=fast, brokers=brokers))


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
    session_timeout: str | None = flag(
        "--session-timeout", "Session timeout of the consumers.  [6s; 3s with --fast]", WHAT, metavar="DURATION"
    ),
    fast: bool = flag("--fast", "A session timeout of 3 s, and a shorter load.", WHAT, default=False),
    *,
    options: Options,
) -> int | None:
    """Share a topic among three consumers, and kill one.

    Each consumer is a process and commits its offsets. The demo kills one consumer, and later the group's coordinator.
    Returns 4 if a record was not read, a committed record was read again, or a commit was lost. Records that were read
    but not committed are read again; the demo counts them.
    """
    from yak.local.demo.groups import GroupsScenario

    session_ms = _session_ms(session_timeout, fast=fast)
    return play(g, GroupsScenario, options.settings(fast=fast, session_timeout_ms=session_ms))


@demo.command("member", examples=("yak demo member --group g --topic t --name m -b localhost:9092",), hidden=True)
def member(
    g: Globals,
    group: Annotated[str, option("--group", "Group to join.", WHAT)],
    topic: Annotated[str, option("--topic", "Topic to read.", WHAT)],
    name: Annotated[str, option("--name", "Client id.", WHAT)],
    session_timeout: str = flag(
        "--session-timeout", "As in `yak demo groups`.", WHAT, default="6s", metavar="DURATION"
    ),
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
    data_dir: Annotated[str, option("--data-dir", "Of its own.", WHAT, metavar="DIR")],
    brokers: int = flag("--brokers", "How many.", WHAT, default=3, min=1, max=_BROKERS_MAX),
    keep: Keep = False,
) -> int:
    """Supervise the cluster and the clients of `yak ui --demo`.

    Prints events as JSON lines, and deletes the cluster when standard input is closed.
    """
    import sys

    from yak.tui.demo.supervisor import Supervisor

    settings = Settings(0.0, brokers=brokers, keep=keep, data_dir=data_dir)
    return Supervisor(settings, sys.stdin.fileno(), sys.stdout.buffer).supervise()


@demo.command(
    "spark",
    examples=("yak demo spark", "yak demo spark --fast", "yak demo spark --duration 2m", "yak demo spark -o json"),
)
def spark(
    g: Globals,
    fast: bool = flag("--fast", "A shorter load: 12 s instead of 36.", WHAT, default=False),
    *,
    options: Options,
) -> int | None:
    """Count live metrics with Spark, and kill Spark and a broker.

    Two jobs of yak spark aggregate this machine's metrics into topics. The demo kills and restarts Spark, and kills a
    broker meanwhile. Returns 4 if a window's result differs from the producer's own count.
    """
    from yak.commands.spark_python import hand_over
    from yak.spark.demo.scenario import SparkScenario

    settings = options.settings(fast=fast, usual_ms=(36_000, 12_000))
    hand_over()
    return play(g, SparkScenario, settings, SparkTerminal)


@demo.command(
    "election",
    examples=("yak demo election", "yak demo election --fast", "yak demo election --keep", "yak demo election -o json"),
)
def election(g: Globals, fast: Fast = False, *, options: Options) -> int | None:
    """Kill the leader of a metadata quorum under load.

    Three brokers keep the metadata themselves, without Redis. The demo shows the election, and that partitions without
    a replica on the killed broker continue. Returns 4 if an acknowledged record is lost, duplicated or reordered.
    """
    from yak.local.demo.failover import ElectionScenario

    return play(g, ElectionScenario, options.settings(fast=fast))


@demo.command("restart", examples=("yak demo restart", "yak demo restart --fast", "yak demo restart -o json"))
def restart(g: Globals, fast: Fast = False, *, options: Options) -> int | None:
    """Kill and restart the only broker without losing a record."""
    from yak.local.demo.failover import RestartScenario

    return play(g, RestartScenario, options.settings(fast=fast))


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

    found = parse_duration_ms(text, bare_unit="s")
    if fast or not limits_ms[0] <= found <= limits_ms[1]:
        raise UsageError(
            code,
            f"{option} {text} cannot be used" + (" with --fast" if fast else ""),
            why="--fast has a value of its own" if fast else why,
            try_=(f"yak demo {'groups ' if code == 'demo-session' else ''}{option} 6s",),
        )
    return found
