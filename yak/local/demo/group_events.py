"""What a member of the demo's group tells of itself: a line of JSON for each thing that happened to it. No I/O.

All times are of `time.monotonic()`, which the processes of one machine share: it counts from the machine's start.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from yak.ids import Offset


@dataclass(frozen=True, slots=True)
class Began:
    """The member is ready to join. `pid` is its own, which in the one-file executable is not of what was started."""

    at: float
    pid: int


@dataclass(frozen=True, slots=True)
class Given:
    """Partitions that it reads from now on. It asks for their committed offsets after this moment."""

    at: float
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """Partitions that it reads no more. `in_order` is false where the group had given them away without asking."""

    at: float
    partitions: tuple[int, ...]
    in_order: bool = True


@dataclass(frozen=True, slots=True)
class Read:
    """One record, told before it may be committed."""

    at: float
    partition: int
    offset: Offset
    checksum: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Offsets of the next records to read, acknowledged at `at` by the coordinator, which was asked at `asked_at`."""

    at: float
    asked_at: float
    offsets: tuple[tuple[int, Offset], ...]


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """A commit that was refused or got no answer; the next one covers it."""

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
    """The event of a line; None for anything else, such as the half line of a process that was killed."""
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
