"""Prints a table again and again: on a terminal in the place of the one before."""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from yak.commands.units import format_time
from yak.errors import Unreachable
from yak.plain_text import one_line

if TYPE_CHECKING:
    from yak.commands.options import Globals

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
    """Print the rows of one refresh, with its time. Programs get the columns `flat`, under one header."""
    out, moment = g.out, format_time(g.now_ms(), g.zone)
    if not out.for_people:
        out.table([{"time": moment, **row} for row in rows], ("time", *flat))
        out.headers = False
    else:
        if out.draws_in_place:
            out.stdout.write(HOME + CLEAR_BELOW)
        out.line(moment)
        out.table(rows, columns, wide)
    out.stdout.flush()
