"""Reads records for a screen in a thread of its own: the only place of this package with a thread and a clock.

The screen sends orders (pause, filter, more, commit, another subscription), which run between two batches, and reads
`store` and `status`. Work is done in pieces of one or two milliseconds with a short sleep after each: a computing
Python thread blocks the interface's thread.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal

from yak.client.filters import Filter, parse_filter
from yak.errors import YakError
from yak.ids import Offset, TopicPartition
from yak.tui.messages.feeds import AssignedFeed, Feed, OpenedFeed, open_feed
from yak.tui.messages.sampler import RateMeter, Sampler
from yak.tui.messages.store import BREATH_S, MAX_BYTES, MAX_ROWS, Packed, Store, pack, unpack
from yak.tui.messages.subscription import Subscription, filter_parts

Phase = Literal["opening", "joining", "reading", "paused", "full", "done", "waiting", "failed", "closed"]
DISPLAYED_PER_SECOND: Final = 500.0
BATCH: Final = 500
WAIT_S: Final = 0.05
SLICE: Final = 200
"""Rows that a new filter tests between two sleeps: 2 ms for the slowest filters, JSON paths on a kilobyte."""
DISCOVERY_EVERY_MS: Final = 5000.0
BEHIND_EVERY_MS: Final = 200.0
RETRY_S: Final = 1.0
GATHER_MS: Final = 1000.0
"""How long a tail waits for the last records of all partitions, to sort them by time."""
NOTES_MAX: Final = 20
_PASSES: Final = frozenset({"unreachable", "timed-out", "no-leader", "not-leader", "no-coordinator"})
"""Transient errors at the start, which pass when the cluster is back."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The buffer's limits, and the most records displayed per second at the end of the log."""

    rows: int = MAX_ROWS
    size_bytes: int = MAX_BYTES
    displayed_per_second: float = DISPLAYED_PER_SECOND


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a reading.

    `scanned` counts records tested by the filter; `every` is n of "1 of n"; `behind` is None if unknown.
    """

    phase: Phase = "opening"
    error: YakError | None = None
    notes: tuple[str, ...] = ()
    read: int = 0
    scanned: int = 0
    rate: float = 0.0
    every: int = 1
    behind: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    uncommitted: int = 0


@dataclass(slots=True)
class _Counters:
    """The thread's counters."""

    read: int = 0
    scanned: int = 0
    uncommitted: int = 0
    behind: int | None = None
    behind_at_ms: float = 0.0
    discovered_ms: float = 0.0
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=NOTES_MAX))


