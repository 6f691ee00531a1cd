"""Threads that send records at a steady rate; and such a thread with a librdkafka producer, for chaos runs and demos."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from yak.client.connection import IMPATIENT, base_config
from yak.client.errors import name_of


class Load(ABC):
    """A thread that calls `send` at a steady rate until it is stopped."""

    def __init__(self, client_id: str, per_second: float) -> None:
        self.client_id = client_id
        self.enough = threading.Event()
        self._per_second = per_second
        self._thread = threading.Thread(target=self._run, name=client_id, daemon=True)

    @abstractmethod
    def send(self, number: int) -> None:
        """Pass the `number`-th record of the load, counted from 0, to the producer."""

    def idle(self, seconds: float) -> None:
        """Let at most so much time pass until the next record."""
        self.enough.wait(seconds)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Stop sending; records may still be in flight."""
        self.enough.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        due, number = time.monotonic(), 0
        while not self.enough.is_set():
            self.send(number)
            number += 1
            # At most a second is caught up: the rate after a long pause is the rate before it.
            due = max(due + 1.0 / self._per_second, time.monotonic() - 1.0)
            self.idle(0.0)
            while (left := due - time.monotonic()) > 0 and not self.enough.is_set():
                self.idle(left)


class LibrdkafkaLoad(Load):
    """A load through confluent-kafka. After a lost connection its producer finds the new leader at once."""

    def __init__(self, bootstrap: str, client_id: str, per_second: float, **config: object) -> None:
        import confluent_kafka

        super().__init__(client_id, per_second)
        self.name = f"confluent-kafka {confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
        self.last_error = ""
        self._config = {
            **base_config(bootstrap),
            **IMPATIENT,
            "client.id": client_id,
            "enable.idempotence": True,
            "linger.ms": 5,
            "delivery.timeout.ms": 60_000,
            "topic.metadata.refresh.interval.ms": 1_000,
            **config,
        }
        self._producer: Any = confluent_kafka.Producer(self._config)

    def produce(self, topic: str, value: bytes, on_delivery: Callable[[Any, Any], None], **more: Any) -> bool:
        """Pass a record to the producer, once it has room; return whether it took it before the load was stopped."""
        import confluent_kafka

        while not self.enough.is_set():
            try:
                self._producer.produce(topic, value, on_delivery=on_delivery, **more)
            except BufferError:
                self._producer.poll(0.05)
            except confluent_kafka.KafkaException as error:
                found = error.args[0]
                self.last_error = str(found.str())
                if not (found.fatal() or name_of(found) == "_FATAL"):
                    self.on_refused(topic, found)
                    return False
                # After a fatal sequence error an idempotent producer refuses every record.
                self._producer.purge()
                self._producer.flush(1.0)
                self._producer = confluent_kafka.Producer(self._config)
            else:
                return True
        return False

    def on_refused(self, topic: str, error: Any) -> None:
        """The producer refused a record at once, for instance because its topic was deleted."""

    def idle(self, seconds: float) -> None:
        """Handle acknowledgements: `poll` returns at each of them, long before its timeout."""
        self._producer.poll(seconds)

    def finish(self, timeout_seconds: float) -> int:
        """Stop sending, and wait for records in flight; return the number of records not acknowledged in time."""
        self.stop(timeout_seconds)
        return int(self._producer.flush(timeout_seconds))

    def abandon(self) -> None:
        self.stop(1.0)
        self._producer.purge()
