"""Failovers as rows and lines: the brokers with their processes, time lines, the check of the demo's records. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from yak.local.status import BrokerStatus
from yak.protocol.topic_names import is_internal
from yak.tui.demo.state import DemoState
from yak.tui.formatter import Formatter
from yak.tui.rows.cells import Cell, Column, Row, Tone, figure
from yak.tui.rows.cluster import broker_state_cell
from yak.tui.state.drills import Action, Timeline
from yak.tui.state.elections import Failover
from yak.tui.state.picture import Broker, Picture
from yak.view.broker_state import SeenState
from yak.view.formats import format_age, format_duration
from yak.view.partition_state import BrokerCounts, count_by_broker


def election_lines(
    failovers: Iterable[Failover], fmt: Formatter, now_ms: int, width: int, height: int
) -> list[list[Cell]]:
    """The newest failovers that fit, newest first, one or more lines each."""
    lines: list[list[Cell]] = []
    for failover in reversed(list(failovers)):
        block = failover_lines(failover, fmt, now_ms, width)
        if lines and len(lines) + len(block) > height:
            break
        lines += block
    return lines[:height]


def failover_lines(failover: Failover, fmt: Formatter, now_ms: int, width: int) -> list[list[Cell]]:
    """One failover: broker and time; steps; moved leaders; truncated logs."""
    if failover.node_id is None:
        what, tone = "leaders moved in order", "accent"
    else:
        what, tone = f"broker {failover.node_id} lost{',' if failover.back_ms is not None else ''}", "warn"
    when = fmt.time(failover.began_ms, now_ms, millis=True)
    head = [Cell(when, "dim"), Cell(f"{fmt.sign('mark')} {what}", tone)]  # type: ignore[arg-type]
    if failover.back_ms is not None:
        head.append(Cell(f"back after {format_duration(failover.back_ms - failover.began_ms)}", "good"))
    elif failover.node_id is not None:
        head.append(Cell(f"{format_age(now_ms - failover.began_ms)}, not back yet", "dim"))
    lines = [head, failover_steps(failover, fmt)]
    if failover.moved:
        lines.append([Cell(f"  {failover_moves(failover, fmt, width - 4)}", "dim")])
    lines += [[Cell(f"  {fmt.sign('warn')} {text}", "warn")] for text in failover.truncated[-2:]]
    return lines


def failover_steps(failover: Failover, fmt: Formatter) -> list[Cell]:
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
        arrow = f"{fmt.sign('arrow')} " if number else ""
        took = f"+{format_duration(max(0, time_ms - before))}"
        cells.append(Cell(f"{arrow}{name} {took}", "good" if name in ("elected", "moved", "write") else ""))
    total_ms = failover.first_write_ms or failover.elected_ms
    if total_ms is not None and len(seen) > 1:
        cells.append(Cell(f"= {format_duration(max(0, total_ms - failover.began_ms))}", "strong"))
    if failover.elected_ms is None and failover.moved:
        cells.append(Cell(f"{fmt.sign('bad')} no new leader yet", "bad"))
    return cells


def failover_moves(failover: Failover, fmt: Formatter, width: int) -> str:
    """`orders-0 1 -> 2 (epoch 4), orders-1 1 -> 3 (epoch 2) and 5 more`: those that fit."""
    arrow, text, named = fmt.sign("arrow"), "", 0
    internal = sum(is_internal(name.rpartition("-")[0]) for name in failover.moved)
    width -= len(" and 999 internal") if internal else 0
    for name, (before, after, epoch) in failover.moved.items():
        if is_internal(name.rpartition("-")[0]):
            continue
        one = f"{name} {_node(before)} {arrow} {_node(after)} (epoch {epoch})"
        longer = f"{text}, {one}" if text else one
        if text and len(longer) + len(" and 99999 more") > width:
            break
        text, named = longer, named + 1
    more = len(failover.moved) - named - internal
    parts = [text] if text else []
    parts += [f"{more} more"] if more else []
    parts += [f"{internal} internal"] if internal else []
    return " and ".join(parts)


def _node(node: int | None) -> str:
    return "none" if node is None else str(node)


COLUMNS = (
    Column("ID", 5),
    Column("ROLE", 10),
    Column("STATE", 10, flash=True),
    Column("LEADS", 5, is_right=True, flash=True),
    Column("OUT OF SYNC", 11, is_right=True, flash=True),
    Column("PROCESS", 9, flash=True),
    Column("PID", 7, is_right=True),
    Column("ADDRESS", 15, rank=1, flex=1),
)
HISTORY = (
    Column("TIME", 9),
    Column("WHAT", 9, flex=1),
    Column("LED", 3, is_right=True, rank=1),
    Column("ELECTED", 7, is_right=True),
    Column("WAIT", 7, is_right=True),
)
REDIS = "redis"
_PROCESSES: Mapping[str, tuple[str, str, Tone]] = {
    "running": ("up", "running", "good"),
    "starting": ("unknown", "starting", "warn"),
    "paused": ("paused", "paused", "warn"),
    "stopped": ("down", "stopped", "dim"),
    "dead": ("bad", "dead", "bad"),
}


_SHORT: Mapping[Action, str] = {"failover": "move", "seen": "lost"}


@dataclass(frozen=True, slots=True)
class Processes:
    """The cluster's processes on this machine. `redis_running` is None if the metadata store is not ours."""

    brokers: Mapping[int, BrokerStatus]
    redis_running: bool | None = None
    redis_pid: int | None = None


