"""Offset reset of a group: the form, the equivalent command, the preview. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from yak.client.groups.reset import Step, Target
from yak.client.times import parse_time_ms
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition
from yak.tui.look import Look
from yak.tui.rows.cells import Cell, Column, Row, Tone

WAYS: Final = ("earliest", "latest", "time", "offset", "shift by", "current", "file")
_PLAIN: Final = {"earliest": "--to-earliest", "latest": "--to-latest", "current": "--to-current"}
_WITH: Final = {"time": "--to-timestamp", "offset": "--to-offset", "shift by": "--shift-by", "file": "--from-file"}
COLUMNS: Final = (
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


def command(group: str, values: Mapping[str, str], look: Look, *, is_done: bool = False) -> str:
    """The equivalent command. Raises UsageError for an invalid value."""
    way, value = values["to"], values["value"]
    words = ["yak", "groups", "reset", group]
    topics = topics_of(values)
    for each in topics:
        words += ["--topic", each]
    if not topics and way != "file":
        words.append("--all-topics")
    if way in _PLAIN:
        words.append(_PLAIN[way])
    else:
        _check(way, value)
        words += [f"{_WITH[way]}={value}"] if value.startswith("-") else [_WITH[way], value]
    if way == "time" and look.zone == "local":
        words.append("--local")
    if is_done:
        words.append("--execute")
    return shlex.join(words)


def _check(way: str, value: str) -> None:
    if not value:
        raise UsageError("usage", f"{way} needs a value")
    if way == "time":
        parse_time_ms(value, now_ms=0)
    elif way == "offset" and not (value.isascii() and value.isdigit()):
        raise UsageError("usage", f'"{value}" is no offset', why="it is a number from 0 on")
    elif way == "shift by":
        try:
            int(value)
        except ValueError:
            raise UsageError("usage", f'"{value}" is no distance', why="100 is on, -100 is back") from None


def target(values: Mapping[str, str], now_ms: int, look: Look, offsets: Mapping[TopicPartition, int]) -> Target:
    """The target from the form; `offsets` come from the file. Raises UsageError."""
    way, value = values["to"], values["value"]
    if way == "time":
        zone: tzinfo | None = datetime.now(UTC).astimezone().tzinfo if look.zone == "local" else UTC
        return Target("timestamp", parse_time_ms(value, now_ms=now_ms, zone=zone or UTC))
    if way == "offset":
        return Target("offset", int(value))
    if way == "shift by":
        return Target("shift", int(value))
    if way == "file":
        return Target("file", offsets=offsets)
    return Target("earliest" if way == "earliest" else "latest" if way == "latest" else "current")


def step_rows(steps: Sequence[Step], results: Mapping[TopicPartition, YakError | None] | None, look: Look) -> list[Row]:
    """Old and new offset of each partition; `results` is None before the reset."""
    return [_row(each, results, look) for each in steps]


def _row(step: Step, results: Mapping[TopicPartition, YakError | None] | None, look: Look) -> Row:
    topic, number = step.partition
    words, tone = _result(step, results)
    note = f": {step.note}" if step.note else ""
    change = None if step.before is None or step.after is None else step.after - step.before
    after = step.before if step.after is None else step.after
    return Row(
        f"{topic}:{number}",
        (
            Cell(topic),
            Cell(str(number), "", number),
            Cell(look.number(step.before), "", step.before),
            Cell(look.sign("arrow"), "dim"),
            Cell(look.number(after), "strong" if step.is_change else "dim", after),
            Cell(_signed(change, look), "warn" if (change or 0) > 0 else "", change),
            Cell(f"{look.sign(_SIGNS[tone])} {words}{note}", tone),
        ),
    )


_SIGNS: Final[dict[Tone, str]] = {"good": "good", "warn": "warn", "bad": "bad", "dim": "none", "accent": "arrow"}


def _signed(change: int | None, look: Look) -> str:
    if change is None:
        return look.sign("none")
    return f"+{look.number(change)}" if change > 0 else look.number(change)


def _result(step: Step, results: Mapping[TopicPartition, YakError | None] | None) -> tuple[str, Tone]:
    if step.after is None:
        return "left alone", "warn"
    if not step.is_change:
        return "unchanged", "dim"
    if results is None:
        return "will be set", "accent"
    error = results.get(step.partition)
    return ("set", "good") if error is None else (f"failed: {error.why or error.message}", "bad")


def plan_words(steps: Sequence[Step], look: Look) -> str:
    """The totals: records to be read again, records to be skipped."""
    changes = [each for each in steps if each.is_change]
    if not changes:
        return "Nothing to move: the offsets are there already."
    moves = [each.after - each.before for each in changes if each.before is not None and each.after is not None]
    again, skipped = -sum(min(0, each) for each in moves), sum(max(0, each) for each in moves)
    parts = [f"{look.number(again)} records will be read again"] if again else []
    parts += [f"{look.number(skipped)} records will be skipped"] if skipped else []
    first = len(changes) - len(moves)
    parts += [f"{first} partitions get their first offset"] if first else []
    many = "partition" if len(changes) == 1 else "partitions"
    return f"{look.number(len(changes))} {many} will be moved: {', '.join(parts) or 'by nothing'}."
