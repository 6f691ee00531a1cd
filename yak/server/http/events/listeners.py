"""The event listeners: each one's connection and position, grouped by subscription.

Events bypass Hypercorn: its path from an event to the socket takes 0.15 ms, and 200 listeners ten times a second would
take a third of the loop. A chunk of HTTP/1.1 is the same bytes for every listener. So it is built once and written to
each socket at once, as far as the kernel accepts it.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import trio

from yak.server.http.problems import Problem, json_bytes

CURSOR: Final = "[0-9a-z-]{1,40}:[0-9]{1,18}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event."""

    kind: str
    topic: str | None
    sse: bytes


@dataclass(frozen=True, slots=True)
class EventFilter:
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
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {kind}\ndata: ".encode() + json_bytes({"kind": kind, **fields}) + b"\n"


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

    def collect(self, start: int, end: int, wish: EventFilter, bytes_max: int) -> tuple[bytes, int]:
        """The wanted events from `start` to before `end`, as one piece of about `bytes_max` at most, and where it ends.

        `start` must not be before `first`.
        """
        assert self.first <= start, "a gap must be reported"
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


QUEUE_BYTES_MAX: Final = 256 * 1024
"""Queued for one listener; beyond this, events are dropped and reported by a `gap`."""
SLOW_SECONDS_MAX: Final = 30.0
"""A listener that accepts nothing for this long while something is queued is disconnected."""

Send = Callable[[bytes | memoryview], int]
"""Writes as much as the socket accepts at once and returns the count. Raises OSError on a closed connection."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The wanted events, with the interval of rates in ms: None for no rates."""

    wish: EventFilter
    rates_ms: int | None
    has_progress: bool


class Listener:
    """One connection. `ended` is set when the connection failed or is too slow."""

    def __init__(self, send: Send, position: int, now: Callable[[], float] = trio.current_time) -> None:
        self._send = send
        self._now = now
        self.position = position
        """The number of the next event."""
        self.ended = trio.Event()
        self._queue: deque[bytes | memoryview] = deque()
        self._queued_bytes = 0
        self.has_gap = False
        self._moved_at = now()

    @property
    def is_behind(self) -> bool:
        """Whether anything is queued or was dropped."""
        return bool(self._queue) or self.has_gap

    @property
    def is_whole(self) -> bool:
        """Whether no chunk is unsent or partly sent."""
        return not self._queue

    def offer(self, chunk: bytes) -> None:
        """Send a chunk after the queued ones; drop it when the queue is full."""
        if self.ended.is_set():
            return
        if self._queue or self.has_gap:
            if self.has_gap or self._queued_bytes + len(chunk) > QUEUE_BYTES_MAX:
                self.has_gap = True
            else:
                self._put(chunk)
            return
        self._put(chunk)
        self.drain()

    def _put(self, chunk: bytes) -> None:
        if not self._queue:
            self._moved_at = self._now()
        self._queue.append(chunk)
        self._queued_bytes += len(chunk)

    def drain(self) -> None:
        """Send as much of the queue as the socket accepts."""
        queue = self._queue
        try:
            while queue:
                sent = self._send(queue[0])
                if sent:
                    self._moved_at = self._now()
                    self._queued_bytes -= sent
                if sent < len(queue[0]):
                    queue[0] = memoryview(queue[0])[sent:]
                    break
                queue.popleft()
        except OSError:
            self.ended.set()
            return
        if queue and self._now() - self._moved_at > SLOW_SECONDS_MAX:
            self.ended.set()

    def send_gap(self, ring: EventRing, time_ms: int) -> None:
        """Once the queue is empty, report the dropped events and continue with new ones."""
        if self.has_gap and not self._queue and not self.ended.is_set():
            self.has_gap = False
            self._put(chunk_of(gap(ring, ring.next, time_ms, "this client is too slow: events were dropped")))
            self.drain()


def gap(ring: EventRing, resumes: int, time_ms: int, message: str) -> bytes:
    """The event that reports missing events, up to and not including `resumes`."""
    fields = {"time_ms": time_ms, "message": message, "hint": "use snapshot=true for the current state"}
    return render("gap", fields, ring.event_id(resumes - 1))


def chunk_of(body: bytes) -> bytes:
    """A chunk of HTTP/1.1 (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(body), body)


@dataclass(slots=True)
class Subscribers:
    """The listeners of one subscription; `position` is that of the listeners without a backlog."""

    subscription: Subscription
    position: int
    sent_at: float
    """When anything was sent last, on Trio's clock."""
    listeners: dict[Listener, None] = field(default_factory=dict)