def sole_in_sync(picture: Picture, node_id: int) -> list[str]:
    """The partitions that a broker leads and that have no other replica in the ISR."""
    return sorted(each.name for each in picture.partitions.values() if each.leader == node_id and len(each.isr) < 2)


def broker_rows(picture: Picture, processes: Processes | None, fmt: Formatter) -> list[Row]:
    """One row per broker, and one for the metadata store if it is ours."""
    nodes = sorted({*picture.brokers, *(processes.brokers if processes else ())})
    counts = count_by_broker(picture.partitions.values())
    rows = [_broker_row(picture, node, counts.get(node, BrokerCounts()), processes, fmt) for node in nodes]
    if processes is not None and processes.redis_running is not None:
        is_up = processes.redis_running
        tone: Tone = "good" if is_up else "bad"
        none = Cell(fmt.sign("none"), "dim")
        rows.append(
            Row(
                REDIS,
                Cell("redis", "strong"),
                Cell("metadata"),
                Cell(f"{fmt.sign('up' if picture.store_state == 'connected' else 'warn')} {picture.store_state}"),
                none,
                none,
                Cell(f"{fmt.sign('up')} running" if is_up else f"{fmt.sign('bad')} dead", tone),
                _pid(processes.redis_pid, fmt),
                Cell(""),
            )
        )
    return rows


def _broker_row(picture: Picture, node: int, counts: BrokerCounts, processes: Processes | None, fmt: Formatter) -> Row:
    broker = picture.brokers.get(node) or Broker(node, registered=SeenState.CLOSED)
    is_controller = node == picture.controller_id
    mark = f" {fmt.sign('mark')}" if is_controller else ""
    process = processes.brokers.get(node) if processes is not None else None
    state = Cell("not here", "dim")
    if process is not None:
        sign, word, tone = _PROCESSES[process.state]
        state = Cell(f"{fmt.sign(sign)} {word}", tone)
    return Row(
        str(node),
        Cell(str(node), "strong", node),
        Cell(broker.role + mark, "accent" if is_controller else ""),
        broker_state_cell(broker, fmt, counts.out_of_sync),
        figure(str(counts.leaders), counts.leaders),
        figure(str(counts.out_of_sync), counts.out_of_sync, "warn"),
        state,
        _pid(process.pid if process is not None else None, fmt),
        Cell(f"{broker.host}:{broker.port}" if broker.port else "", "dim"),
    )


def _pid(pid: int | None, fmt: Formatter) -> Cell:
    return Cell(fmt.sign("none") if pid is None else str(pid), "" if pid is not None else "dim")


