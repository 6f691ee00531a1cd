"""Keeps a producer open between runs: an idempotent one waits about a second for its id.

librdkafka requests the id twice a second.
"""

import threading
from typing import Any, Final

from yak.client.produce import open_producer, producer_settings

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

    def warm(self, servers: str, acks: str = "all", compression: str = "none") -> None:
        """Open a producer early, so that it has its id in time."""
        self.get(servers, acks, compression)

    def forget(self) -> None:
        """Close it: purging its queue leaves a gap in its sequence numbers."""
        with self._lock:
            self._key = self._producer = None
