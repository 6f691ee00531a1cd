"""The demo's load: live metrics of this machine's processors and memory; each record is counted when acknowledged."""

import json
import time
from functools import partial
from typing import Any, Final

import psutil

from yak.errors import YakError
from yak.local.load import LibrdkafkaLoad
from yak.spark.demo.totals import AcknowledgedValues

TOPIC: Final = "server_metrics"
FIELD: Final = "value"
SAMPLES_PER_SECOND: Final = 25
PROCESSORS_MAX: Final = 6
"""More metrics would not fit on a screen."""


class MetricsLoad(LibrdkafkaLoad):
    """Sends a sample of every metric 25 times a second, and adds up the acknowledged ones."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, "yak-demo-metrics", SAMPLES_PER_SECOND)
        self.sent = AcknowledgedValues()
        self._failed: list[str] = []

    def finish(self, timeout_seconds: float) -> int:
        """Stop sending and wait for records in flight. Raises YakError (`demo-client`) when a record failed."""
        left = super().finish(timeout_seconds)
        if self._failed or left:
            why = self._failed[0] if self._failed else f"{left} were not acknowledged in {timeout_seconds:.0f} s"
            raise YakError("demo-client", "records were not acknowledged", why=why)
        return left

    def send(self, number: int) -> None:  # noqa: ARG002 - each round has a sample of all metrics
        timestamp_ms = time.time_ns() // 1_000_000
        for metric, value in samples():
            data = json.dumps({FIELD: value}, separators=(",", ":")).encode()
            delivered = partial(self._delivered, metric, timestamp_ms, value)
            self.produce(TOPIC, data, delivered, key=metric, timestamp=timestamp_ms)

    def _delivered(self, metric: str, timestamp_ms: int, value: float, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))
        else:
            self.sent.add(metric, timestamp_ms, value)


def samples() -> list[tuple[str, float]]:
    """The current value of each metric, as (metric, value): percentages with one decimal."""
    processors = psutil.cpu_percent(percpu=True)[:PROCESSORS_MAX]
    found = [(f"cpu-{number}", float(percent)) for number, percent in enumerate(processors)]
    return [*found, ("memory", float(psutil.virtual_memory().percent))]
