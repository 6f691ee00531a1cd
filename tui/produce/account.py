"""Delivery statistics of one run, counted by the thread that sends."""

from collections import deque
from dataclasses import dataclass
from typing import Final, Literal

from yak.client.bench.histogram import Histogram
from yak.client.produce import Acknowledged, Failed, Tally

State = Literal["connecting", "sending", "waiting", "stopping", "done", "stopped", "failed"]
ENDED: Final = ("done", "stopped", "failed")
HISTORY_SECONDS: Final = 120
REASONS_SHOWN: Final = 5
SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Account:
    """The statistics at one moment. Always `sent = acknowledged + failed + waiting`.

    Latency is from send to acknowledgement. Of the failed records, `not_written` are certainly not in the log,
    `unknown` may be. `rates` and `latencies_ms` (p99) have a value per second.
    """

    state: State = "connecting"
    why: str = ""
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    waiting: int = 0
    not_written: int = 0
    unknown: int = 0
    value_bytes: int = 0
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
        """Whether the statistics are final."""
        return self.state in ENDED


class Counting:
    """Counts what a sender reports, in one thread. Callers give times in monotonic nanoseconds."""

    def __init__(self, started_ns: int) -> None:
        self._started_ns = started_ns
        self._second_ns = started_ns
        self._all = Histogram()
        self._this_second = Histogram()
        self._rates: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._latencies: deque[float] = deque(maxlen=HISTORY_SECONDS)

    def acknowledged(self, latency_ns: int) -> None:
        """Count an acknowledged record."""
        self._all.record(latency_ns)
        self._this_second.record(latency_ns)

    def account(self, tally: Tally, waiting: int, state: State, now_ns: int, why: str = "") -> Account:
        """The present statistics. Adds completed seconds to the history."""
        self._turn(now_ns)
        elapsed_s = max((now_ns - self._started_ns) / SECOND_NS, 1e-9)
        measured = self._all.count > 0
        return Account(
            state=state,
            why=why,
            sent=tally.sent,
            acknowledged=tally.acknowledged,
            failed=tally.failed,
            waiting=waiting,
            not_written=tally.not_written,
            unknown=tally.unknown,
            value_bytes=tally.value_bytes,
            reasons=tuple(tally.reasons.most_common(REASONS_SHOWN)),
            first_failure=tally.failures[0] if tally.failures else None,
            few=tuple(sorted(tally.few, key=lambda each: each.number)),
            rate=self._rate(now_ns),
            mean_rate=tally.acknowledged / elapsed_s,
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
