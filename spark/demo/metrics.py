"""The demo's load: this machine's processors and memory, sampled live, each record counted when it is acknowledged."""

import json
import threading
import time
from typing import Any, Final

import psutil

from yak.client.connection import IMPATIENT
from yak.errors import YakError
from yak.spark.demo.totals import Sent

TOPIC: Final = "server_metrics"
FIELD: Final = "value"
SAMPLES_PER_SECOND: Final = 25
PROCESSORS_MAX: Final = 6
"""Metrics of more would not fit on a screen."""


class MetricsLoad:
    """A thread that sends a sample of every metric 25 times a second, acks=all, idempotent."""

    def __init__(self, bootstrap: str) -> None:
        import confluent_kafka

        self.name = f"confluent-kafka {confluent_kafka.__version__}"
        self._sent = Sent()
        self._failed: list[str] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "yak-demo-metrics",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 60_000,
                "topic.metadata.refresh.interval.ms": 1_000,
                **IMPATIENT,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    @property
    def acknowledged(self) -> int:
        """Records so far."""
        return sum(each.count for each in list(self._sent.places.values()))

    def finish(self, timeout_seconds: float) -> Sent:
        """Stop sending, and wait for what is on its way. Raises YakError (`demo-client`) when a record was refused."""
        self._enough.set()
        self._thread.join(timeout_seconds)
        left = self._producer.flush(timeout_seconds)
        if self._failed or left:
            why = self._failed[0] if self._failed else f"{left} were not acknowledged in {timeout_seconds:.0f} s"
            raise YakError("demo-client", "records were not acknowledged", why=why)
        return self._sent

    def abandon(self) -> None:
        """Stop at once."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        self._producer.purge()

    def _run(self) -> None:
        began = time.monotonic()
        number = 0
        while not self._enough.is_set():
            timestamp_ms = time.time_ns() // 1_000_000
            for metric, value in samples():
                self._send(metric, timestamp_ms, value)
            number += 1
            while (left := began + number / SAMPLES_PER_SECOND - time.monotonic()) > 0:
                self._producer.poll(left)

    def _send(self, metric: str, timestamp_ms: int, value: float) -> None:
        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                self._failed.append(str(error))
            else:
                self._sent.add(metric, timestamp_ms, value)

        data = json.dumps({FIELD: value}, separators=(",", ":")).encode()
        while True:
            try:
                self._producer.produce(TOPIC, data, metric, timestamp=timestamp_ms, on_delivery=delivered)
                return
            except BufferError:
                self._producer.poll(0.05)


def samples() -> list[tuple[str, float]]:
    """(metric, value) of this moment: percentages with one decimal."""
    processors = psutil.cpu_percent(percpu=True)[:PROCESSORS_MAX]
    found = [(f"cpu-{number}", float(percent)) for number, percent in enumerate(processors)]
    return [*found, ("memory", float(psutil.virtual_memory().percent))]
