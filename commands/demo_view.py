"""Prints the demos of `yak demo`: numbered steps on stderr, the report, and the next commands."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from yak.commands.options import Globals
from yak.local.demo.scenario import Reporter, Result, Row, Scenario, Settings

if TYPE_CHECKING:
    from yak.local.failover import Failover


class Terminal(Reporter):
    """Reports a scenario's steps on stderr, with a live count on a terminal."""

    def __init__(self, g: Globals) -> None:
        self._out = g.out
        self._live = g.out.stderr.isatty() and not g.quiet and not os.environ.get("CI")
        self._counting = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End a display of its own."""

    def step(self, number: int, steps: int, title: str) -> None:
        """Report the start of a step."""
        self._clear_count()
        self._out.note(self._out.paint(f"{number}/{steps}", "1;36") + "   " + self._out.paint(title, "1"))

    def say(self, text: str) -> None:
        """Print a line under the step."""
        self._clear_count()
        self._out.note(f"      {text}")

    def table(self, rows: Sequence[Row], is_good: Sequence[bool]) -> None:
        """Print a table under the step; rows that are not as they should be are red."""
        from yak.commands.isr_view import BAD, GOOD
        from yak.commands.output import layout

        if not rows:
            return
        colours = [GOOD, *(GOOD if each else BAD for each in is_good)]
        for line, colour in zip(layout(rows, list(rows[0])), colours, strict=True):
            self.say(self._out.paint(line, colour) if colour else line)

    def timeline(self, failover: "Failover") -> None:
        """Print the timeline after a kill."""
        from yak.commands.failover_view import timeline_lines

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
    with terminal(g) as shown:
        result = scenario(settings, shown).run()
    show_result(g, result)
    return None if result.holds else 4


def show_result(g: Globals, result: Result) -> None:
    """Print a result."""
    out = g.out
    columns = tuple(result.rows[0]) if result.rows else ()
    if out.format in {"json", "yaml"} and not out.for_people:
        out.object(result.as_json())
    elif not out.for_people:
        out.table(result.rows, columns)
    elif not (g.quiet and result.holds):
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
    shown = commands if reach is None else [(reach, "so that the shell finds yak"), *commands]
    return [f"{command:<37} {why}".rstrip() for command, why in shown]


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
