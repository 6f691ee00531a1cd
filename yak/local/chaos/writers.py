"""Producers of a run: idempotent, acks=all, without a delivery timeout; and one whose records are always refused."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from yak.ids import TopicPartition
from yak.local.chaos.recorder import Recorder, encode, value_of
from yak.local.load import LibrdkafkaLoad

NEVER_GIVES_UP_MS: Final = 0
"""librdkafka's `delivery.timeout.ms`: no timeout.

A record that times out makes librdkafka start a new producer epoch for all its partitions, and resend records of
unknown outcome under it. These are then stored twice, and no broker can detect it. The pauses are measured anyway.
"""
RECORD_BYTES: Final = 64
BATCH_BYTES_MAX: Final = 65_536
"""`max.message.bytes` of the topics of a run: a larger batch is refused."""
_BATCH_BYTES: Final = 16_384
"""A writer's maximum batch size.

When a batch is refused for its size, librdkafka starts with a new producer id, and resends under it the records that it
does not know to be stored: these duplicates are legitimate.
"""
_REFUSED_EVERY_SECONDS: Final = 1.0
_PURGE_SECONDS: Final = 5.0
RECONNECTS: Final = {"reconnect.backoff.max.ms": 250, "socket.connection.setup.timeout.ms": 5_000}
"""Waits before reconnecting, of all clients of a run.

Dozens of clients that reconnect every 20 ms to paused or restarted brokers keep two cores busy with connections that
time out before a broker reads their first request; then no record passes again.
"""
CONFIG: Final = {
    **RECONNECTS,
    "linger.ms": 2,
    "socket.timeout.ms": 10_000,
    "message.max.bytes": 1_000_000,
    "batch.size": _BATCH_BYTES,
    "topic.metadata.refresh.interval.ms": 300_000,
    "allow.auto.create.topics": False,
}
"""Settings of all producers of a run. None creates the topic again that the run deletes at its end."""


class Writer(LibrdkafkaLoad):
    """One producer in its own thread, to all partitions in turn."""

    def __init__(
        self,
        number: int,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        recorder: Recorder,
        *,
        every_s: float,
        size_bytes: int = RECORD_BYTES,
        log: logging.Logger | None = None,
    ) -> None:
        """With `log`, librdkafka logs its decisions on sequences and epochs there."""
        config = {**CONFIG, **log_config(log), "delivery.timeout.ms": NEVER_GIVES_UP_MS}
        super().__init__(bootstrap, f"writer-{number}", 1.0 / every_s, **config)
        self._number = number
        self._partitions = partitions
        self._recorder = recorder
        self._size_bytes = size_bytes
        self._dropped = False

    def finish(self, timeout_seconds: float) -> int:
        """Stop sending and wait for responses; return the number of unanswered sends, which are purged."""
        unanswered = super().finish(timeout_seconds)
        if unanswered:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.flush(_PURGE_SECONDS)
        return unanswered

    def drop(self) -> None:
        """Stop like a dying client: the outcome of sends in flight is unknown."""
        self._dropped = True
        self.abandon()
        self._recorder.gave_up(self.client_id)
        del self._producer

    def send(self, number: int) -> None:
        topic, partition = self._partitions[number % len(self._partitions)]
        value = value_of(self._number, number)

        def delivered(error: Any, message: Any) -> None:
            if not self._dropped:
                self._recorder.delivered(value, error, message)

        self._recorder.sending(self.client_id, f"{topic}-{partition}", value)
        content = encode(value, self._size_bytes)
        if not self.produce(topic, content, delivered, key=value.to_bytes(8, "big"), partition=partition):
            self._recorder.never_sent(value)


def log_config(log: logging.Logger | None) -> dict[str, Any]:
    """librdkafka's settings with which it logs its decisions on sequences, epochs and transactions."""
    return {} if log is None else {"logger": log, "log_level": 7, "debug": "eos"}


def writers_log(path: Path) -> logging.Logger:
    """The log of the writers' sequences; `close_log` ends it."""
    log = logging.getLogger(f"yak-chaos:{path}")
    log.propagate = False
    log.setLevel(logging.DEBUG)
    handler = logging.FileHandler(path)
    handler.setFormatter(_LogLine("%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S"))
    log.addHandler(handler)
    return log


def close_log(log: logging.Logger) -> None:
    """Close the log's file; later lines are dropped, and not printed to stderr."""
    log.addHandler(logging.NullHandler())
    for handler in log.handlers[:-1]:
        log.removeHandler(handler)
        handler.close()


class _LogLine(logging.Formatter):
    converter = staticmethod(time.gmtime)  # as the brokers' logs beside it


def refused_writer(number: int, bootstrap: str, partitions: Sequence[TopicPartition], recorder: Recorder) -> Writer:
    """A writer whose records are too large: each is refused, and no consumer may see it."""
    size = BATCH_BYTES_MAX * 2
    return Writer(number, bootstrap, partitions, recorder, every_s=_REFUSED_EVERY_SECONDS, size_bytes=size)
