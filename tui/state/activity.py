"""Events in order, without duplicates: three brokers report the same election."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

LINES_MAX: Final = 5_000
_SAME_WITHIN_MS: Final = 10_000
_OF_ONE_BROKER: Final = ("group-", "log-", "disk-", "store-")
_WHAT: Final = (
    "topic", "partition", "leader", "leader_epoch", "partition_epoch", "broker", "broker_epoch", "state", "to",
    "controller_epoch", "topic_id", "partitions", "resource_name", "changed", "count",
)  # fmt: skip
_TONES: Final = {
    "broker-dead": "bad",
    "broker-fenced": "bad",
    "broker-stopped": "warn",
    "broker-stopping": "warn",
    "leader-missing": "bad",
    "isr-shrunk": "warn",
    "log-truncated": "warn",
    "disk-offline": "bad",
    "quorum-leader-lost": "warn",
    "store-lost": "bad",
    "store-frozen": "bad",
    "group-member-expired": "warn",
    "topic-deleted": "warn",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One event. `tone` is good, warn or bad; empty for a user's action."""

    number: int
    time_ms: int
    kind: str
    message: str
    tone: str
    event: dict[str, Any]

    @property
    def family(self) -> str:
        """The part before the dash: broker, leader, isr, ..."""
        return self.kind.partition("-")[0]


class Activity:
    """The latest events."""

    def __init__(self) -> None:
        self.lines: deque[Line] = deque(maxlen=LINES_MAX)
        self.count = 0
        self._seen: dict[tuple[Any, ...], int] = {}

    def take(self, event: dict[str, Any]) -> Line | None:
        """A new line, or None if another broker reported the event before."""
        kind, time_ms = str(event["kind"]), int(event["time_ms"])
        of = (event.get("node_id"),) if kind.startswith(_OF_ONE_BROKER) else ()
        same = (kind, *of, *(_hashable(event.get(name)) for name in _WHAT))
        before = self._seen.get(same)
        if before is not None and abs(time_ms - before) < _SAME_WITHIN_MS:
            return None
        self._seen[same] = time_ms
        if len(self._seen) > LINES_MAX:
            for each in list(self._seen)[: LINES_MAX // 2]:
                del self._seen[each]
        return self._add(time_ms, kind, str(event.get("message", kind)), _TONES.get(kind, "good"), event)

    def note_command(self, time_ms: int, command: str, outcome: str = "") -> Line:
        """Add a user's action, as the command line that does the same."""
        text = f"{command}  {outcome}".rstrip()
        return self._add(time_ms, "you", text, "", {"kind": "you", "time_ms": time_ms, "command": command})

    def since(self, number: int) -> Iterable[Line]:
        """The lines after a given one, oldest first."""
        return [line for line in self.lines if line.number > number]

    def _add(self, time_ms: int, kind: str, message: str, tone: str, event: dict[str, Any]) -> Line:
        self.count += 1
        line = Line(self.count, time_ms, kind, message, tone, event)
        self.lines.append(line)
        return line


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, dict | list) else value
