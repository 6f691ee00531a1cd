"""Consumer groups as rows: all of them, one in detail, and a reset of its offsets. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from yak.client.groups.partition_syntax import partitions_text
from yak.client.groups.reset import Step, Target
from yak.client.numbers import parse_long
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition
from yak.tui.formatter import Formatter
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.state.groups import Group, Groups, Unread
from yak.view.formats import format_duration
from yak.view.groups import Member, PartitionLag
from yak.view.lag import total_lag

COLUMNS: Final = (
    Column("GROUP", 10, most=60, flex=1, preferred=24),
    Column("STATE", 9, most=22),
    Column("TYPE", 8, rank=3),
    Column("MEMBERS", 7, is_right=True),
    Column("COORD", 5, is_right=True, rank=2),
    Column("LAG", 7, is_right=True),
    Column("TREND 60 s", 10, most=20),
    Column("ETA", 9, is_right=True),
)
TREND_WIDTH: Final = 10
_STATES: Final[dict[str, tuple[str, Tone]]] = {
    "Stable": ("up", "good"),
    "Empty": ("down", "dim"),
    "Dead": ("bad", "bad"),
    "PreparingRebalance": ("warn", "warn"),
    "CompletingRebalance": ("warn", "warn"),
    "Assigning": ("warn", "warn"),
    "Reconciling": ("warn", "warn"),
    "NotReady": ("warn", "warn"),
}
_SHORT: Final = {"PreparingRebalance": "joining", "CompletingRebalance": "syncing"}
"""Kafka's names of these two are too wide for a column; the group's screen shows them in full."""


def group_state_cell(state: str, fmt: Formatter, *, is_short: bool = True) -> Cell:
    """The state as a sign and a word."""
    sign, tone = _STATES.get(state, ("unknown", ""))
    text = _SHORT.get(state, state) if is_short else state
    return Cell(f"{fmt.sign(sign)} {text or 'unknown'}", tone, text)


def lag_cell(lag: int | None, fmt: Formatter) -> Cell:
    """The lag in records: a dash if nothing is committed, 0 if everything is read."""
    if lag is None:
        return Cell(fmt.sign("none"), "dim", -1)
    return Cell(fmt.number(lag), "good" if lag == 0 else "", lag)


def group_rows(groups: Groups, fmt: Formatter, now_ms: int) -> list[Row]:
    """Rows ordered by name."""
    return [_group_row(groups.by_name[name], fmt, now_ms) for name in sorted(groups.by_name)]


def _group_row(group: Group, fmt: Formatter, now_ms: int) -> Row:
    if group.said is None:
        unknown = fmt.sign("unknown") if group.why else ""
        rest = (Cell(unknown, "dim", -2), Cell(""), Cell(""))
        members = Cell(unknown, "dim", -1)
    else:
        rest = (lag_cell(group.lag, fmt), trend_cell(group, fmt, now_ms), eta_cell(group, fmt, now_ms))
        members = Cell(fmt.number(group.members), "dim" if not group.members else "", group.members)
    return Row(
        group.name,
        Cell(group.name, "strong"),
        group_state_cell(group.state, fmt),
        Cell(group.type, "dim"),
        members,
        Cell(fmt.sign("none") if group.coordinator is None else str(group.coordinator), "dim", group.coordinator),
        *rest,
    )


TOPIC_GROUP_COLUMNS: Final = (
    *(COLUMNS[number] for number in (0, 1, 3, 5, 6, 7)),
    Column("PARTITIONS", 6, is_right=True, rank=3),
)


def topic_group_rows(groups: Iterable[Group], fmt: Formatter, now_ms: int) -> list[Row]:
    """The groups that read one topic, with their lag there, ordered by name."""
    rows = []
    for group in sorted(groups, key=lambda each: each.name):
        row = _group_row(group, fmt, now_ms)
        count = 0 if group.said is None else len(group.said["partitions"])
        rows.append(Row(row.key, *(row.cells[number] for number in (0, 1, 3, 5, 6, 7)), Cell(str(count), "dim", count)))
    return rows


def trend_cell(group: Group, fmt: Formatter, now_ms: int, width: int = TREND_WIDTH) -> Cell:
    """The lag of the last minute."""
    if group.lag is None:
        return Cell("")
    return Cell(fmt.spark(group.trend.values(now_ms, width), width), "dim" if not group.lag else "accent")


def eta_cell(group: Group, fmt: Formatter, now_ms: int) -> Cell:
    """The time until the lag is 0, in short form."""
    eta_ms = group.eta_ms(now_ms)
    if group.lag == 0:
        return Cell("caught up", "good", 0)
    if eta_ms is not None:
        return Cell(format_duration(max(1_000, eta_ms)), "", eta_ms)
    if group.is_growing(now_ms):
        return Cell("growing", "warn", float("inf"))
    return Cell(fmt.sign("none"), "dim", -1)


def list_title(groups: Groups, fmt: Formatter) -> str:
    """The number of groups, and their total lag."""
    if not groups.is_listed:
        return "Groups"
    total = total_lag(group.lag for group in groups.by_name.values())
    lag = "" if total is None else f", lag {fmt.number(total)}"
    return f"Groups: {fmt.number(len(groups.by_name))}{lag}"


def silent_brokers(groups: Groups) -> str:
    """The brokers that did not answer; empty if all did."""
    if not groups.silent:
        return ""
    who = ", ".join(str(each["node_id"]) for each in groups.silent)
    if len(groups.silent) > 1:
        return f"brokers {who} did not answer: their groups are missing"
    return f"broker {who} did not answer: its groups are missing"


MEMBER_COLUMNS: Final = (
    Column("CLIENT", 8, most=40),
    Column("HOST", 9, most=40),
    Column("PARTS", 5, is_right=True),
    Column("ASSIGNED", 12, most=200, flex=1),
    Column("INSTANCE", 8, rank=2),
    Column("MEMBER ID", 12, most=60, rank=3),
)
PARTITION_COLUMNS: Final = (
    Column("TOPIC", 8, most=60),
    Column("P", 2, is_right=True),
    Column("COMMITTED", 9, is_right=True, flash=True),
    Column("LOG END", 8, is_right=True, flash=True),
    Column("LAG", 5, is_right=True),
    Column("TIME LAG", 8, is_right=True),
    Column("MEMBER", 8, most=200, flex=1),
    Column("START", 6, is_right=True, rank=3),
)
TIME_LAG: Final = 5
"""The index of the time lag column."""


def lag_of(said: Mapping[str, Any], unread: Mapping[TopicPartition, Unread]) -> PartitionLag:
    """A partition of `/api/groups/NAME`."""
    place = TopicPartition(said["topic"], said["partition"])
    oldest_ms = unread[place].timestamp_ms if place in unread else None
    return PartitionLag(
        place, said["committed"], said["log_start_offset"], said["high_watermark"], oldest_unread_ms=oldest_ms
    )


def member_rows(said: Mapping[str, Any], fmt: Formatter) -> list[Row]:
    """One row per member."""
    return [
        _member(each, fmt) for each in sorted(said["members"], key=lambda one: (one["client_id"], one["member_id"]))
    ]


def _member(said: Mapping[str, Any], fmt: Formatter) -> Row:
    assigned = _topic_partitions(said["assignment"])
    target = _topic_partitions(said["target"])
    if assigned is None:
        assignment = Cell("unknown while the group rebalances", "dim")
    elif target is not None and set(target) != set(assigned):
        assignment = Cell(
            f"{partitions_text(assigned) or 'none'} {fmt.sign('arrow')} {partitions_text(target) or 'none'}", "warn"
        )
    else:
        assignment = Cell(partitions_text(assigned) or "none: more members than partitions", "" if assigned else "dim")
    return Row(
        said["member_id"],
        Cell(said["client_id"], "strong"),
        Cell(said["host"].lstrip("/")),
        Cell(fmt.sign("none") if assigned is None else fmt.number(len(assigned)), "", len(assigned or ())),
        assignment,
        Cell(said["instance_id"] or fmt.sign("none"), "dim"),
        Cell(said["member_id"], "dim"),
    )


def _topic_partitions(said: list[Mapping[str, Any]] | None) -> list[TopicPartition] | None:
    return None if said is None else [TopicPartition(each["topic"], each["partition"]) for each in said]


def partition_rows(
    said: Mapping[str, Any], unread: Mapping[TopicPartition, Unread], fmt: Formatter, now_ms: int
) -> list[Row]:
    """One row per partition that has a committed offset or a member."""
    clients = {each["member_id"]: each["client_id"] for each in said["members"]}
    return [_partition(each, clients, unread, fmt, now_ms) for each in said["partitions"]]


def _partition(
    said: Mapping[str, Any],
    clients: Mapping[str, str],
    unread: Mapping[TopicPartition, Unread],
    fmt: Formatter,
    now_ms: int,
) -> Row:
    known = lag_of(said, unread)
    found = unread.get(known.partition)
    trouble = known.trouble
    lag_ms = known.lag_ms(now_ms if found is None else found.until_ms(known.committed, now_ms))
    if known.lag is None or lag_ms is None:
        age = Cell(fmt.sign("none"), "dim", -1)
    else:
        age = Cell(format_duration(lag_ms), "", lag_ms) if known.lag else Cell("0 s", "good", 0)
    member = said["member_id"]
    who = Cell(clients.get(member, member) if member else f"{fmt.sign('none')} none", "" if member else "dim")
    if trouble is not None:
        who = Cell(f"{fmt.sign('warn')} {trouble}", "warn")
    topic, number = known.partition
    return Row(
        f"{topic}:{number}",
        Cell(topic),
        Cell(str(number), "", number),
        Cell(fmt.number(known.committed), "" if known.committed is not None else "dim", known.committed),
        Cell(fmt.number(said["high_watermark"]), "", said["high_watermark"]),
        lag_cell(known.lag, fmt),
        age,
        who,
        Cell(fmt.number(said["log_start_offset"]), "dim", said["log_start_offset"]),
    )


def summary(group: Group, fmt: Formatter, now_ms: int) -> list[list[Cell]]:
    """Two lines: the group's state, and its lag."""
    said = group.said
    if said is None:
        return [[Cell(group.why or "waiting for its coordinator ...", "bad" if group.why else "dim")]]
    kind = ", ".join(part for part in (said["type"], said["protocol_type"]) if part)
    assignor = f"assignor {said['assignor']}" if said["assignor"] else "no assignor"
    epoch = "" if said["epoch"] is None else f", epoch {said['epoch']}"
    lag, dot = lag_cell(group.lag, fmt), fmt.sign("dot")
    text = "nothing committed" if group.lag is None else f"lag {lag.text}"
    return [
        [
            group_state_cell(group.state, fmt, is_short=False),
            Cell(f"{dot} {kind}, {assignor}{epoch} {dot} coordinator {group.coordinator}", "dim"),
        ],
        [
            Cell(text, lag.tone),
            trend_cell(group, fmt, now_ms, 20),
            Cell(f"in {fmt.counted(len(said['partitions']), 'partition')} {dot} ETA", "dim"),
            eta_cell(group, fmt, now_ms),
        ],
    ]


