"""The demo's load: live metrics of this machine's processors and memory; each record is counted when acknowledged."""

import json
import time
from typing import Any, Final

import psutil

from yak.errors import YakError
from yak.local.demo.live_load import LiveLoad
from yak.spark.demo.totals import Sent

TOPIC: Final = "server_metrics"
FIELD: Final = "value"
SAMPLES_PER_SECOND: Final = 25
PROCESSORS_MAX: Final = 6
"""More metrics would not fit on a screen."""


class MetricsLoad(LiveLoad):
    """Sends a sample of every metric 25 times a second."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, "yak-demo-metrics", SAMPLES_PER_SECOND)
        self._sent = Sent()
        self._failed: list[str] = []

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged records so far."""
        return sum(each.count for each in list(self._sent.places.values()))

    def finish(self, timeout_seconds: float) -> Sent:
        """Stop sending and wait for outstanding records. Raises YakError (`demo-client`) when a record failed."""
        left = self.stop(timeout_seconds)
        if self._failed or left:
            why = self._failed[0] if self._failed else f"{left} were not acknowledged in {timeout_seconds:.0f} s"
            raise YakError("demo-client", "records were not acknowledged", why=why)
        return self._sent

    def send(self, number: int) -> None:  # noqa: ARG002 - each round has a sample of all metrics
        """Send one sample of each metric."""
        timestamp_ms = time.time_ns() // 1_000_000
        for metric, value in samples():
            self._send_one(metric, timestamp_ms, value)

    def _send_one(self, metric: str, timestamp_ms: int, value: float) -> None:
        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                self._failed.append(str(error))
            else:
                self._sent.add(metric, timestamp_ms, value)

        data = json.dumps({FIELD: value}, separators=(",", ":")).encode()
        while True:
            try:
                self.producer.produce(TOPIC, data, metric, timestamp=timestamp_ms, on_delivery=delivered)
                return
            except BufferError:
                self.producer.poll(0.05)


def samples() -> list[tuple[str, float]]:
    """The current value of each metric, as (metric, value): percentages with one decimal."""
    processors = psutil.cpu_percent(percpu=True)[:PROCESSORS_MAX]
    found = [(f"cpu-{number}", float(percent)) for number, percent in enumerate(processors)]
    return [*found, ("memory", float(psutil.virtual_memory().percent))]
