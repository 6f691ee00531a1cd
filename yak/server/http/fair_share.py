"""Kafka before HTTP: limits HTTP's share of the event loop.

Everything shares one thread. While the loop has idle time, HTTP is not limited, except to one request in each pass of
the loop: a Kafka client waits for at most one. When the loop is never idle and Kafka is part of the load, HTTP's share
is halved repeatedly, down to `SHARE_MIN`. It grows when there is idle time again. HTTP gets slower, Kafka does not.

Three times are measured, over windows of at least 20 ms: the loop's waiting time (a Trio instrument, only while an HTTP
connection is open), the shell's turns for requests other than HTTP's, and all steps of HTTP's own tasks (`timed`).
"""

import time
from collections.abc import Awaitable, Callable, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:
    from yak.server.http.context import Context
    from yak.server.shell import Counters

SHARE_MIN: Final = 0.05
_WINDOW_NS: Final = 20_000_000
_BURST_NS: Final = 2_000_000
"""The most unused time that HTTP may save up: about four requests."""
_IDLE_WANTED: Final = 0.15
_IDLE_AMPLE: Final = 0.25
_KAFKA_MATTERS: Final = 0.02
_SLEEP_MIN_S: Final = 0.001
_SLEEP_MAX_S: Final = _WINDOW_NS / 1e9
"""The share is computed again after each window: with idle time it grows long before the whole wait is over."""


class _IdleTime(trio.abc.Instrument):
    """Measures how long the loop has nothing to do: its waits, without what is served in them (`io_wait`)."""

    def __init__(self, counters: "Counters") -> None:
        self.total_ns = 0
        self._counters = counters
        self._since_ns = 0

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._since_ns = time.perf_counter_ns() - self._counters.served_ns

    def after_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self.total_ns += time.perf_counter_ns() - self._counters.served_ns - self._since_ns


class FairShare:
    """HTTP's share of the loop; `share` is 1 while the loop has idle time."""

    def __init__(self, counters: "Counters", now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._counters = counters
        self._now_ns = now_ns
        self._idle = _IdleTime(counters)
        self._users = 0
        self._spent_ns = 0
        self.share = 1.0
        self._credit_ns = _BURST_NS
        self._paid_ns = 0
        """`_spent_ns` at the last update of the credit; `_paid_at_ns` is the time of that update."""
        self._paid_at_ns = 0
        self._window_start = (0, 0, 0, 0)
        self._queue = trio.Lock()

    def enter(self) -> None:
        """An HTTP connection opens."""
        self._users += 1
        if self._users == 1:
            trio.lowlevel.add_instrument(self._idle)
            self.share = 1.0
            self._window_start = self._now()
            self._paid_at_ns = self._window_start[0]

    def leave(self) -> None:
        """An HTTP connection closes."""
        self._users -= 1
        if not self._users:
            trio.lowlevel.remove_instrument(self._idle)

    async def turn(self) -> None:
        """Wait until one more request may be processed; waiting requests proceed in the order of arrival."""
        async with self._queue:
            # a pass of the loop: pending Kafka work goes first
            await trio.lowlevel.checkpoint()
            while True:
                wait_s = self.wait_s()
                if wait_s <= 0:
                    return
                await trio.sleep(min(max(wait_s, _SLEEP_MIN_S), _SLEEP_MAX_S))

    def wait_s(self) -> float:
        """HTTP's wait, in seconds."""
        now = self._now()
        self._adjust_share(now)
        now_ns, _idle_ns, _kafka_ns, spent_ns = now
        if self.share >= 1.0:
            self._credit_ns = _BURST_NS
        else:
            earned = (now_ns - self._paid_at_ns) * self.share
            self._credit_ns = min(_BURST_NS, int(self._credit_ns + earned) - (spent_ns - self._paid_ns))
        self._paid_at_ns, self._paid_ns = now_ns, spent_ns
        return 0.0 if self._credit_ns >= 0 else -self._credit_ns / self.share / 1e9

    def _now(self) -> tuple[int, int, int, int]:
        return self._now_ns(), self._idle.total_ns, self._counters.busy_ns, self._spent_ns

    def _adjust_share(self, now: tuple[int, int, int, int]) -> None:
        elapsed_ns = now[0] - self._window_start[0]
        if elapsed_ns < _WINDOW_NS:
            return
        idle_ns, kafka_ns = now[1] - self._window_start[1], now[2] - self._window_start[2]
        self._window_start = now
        self.share = next_share(self.share, idle=idle_ns / elapsed_ns, kafka=kafka_ns / elapsed_ns)

    @coroutine
    def timed(self, work: Awaitable[Any]) -> Generator[Any, Any, Any]:
        """The same awaitable, with the time of its steps counted as HTTP's."""
        clock = time.perf_counter_ns
        steps: Any = work.__await__()
        began = clock()
        try:
            wanted = steps.send(None) if hasattr(steps, "send") else next(steps)
            while True:
                self._spent_ns += clock() - began
                try:
                    given = yield wanted
                except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                    began = clock()
                    wanted = steps.throw(error)
                else:
                    began = clock()
                    wanted = steps.send(given)
        except StopIteration as end:
            self._spent_ns += clock() - began
            return end.value

    def spent(self, took_ns: int) -> None:
        """Count this time as HTTP's."""
        self._spent_ns += took_ns


def fair_share(context: "Context") -> FairShare:
    """HTTP's share in one broker: `context.part(fair_share)`."""
    return FairShare(context.shell.counters)


def next_share(share: float, *, idle: float, kafka: float) -> float:
    """The share for the next window; `idle` and `kafka` are the fractions of the last window the loop spent on each."""
    if kafka < _KAFKA_MATTERS or idle > _IDLE_AMPLE:
        return min(1.0, share * 1.25)
    if idle < _IDLE_WANTED:
        return max(SHARE_MIN, share / 2)
    return share
