"""The one task that sends events to all listeners.

It runs in rounds. New events are put together once for each subscription and written to its listeners, a few at a time
with pauses for other tasks. The first event after a quiet time is sent at once. Then there are at most ten rounds a
second, and fewer with many listeners (`SENDS_PER_SECOND_MAX`, `TIME_SHARE_MAX`). Without listeners nothing runs.
"""

import time
from typing import TYPE_CHECKING, Any, Final

import trio

from yak.broker.broker import Broker
from yak.server import log
from yak.server.http.events.event_queue import Gathering
from yak.server.http.events.figures import ProcessFigures, Progress, Rates
from yak.server.http.events.listeners import Audience, Listener, Subscription, chunk_of, gap
from yak.server.http.events.ring import EventRing, render
from yak.server.http.fair_share import FairShare

if TYPE_CHECKING:
    from yak.server.shell import Shell

ROUND_SECONDS_MIN: Final = 0.1
TIME_SHARE_MAX: Final = 0.05
SENDS_PER_SECOND_MAX: Final = 1000
"""To all listeners together: 200 listeners get five sends a second each."""
KEEP_ALIVE_SECONDS: Final = 15.0
PIECE_BYTES_MAX: Final = 64 * 1024
_AT_ONCE: Final = 8
"""Listeners written to before a pause: about 0.2 ms."""
_PAUSE_SECONDS: Final = 0.002
"""The pause, so that readers on the same machine do not all wake at the same time either."""
_KEEP_ALIVE: Final = chunk_of(b": still here\n\n")


