"""Who listens: each listener's connection and how far it is, and those with the same wishes together.

Listeners are sent to past Hypercorn: its way from an event to the socket takes 0.15 ms, and 200 of them ten times a second would
take a third of the loop. A chunk of HTTP/1.1 is the same bytes for everybody, so it is made once, and written to each socket at once
as far as the kernel takes it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from yak.server.http.events.ring import EventRing, Wish, render

QUEUE_BYTES_MAX: Final = 256 * 1024
"""Waiting for one listener, besides what the kernel holds for it; beyond this events are left out, and a `gap` says so."""
SLOW_SECONDS_MAX: Final = 30.0
"""One that takes nothing for so long while something waits is dropped."""

Send = Callable[[bytes | memoryview], int]
"""Writes what the socket takes at once and gives how much that is. Raises OSError when the connection is gone."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is wanted, with the interval of rates in ms: None for no rates."""

    wish: Wish
    rates_ms: int | None
    has_progress: bool


class Listener:
    """One connection. `ended` is set when it can or will not go on."""

    def __init__(self, send: Send, position: int, now: Callable[[], float] = trio.current_time) -> None:
        self._send = send
        self._now = now
        self.position = position
        """The number of the next event."""
        self.ended = trio.Event()
        self._queue: deque[bytes | memoryview] = deque()
        self._queued_bytes = 0
        self._is_in_chunk = False
        """Whether the first of the queue is a chunk of which a part was sent."""
        self.has_gap = False
        self._moved_at = now()

    @property
    def is_behind(self) -> bool:
        """Whether something waits for it."""
        return bool(self._queue) or self.has_gap

    @property
    def is_whole(self) -> bool:
        """Whether all chunks that were begun were sent to their end."""
        return not self._is_in_chunk

    def offer(self, chunk: bytes) -> None:
        """Send a chunk, after what waits; leave it out when too much waits."""
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
        """Send what the socket takes now."""
        queue = self._queue
        try:
            while queue:
                sent = self._send(queue[0])
                if sent:
                    self._moved_at = self._now()
                    self._queued_bytes -= sent
                if sent < len(queue[0]):
                    if sent:
                        queue[0] = memoryview(queue[0])[sent:]
                        self._is_in_chunk = True
                    break
                queue.popleft()
                self._is_in_chunk = False
        except OSError:
            self.ended.set()
            return
        if queue and self._now() - self._moved_at > SLOW_SECONDS_MAX:
            self.ended.set()

    def tell_gap(self, ring: EventRing, time_ms: int) -> None:
        """It has taken all that waited: tell it that something was left out, and go on from here."""
        if self.has_gap and not self._queue and not self.ended.is_set():
            self.has_gap = False
            self._put(chunk_of(gap(ring, ring.next, time_ms, "you were too slow: events were left out")))
            self.drain()


def gap(ring: EventRing, resumes: int, time_ms: int, message: str) -> bytes:
    """The event that says that others are missing, up to and not including `resumes`."""
    fields = {"time_ms": time_ms, "message": message, "hint": "ask with snapshot=true for the state as it is now"}
    return render("gap", fields, ring.event_id(resumes - 1))


def chunk_of(body: bytes) -> bytes:
    """A chunk of HTTP/1.1 (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(body), body)


@dataclass(slots=True)
class Audience:
    """The listeners of one subscription; `position` is how far those are that are not behind."""

    subscription: Subscription
    position: int
    sent_at: float
    """When anything was sent last, on Trio's clock."""
    listeners: dict[Listener, None] = field(default_factory=dict)
