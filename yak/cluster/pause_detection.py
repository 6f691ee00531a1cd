"""Local pause detection: how much of the time between two answers of the store does not count against other brokers.

An event that delays this broker's answers delays the other brokers' heartbeats too, so a single long gap counts for
nothing at all. With a store that is always slow that would blind the detector for good: there each gap counts for
`gap_ms`.
"""


class PauseDetector:
    """Compares the times of the answers.

    A second gap (more than `gap_ms` between answers) within twice the observer's `patience_ms` means a slow store, no
    outage.
    """

    def __init__(self, gap_ms: int, patience_ms: int) -> None:
        self._gap_ms = gap_ms
        self._memory_ms = 2 * patience_ms
        self._last_ms: int | None = None
        self._last_gap_ms: int | None = None

    def reset(self) -> None:
        """Begin again with the next answer."""
        self._last_ms = self._last_gap_ms = None

    def paused_ms(self, now_ms: int) -> int | None:
        """The part of the time since the last answer that does not count; None when all timers restart."""
        last_ms, self._last_ms = self._last_ms, now_ms
        if last_ms is None or now_ms - last_ms <= self._gap_ms:
            return 0
        before_ms, self._last_gap_ms = self._last_gap_ms, now_ms
        if before_ms is None or now_ms - before_ms > self._memory_ms:
            return None
        return now_ms - last_ms - self._gap_ms