class Pump:
    """Sends events to all listeners of one broker."""

    def __init__(self, shell: "Shell", broker: Broker, ring: EventRing, share: FairShare) -> None:
        self._shell = shell
        self._broker = broker
        self._clock = shell.clock
        self._share = share
        self.ring = ring
        self.gathering = Gathering(broker, ring, self._wake_up)
        self._audiences: dict[Subscription, Audience] = {}
        self._progress = Progress(broker)
        self._rates: dict[int, Rates] = {}
        self._process = ProcessFigures(shell, broker)
        self._wake = trio.Event()
        self._round_at = 0.0
        self._interval = ROUND_SECONDS_MIN
        self._busy_s = 0.0
        self._told = 0
        """Listeners written to in this round."""
        self._is_running = False
        self.listeners = 0

    def join(self, subscription: Subscription, listener: Listener) -> None:
        """Add a listener; it gets its events from its position on."""
        audience = self._audiences.get(subscription)
        if audience is None:
            audience = Audience(subscription, listener.position, trio.current_time())
            self._audiences[subscription] = audience
        audience.listeners[listener] = None
        interval = subscription.rates_ms
        if interval is not None and interval not in self._rates:
            self._rates[interval] = Rates(self._broker, interval, self._clock.now_ms())
        self.listeners += 1
        self.gathering.is_heard = True
        self._wake_up()
        if not self._is_running:
            self._is_running = True
            self._shell.nursery.start_soon(self._run)

    def leave(self, subscription: Subscription, listener: Listener) -> None:
        """Remove a listener."""
        audience = self._audiences[subscription]
        del audience.listeners[listener]
        self.listeners -= 1
        if not audience.listeners:
            del self._audiences[subscription]
        wanted = {each.rates_ms for each in self._audiences}
        self._rates = {interval: rates for interval, rates in self._rates.items() if interval in wanted}
        if not any(each.has_progress for each in self._audiences):
            self._progress.forget()
        if not self.listeners:
            self.gathering.is_heard = False
            self._wake_up()

    def _wake_up(self) -> None:
        self._wake.set()

    async def _run(self) -> None:
        try:
            await self._share.timed(self._rounds())
        except Exception as error:  # noqa: BLE001 - our bug: it costs the listeners their connections, and nobody else anything
            self._shell.counters.bugs += 1
            log.write("error", "http-events-failed", {"what": type(error).__name__}, error=error)
            for audience in self._audiences.values():
                for listener in audience.listeners:
                    listener.ended.set()
        finally:
            self._is_running = False

    async def _rounds(self) -> None:
        while self.listeners:
            await self._wait()
            if self.listeners:
                await self._round()

    async def _wait(self) -> None:
        """Wait until there is something to send and the round's interval is over."""
        with trio.move_on_after(max(0.0, self._next_at() - trio.current_time())):
            await self._wake.wait()
        self._wake = trio.Event()
        await trio.sleep(max(0.0, self._round_at + self._interval - trio.current_time()))

    def _next_at(self) -> float:
        """When the next round is due without a wake-up."""
        next_at = min((each.sent_at for each in self._audiences.values()), default=0.0) + KEEP_ALIVE_SECONDS
        if self.gathering.has_notes:
            return 0.0
        if any(each.has_progress for each in self._audiences) or self._is_anybody_behind():
            next_at = min(next_at, self._round_at + self._interval)
        if self._rates:
            due_ms = min(rates.due_ms for rates in self._rates.values()) - self._clock.now_ms()
            next_at = min(next_at, trio.current_time() + due_ms / 1000)
        return next_at

    def _is_anybody_behind(self) -> bool:
        return any(listener.is_behind for audience in self._audiences.values() for listener in audience.listeners)

    async def _round(self) -> None:
        self._round_at = trio.current_time()
        self._busy_s = 0.0
        self._told = 0
        await self.gathering.digest()
        began = time.perf_counter()
        figures = self._figures()
        end = self.ring.next
        self._busy_s += time.perf_counter() - began
        for audience in list(self._audiences.values()):
            await self._serve(audience, end, figures)
        self._interval = max(ROUND_SECONDS_MIN, self._busy_s / TIME_SHARE_MAX, self._told / SENDS_PER_SECOND_MAX)

    def _figures(self) -> dict[str, Any]:
        """The figures of this round: `progress`, and rates by their interval in ms."""
        found: dict[str, Any] = {}
        if any(each.has_progress for each in self._audiences):
            found["progress"] = self._progress.look()
        now_ms = self._clock.now_ms()
        due = {interval: rates for interval, rates in self._rates.items() if rates.due_ms <= now_ms}
        process = {"process": self._process.look()} if due else {}
        found["rates"] = {interval: {**rates.look(now_ms), **process} for interval, rates in due.items()}
        return found

    async def _serve(self, audience: Audience, end: int, figures: dict[str, Any]) -> None:
        began = time.perf_counter()
        before, audience.position = max(audience.position, self.ring.first), end
        figure = self._figure(audience.subscription, figures)
        body = self._events(audience, before, end) + figure
        is_quiet = self._round_at - audience.sent_at >= KEEP_ALIVE_SECONDS
        chunk = chunk_of(body) if body else _KEEP_ALIVE if is_quiet else b""
        if chunk:
            audience.sent_at = self._round_at
        for listener in list(audience.listeners):
            if listener not in audience.listeners:
                continue  # it left during a pause; its connection may carry another answer by now
            if not chunk and listener.position == before and not listener.is_behind:
                listener.position = end
                continue
            self._tell(audience, listener, (before, end), chunk, figure)
            self._told += 1
            if self._told % _AT_ONCE == 0:
                self._busy_s += time.perf_counter() - began
                await trio.sleep(_PAUSE_SECONDS)
                began = time.perf_counter()
        self._busy_s += time.perf_counter() - began

    def _tell(self, audience: Audience, listener: Listener, span: tuple[int, int], chunk: bytes, figure: bytes) -> None:
        before, end = span
        listener.drain()
        listener.tell_gap(self.ring, self._clock.wall_ms())
        if listener.position == before:
            if chunk:
                listener.offer(chunk)
        else:
            own = self._events(audience, max(listener.position, self.ring.first), end) + figure
            if listener.position < self.ring.first:
                own = gap(self.ring, self.ring.first, self._clock.wall_ms(), "events are no longer available") + own
            if own:
                listener.offer(chunk_of(own))
        listener.position = end

    def _events(self, audience: Audience, start: int, end: int) -> bytes:
        """All new events in one piece, at most what the ring holds."""
        if start >= end:
            return b""
        body, _reached = self.ring.collect(start, end, audience.subscription.wish, 1 << 62)
        return body

    def _figure(self, subscription: Subscription, figures: dict[str, Any]) -> bytes:
        head = {"time_ms": self._clock.wall_ms(), "node_id": self._broker.node_id}
        topic = subscription.wish.topic
        body = b""
        if subscription.has_progress and figures["progress"]:
            body += _cached(figures, ("progress", topic), lambda: _progress(head, figures["progress"], topic))
        rates = figures["rates"].get(subscription.rates_ms)
        if rates is not None:
            key = ("rates", subscription.rates_ms, topic)
            body += _cached(figures, key, lambda: _rates(head, rates, topic))
        return body


def _cached(figures: dict[Any, Any], key: tuple[object, ...], make: Any) -> bytes:
    found = figures.get(key)
    if found is None:
        found = figures[key] = make()
    assert isinstance(found, bytes)
    return found


def _progress(head: dict[str, Any], moved: list[dict[str, Any]], topic: str | None) -> bytes:
    rows = moved if topic is None else [each for each in moved if each["topic"] == topic]
    return render("progress", {**head, "partitions": rows}) if rows else b""


def _rates(head: dict[str, Any], rates: dict[str, Any], topic: str | None) -> bytes:
    if topic is not None:
        rates = {**rates, "topics": [each for each in rates["topics"] if each["topic"] == topic]}
    return render("rates", {**head, **rates})