# timeline


def timeline_lines(found: Timeline, fmt: Formatter, width: int, height: int, now_ms: float) -> list[list[Cell]]:
    """The action; then each step, with a bar to scale from the step before; then the moved leaders that fit."""
    drill = found.drill
    head = [Cell(drill.title, "strong"), Cell(f"at {fmt.time(drill.began_ms, now_ms, millis=True)}", "dim")]
    lines = [head, *_bars(found, fmt, width)]
    lines.append(_outcome(found, fmt))
    if found.truncated:
        text = fmt.counted(len(found.truncated), "replica")
        lines.append([Cell(f"{fmt.sign('warn')} {text} cut off what the new leader does not have", "warn")])
    room = height - len(lines)
    moved = sorted(
        (each for each in found.moved.values() if not is_internal(each.partition.rpartition("-")[0])),
        key=lambda each: (each.partition.startswith("__"), each.partition),
    )
    internal = len(found.moved) - len(moved)
    has_internal = internal > 0 and room > (1 if moved else 0)
    room -= has_internal
    if moved and room > 0:
        listed = moved if len(moved) <= room else moved[: room - 1]
        for each in listed:
            to = "none" if each.to_node is None else str(each.to_node)
            came = fmt.sign("none") if each.from_node is None else str(each.from_node)
            text = f"{each.partition}  {came} {fmt.sign('arrow')} {to}  epoch {each.leader_epoch}"
            lines.append(
                [
                    Cell(f"  {text}", "bad" if each.to_node is None else "dim"),
                    Cell(f"+{format_duration(each.after_ms)}", "dim"),
                ]
            )
        if len(listed) < len(moved):
            left = len(moved) - len(listed)
            text = f"and {left} more" if listed else f"{len(found.moved)} partitions have another leader"
            lines.append([Cell(f"  {text}", "dim")])
    if has_internal:
        lines.append([Cell(f"  {fmt.counted(internal, 'partition')} of internal topics", "dim")])
    return lines


def _bars(found: Timeline, fmt: Formatter, width: int) -> list[list[Cell]]:
    steps = found.steps()
    name_width = max(len(step.name) for step in steps)
    room = max(10, width - name_width - 14)
    whole_ms = max(steps[-1].after_ms, 1.0)
    lines: list[list[Cell]] = []
    before_ms = 0.0
    for step in steps:
        begin, end = int(before_ms / whole_ms * (room - 1)), int(step.after_ms / whole_ms * (room - 1))
        bar = " " * begin + fmt.sign("full") * max(end - begin, 1)
        tone: Tone = "good" if step.name == "first write" else "accent"
        lines.append(
            [
                Cell(f"{step.name:<{name_width}}"),
                Cell(f"{format_duration(step.after_ms):>9}", "strong"),
                Cell(bar, tone),
            ]
        )
        before_ms = step.after_ms
    return lines


def _outcome(found: Timeline, fmt: Formatter) -> list[Cell]:
    if found.longest is not None:
        text = f"the longest wait for an acknowledgement: {format_duration(found.longest.length_ms)}"
        return [Cell(f"{fmt.sign('good')} {text}", "good"), Cell(found.longest.partition, "dim")]
    if found.leaderless:
        names = ", ".join(found.leaderless[:3])
        return [Cell(f"{fmt.sign('bad')} without a leader: {names}", "bad")]
    if found.first_write_ms is not None:
        return [Cell(f"{fmt.sign('good')} writes go on", "good")]
    if found.elected_ms is not None and not found.is_written:
        return [Cell("no client was seen to write to them before, so no write is missed", "dim")]
    if found.elected_ms is not None:
        return [Cell(f"{fmt.sign('warn')} no write was acknowledged since: is min.insync.replicas in sync?", "warn")]
    if found.drill.led and found.drill.action != "seen":
        return [Cell(f"waiting for another leader of {fmt.counted(len(found.drill.led), 'partition')} ...", "warn")]
    if found.drill.action == "seen" and found.fenced_ms is None:
        return [Cell(f"{fmt.sign('warn')} it was not fenced: no other leader was elected", "warn")]
    return [Cell("it led nothing: no leader had to be elected", "dim")]


