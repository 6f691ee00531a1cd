"""Measures how late the event loop wakes, because of a long turn, a garbage collection, or another program."""

from __future__ import annotations

import time
from typing import Final

import trio

from yak.server.latencies import Histogram

_EVERY_SECONDS: Final = 0.05


class LoopDelay:
    """Measures twenty times a second, from the first scrape on."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.histogram = Histogram()
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        every_ns = int(_EVERY_SECONDS * 1e9)
        while True:
            asleep_since_ns = time.perf_counter_ns()
            await trio.sleep(_EVERY_SECONDS)
            self.histogram.note(max(0, time.perf_counter_ns() - asleep_since_ns - every_ns))
