"""The base of the demos' live loads through librdkafka: one thread that sends at a steady rate until stopped."""

import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from yak.client.connection import IMPATIENT, base_config


class LiveLoad(ABC):
    """Calls `send` at a fixed rate, with acks=all and idempotence, so that a retry after a kill stores no duplicate.

    After a lost connection its producer looks for the new leader every few milliseconds.
    """

    def __init__(self, bootstrap: str, client_id: str, per_second: float) -> None:
        import confluent_kafka

        self.name = f"confluent-kafka {confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
        self._per_second = per_second
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name=client_id, daemon=True)
        self.producer: Any = confluent_kafka.Producer(
            {
                **base_config(bootstrap),
                **IMPATIENT,
                "client.id": client_id,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 60_000,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )

    @abstractmethod
    def send(self, number: int) -> None:
        """Pass the `number`-th record of the load, counted from 0, to the producer."""

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def stop(self, timeout_seconds: float) -> int:
        """Stop sending, and wait for records in flight; return the number of records not acknowledged in time."""
        self._enough.set()
        self._thread.join(timeout_seconds)
        return int(self.producer.flush(timeout_seconds))

    def abandon(self) -> None:
        """Stop at once, and drop records in flight."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        self.producer.purge()

    def _run(self) -> None:
        began = time.monotonic()
        number = 0
        while not self._enough.is_set():
            self.send(number)
            number += 1
            # poll() returns at each acknowledgement, long before its timeout.
            while (left := began + number / self._per_second - time.monotonic()) > 0:
                self.producer.poll(left)
