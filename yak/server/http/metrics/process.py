"""Metrics of the process by prometheus-client's collectors, and the space on the data disks. Collected in a thread.

prometheus-client is loaded with the first scrape. It reads /proc, so its memory and file metrics need Linux.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import trio

from yak.server.http.metrics.text import END_OF_OPENMETRICS, Samples, gauge
from yak.server.jobs import run_in_thread

if TYPE_CHECKING:
    from prometheus_client import Metric

    from yak.broker.broker import Broker

DIRECTORY_ONLINE: Final = gauge("yak_data_directory_online", "1 if a data directory is online")
DIRECTORY_FREE: Final = gauge(
    "yak_data_directory_free_bytes", "Free space for this broker on the file system of a data directory"
)
DIRECTORY_SIZE: Final = gauge("yak_data_directory_size_bytes", "Size of the file system of a data directory")
_CONTENT_TYPE: Final = re.compile(r"[a-z/-]+; version=\d{1,3}(\.\d{1,3}){0,2}; charset=utf-8(; escaping=[a-z0-9-]+)?")
_DEADLINE_SECONDS: Final = 2.0
"""A disk that does not answer must not delay a scrape further."""


@dataclass(frozen=True, slots=True)
class Format:
    """The text format of an answer, chosen by prometheus-client from the Accept header."""

    content_type: str
    encode: Callable[[Any], bytes]

    @property
    def is_open_metrics(self) -> bool:
        """Whether the text ends with `# EOF` and heads name counters without `_total`."""
        return self.content_type.startswith("application/openmetrics-text")


class Process:
    """prometheus-client's collectors; construct it in a thread, since it loads the library."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

        registry = CollectorRegistry()
        self._collectors = (
            ProcessCollector(registry=registry),
            PlatformCollector(registry=registry),
            GCCollector(registry=registry),
        )
        self.disk_limiter = trio.CapacityLimiter(1)
        """One thread hangs with a disk, not one for each scrape: they would use up those of other work."""

    def collect(self) -> list[Metric]:
        """The current metrics; reads files of /proc."""
        return [metric for collector in self._collectors for metric in collector.collect()]

    def format_for(self, accept: str) -> Format:
        """The format for an Accept header; the oldest text format if the header is invalid."""
        from prometheus_client.exposition import choose_encoder

        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is not a number
            encode, content_type = choose_encoder("")
        if not _CONTENT_TYPE.fullmatch(content_type):  # it echoes the client's header
            encode, content_type = choose_encoder("")
        return Format(content_type, encode)


def process_text(metrics: Sequence[Metric], chosen: Format) -> bytes:
    """The text of collected metrics, without the last line of OpenMetrics."""
    return chosen.encode(SimpleNamespace(collect=lambda: metrics)).removesuffix(END_OF_OPENMETRICS)


async def gather(process: Process, broker: Broker, samples: Samples) -> list[Metric]:
    """Collect disk and process metrics, within `_DEADLINE_SECONDS`."""
    directories = broker.log_store.directories
    for index, directory in enumerate(directories):
        samples.add(DIRECTORY_ONLINE, int(directory.failure is None), directory=str(index))
    paths = [directory.path if directory.failure is None else None for directory in directories]
    spaces: list[tuple[int, int] | None] = []
    metrics: list[Metric] = []
    with trio.move_on_after(_DEADLINE_SECONDS):
        metrics = await run_in_thread(process.collect)
        spaces = await run_in_thread(disk_spaces, paths, limiter=process.disk_limiter)
    samples.of(DIRECTORY_FREE)
    samples.of(DIRECTORY_SIZE)
    for index, space in enumerate(spaces):
        if space is not None:
            samples.add(DIRECTORY_FREE, space[0], directory=str(index))
            samples.add(DIRECTORY_SIZE, space[1], directory=str(index))
    return metrics


def disk_spaces(paths: Sequence[str | None]) -> list[tuple[int, int] | None]:
    """(free bytes, total bytes) of each file system; None for one that cannot be read."""
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            stat = os.statvfs(path) if path is not None else None
        except OSError:
            stat = None
        found.append(None if stat is None else (stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize))
    return found
