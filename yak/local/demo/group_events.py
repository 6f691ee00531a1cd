"""The events of a member of the demo's group, each as a line of JSON. No I/O.

All times are `time.monotonic()`, which the processes of one machine share: it counts from the machine's start.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from yak.ids import Offset


@dataclass(frozen=True, slots=True)
class Began:
    """The member is ready to join. `pid` is its own; in the one-file executable it differs from the started
    process's."""

    at: float
    pid: int


@dataclass(frozen=True, slots=True)
class Given:
    """Assigned partitions. The member fetches their committed offsets after this moment."""

    at: float
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """Revoked or lost partitions. `in_order` is False when the group reassigned them without a revocation."""

    at: float
    partitions: tuple[int, ...]
    in_order: bool = True


@dataclass(frozen=True, slots=True)
class Read:
    """One record, reported before its offset may be committed."""

    at: float
    partition: int
    offset: Offset
    checksum: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Offsets of the next records to read; the commit was sent at `asked_at` and acknowledged at `at`."""

    at: float
    asked_at: float
    offsets: tuple[tuple[int, Offset], ...]


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """A commit that failed or got no response; the next one covers it."""

    at: float
    why: str


Event = Began | Given | Taken | Read | Committed | NotCommitted

_KINDS: Final[dict[str, type[Event]]] = {
    kind.__name__.lower(): kind for kind in (Began, Given, Taken, Read, Committed, NotCommitted)
}


def to_line(event: Event) -> str:
    """One line, without its end."""
    return json.dumps({"event": type(event).__name__.lower(), **asdict(event)}, separators=(",", ":"))


def from_line(line: str) -> Event | None:
    """The event of a line; None for anything else, such as the partial line of a killed process."""
    try:
        values = json.loads(line)
        kind = _KINDS[values.pop("event")]
        if set(values) != {each.name for each in fields(kind)}:
            return None
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return kind(**{name: _tuples(value) for name, value in values.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value
