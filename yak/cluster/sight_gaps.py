"""How much of the time between two looks at the store may be held against those who did nothing in it.

What keeps our own answers away keeps the others' heartbeats away too. A single hole in our view therefore counts for nothing
at all. A store that is slow all the time would blind us for good that way: there each hole counts for as much as a usual look.
"""


class SightGaps:
    """Fed with the time of each look.

    Two holes (looks more than `gap_ms` apart) that end within twice the `patience_ms` of who looks are slowness, not an outage.
    """

    def __init__(self, gap_ms: int, patience_ms: int) -> None:
        self._gap_ms = gap_ms
        self._memory_ms = 2 * patience_ms
        self._last_ms: int | None = None
        self._hole_ms: int | None = None

    def reset(self) -> None:
        """The next look is the first."""
        self._last_ms = self._hole_ms = None

    def uncounted_ms(self, now_ms: int) -> int | None:
        """What of the time since the last look does not count; None when everything begins anew."""
        last_ms, self._last_ms = self._last_ms, now_ms
        if last_ms is None or now_ms - last_ms <= self._gap_ms:
            return 0
        before_ms, self._hole_ms = self._hole_ms, now_ms
        if before_ms is None or now_ms - before_ms > self._memory_ms:
            return None
        return now_ms - last_ms - self._gap_ms
