"""librdkafka properties of benchmark clients."""

import random
import string
from typing import Any

from yak.client.bench.load import NO_COMPRESSION, Load
from yak.client.connection import base_config

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
