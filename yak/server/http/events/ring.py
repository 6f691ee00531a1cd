"""The last events, each rendered once to the bytes that all its listeners get.

An event's id is `BOOT:NUMBER`: the broker's incarnation, and a number without gaps. A cursor whose events are no longer
here, or of another incarnation, is answered with a `gap`.
"""

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from yak.plain_text import json_text
from yak.server.http.problems import Problem

CURSOR: Final = "[0-9a-z-]{1,40}:[0-9]{1,18}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event."""

    kind: str
    topic: str | None
    sse: bytes


@dataclass(frozen=True, slots=True)
class Wish:
    """The wanted events: kinds and families of kinds (None for all), of one topic or of all."""

    kinds: frozenset[str] | None = None
    topic: str | None = None

    def takes(self, kind: str, topic: str | None) -> bool:
        """Whether an event is wanted. An event without a topic matches every topic."""
        if self.topic is not None and topic is not None and topic != self.topic:
            return False
        return self.kinds is None or kind in self.kinds or kind.partition("-")[0] in self.kinds


def render(kind: str, fields: Mapping[str, Any], event_id: str | None = None) -> bytes:
    """A server-sent event; `fields` as one line of JSON."""
    text = json_text(json.dumps({"kind": kind, **fields}, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {kind}\ndata: {text}\n\n".encode()


class EventRing:
    """Events `first` to `next - 1`."""

    def __init__(self, boot: str, events_max: int) -> None:
        self.boot = boot
        self.next = 1
        self._entries: deque[Entry] = deque(maxlen=events_max)

    @property
    def first(self) -> int:
        """The number of the oldest event."""
        return self.next - len(self._entries)

    def add(self, kind: str, topic: str | None, fields: Mapping[str, Any]) -> None:
        """Add one event."""
        self._entries.append(Entry(kind, topic, render(kind, fields, self.event_id(self.next))))
        self.next += 1

    def lose(self) -> None:
        """Events were lost before they were added: every listener behind this point gets a gap."""
        self._entries.clear()
        self.next += 1

    def event_id(self, number: int) -> str:
        """The id with which a listener resumes after this event."""
        return f"{self.boot}:{number}"

    def after(self, cursor: str) -> int | None:
        """The number after a cursor; None for a gap. Raises Problem 400 `bad-cursor` for an invalid one."""
        if not re.fullmatch(CURSOR, cursor, re.ASCII):
            raise Problem(
                400,
                "bad-cursor",
                f"{cursor[:64]!r} is not an event id",
                "send the id of the last event, such as 1-18f3a2:42",
            )
        boot, _, number = cursor.rpartition(":")
        follows = int(number) + 1
        return follows if boot == self.boot and self.first <= follows <= self.next else None

    def collect(self, start: int, end: int, wish: Wish, bytes_max: int) -> tuple[bytes, int]:
        """The wanted events from `start` to before `end`, as one piece of about `bytes_max` at most, and where it ends.

        `start` must not be before `first`.
        """
        assert self.first <= start, "a gap must be told"
        pieces: list[bytes] = []
        size = 0
        skipped = start - self.first
        for number, entry in enumerate(islice(self._entries, skipped, skipped + max(0, end - start)), start):
            if wish.takes(entry.kind, entry.topic):
                pieces.append(entry.sse)
                size += len(entry.sse)
                if size >= bytes_max:
                    return b"".join(pieces), number + 1
        return b"".join(pieces), max(start, end)
