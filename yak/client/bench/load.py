"""The settings of a benchmark, and the result of one client. Plain data that crosses process borders."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from yak.client.bench.histogram import Histogram

Kind = Literal["produce", "consume", "latency", "e2e", "workload"]

NO_COMPRESSION = "none"
STAMP_BYTES = 24
"""An end-to-end record carries 16 bytes with the client's name and 8 bytes with the time it was due."""


@dataclass(frozen=True, slots=True)
class Load:
    """One benchmark, over all its clients."""

    kind: Kind
    bootstrap_servers: str
    topic: str
    clients: int = 1
    readers: int = 0
    """How many of the clients, the last ones, read while the others produce; only a workload has them."""
    messages: int | None = None
    """Total records over all clients; None: until `duration_s` has passed."""
    duration_s: float | None = None
    size_bytes: int = 100
    rate: float | None = None
    """Total records per second; None: full speed."""
    acks: str = "all"
    linger_ms: float = 5.0
    compression: str = NO_COMPRESSION
    warm_up_s: float = 1.0
    properties: Mapping[str, str] = field(default_factory=dict)
    """Extra librdkafka properties, which override all others."""

    def share(self, client: int) -> int | None:
        """The records of one client (0 to `clients` - 1): an even share of the total."""
        if self.messages is None:
            return None
        return self.messages // self.clients + (1 if client < self.messages % self.clients else 0)

    def client_rate(self) -> float | None:
        """One producing client's records per second."""
        return None if self.rate is None else self.rate / (self.clients - self.readers)


@dataclass(frozen=True, slots=True)
class Slice:
    """Records `begin` to `end` - 1 of one partition."""

    partition: int
    begin: int
    end: int

    @property
    def records(self) -> int:
        """The number of its offsets."""
        return self.end - self.begin


@dataclass(slots=True)
class ClientResult:
    """One client's measurements between the common start and its own end."""

    client: int
    records: int = 0
    bytes: int = 0
    errors: int = 0
    first_error: str = ""
    warm_up_records: int = 0
    """Records sent before the start, which are counted only here."""
    started_s: float = 0.0
    """CLOCK_MONOTONIC, which all processes of a machine share."""
    ended_s: float = 0.0
    cpu_s: float = 0.0
    latency: Histogram = field(default_factory=Histogram)

    @property
    def seconds(self) -> float:
        """Time from start to end."""
        return max(self.ended_s - self.started_s, 1e-9)

    @property
    def cores(self) -> float:
        """Cores that the client's process used."""
        return self.cpu_s / self.seconds

    def failed(self, reason: str, count: int = 1) -> None:
        """Count errors; the first reason is kept."""
        self.errors += count
        self.first_error = self.first_error or reason


class Session(Protocol):
    """The interface between a client and its runner."""

    def start(self) -> None:
        """Wait until every client is ready, then return in all of them at once."""

    def measuring(self, latency: Histogram) -> None:
        """The client records its latencies in this histogram from now on; the runner may read it."""

    def progress(self, records: int) -> None:
        """Report the client's progress."""


class Stop:
    """The end of a client's load: a number of records, or a duration, whichever comes first."""

    __slots__ = ("deadline_s", "records")

    def __init__(self, records: int | None, duration_s: float | None) -> None:
        assert records is not None or duration_s is not None, "a load needs an end"
        self.records = records
        self.deadline_s = None if duration_s is None else time.monotonic() + duration_s

    def left(self, done: int) -> int | None:
        """The remaining records; None: no limit in number."""
        return None if self.records is None else self.records - done

    def reached(self, done: int) -> bool:
        """Whether the client may stop after `done` records."""
        if self.records is not None and done >= self.records:
            return True
        return self.deadline_s is not None and time.monotonic() >= self.deadline_s


ClientProgram = Callable[[Load, int, tuple[Slice, ...], Session], ClientResult]
"""A client's main function: the load, its number, the slices to read, and its session."""