def members_of(said: Mapping[str, Any]) -> list[Member]:
    """The members, by name and host."""
    return [Member(each["member_id"], each["client_id"], each["host"]) for each in said["members"]]


WAYS: Final = ("earliest", "latest", "time", "offset", "shift by", "current", "file")
_PLAIN: Final = {"earliest": "--to-earliest", "latest": "--to-latest", "current": "--to-current"}
_WITH: Final = {"time": "--to-timestamp", "offset": "--to-offset", "shift by": "--shift-by", "file": "--from-file"}
STEP_COLUMNS: Final = (
    Column("TOPIC", 8, most=60),
    Column("P", 2, is_right=True),
    Column("OLD", 7, is_right=True),
    Column("", 2),
    Column("NEW", 7, is_right=True),
    Column("CHANGE", 7, is_right=True),
    Column("RESULT", 10, most=200, flex=1),
)


def topics_of(values: Mapping[str, str]) -> list[str]:
    """Splits `orders:0,2 payments` in two; empty means all committed topics."""
    return values["topics"].split()


def reset_command(group: str, values: Mapping[str, str], fmt: Formatter, *, is_done: bool = False) -> str:
    """The equivalent command. Raises UsageError for an invalid value."""
    way, value = values["to"], values["value"]
    argv = ["yak", "groups", "reset", group]
    topics = topics_of(values)
    for each in topics:
        argv += ["--topic", each]
    if not topics and way != "file":
        argv.append("--all-topics")
    if way in _PLAIN:
        argv.append(_PLAIN[way])
    else:
        _check(way, value, fmt)
        argv += [f"{_WITH[way]}={value}"] if value.startswith("-") else [_WITH[way], value]
    if way == "time" and fmt.zone == "local":
        argv.append("--local")
    if is_done:
        argv.append("--execute")
    return shlex.join(argv)


