"""Prints a table again and again: on a terminal in the place of the one before."""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.commands.output import cropped, layout
from yak.commands.units import format_time
from yak.errors import Unreachable
from yak.plain_text import one_line

if TYPE_CHECKING:
    from yak.commands.options import Globals

Line: TypeAlias = tuple[str, str]
"""A line and its colour."""
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def refreshes(g: "Globals", interval_ms: int, count: int | None) -> Iterator[AbstractContextManager[None]]:
    """Once every interval the context of a refresh: `count` times, or until the reader of stdout is gone.

    After the first refresh the watch goes on while no broker answers.
    """
    lost: list[Unreachable] = []
    for number in itertools.count(1):
        began = time.monotonic()
        yield _refresh(g, lost, is_first=number == 1)
        if number == count:
            return
        g.out.require_reader()
        time.sleep(max(0.0, interval_ms / 1000 - (time.monotonic() - began)))


@contextmanager
def _refresh(g: "Globals", lost: list[Unreachable], *, is_first: bool) -> Iterator[None]:
    """Without a terminal, warn once per outage. On a terminal the table stays, with the error above it."""
    try:
        yield
    except Unreachable as error:
        if is_first:
            raise
        moment = format_time(g.now_ms(), g.zone)
        if g.out.for_people and g.out.draws_in_place:
            g.out.stdout.write(HOME + one_line(f"{moment}   {error.message}: {error.why}") + CLEAR_LINE)
            g.out.stdout.flush()
        elif not lost:
            g.out.warn(f"{moment}  {error.message}: {error.why}")
        lost.append(error)
    else:
        lost.clear()


def show_refresh(
    g: "Globals", rows: list[dict[str, Any]], columns: Sequence[str], wide: Sequence[str], flat: Sequence[str]
) -> None:
    """Print the rows of one refresh, with its time: on a terminal those that fit it, for programs the columns `flat`."""
    out, moment = g.out, format_time(g.now_ms(), g.zone)
    if not out.for_people:
        out.table([{"time": moment, **row} for row in rows], ("time", *flat))
        out.headers = False
    elif out.draws_in_place:
        table = layout(rows, [*columns, *wide] if out.format == "wide" else columns, headers=out.headers)
        draw(g, [(moment, "")], [(line, "") for line in table])
    else:
        out.line(moment)
        out.table(rows, columns, wide)
    out.stdout.flush()


def draw(
    g: "Globals", above: Sequence[Line], table: Sequence[Line], below: Sequence[Line] = (), more: Line = ("", "")
) -> None:
    """Overwrite what was drawn before, clearing each line to its end, which avoids flicker."""
    width, height = get_terminal_size()
    screen = fitted(above, table, below, rows=height - 1, more=more)
    text = "".join(painted(g, cropped(line, width), colour) + CLEAR_LINE + "\n" for line, colour in screen)
    g.out.stdout.write(HOME + text + CLEAR_BELOW)


def painted(g: "Globals", line: str, colour: str) -> str:
    """A line of stdout in a colour, if stdout supports colours: a pipe does not, unless FORCE_COLOR is set."""
    wants = g.out.stdout.isatty() or bool(g.settings.environment.get("FORCE_COLOR"))
    return g.out.paint(line, colour) if colour and wants else line


def fitted(
    above: Sequence[Line], table: Sequence[Line], below: Sequence[Line], *, rows: int, more: Line = ("", "")
) -> list[Line]:
    """The lines that fit on a terminal with `rows` rows: the start of a long table, the last lines of a long end.

    The line in place of the others says how many they are, and ends with the text of `more`.
    """
    room = max(rows - len(above), 3)
    end = list(below[-max(room // 2, 2) :]) if len(table) + len(below) > room else list(below)
    room -= len(end)
    if len(table) <= room:
        return [*above, *table, *end]
    hidden = len(table) - room + 1
    return [*above, *table[: room - 1], (f"and {hidden} lines more{more[0]}", more[1]), *end]
