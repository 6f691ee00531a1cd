"""The settings of a benchmark, and the result of one client. Plain data that crosses process borders."""

import random
import string
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from yak.client.bench.histogram import Histogram
from yak.client.connection import base_config

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
        return max(self.ended_s - self.started_s, 1e-9)

    @property
    def cores(self) -> float:
        """Cores that the client's process used."""
        return self.cpu_s / self.seconds

    def begin(self) -> None:
        """Note the start, when all clients are ready."""
        self.started_s, self.cpu_s = time.monotonic(), -time.process_time()

    def end(self, ended_s: float | None = None) -> None:
        """Note the end: now, or at `ended_s`."""
        self.ended_s = time.monotonic() if ended_s is None else ended_s
        self.cpu_s += time.process_time()

    def failed(self, reason: str, count: int = 1) -> None:
        """Count errors, and store the first reason."""
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


CONNECT_SECONDS = 10.0
DELIVERY_TIMEOUT_MS = 60_000
IN_FLIGHT_BYTES = 32 * 1024 * 1024
"""Limit of a producing client's unacknowledged bytes: enough for 30 full batches, small enough for 20 clients."""
IN_FLIGHT_RECORDS_MAX = 200_000


def common(load: Load) -> dict[str, Any]:
    """Properties of every client."""
    return base_config(load.bootstrap_servers) | {"client.id": f"yak-bench-{load.kind}", "socket.nagle.disable": True}


def in_flight_records(load: Load, batch_records: int) -> int:
    """The number of unacknowledged records above which a producing client waits before it sends another batch."""
    limit = max(1000, min(IN_FLIGHT_RECORDS_MAX, IN_FLIGHT_BYTES // max(load.size_bytes, 1)))
    queue = load.properties.get("queue.buffering.max.messages", "")
    return max(0, min(limit, int(queue) - batch_records)) if queue.isdigit() else limit


def producer_properties(load: Load) -> dict[str, Any]:
    """Properties of a producing client."""
    return {
        **common(load),
        "acks": load.acks,
        "linger.ms": load.linger_ms,
        "compression.type": load.compression or NO_COMPRESSION,
        "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        "message.max.bytes": max(1_000_000, load.size_bytes + 1024),
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1024 * 1024,
        **load.properties,
    }


def consumer_properties(load: Load) -> dict[str, Any]:
    """Properties of a reading client.

    `queued.min.messages` and `fetch.queue.backoff.ms`: with librdkafka's defaults a client that reads over 100,000
    records a second stops fetching for a second whenever its queue is full. `fetch.wait.max.ms`: a fetch of partitions
    that are at their end would delay the others for half a second, longer than a short run takes.
    """
    return {
        **common(load),
        "group.id": "yak-bench",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 64 * 1024,
        "fetch.queue.backoff.ms": 5,
        "fetch.wait.max.ms": 20,
        **load.properties,
    }


def payloads(size_bytes: int, count: int) -> list[bytes]:
    """`count` different values of capital letters, as in Kafka's ProducerPerformance; the same in every run."""
    rng = random.Random(size_bytes)  # noqa: S311 - filler, not a secret
    return ["".join(rng.choices(string.ascii_uppercase, k=size_bytes)).encode() for _ in range(count)]
