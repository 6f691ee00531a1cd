"""A small producer that writes to one partition repeatedly, and records when each write is acknowledged.

It uses acks=all with idempotence and finds a new leader within milliseconds (`IMPATIENT`), so that its waits are the
cluster's doing.
"""

import math
import threading
import time
from typing import Any, Final

from yak.client.connection import IMPATIENT, base_config
from yak.errors import NothingInTime
from yak.ids import TopicPartition
from yak.local.bench.ledger_load import longest_pause

KEY: Final = b"yak-failover-probe"
EVERY_SECONDS: Final = 0.01
READY_SECONDS: Final = 10.0


class WriteProbe:
    """Writes from `start` to `stop`. Times are `time.monotonic()`."""

    def __init__(self, bootstrap: str, partition: TopicPartition) -> None:
        import confluent_kafka

        self._partition = partition
        self._enough = threading.Event()
        self._sent_and_acked: list[tuple[float, float]] = []
        self.errors: list[str] = []
        """Errors of writes that failed after all of librdkafka's retries."""
        self._producer = confluent_kafka.Producer(
            base_config(bootstrap)
            | {"client.id": "yak-failover-probe", "enable.idempotence": True, "linger.ms": 0, **IMPATIENT}
        )
        self._thread = threading.Thread(target=self._run, name="write-probe", daemon=True)

    def start(self) -> None:
        """Start, and wait for the first acknowledgement. Raises NothingInTime when none comes."""
        self._thread.start()
        if self.wait_ack_after(0.0, READY_SECONDS) is None:
            self.stop()
            raise NothingInTime(
                "no-acknowledgement",
                f"no write to {self._partition} was acknowledged in {READY_SECONDS:.0f} s",
                why=self.errors[-1] if self.errors else "acks=all waits for an ISR of min.insync.replicas",
                try_=(f"yak isr {self._partition.topic}",),
            )

    def wait_ack_after(self, moment: float, timeout_s: float) -> float | None:
        """When the first write that was sent after `moment` was acknowledged; None when none is in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            later = [acked for sent, acked in list(self._sent_and_acked) if sent >= moment]
            if later:
                return min(later)
            if time.monotonic() > deadline:
                return None
            time.sleep(EVERY_SECONDS / 2)

    def longest_pause(self, moment: float) -> float | None:
        """The longest wait for an acknowledgement that ended after `moment`, in seconds."""
        return longest_pause(sorted(acked for _, acked in list(self._sent_and_acked)), moment, math.inf)

    def stop(self) -> int:
        """Stop, wait for writes in flight, and return the number of acknowledged writes."""
        self._enough.set()
        self._thread.join(READY_SECONDS)
        self._producer.flush(READY_SECONDS)
        return len(self._sent_and_acked)

    def _run(self) -> None:
        number = 0
        began = time.monotonic()
        while not self._enough.is_set():
            number += 1
            self._send(number)
            while (left := began + number * EVERY_SECONDS - time.monotonic()) > 0 and not self._enough.is_set():
                self._producer.poll(left)

    def _send(self, number: int) -> None:
        sent_at = time.monotonic()

        def delivered(error: Any, _message: Any) -> None:
            if error is None:
                self._sent_and_acked.append((sent_at, time.monotonic()))
            else:
                self.errors.append(str(error.str()))

        topic, partition = self._partition
        value = b"%d" % number
        self._producer.produce(topic, key=KEY, value=value, partition=partition, on_delivery=delivered)
