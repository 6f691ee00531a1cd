"""`yak isr --watch`: redraws the table on a terminal, otherwise prints a line per change."""

import itertools
import time
from collections.abc import Callable, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from yak.commands.isr_view import BAD, GOOD, WARN, changes, painted, problems, show, summary, table_lines
from yak.commands.output import to_json
from yak.commands.units import format_time
from yak.errors import Unreachable
from yak.plain_text import one_line

if TYPE_CHECKING:
    from yak.client.replica_offsets import ClusterReplicas
    from yak.commands.options import Globals
    from yak.view.partition_replicas import PartitionReplicas

    Reader = Callable[[], ClusterReplicas]
    Choice = Callable[[ClusterReplicas], Sequence[PartitionReplicas]]
    Line = tuple[str, str]

HOME, CLEAR_LINE, CLEAR_BELOW, CLEAR_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


class Watch:
    """Reads until Ctrl+C, or `count` times. After the first read succeeded, it continues while no broker answers."""

    def __init__(self, g: "Globals", read: "Reader", chosen: "Choice", max_lag: int | None) -> None:
        self._g = g
        self._read = read
        self._chosen = chosen
        self._max_lag = max_lag
        self._before: dict[tuple[str, int], PartitionReplicas] = {}
        self._lost = ""

    def run(self, interval_ms: int, count: int | None) -> int:
        """Read every `interval_ms`. Raises YakError when the first read fails."""
        in_place = self._g.out.for_people and self._g.out.stdout.isatty()
        if in_place:
            self._g.out.stdout.write(HOME + CLEAR_SCREEN)
        for look in itertools.count(1):
            began = time.monotonic()
            try:
                found = self._read()
            except Unreachable as error:
                if look == 1:
                    raise
                self._nobody_answers(error, in_place=in_place)
            else:
                self._lost = ""
                if in_place:
                    self._draw(found)
                else:
                    self._tell(found)
            self._g.out.stdout.flush()
            if look == count:
                break
            time.sleep(max(0.0, interval_ms / 1000 - (time.monotonic() - began)))
        return 0

    def _now(self) -> str:
        return format_time(self._g.now_ms(), self._g.zone)

    def _draw(self, found: "ClusterReplicas") -> None:
        """Overwrite the previous table, clearing each line to its end, which avoids flicker."""
        g, out = self._g, self._g.out
        wide = out.format == "wide"
        table = table_lines(self._chosen(found), max_lag=self._max_lag, headers=out.headers, wide=wide)
        lines, colour = summary(found.partitions, max_lag=self._max_lag)
        below = [("", GOOD), *((line, colour) for line in lines)]
        below += [(f"broker {node} did not answer: {reason}", WARN) for node, reason in found.silent.items()]
        columns, rows = get_terminal_size()
        shown = fitted([(self._now() + "   Ctrl+C ends", GOOD)], table, below, rows=rows - 1)
        text = "".join(painted(g, line[:columns], tint) + CLEAR_LINE + "\n" for line, tint in shown)
        out.stdout.write(HOME + text + CLEAR_BELOW)

    def _tell(self, found: "ClusterReplicas") -> None:
        out, now = self._g.out, self._now()
        shown = {(each.topic, each.partition): each for each in self._chosen(found)}
        for key, each in shown.items():
            different = changes(self._before.get(key), each)
            if not different:
                continue
            if out.format == "json":
                out.line(to_json({"time": now, **each.as_json()}))
            elif out.for_people:
                bad = BAD if problems(each, max_lag=self._max_lag) else ""
                out.line(painted(self._g, f"{now}  {each.name}  {'; '.join(different)}", bad))
            else:
                show(self._g, [each], max_lag=self._max_lag)
                out.headers = False
        if out.for_people:
            for key, each in self._before.items():
                if key not in shown:
                    out.line(f"{now}  {each.name}  no longer listed")
        self._before = shown

    def _nobody_answers(self, error: Unreachable, *, in_place: bool) -> None:
        """Without a terminal, warn once per outage. On a terminal the table stays, with the error above it."""
        if in_place:
            self._g.out.stdout.write(HOME + one_line(f"{self._now()}   {error.message}: {error.why}") + CLEAR_LINE)
        elif not self._lost:
            self._g.out.warn(f"{self._now()}  {error.message}: {error.why}")
        self._lost = error.message


def fitted(above: "Sequence[Line]", table: "Sequence[Line]", below: "Sequence[Line]", *, rows: int) -> "list[Line]":
    """The lines that fit on a terminal with `rows` rows: the start of a long table, the last lines of a long end."""
    room = max(rows - len(above), 3)
    end = list(below[-max(room // 2, 2) :]) if len(table) + len(below) > room else list(below)
    room -= len(end)
    if len(table) <= room:
        return [*above, *table, *end]
    hidden = len(table) - room + 1
    return [*above, *table[: room - 1], (f"and {hidden} lines more: name a topic, or --under-replicated", WARN), *end]