def _check(way: str, value: str, fmt: Formatter) -> None:
    if not value:
        raise UsageError("usage", f"{way} needs a value")
    if way == "time":
        fmt.parse_time_ms(value, 0)
    elif way == "offset" and parse_long(value) is None:
        raise UsageError("usage", f'"{value}" is no offset', why="it is a number from 0 on")
    elif way == "shift by" and parse_long(value[1:] if value[0] in "+-" else value) is None:
        raise UsageError("usage", f'"{value}" is no distance', why="100 is on, -100 is back")


def reset_target(
    values: Mapping[str, str], now_ms: int, fmt: Formatter, offsets: Mapping[TopicPartition, int]
) -> Target:
    """The target from the form; `offsets` come from the file. Raises UsageError."""
    way, value = values["to"], values["value"]
    if way == "time":
        return Target("timestamp", fmt.parse_time_ms(value, now_ms))
    if way == "offset":
        return Target("offset", int(value))
    if way == "shift by":
        return Target("shift", int(value))
    if way == "file":
        return Target("file", offsets=offsets)
    return Target("earliest" if way == "earliest" else "latest" if way == "latest" else "current")


def step_rows(
    steps: Sequence[Step], results: Mapping[TopicPartition, YakError | None] | None, fmt: Formatter
) -> list[Row]:
    """Old and new offset of each partition; `results` is None before the reset."""
    return [_step_row(each, results, fmt) for each in steps]


