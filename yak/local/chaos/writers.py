"""Producers of a run: idempotent, acks=all, patient; and one whose records the cluster must refuse."""

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
from yak.sim.judge.history import Outcome

NEVER_GIVES_UP_MS: Final = 0
"""A message that times out makes librdkafka begin a new producer epoch for all its partitions, and send again under it what is
in doubt in the others: that is there twice then, and no broker can tell. How long nobody answered is measured all the same."""
RECORD_BYTES: Final = 64
BATCH_BYTES_MAX: Final = 65_536
"""`max.message.bytes` of the topics of a run: a batch that is larger is refused."""
_BATCH_BYTES: Final = 16_384
"""What a writer puts into a batch at most. One that is refused for its size makes librdkafka begin with a new producer id, and
send again under it what it does not know to be stored: doubled, and rightly so."""
_REFUSED_EVERY_SECONDS: Final = 1.0
_PURGE_SECONDS: Final = 5.0
_DEFINITE: Final = ("MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "RECORD_LIST_TOO_LARGE")
"""Errors that prove that nothing was appended, whatever was tried before."""


class Writer:
    """One producer in a thread of its own, to all partitions in turn."""

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
        """With `log`, librdkafka says there what it decides of sequences and epochs."""
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
        """Begin."""
        self._thread.start()

    def stop(self, patience_s: float) -> int:
        """Send no more, wait for the answers that are missing; gives how many never came, which are sent no more either."""
        self._stopping.set()
        self._thread.join(5.0)
        unanswered = int(self._producer.flush(patience_s))
        if unanswered:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.flush(_PURGE_SECONDS)
        return unanswered

    def drop(self) -> None:
        """Die without a word: what was under way may have been done or not."""
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
    """Where the writers of a run tell of their sequences; `close_log` ends it."""
    log = logging.getLogger(f"yak-chaos:{path}")
    log.propagate = False
    log.setLevel(logging.DEBUG)
    handler = logging.FileHandler(path)
    handler.setFormatter(_LogLine("%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S"))
    log.addHandler(handler)
    return log


def close_log(log: logging.Logger) -> None:
    """Close its file; what still comes is dropped, and not said on stderr."""
    log.addHandler(logging.NullHandler())
    for handler in log.handlers[:-1]:
        log.removeHandler(handler)
        handler.close()


class _LogLine(logging.Formatter):
    converter = staticmethod(time.gmtime)  # as the brokers' logs beside it


def refused_writer(number: int, bootstrap: str, partitions: Sequence[TopicPartition], recorder: Recorder) -> Writer:
    """One whose records are too large: each is refused, and must be seen by nobody."""
    size = BATCH_BYTES_MAX * 2
    return Writer(number, bootstrap, partitions, recorder, every_s=_REFUSED_EVERY_SECONDS, size_bytes=size)
