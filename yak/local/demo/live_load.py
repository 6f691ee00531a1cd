"""What the demos' live loads through librdkafka have in common: one thread that sends at a steady rate until it is told to stop."""

import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from yak.client.connection import IMPATIENT, base_config


class LiveLoad(ABC):
    """Calls `send` so many times a second, with acks=all and idempotence, so that a retry after a kill stores nothing twice.

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
        """Hand the producer what the load sends for the `number`-th time, counted from 0."""

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self, timeout_seconds: float) -> int:
        """Stop sending, and wait for what is on its way; how many records were not acknowledged in time."""
        self._enough.set()
        self._thread.join(timeout_seconds)
        return int(self.producer.flush(timeout_seconds))

    def abandon(self) -> None:
        """Stop at once, whatever is on its way."""
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
            # poll() comes back with each acknowledgement, long before its time is up.
            while (left := began + number / self._per_second - time.monotonic()) > 0:
                self.producer.poll(left)
