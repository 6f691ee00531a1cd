"""Observed failovers as lines, with the milliseconds between their steps. Pure."""

from collections.abc import Iterable

from yak.tui.look import Look, ago, span
from yak.tui.rows.cells import Cell
from yak.tui.rows.topics import is_internal
from yak.tui.state.elections import Failover


def election_lines(failovers: Iterable[Failover], look: Look, now_ms: int, width: int, height: int) -> list[list[Cell]]:
    """The newest failovers that fit, newest first, one or more lines each."""
    lines: list[list[Cell]] = []
    for failover in reversed(list(failovers)):
        block = failover_lines(failover, look, now_ms, width)
        if lines and len(lines) + len(block) > height:
            break
        lines += block
    return lines[:height]


def failover_lines(failover: Failover, look: Look, now_ms: int, width: int) -> list[list[Cell]]:
    """One failover: broker and time; steps; moved leaderships; truncated logs."""
    if failover.node_id is None:
        what, tone = "leaderships moved in order", "accent"
    else:
        what, tone = f"broker {failover.node_id} lost", "warn"
    when = look.time(failover.began_ms, now_ms, millis=look.zone != "relative")
    head = [Cell(when, "dim"), Cell(f"{look.sign('mark')} {what}", tone)]  # type: ignore[arg-type]
    if failover.back_ms is not None:
        head.append(Cell(f"back after {span(failover.back_ms - failover.began_ms)}", "good"))
    elif failover.node_id is not None:
        head.append(Cell(f"{ago(now_ms - failover.began_ms)}, not back yet", "dim"))
    lines = [head, steps(failover, look)]
    if failover.moved:
        lines.append([Cell(f"  {moves(failover, look, width - 4)}", "dim")])
    lines += [[Cell(f"  {look.sign('warn')} {words}", "warn")] for words in failover.truncated[-2:]]
    return lines


def steps(failover: Failover, look: Look) -> list[Cell]:
    """`detected 0 ms -> fenced +3 ms -> elected +19 ms -> write +41 ms`: the steps and their durations."""
    named = (
        ("detected", failover.detected_ms),
        ("fenced", failover.fenced_ms),
        ("moved" if failover.node_id is None else "elected", failover.elected_ms),
        ("write", failover.first_write_ms),
    )
    seen = sorted(((time_ms, name) for name, time_ms in named if time_ms is not None), key=lambda each: each[0])
    cells = [Cell(" ")]
    for number, (time_ms, name) in enumerate(seen):
        before = failover.began_ms if not number else seen[number - 1][0]
        arrow = f"{look.sign('arrow')} " if number else ""
        took = f"+{span(max(0, time_ms - before))}"
        cells.append(Cell(f"{arrow}{name} {took}", "good" if name in ("elected", "moved", "write") else ""))
    total_ms = failover.first_write_ms or failover.elected_ms
    if total_ms is not None and len(seen) > 1:
        cells.append(Cell(f"= {span(max(0, total_ms - failover.began_ms))}", "strong"))
    if failover.elected_ms is None and failover.moved:
        cells.append(Cell(f"{look.sign('bad')} no new leader yet", "bad"))
    return cells


def moves(failover: Failover, look: Look, width: int) -> str:
    """`orders-0 1 -> 2 (epoch 4), orders-1 1 -> 3 (epoch 2) and 5 more`: those that fit."""
    arrow, words, named = look.sign("arrow"), "", 0
    internal = sum(is_internal(name.rpartition("-")[0]) for name in failover.moved)
    width -= len(" and 999 internal") if internal else 0
    for name, (before, after, epoch) in failover.moved.items():
        if is_internal(name.rpartition("-")[0]):
            continue
        one = f"{name} {_node(before)} {arrow} {_node(after)} (epoch {epoch})"
        longer = f"{words}, {one}" if words else one
        if words and len(longer) + len(" and 99999 more") > width:
            break
        words, named = longer, named + 1
    more = len(failover.moved) - named - internal
    parts = [words] if words else []
    parts += [f"{more} more"] if more else []
    parts += [f"{internal} internal"] if internal else []
    return " and ".join(parts)


def _node(node: int | None) -> str:
    return "nobody" if node is None else str(node)
