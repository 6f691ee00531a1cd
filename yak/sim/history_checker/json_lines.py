"""A history as lines of JSON: for storage, for other tools, and to check it again.

The first field of a line is its kind: `send`, `poll`, `assign`, `commit`, `txn`, `final`, `first`.
"""

import json
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from yak.errors import UsageError
from yak.sim.history_checker.history import Assign, Commit, Event, Final, History, Outcome, Poll, Run, Send, Txn


def to_lines(history: History) -> Iterator[str]:
    """One line per event."""
    yield json.dumps(["first", history.first_offsets])
    for event in history.events():
        yield to_line(event)


def to_line(event: Event) -> str:
    """One event, without the line's end."""
    return json.dumps(_fields(event), separators=(",", ":"))


def from_line(line: str) -> Event | None:
    """The event of a line; None for anything else, such as the partial line of a killed process."""
    try:
        kind, *fields = json.loads(line)
        return _event(kind, fields)
    except (ValueError, TypeError, AttributeError):
        return None


def from_lines(lines: Iterable[str]) -> History:
    """The history of such lines. Raises UsageError (`bad-history`) for a malformed line."""
    history = History()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            kind, *fields = json.loads(line)
            if kind == "first":
                history.first_offsets = {str(name): int(offset) for name, offset in fields[0].items()}
            else:
                history.add(_event(kind, fields))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise UsageError(
                "bad-history",
                f"line {number} is no event of a history",
                why=f"{type(error).__name__}: {error}",
                try_=("yak chaos run --history FILE          writes one",),
            ) from error
    return history


def _fields(event: Event) -> list[Any]:
    match event:
        case Send():
            fields = [event.process, event.partition, event.value, event.invoked, event.ended, event.outcome]
            return ["send", *fields, event.offset, event.txn]
        case Poll():
            runs = [[each.partition, list(each.offsets), list(each.values)] for each in event.runs]
            return ["poll", event.process, event.invoked, event.ended, runs, event.read_committed, event.txn]
        case Assign():
            return ["assign", event.process, event.at, dict(event.starts), list(event.dropped), event.group]
        case Commit():
            fields = [event.process, event.group, event.invoked, event.ended, event.outcome]
            return ["commit", *fields, dict(event.offsets)]
        case Txn():
            return ["txn", event.number, event.process, event.end_invoked, event.ended, event.outcome]
        case Final():
            return ["final", event.process, dict(event.ends)]


def _event(kind: str, fields: list[Any]) -> Event:
    match kind, fields:
        case "send", [process, partition, value, invoked, ended, outcome, offset, txn]:
            return Send(process, partition, int(value), invoked, ended, Outcome(outcome), offset, txn)
        case "poll", [process, invoked, ended, runs, read_committed, txn]:
            found = tuple(Run(name, array("q", offsets), array("q", values)) for name, offsets, values in runs)
            if any(len(each.offsets) != len(each.values) for each in found):
                raise ValueError("a run has as many offsets as values")
            return Poll(process, invoked, ended, found, bool(read_committed), txn)
        case "assign", [process, at, starts, dropped, group]:
            return Assign(process, at, dict(starts), tuple(dropped), group)
        case "commit", [process, group, invoked, ended, outcome, offsets]:
            return Commit(process, group, invoked, ended, Outcome(outcome), dict(offsets))
        case "txn", [number, process, end_invoked, ended, outcome]:
            return Txn(int(number), process, end_invoked, ended, Outcome(outcome))
        case "final", [process, ends]:
            return Final(process, dict(ends))
    raise ValueError(f"{kind} with {len(fields)} fields")
