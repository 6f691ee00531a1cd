"""`yak demo`: the whole promise on real data, in six steps."""

from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import STOP, WHAT, command
from yak.commands.options import Globals
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.local.demo.story import DemoResult

_USUAL_SECONDS = 6.0
_FAST_SECONDS = 2.5
_LONGEST_SECONDS = 600.0
_COLUMNS = ("topic", "acknowledged", "read", "lost", "duplicated", "out_of_order")


class _Printed:
    """Tells the story on stderr, with a live count where there is a terminal."""

    def __init__(self, g: Globals) -> None:
        import os

        from yak.local.demo.story import STEPS

        self._out = g.out
        self._steps = STEPS
        self._live = g.out.stderr.isatty() and not g.quiet and not os.environ.get("CI")
        self._counting = False

    def step(self, number: int, title: str) -> None:
        """A step begins."""
        self._clear_count()
        self._out.note(self._out.paint(f"{number}/{self._steps}", "1;36") + "   " + self._out.paint(title, "1"))

    def say(self, text: str) -> None:
        """A line under the step."""
        self._clear_count()
        self._out.note(f"      {text}")

    def loading(self, acknowledged: int) -> None:
        """The count so far, written over itself."""
        if self._live:
            self._out.stderr.write(f"\r      {acknowledged} acknowledged")
            self._out.stderr.flush()
            self._counting = True

    def _clear_count(self) -> None:
        if self._counting:
            self._out.stderr.write("\r" + " " * 40 + "\r")
            self._counting = False


@command(examples=("yak demo", "yak demo --fast", "yak demo --keep --data-dir ./demo", "yak demo -o json"))
def demo(
    g: Globals,
    fast: Annotated[
        bool, typer.Option("--fast", help="A shorter load: 2.5 s instead of 6.", rich_help_panel=WHAT)
    ] = False,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration", metavar="DURATION", help="How long the clients send: 10s, 1m.", rich_help_panel=WHAT
        ),
    ] = None,
    no_kill: Annotated[bool, typer.Option("--no-kill", help="Leave the broker alone.", rich_help_panel=WHAT)] = False,
    data_dir: Annotated[
        str | None,
        typer.Option(
            "--data-dir", metavar="DIR", help="Keep the data here.  [a temporary directory]", rich_help_panel=WHAT
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the cluster running at the end.", rich_help_panel=STOP)
    ] = False,
) -> int | None:
    """Store real data, kill the broker, count what survived."""
    from yak.local.demo.story import DemoSettings, run

    seconds = _load_seconds(duration, fast=fast)
    if data_dir is not None:
        _must_be_new(data_dir)
    g.out.note("Real data, real clients, one kill -9, and every acknowledged message counted.\n")
    result = run(DemoSettings(seconds, kill=not no_kill, keep=keep, data_dir=data_dir), _Printed(g))
    if g.out.for_people:
        if not (g.quiet and result.holds):
            _show_verdict(g, result)
    elif g.out.format in {"json", "yaml"}:
        g.out.object(result.as_json())
    else:
        g.out.table(_rows(result), _COLUMNS)
    return None if result.holds else 4


def _load_seconds(duration: str | None, *, fast: bool) -> float:
    if duration is None:
        return _FAST_SECONDS if fast else _USUAL_SECONDS
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


def _must_be_new(data_dir: str) -> None:
    import os

    if os.path.isdir(data_dir) and os.listdir(data_dir):
        raise UsageError(
            "demo-data-dir",
            f"{data_dir} is not empty",
            why="the demo counts every message of its topics, so it starts from nothing",
            try_=(f"yak demo --data-dir {data_dir}/demo",),
        )


def _rows(result: "DemoResult") -> list[dict[str, object]]:
    return [
        {
            "topic": verdict.topic,
            "acknowledged": verdict.acknowledged,
            "read": verdict.read,
            "lost": verdict.lost,
            "duplicated": verdict.duplicated,
            "out_of_order": verdict.out_of_order + verdict.moved,
        }
        for verdict in result.verdicts
    ]


def _show_verdict(g: Globals, result: "DemoResult") -> None:
    out = g.out
    out.note("")
    out.table(_rows(result), _COLUMNS)
    out.stdout.flush()
    out.note("")
    totals = result.as_json()
    counts = ", ".join(
        f"{word} {totals[name]}"
        for word, name in (
            ("acked", "acknowledged"),
            ("read", "read"),
            ("lost", "lost"),
            ("duplicated", "duplicated"),
            ("out of order", "out_of_order"),
        )
    )
    if result.holds:
        out.note(out.paint("OK    every acknowledged message is there", "1;32"))
    else:
        out.note(out.paint("FAIL  the check did not hold", "1;31"))
    for line in (counts, *_where_time_went(result)):
        out.note(f"      {line}")
    out.note("")
    out.note(out.paint("What to type next", "1"))
    for line in _next_commands(result):
        out.note(f"  {line}")


def _where_time_went(result: "DemoResult") -> list[str]:
    times = result.times
    lines = [f"start {times.start_ms:.0f} ms, Redis included; the whole demo {times.total_ms / 1000.0:.1f} s"]
    if times.restart_ms is not None:
        line = f"restart after the kill {times.restart_ms:.0f} ms"
        if times.kill_to_first_ack_ms is not None:
            line += f"; from the kill to the next ack {times.kill_to_first_ack_ms:.0f} ms"
        lines.append(line)
        lines.append("kill -9 is not power loss: against that, set flush.messages=1 on a topic")
    return lines


def _next_commands(result: "DemoResult") -> list[str]:
    import shlex

    if result.kept:
        where = shlex.quote(result.data_dir)
        commands = [
            (f"yak consume server_metrics --from-beginning --exit -b {result.bootstrap}", ""),
            (f"yak up --status --data-dir {where}", ""),
            (f"yak up --down --data-dir {where}", ""),
        ]
    else:
        commands = [
            ("yak up -d", "start a cluster that stays"),
            ('yak produce -m "hello"', "store a message"),
            ("yak consume --from-beginning --exit", "read it back"),
            ("yak demo --keep", "this again, and leave it running"),
        ]
    reach = _reach_yak()
    if reach is not None:
        commands.insert(0, (reach, "so that the shell finds yak"))
    return [f"{command:<37} {why}".rstrip() for command, why in commands]


def _reach_yak() -> str | None:
    """What puts this `yak` on PATH; None when it is there, as after `pip install` or in an active environment."""
    import os
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
