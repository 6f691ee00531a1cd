"""Prints a table again and again: on a terminal in the place of the one before."""

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from yak.commands.units import format_time

if TYPE_CHECKING:
    from yak.commands.options import Globals

CLEAR_SCREEN = "\x1b[H\x1b[J"


def refreshes(g: "Globals", interval_ms: int, count: int | None) -> Iterator[None]:
    """Once every interval: `count` times, or until the reader of stdout is gone."""
    for number in itertools.count(1):
        began = time.monotonic()
        yield
        if number == count:
            return
        g.out.require_reader()
        time.sleep(max(0.0, interval_ms / 1000 - (time.monotonic() - began)))


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
            out.stdout.write(CLEAR_SCREEN)
        out.line(moment)
        out.table(rows, columns, wide)
    out.stdout.flush()