class Reader:
    """Reads one subscription. `start` it once; `close` returns at once, and `join` waits for the thread's end.

    `numbering` gives the serials; readers whose records are merged share one.
    """

    def __init__(
        self,
        servers: Callable[[], str],
        wanted: Subscription,
        *,
        limits: Limits = Limits(),
        numbering: Iterator[int] | None = None,
        open_: Callable[..., OpenedFeed] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wanted = wanted
        self.limits = limits
        self.filter_text = ""
        """As it was typed; `set_filter` applies it."""
        self.is_paused = False
        """Whether the user paused it."""
        self.store = Store(max_rows=limits.rows, max_bytes=limits.size_bytes, is_ring=wanted.is_tail)
        self.status = Status()
        self._servers = servers
        self._open = open_ or open_feed
        self._clock = clock
        self._numbering = numbering if numbering is not None else count()
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._tested_text = ""
        self._is_resting = False
        self._is_held = False
        self._is_closing = False
        self._must_reopen = False
        self._feed: Feed | None = None
        self._new_from: dict[TopicPartition, Offset] = {}
        self._old: list[Any] = []
        self._old_until_ms = 0.0
        self._reset()
        self._thread = threading.Thread(target=self._run, name="messages", daemon=True)

    def _reset(self) -> None:
        self._counters = _Counters()
        self._meter = RateMeter()
        self._sampler = Sampler(self.limits.displayed_per_second)
        self._hidden_sampler = Sampler(self.limits.displayed_per_second)

    # -- orders: from any thread ---------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop soon, and leave the group."""
        self._is_closing = True
        self._orders.put(lambda: None)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; returns whether it ended. Blocks."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def pause(self, is_paused: bool = True) -> None:
        """Pause, or resume at the same position."""
        self.is_paused = is_paused
        self._orders.put(lambda: None)

    def rest(self, is_resting: bool) -> None:
        """Pause while it is out of sight, except a member of a group: its partitions and its lag would be stuck."""
        is_resting = is_resting and not self.wanted.group
        if is_resting != self._is_resting:
            self._is_resting = is_resting
            self._orders.put(lambda: None)

    def set_filter(self, text: str) -> None:
        """Show only records that match all expressions, separated by ` && `; "" for all.

        Raises UsageError (`bad-filter`) at once.
        """
        test = _all_of([parse_filter(part) for part in filter_parts(text)])
        self.filter_text = text
        if text == self._tested_text:
            return
        self._tested_text = text

        def order() -> None:
            if self.store.left_out and not self.wanted.is_tail:
                # The buffer lacks records that the earlier filter hid: the new filter must read them again.
                self.store.clear()
                self._must_reopen = True
            self.store.begin_filter(test)
            counts = self.store.counts()
            self._counters.scanned = counts.visible + counts.hidden

        self._orders.put(order)

    def more(self) -> None:
        """If reading stopped at a full buffer, drop the older half of the rows and resume."""

        def order() -> None:
            if not self.store.has_room:
                self.store.forget_half()

        self._orders.put(order)

    def commit(self) -> "Future[str]":
        """Commit the records read so far for the group.

        The result is a transient error or empty; the exception is a YakError.
        """
        done: Future[str] = Future()

        def order() -> None:
            feed = self._feed
            assert not isinstance(feed, AssignedFeed), "only a member of a group commits"
            try:
                why = feed.commit_now() if feed is not None else "no records read yet"
            except YakError as error:
                done.set_exception(error)
                return
            if not why:
                self._counters.uncommitted = 0
            done.set_result(why)

        self._orders.put(order)
        return done

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closing:
            self._must_reopen = False
            self._reset()
            try:
                self._open_and_read()
            except YakError as error:
                is_passing = error.code in _PASSES
                self._publish("waiting" if is_passing else "failed", error)
                self._rest(RETRY_S if is_passing else None)
            except Exception as error:  # noqa: BLE001  (a thread that ends silently would leave a screen that never changes)
                why = f"{type(error).__name__}: {error}"
                self._publish(
                    "failed", YakError("reader-failed", "reading ended by a bug of ours", why=why, try_=("o",))
                )
                self._rest(None)
            finally:
                feed, self._feed = self._feed, None
                if feed is not None:
                    feed.close()
        self._publish("closed")

    def _open_and_read(self) -> None:
        self._publish("opening")
        counters = self._counters
        opened = self._open(self._servers(), self.wanted, now_ms=round(time.time() * 1000), note=counters.notes.append)
        self._feed = feed = opened.feed
        counters.notes.extend(opened.notes)
        if not self.wanted.is_tail:
            # After a transient error everything is read again; records must not appear twice.
            self.store.clear()
        self._new_from = dict(opened.new_from) if self.wanted.is_tail else {}
        self._old = []
        self._old_until_ms = self._now_ms() + GATHER_MS
        counters.discovered_ms = self._now_ms()
        self._is_held = False
        while not self._is_closing and not self._must_reopen:
            self._turn(feed)
            self._publish(self._phase(feed))

    def _turn(self, feed: Feed) -> None:
        """Run all orders, then one batch, one slice of a new filter, or one rest."""
        while not self._orders.empty():
            self._orders.get()()
        if self._must_reopen:
            return
        self._hold(feed, self.is_paused or self._is_resting or not self.store.has_room)
        if self.store.is_scanning:
            self.store.scan(SLICE)
            time.sleep(BREATH_S)
        elif self._is_held or feed.is_done:
            if feed.must_poll:
                self._take(feed.fetch(BATCH, WAIT_S))
            else:
                self._rest(WAIT_S)
        else:
            messages = feed.fetch(BATCH, WAIT_S)
            self._take(messages)
            self._refresh(feed)
            if len(messages) == BATCH:
                time.sleep(BREATH_S)

    def _hold(self, feed: Feed, is_held: bool) -> None:
        if is_held != self._is_held:
            self._is_held = is_held
            if is_held:
                feed.pause()
            else:
                feed.resume()

    def _take(self, messages: list[Any]) -> None:
        now_ms = self._now_ms()
        counters = self._counters
        counters.read += len(messages)
        counters.scanned += len(messages)
        counters.uncommitted += len(messages) if self.wanted.group else 0
        self._meter.add(len(messages), now_ms)
        if not self.wanted.is_tail:
            visible, hidden = self._split([pack(message, next(self._numbering)) for message in messages])
            self.store.add(visible, hidden)
            return
        if self._new_from:
            messages = self._take_old(messages, now_ms)
        if self.store.test is None:
            picked = self._sampler.pick(messages, now_ms)
            self.store.add([pack(message, next(self._numbering)) for message in picked])
            return
        visible, hidden = self._split([pack(message, next(self._numbering)) for message in messages])
        self.store.add(self._sampler.pick(visible, now_ms), self._hidden_sampler.pick(hidden, now_ms))

    def _take_old(self, messages: list[Any], now_ms: float) -> list[Any]:
        """Keep all records from before the tail began, sorted by time over all partitions; return the new ones."""
        new: list[Any] = []
        for message in messages:
            partition = TopicPartition(message.topic(), message.partition())
            new_from = self._new_from.get(partition)
            (new if new_from is None or message.offset() >= new_from else self._old).append(message)
            if new_from is not None and message.offset() >= new_from - 1:
                del self._new_from[partition]
        if not self._new_from or len(self._old) >= self.limits.rows or now_ms >= self._old_until_ms:
            self._old.sort(key=lambda message: message.timestamp()[1])
            visible, hidden = self._split([pack(message, next(self._numbering)) for message in self._old])
            self._old = []
            self.store.add(visible, hidden)
        return new

    def _split(self, records: list[Packed]) -> tuple[list[Packed], list[Packed]]:
        """Split records by the filter into visible and hidden ones."""
        test = self.store.test
        if test is None:
            return records, []
        visible: list[Packed] = []
        hidden: list[Packed] = []
        for record in records:
            (visible if test(unpack(record)) else hidden).append(record)
        return visible, hidden

    def _refresh(self, feed: Feed) -> None:
        """Look for added partitions every few seconds, and update the lag a few times a second."""
        now_ms = self._now_ms()
        counters = self._counters
        if now_ms - counters.behind_at_ms >= BEHIND_EVERY_MS:
            counters.behind, counters.behind_at_ms = feed.behind(), now_ms
        if now_ms - counters.discovered_ms >= DISCOVERY_EVERY_MS and self.wanted.seek.stop is None:
            counters.discovered_ms = now_ms
            for partition in feed.find_partitions():
                counters.notes.append(f"{partition} was added, and is read from its first record on")

    def _rest(self, longest_s: float | None) -> None:
        """Wait for an order and run it; at most `longest_s` (None: for ever)."""
        try:
            self._orders.get(timeout=longest_s)()
        except queue.Empty:
            return

    def _phase(self, feed: Feed) -> Phase:
        if self.is_paused or self._is_resting:
            return "paused"
        if feed.is_joining:
            return "joining"
        if feed.is_done:
            return "done"
        return "reading" if self.store.has_room else "full"

    def _publish(self, phase: Phase, error: YakError | None = None) -> None:
        counters = self._counters
        now_ms = self._now_ms()
        self.status = Status(
            phase,
            error,
            tuple(counters.notes),
            counters.read,
            counters.scanned,
            self._meter.rate(now_ms),
            self._sampler.every if self.wanted.is_tail else 1,
            counters.behind,
            tuple(self._feed.partitions) if self._feed is not None else self.status.partitions,
            counters.uncommitted,
        )

    def _now_ms(self) -> float:
        return self._clock() * 1000


def _all_of(filters: list[Filter]) -> Filter | None:
    """A filter that matches if all do; None for none."""
    if len(filters) <= 1:
        return filters[0] if filters else None
    return lambda record: all(holds(record) for holds in filters)
