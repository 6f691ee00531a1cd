"""Producers of a run: idempotent, acks=all, without a delivery timeout; and one whose records are always refused."""

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from yak.client.connection import IMPATIENT, base_config
from yak.ids import TopicPartition
from yak.local.chaos.content import encode, value_of
from yak.local.chaos.recorder import Recorder
from yak.sim.history_checker.history import Outcome

NEVER_GIVES_UP_MS: Final = 0
"""librdkafka's `message.timeout.ms`: no timeout.

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
_DEFINITE: Final = ("MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "RECORD_LIST_TOO_LARGE")
"""Errors that prove that nothing was appended, also by earlier tries."""


class Writer:
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
        import confluent_kafka

        self.name = f"writer-{number}"
        self._number = number
        self._partitions = partitions
        self._recorder = recorder
        self._every_s = every_s
        self._size_bytes = size_bytes
        self._stopping = threading.Event()
        self._dropped = False
        told = {} if log is None else {"logger": log, "log_level": 7, "debug": "eos"}
        self._producer: Any = confluent_kafka.Producer(
            base_config(bootstrap)
            | {
                **IMPATIENT,
                "client.id": self.name,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": NEVER_GIVES_UP_MS,
                "socket.timeout.ms": 10_000,
                "message.max.bytes": 1_000_000,
                "batch.size": _BATCH_BYTES,
                **told,
            }
        )
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def stop(self, patience_s: float) -> int:
        """Stop sending and wait for responses; return the number of unanswered sends, which are purged."""
        self._stopping.set()
        self._thread.join(5.0)
        unanswered = int(self._producer.flush(patience_s))
        if unanswered:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.flush(_PURGE_SECONDS)
        return unanswered

    def drop(self) -> None:
        """Stop like a dying client: the outcome of sends in flight is unknown."""
        self._dropped = True
        self._stopping.set()
        self._thread.join(5.0)
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._recorder.gave_up(self.name)
        del self._producer

    def _run(self) -> None:
        sequence = 0
        while not self._stopping.is_set():
            sequence += 1
            topic, number = self._partitions[sequence % len(self._partitions)]
            self._send(topic, number, value_of(self._number, sequence))
            self._producer.poll(0)
            self._stopping.wait(self._every_s)
            self._producer.poll(0)

    def _send(self, topic: str, number: int, value: int) -> None:
        def delivered(error: Any, message: Any) -> None:
            if self._dropped:
                return
            if error is None:
                offset = message.offset()
                self._recorder.sent(value, Outcome.OK, offset if offset is not None and offset >= 0 else None)
            else:
                outcome = Outcome.FAIL if error.name() in _DEFINITE else Outcome.INFO
                self._recorder.sent(value, outcome, None, str(error.str()))

        self._recorder.sending(self.name, f"{topic}-{number}", value)
        try:
            content = encode(value, self._size_bytes)
            self._producer.produce(topic, content, value.to_bytes(8, "big"), partition=number, on_delivery=delivered)
        except BufferError:
            self._recorder.never_sent(value)
            self._stopping.wait(0.2)


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