def history_rows(found: Sequence[Timeline], fmt: Formatter, now_ms: float) -> list[Row]:
    """The failovers so far, newest first."""
    none = Cell(fmt.sign("none"), "dim")
    rows = []
    for each in reversed(found):
        length = each.longest.length_ms if each.longest is not None else each.first_write_ms
        rows.append(
            Row(
                f"{each.drill.began_ms:.3f}",
                Cell(fmt.time(each.drill.began_ms, now_ms), "dim"),
                Cell(
                    _SHORT.get(each.drill.action, each.drill.action)
                    + ("" if each.drill.node_id is None else f" {each.drill.node_id}")
                ),
                Cell(str(len(each.drill.led or each.moved)), order=len(each.drill.led)),
                none if each.elected_ms is None else Cell(format_duration(each.elected_ms), order=each.elected_ms),
                none if length is None else Cell(format_duration(length), "strong", length),
            )
        )
    return rows


# check of the demo's records


def delivery_lines(demo: DemoState, fmt: Formatter, now_ms: float) -> list[list[Cell]]:
    """Acknowledged against read records, and the result."""
    counts, number = demo.counts, fmt.number
    if demo.counted_ms is None:
        return [[Cell("the clients begin as soon as the cluster is up", "dim")]]
    if counts.wrong:
        result = Cell(f"{fmt.sign('bad')} {number(counts.wrong)} WRONG:", "bad")
    elif counts.oldest_waiting_ms > 5_000:
        result = Cell(f"{fmt.sign('warn')} unread for {format_duration(counts.oldest_waiting_ms)}:", "warn")
    else:
        result = Cell(f"{fmt.sign('good')} all is there:", "good")
    is_old = now_ms - demo.counted_ms > 3_000
    first = [
        Cell(f"acked {number(counts.acknowledged)}", "strong"),
        Cell(f" read {number(counts.read)}", "strong"),
        Cell(f" on the way {number(counts.waiting)}", "" if counts.waiting else "dim"),
    ]
    if demo.rate or demo.phase == "ended":
        first.append(Cell(f" {fmt.rate(demo.rate, ' acked')}", "dim"))
    else:
        first.append(Cell(f" {fmt.sign('warn')} no write is acknowledged", "warn"))
    if is_old:
        first.append(Cell(f" counted {format_age(now_ms - demo.counted_ms)}", "warn"))
    second = [
        result,
        *(
            Cell(f" {name} {number(value)}", "bad" if value else "good")
            for name, value in (
                ("lost", counts.lost),
                ("duplicated", counts.duplicated),
                ("reordered", counts.reordered),
                ("moved", counts.moved),
            )
        ),
    ]
    lines = [first, second]
    notes = [f"topic {name} was deleted: nothing is sent there any more" for name in demo.gone]
    if counts.failed:
        notes.append(f"{number(counts.failed)} failed at the client: {demo.last_error}")
    if counts.strange:
        notes.append(f"{number(counts.strange)} of others were read too")
    return lines + [[Cell(note, "dim")] for note in notes]


NO_WORKLOAD: Final = [
    [Cell("No demo clients run here, so nothing is counted.")],
    [Cell("yak ui --demo has some; yak demo and yak bench failover count too.", "dim")],
]


def nothing_yet_lines(*, is_local: bool) -> list[list[Cell]]:
    """The hints before the first failover."""
    lines = [[Cell("No failover since yak ui started. Put the cursor on a broker, then:")]]
    lines.append([Cell("F", "accent"), Cell("moves its leaders to other in-sync replicas")])
    if is_local:
        lines.append([Cell("K", "accent"), Cell("kills it with kill -9; P pauses it; U resumes or restarts it")])
    else:
        lines.append([Cell("K, P and U work on clusters that yak up started on this machine", "dim")])
    lines.append([Cell("Each asks for confirmation, and its timeline is drawn here.", "dim")])
    return lines
