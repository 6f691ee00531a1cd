"""Sends records in a thread with delivery statistics: one, many, at a rate, until stopped.

`Run.__call__` blocks: call it in a thread. Other threads may use `stats`, `stop` and `drop`: the statistics are replaced
as a whole, never changed.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal

from yak.client.admin import Admin
from yak.client.bench.histogram import Histogram
from yak.client.errors import reason
from yak.client.metadata import Topic
from yak.client.produce import (
    Acknowledged,
    DeliveryCounts,
    Failed,
    Outgoing,
    RecordSender,
    open_producer,
    producer_settings,
    require_target,
)
from yak.client.record_template import RecordTemplate
from yak.errors import UsageError, YakError

ACKS: Final = ("all", "1", "0")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to send. `count` None: until stopped. `rate` None: as fast as possible. `partition` None: by key."""

    topic: str
    partition: int | None = None
    acks: str = "all"
    compression: str = "none"
    count: int | None = 1
    rate: float | None = None


State = Literal["connecting", "sending", "waiting", "stopping", "done", "stopped", "failed"]
ENDED: Final = ("done", "stopped", "failed")
HISTORY_SECONDS: Final = 120
REASONS_MAX: Final = 5
SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DeliveryStatistics:
    """The statistics at one moment. Always `sent = acknowledged + failed + waiting`.

    Latency is from send to acknowledgement. Of the failed records, `unknown` may be in the
    log. `rates` and `latencies_ms` (p99) have a value per second.
    """

    state: State = "connecting"
    why: str = ""
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    waiting: int = 0
    unknown: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    first_failure: Failed | None = None
    few: tuple[Acknowledged, ...] = ()
    rate: float = 0.0
    mean_rate: float = 0.0
    elapsed_ms: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    rates: tuple[float, ...] = ()
    latencies_ms: tuple[float, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state in ENDED


class DeliveryCounter:
    """Counts what a sender reports, in one thread. Callers give times in monotonic nanoseconds."""

    def __init__(self, started_ns: int) -> None:
        self._started_ns = started_ns
        self._second_ns = started_ns
        self._all = Histogram()
        self._this_second = Histogram()
        self._rates: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._latencies: deque[float] = deque(maxlen=HISTORY_SECONDS)

    def acknowledged(self, latency_ns: int) -> None:
        self._all.record(latency_ns)
        self._this_second.record(latency_ns)

    def statistics(
        self, counts: DeliveryCounts, waiting: int, state: State, now_ns: int, why: str = ""
    ) -> DeliveryStatistics:
        """The present statistics. Adds completed seconds to the history."""
        self._turn(now_ns)
        elapsed_s = max((now_ns - self._started_ns) / SECOND_NS, 1e-9)
        measured = self._all.count > 0
        return DeliveryStatistics(
            state=state,
            why=why,
            sent=counts.sent,
            acknowledged=counts.acknowledged,
            failed=counts.failed,
            waiting=waiting,
            unknown=counts.unknown,
            reasons=tuple(counts.reasons.most_common(REASONS_MAX)),
            first_failure=counts.failures[0] if counts.failures else None,
            few=tuple(sorted(counts.few, key=lambda each: each.number)),
            rate=self._rate(now_ns),
            mean_rate=counts.acknowledged / elapsed_s,
            elapsed_ms=elapsed_s * 1000,
            p50_ms=self._all.percentile(50) / 1e6 if measured else None,
            p99_ms=self._all.percentile(99) / 1e6 if measured else None,
            max_ms=self._all.max / 1e6 if measured else None,
            rates=tuple(self._rates),
            latencies_ms=tuple(self._latencies),
        )

    def _turn(self, now_ns: int) -> None:
        while now_ns - self._second_ns >= SECOND_NS:
            self._rates.append(float(self._this_second.count))
            self._latencies.append(self._this_second.percentile(99) / 1e6)
            self._this_second = Histogram()
            self._second_ns += SECOND_NS

    def _rate(self, now_ns: int) -> float:
        """The rate of the last complete second, or of the first one so far."""
        if self._rates:
            return self._rates[-1]
        return self._this_second.count / max((now_ns - self._started_ns) / SECOND_NS, 0.1)


DELIVERY_TIMEOUT_MS: Final = 30_000
QUEUE_MESSAGES_MAX: Final = 10_000
QUEUE_KIB_MAX: Final = 65_536
"""The most data waiting for acknowledgement: it bounds the memory of a run."""


class Producers:
    """At most one open producer, for one run at a time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[str, str, str] | None = None
        self._producer: Any = None

    def get(self, servers: str, acks: str, compression: str) -> Any:
        """A producer with these settings; the open one if they match. Raises UsageError."""
        with self._lock:
            if self._key != (servers, acks, compression):
                settings = producer_settings(
                    servers, acks=acks, compression=compression, delivery_timeout_ms=DELIVERY_TIMEOUT_MS
                )
                settings |= {
                    "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
                    "queue.buffering.max.kbytes": QUEUE_KIB_MAX,
                }
                self._producer = open_producer(settings)
                self._key = (servers, acks, compression)
            return self._producer

    def forget(self) -> None:
        """Close it: purging its queue leaves a gap in its sequence numbers."""
        with self._lock:
            self._key = self._producer = None


PUBLISH_EVERY_NS: Final = 100_000_000
STEP_S: Final = 0.05
"""The longest wait without a check of `stop`."""
TICK_S: Final = 0.005
"""How early a record may be sent: at high rates they go in small groups, and the thread sleeps in between."""
LATE_S_MAX: Final = 1.0
"""A run that fell behind its rate catches up by at most this much."""
DROP_WAIT_S: Final = 1.0


class Feed:
    """A run's source of records. Its methods are called in the run's thread; what a feed does not define does nothing."""

    def open(self, topic: Topic, admin: Admin) -> None:
        """Prepare. Raises YakError."""

    def messages(self, sender: RecordSender) -> Iterator[tuple[int, Outgoing]]:
        """Each message and its number."""
        raise NotImplementedError

    def acknowledged(self, number: int) -> None:
        """The record is written."""

    def failed(self, failure: Failed) -> str:
        """The record is not written, or its state is unknown. Returns why the run should end, or an empty text."""
        del failure
        return ""

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
        self.stats = DeliveryStatistics()
        """At most a tenth of a second old."""
        self._end_why = ""
        self._counting = DeliveryCounter(time.monotonic_ns())
        self._published_ns = 0

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Send no more, and wait for records in flight."""
        self._stop.set()

    def drop(self) -> None:
        """Send no more, and do not wait: records in flight count as unknown."""
        self._stop.set()
        self._drop.set()

    def __call__(self, servers: str) -> DeliveryStatistics:
        """Send everything; returns the final statistics.

        Raises YakError if the run cannot start, and the feed's errors.
        """
        sender: RecordSender | None = None
        is_complete = False
        try:
            sender = self._sender(servers)
            self._counting = DeliveryCounter(time.monotonic_ns())
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
        return self.stats

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
        self.feed.open(require_target(admin, plan.topic, plan.partition), admin)
        producer = self._producers.get(servers, plan.acks, plan.compression)
        return RecordSender(plan.topic, producer, acks=plan.acks, observer=self)

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
            self._publish(sender, "sending")

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
        self._publish(sender, state)

    def _publish(self, sender: RecordSender, state: State) -> None:
        if sender.fatal is not None and not self._end_why:
            self._end_why = f"the producer sends no more records: {reason(sender.fatal)}"
            self._producers.forget()
        now_ns = time.monotonic_ns()
        if now_ns - self._published_ns < PUBLISH_EVERY_NS:
            return
        self._published_ns = now_ns
        sender.serve()
        self.feed.moment(sender)
        self.stats = self._counting.statistics(sender.counts, sender.waiting, state, now_ns)

    def _end(self, sender: RecordSender | None, is_complete: bool) -> None:
        if sender is not None and sender.waiting:  # an error ended the run early: these records are not awaited
            self._give_up(sender)
        try:
            self.feed.close(sender, is_complete and not self._end_why)
        finally:
            state: State = "failed" if self._end_why else "stopped" if self._stop.is_set() else "done"
            counts = DeliveryCounts() if sender is None else sender.counts
            waiting = 0 if sender is None else sender.waiting
            self.stats = self._counting.statistics(counts, waiting, state, time.monotonic_ns(), self._end_why)


def send(servers: str, run: Run) -> DeliveryStatistics:
    """Execute the run; the function for a thread."""
    return run(servers)


class TemplateFeed(Feed):
    """Records from a template. A failed record does not end the run: the next one may succeed."""

    def __init__(self, plan: Plan, template: RecordTemplate) -> None:
        self._count = plan.count
        partition = -1 if plan.partition is None else plan.partition
        self._records = template.records(lambda: time.time_ns() // 1_000_000, partition=partition)

    def messages(self, sender: RecordSender) -> Iterator[tuple[int, Outgoing]]:
        """Generate the records. Other feeds use the sender to settle records themselves."""
        del sender
        numbers = count() if self._count is None else range(self._count)
        yield from zip(numbers, self._records, strict=False)


def parse_rate(text: str, what: str) -> float | None:
    """A number of `what` per second; None for an empty text: as fast as possible. Raises UsageError."""
    plain = text.replace(" ", "")
    try:
        rate = float(plain) if plain else None
    except ValueError:
        rate = -1.0
    if rate is not None and not 0.001 <= rate <= 1e9:
        raise UsageError("usage", f'"{plain}" is not a rate', why=f"{what} in a second; empty: as many as go")
    return rate