def _step_row(step: Step, results: Mapping[TopicPartition, YakError | None] | None, fmt: Formatter) -> Row:
    topic, number = step.partition
    text, tone = _result(step, results)
    note = f": {step.note}" if step.note else ""
    change = None if step.before is None or step.after is None else step.after - step.before
    after = step.before if step.after is None else step.after
    return Row(
        f"{topic}:{number}",
        Cell(topic),
        Cell(str(number), "", number),
        Cell(fmt.number(step.before), "", step.before),
        Cell(fmt.sign("arrow"), "dim"),
        Cell(fmt.number(after), "strong" if step.is_change else "dim", after),
        Cell(_signed(change, fmt), "warn" if (change or 0) > 0 else "", change),
        Cell(f"{fmt.sign(_SIGNS[tone])} {text}{note}", tone),
    )


_SIGNS: Final[dict[Tone, str]] = {"good": "good", "warn": "warn", "bad": "bad", "dim": "none", "accent": "arrow"}


def _signed(change: int | None, fmt: Formatter) -> str:
    if change is None:
        return fmt.sign("none")
    return f"+{fmt.number(change)}" if change > 0 else fmt.number(change)


def _result(step: Step, results: Mapping[TopicPartition, YakError | None] | None) -> tuple[str, Tone]:
    if step.after is None:
        return "left alone", "warn"
    if not step.is_change:
        return "unchanged", "dim"
    if results is None:
        return "will be set", "accent"
    error = results.get(step.partition)
    return ("set", "good") if error is None else (f"failed: {error.why or error.message}", "bad")


def plan_summary(steps: Sequence[Step], fmt: Formatter) -> str:
    """The totals: records to be read again, records to be skipped."""
    changes = [each for each in steps if each.is_change]
    if not changes:
        return "Nothing to move: the offsets are there already."
    moves = [each.after - each.before for each in changes if each.before is not None and each.after is not None]
    again, skipped = -sum(min(0, each) for each in moves), sum(max(0, each) for each in moves)
    parts = [f"{fmt.counted(again, 'record')} will be read again"] if again else []
    parts += [f"{fmt.counted(skipped, 'record')} will be skipped"] if skipped else []
    first = len(changes) - len(moves)
    parts += [f"{fmt.counted(first, 'partition')} will get a first offset"] if first else []
    return f"{fmt.counted(len(changes), 'partition')} will be moved: {', '.join(parts) or 'by nothing'}."
