"""The producer of the groups demo: this machine's load, dealt out to the partitions in turn."""

import threading
import time
import zlib
from typing import Any, Final

from yak.client.connection import IMPATIENT, base_config
from yak.local.demo.group_ledger import Place
from yak.local.demo.sources import host_name, server_samples

RECORDS_PER_SECOND: Final = 300


class GroupLoad:
    """Sends until it is told to stop, with acks=all and idempotence, and remembers what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        import confluent_kafka

        self.name = f"confluent-kafka {confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
        self._topic = topic
        self._partitions = partitions
        self._enough = threading.Event()
        self._acknowledged: dict[Place, int] = {}
        self._thread = threading.Thread(target=self._run, name="group-load", daemon=True)
        self._producer = confluent_kafka.Producer(
            {
                **base_config(bootstrap),
                **IMPATIENT,
                "client.id": "yak-demo-producer",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 60_000,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def acknowledged_count(self) -> int:
        """How many records are acknowledged so far."""
        return len(self._acknowledged)

    def finish(self, timeout_seconds: float) -> dict[Place, int]:
        """Stop sending, wait for what is on its way, and give each acknowledged record's place and checksum."""
        self._enough.set()
        self._thread.join(timeout_seconds)
        self._producer.flush(timeout_seconds)
        return dict(self._acknowledged)

    def abandon(self) -> None:
        """Stop at once."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        self._producer.purge()

    def _run(self) -> None:
        began = time.monotonic()
        samples = server_samples(host_name())
        number = 0
        while not self._enough.is_set():
            self._send(number % self._partitions, next(samples))
            number += 1
            # poll() comes back with each acknowledgement, long before its time is up.
            while (left := began + number / RECORDS_PER_SECOND - time.monotonic()) > 0:
                self._producer.poll(left)

    def _send(self, partition: int, value: bytes) -> None:
        checksum = zlib.crc32(value)

        def delivered(error: object, message: Any) -> None:
            if error is None:
                self._acknowledged[Place(int(message.partition()), int(message.offset()))] = checksum

        self._producer.produce(self._topic, value=value, partition=partition, on_delivery=delivered)
