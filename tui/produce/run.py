"""Sends records in a thread with delivery statistics: one, many, at a rate, until stopped.

`Run.__call__` blocks: call it in a thread. Other threads may use `account`, `stop` and `drop`: the account is replaced
as a whole, never changed.
"""

import threading
import time
from collections.abc import Iterator
from typing import Final, Protocol

from yak.client.admin import Admin
from yak.client.metadata import Topic
from yak.client.produce import Failed, Outgoing, RecordSender, Tally
from yak.client.produce_target import require_target
from yak.errors import YakError
from yak.tui.produce.account import Account, Counting, State
from yak.tui.produce.plan import Plan
from yak.tui.produce.producers import DELIVERY_TIMEOUT_MS, Producers

PUBLISH_EVERY_NS: Final = 100_000_000
STEP_S: Final = 0.05
"""The longest wait without a check of `stop`."""
TICK_S: Final = 0.005
"""How early a record may be sent: at high rates they go in small groups, and the thread sleeps in between."""
LATE_S_MAX: Final = 1.0
"""A run that fell behind its rate catches up by at most this much."""
DROP_WAIT_S: Final = 1.0


class Feed(Protocol):
    """A run's source of records. Its methods are called in the run's thread."""

    def open(self, topic: Topic) -> None:
        """Prepare. Raises YakError."""

    def messages(self, sender: RecordSender) -> Iterator[tuple[int, Outgoing]]:
        """Each message and its number."""

    def acknowledged(self, number: int) -> None:
        """The record is written."""

    def failed(self, failure: Failed) -> str:
        """The record is not written, or its state is unknown. Returns why the run should end, or an empty text."""

    def moment(self, sender: RecordSender) -> None:
        """Called from time to time."""

    def close(self, sender: RecordSender | None, is_complete: bool) -> None:
        """The run is over. `is_complete`: all records were sent and settled."""


class Run:
    """One run. Failures of records are counted, not raised."""

    def __init__(self, plan: Plan, feed: Feed, *, producers: Producers | None = None, timeout_ms: int = 10_000) -> None:
        self.plan = plan
        self.feed = feed
        self._producers = producers or Producers()
        self._timeout_ms = timeout_ms
        self._stop = threading.Event()
        self._drop = threading.Event()
        self._account = Account()
        self._end_why = ""
        self._counting = Counting(time.monotonic_ns())
        self._published_ns = 0

    @property
    def account(self) -> Account:
        """The statistics, at most a tenth of a second old."""
        return self._account

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Send no more, and wait for records in flight."""
        self._stop.set()

    def drop(self) -> None:
        """Send no more, and do not wait: records in flight count as unknown."""
        self._stop.set()
        self._drop.set()

    def __call__(self, servers: str) -> Account:
        """Send everything; returns the final statistics.

        Raises YakError if the run cannot start, and the feed's errors.
        """
        sender: RecordSender | None = None
        is_complete = False
        try:
            sender = self._sender(servers)
            self._counting = Counting(time.monotonic_ns())
            try:
                self._pump(sender)
            finally:
                self._settle(sender)
            is_complete = not self._is_over
        except YakError as error:
            self._end_why = error.message
            raise
        finally:
            self._end(sender, is_complete)
        return self._account

    def acknowledged(self, number: int, latency_ns: int) -> None:
        """Called by the sender."""
        self._counting.acknowledged(latency_ns)
        self.feed.acknowledged(number)

    def failed(self, failure: Failed) -> None:
        """Called by the sender."""
        why = self.feed.failed(failure)
        if why and not self._end_why:
            self._end_why = why

    def _sender(self, servers: str) -> RecordSender:
        plan = self.plan
        admin = Admin(servers, timeout_ms=self._timeout_ms)
        self.feed.open(require_target(admin, plan.topic, plan.partition))
        producer = self._producers.get(servers, plan.acks, plan.compression)
        return RecordSender(servers, plan.topic, acks=plan.acks, observer=self, producer=producer)

    def _pump(self, sender: RecordSender) -> None:
        started, shift, rate = time.monotonic(), 0.0, self.plan.rate
        for place, (number, record) in enumerate(self.feed.messages(sender)):
            if rate is not None:
                due = started + shift + place / rate
                if (late_s := time.monotonic() - due) > LATE_S_MAX:
                    shift += late_s - LATE_S_MAX
                while not self._is_over and (wait_s := due - time.monotonic()) > TICK_S:
                    self._serve(sender, min(wait_s, STEP_S))
            while not self._is_over and not sender.try_send(record, number):
                self._serve(sender, STEP_S, "waiting")
            if self._is_over:
                return
            self._look_up(sender, "sending")

    @property
    def _is_over(self) -> bool:
        return self._stop.is_set() or bool(self._end_why)

    def _settle(self, sender: RecordSender) -> None:
        deadline = time.monotonic() + DELIVERY_TIMEOUT_MS / 1000 + DROP_WAIT_S
        while sender.waiting and not self._drop.is_set() and time.monotonic() < deadline:
            self._serve(sender, STEP_S, "stopping" if self._is_over else "sending")
        if sender.waiting:
            self._give_up(sender)

    def _give_up(self, sender: RecordSender) -> None:
        sender.give_up()
        self._producers.forget()

    def _serve(self, sender: RecordSender, wait_s: float, state: State = "sending") -> None:
        sender.serve(wait_s)
        self._look_up(sender, state)

    def _look_up(self, sender: RecordSender, state: State) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._published_ns < PUBLISH_EVERY_NS:
            return
        self._published_ns = now_ns
        sender.serve()
        self.feed.moment(sender)
        self._account = self._counting.account(sender.tally, sender.waiting, state, now_ns)

    def _end(self, sender: RecordSender | None, is_complete: bool) -> None:
        if sender is not None and sender.waiting:  # an error ended the run early: these records are not awaited
            self._give_up(sender)
        try:
            self.feed.close(sender, is_complete and not self._end_why)
        finally:
            state: State = "failed" if self._end_why else "stopped" if self._stop.is_set() else "done"
            tally = Tally() if sender is None else sender.tally
            waiting = 0 if sender is None else sender.waiting
            self._account = self._counting.account(tally, waiting, state, time.monotonic_ns(), self._end_why)


def send(servers: str, run: Run) -> Account:
    """Execute the run; the function for a thread."""
    return run(servers)


def warm(servers: str, producers: Producers) -> None:
    """Open a producer early, so that it has its id in time. Raises UsageError."""
    producers.warm(servers)
