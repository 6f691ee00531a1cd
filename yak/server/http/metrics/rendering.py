"""Collects all metrics in slices of half a millisecond, once for all scrapes; the broker serves in between.

A thread is no alternative: it holds the GIL for five milliseconds at a time, which would delay each request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from yak.server.http.metrics import groups, partitions, process, quorum, requests, topics
from yak.server.http.metrics.process import Format, Process, process_text
from yak.server.http.metrics.text import END_OF_OPENMETRICS, Samples, gauge, in_pieces
from yak.server.latencies import Histogram

if TYPE_CHECKING:
    from prometheus_client import Metric

    from yak.server.http.context import Context
    from yak.views.group_lag import TopicLag

TRUNCATED: Final = gauge("yak_metrics_truncated", "Label sets left out because a bound was reached, by kind")
GATHERED: Final = gauge("yak_metrics_gather_seconds", "Duration of this scrape")
_SLICE_NS: Final = 500_000
_LOOP_DELAY_EVERY_SECONDS: Final = 0.05


@dataclass(slots=True)
class MetricsLimits:
    """Limits on label values; tests change them."""

    topics_max: int = 1_000
    partitions_max: int = 10_000
    groups_max: int = 1_000
    group_topics_max: int = 10_000
    """Pairs of a group and a topic."""
    group_offsets_max: int = 50_000
    """Committed offsets that are compared."""
    group_name_length_max: int = 256
    fresh_seconds: float = 1.0
    """Scrapes within this time of an earlier one get the same text."""


@dataclass(slots=True, frozen=True)
class CollectedMetrics:
    """The metrics of one collection."""

    samples: Samples
    process: list[Metric]


async def _measure_loop_delay(histogram: Histogram) -> None:
    """Note how late the event loop wakes, twenty times a second, from the first scrape on."""
    every_ns = int(_LOOP_DELAY_EVERY_SECONDS * 1e9)
    while True:
        asleep_since_ns = time.perf_counter_ns()
        await trio.sleep(_LOOP_DELAY_EVERY_SECONDS)
        histogram.note(max(0, time.perf_counter_ns() - asleep_since_ns - every_ns))


class Rendering:
    """Builds the text of `/metrics`."""

    def __init__(self, context: Context, limits: MetricsLimits | None = None) -> None:
        self.limits = limits or MetricsLimits()
        self._context = context
        self._lock = trio.Lock()
        self._process: Process | None = None
        self._loop_delay = Histogram()
        context.shell.nursery.start_soon(_measure_loop_delay, self._loop_delay)
        self._gathered: CollectedMetrics | None = None
        self._gathered_at = 0.0
        self._pieces: dict[bool, list[bytes]] = {}
        """The text of the collected metrics; True for OpenMetrics."""

    async def text(self, accept: str) -> tuple[str, list[bytes]]:
        """(content type, text in pieces) for an Accept header; collected at most once in `fresh_seconds`."""
        async with self._lock:
            if self._process is None:
                self._process = await trio.to_thread.run_sync(Process)
            chosen = self._process.format_for(accept)
            if self._gathered is None or trio.current_time() - self._gathered_at > self.limits.fresh_seconds:
                self._pieces.clear()
                self._gathered = await self._gather(self._process)
                self._gathered_at = trio.current_time()
                self._context.shell.nursery.start_soon(self._forget_later, self._gathered)
            if chosen.is_open_metrics not in self._pieces:
                pieces: list[bytes] = []
                await _in_slices(_render(self._gathered, chosen, pieces))
                self._pieces[chosen.is_open_metrics] = pieces
            return chosen.content_type, self._pieces[chosen.is_open_metrics]

    async def _forget_later(self, gathered: CollectedMetrics) -> None:
        """Free the text, which is megabytes with many partitions, before the next scrape."""
        await trio.sleep(2 * self.limits.fresh_seconds)
        if self._gathered is gathered and not self._lock.locked():
            self._gathered = None
            self._pieces.clear()

    async def _gather(self, of_process: Process) -> CollectedMetrics:
        began_ns = time.perf_counter_ns()
        context, limits = self._context, self.limits
        broker, samples = context.broker, Samples()
        await _in_slices(requests.gather(context, samples))
        quorum.gather(broker, samples)
        samples.add_histogram(requests.LOOP_DELAY, self._loop_delay)
        left_out = {"groups": 0, "group_topics": 0, "group_offsets": 0}
        left_out["topics"] = await _in_slices(topics.gather(broker, samples, limits.topics_max))
        now_ms = context.shell.clock.now_ms()
        of_partitions = partitions.gather(broker, samples, limits.partitions_max, now_ms)
        left_out["partitions"] = await _in_slices(of_partitions)
        lags: list[TopicLag] = []
        await _in_slices(groups.gather(broker, samples, limits, lags, left_out))
        await groups.ask_elsewhere(context, lags)
        await _in_slices(groups.write_lags(samples, lags))
        metrics = await process.gather(of_process, broker, samples)
        for what, count in left_out.items():
            samples.add(TRUNCATED, count, what=what)
        samples.add(GATHERED, (time.perf_counter_ns() - began_ns) / 1e9)
        return CollectedMetrics(samples, metrics)


def _render(gathered: CollectedMetrics, chosen: Format, pieces: list[bytes]) -> Iterator[None]:
    """Build the text, one piece in each step."""
    for piece in in_pieces(gathered.samples, open_metrics=chosen.is_open_metrics):
        pieces.append(piece)
        yield
    pieces.append(process_text(gathered.process, chosen))
    if chosen.is_open_metrics:
        pieces.append(END_OF_OPENMETRICS)
    yield


async def _in_slices(steps: Iterator[int] | Iterator[None]) -> int:
    """Run all steps, with a pass of the loop after each half millisecond. Returns the last step's value, or 0."""
    last = 0
    until_ns = time.perf_counter_ns() + _SLICE_NS
    for step in steps:
        last = step or 0
        if time.perf_counter_ns() >= until_ns:
            await trio.lowlevel.checkpoint()
            until_ns = time.perf_counter_ns() + _SLICE_NS
    await trio.lowlevel.checkpoint()
    return last
