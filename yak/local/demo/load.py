"""The demos' clients: each sends real data while brokers are killed, and records what is acknowledged.

All of them use acks=all with idempotence, so a retry after a kill cannot store a duplicate.
"""

import contextlib
import csv
import importlib.metadata
import importlib.util
import json
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from yak.client.connection import IMPATIENT, base_config
from yak.client.errors import name_of
from yak.local.chaos.recorder import Recorder
from yak.local.demo.child import Child
from yak.local.demo.sources import CSV_COLUMNS, host_name, process_samples, record_id, server_samples
from yak.local.spawn import yak_argv
from yak.sim.history_checker.history import Outcome

SAMPLES_PER_SECOND: Final = 100
CSV_KEY: Final = "folder"


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
        """Start sending."""
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
    """A load through confluent-kafka. After a lost connection its producer looks for the new leader at once."""

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
        """Stop at once, and drop records in flight."""
        self.stop(1.0)
        self._producer.purge()


class ServerMetrics(LibrdkafkaLoad):
    """CPU and memory of this machine, sampled live, to the partitions of a topic in turn."""

    what = "this machine's CPU and memory, live, keyed by host"

    def __init__(
        self,
        recorder: Recorder,
        bootstrap: str,
        topic: str = "server_metrics",
        partitions: int = 1,
        per_second: float = SAMPLES_PER_SECOND,
    ) -> None:
        super().__init__(bootstrap, "yak-demo-metrics", per_second)
        self.topic = topic
        self._recorder = recorder
        self._partitions = partitions
        self._host = host_name()
        self._samples = server_samples(self._host)

    def send(self, number: int) -> None:
        """Send one sample."""
        value, partition = next(self._samples), number % self._partitions
        record = record_id(value)

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self._recorder.sent(record, Outcome.OK, int(message.offset()))
            else:
                self._recorder.sent(record, Outcome.INFO, None, str(error))

        self._recorder.sending(self.client_id, f"{self.topic}-{partition}", record)
        if not self.produce(self.topic, value, delivered, key=self._host, partition=partition):
            self._recorder.never_sent(record)


class Processes(Load):
    """This machine's processes through kafka-python, which shares no code with librdkafka; only if it is installed."""

    topic = "processes"
    what = "this machine's processes, live, keyed by pid"

    def __init__(self, recorder: Recorder, bootstrap: str) -> None:
        from kafka import KafkaProducer

        # It logs the intended kill to stderr.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        super().__init__("yak-demo-processes", SAMPLES_PER_SECOND)
        self.name = f"kafka-python {importlib.metadata.version('kafka-python')} (no librdkafka in it)"
        self._recorder = recorder
        self._samples = process_samples()
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            client_id=self.client_id,
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            reconnect_backoff_ms=5,
            reconnect_backoff_max_ms=20,
            retry_backoff_ms=20,
        )

    @staticmethod
    def is_installed() -> bool:
        """Whether kafka-python is installed."""
        try:
            importlib.metadata.version("kafka-python")
        except importlib.metadata.PackageNotFoundError:
            return False
        return importlib.util.find_spec("kafka") is not None

    def send(self, number: int) -> None:  # noqa: ARG002 - the samples have numbers of their own
        """Send one sample."""
        key, value = next(self._samples)
        record = record_id(value)
        self._recorder.sending(self.client_id, f"{self.topic}-0", record)
        sent = self._producer.send(self.topic, key=key, value=value)
        sent.add_callback(lambda found: self._recorder.sent(record, Outcome.OK, int(found.offset)))

    def finish(self, timeout_seconds: float) -> None:
        """Stop sending and wait for records in flight."""
        self.stop(timeout_seconds)
        self._producer.flush(timeout_seconds)
        self._producer.close(timeout=5)

    def abandon(self) -> None:
        """Stop at once."""
        self.stop(1.0)
        with contextlib.suppress(Exception):
            self._producer.close(timeout=0)


class CsvFile:
    """A CSV file through `yak produce` in its own process, which ends with 0 only when all rows are stored."""

    topic = "files"
    name = "yak produce -f (its own process)"

    def __init__(self, recorder: Recorder, bootstrap: str, path: str, rows: int, seconds: float) -> None:
        self.what = f"a CSV file of {rows} rows: Python's files, keyed by {CSV_KEY}"
        self._recorder = recorder
        self._path = path
        self._words = ["produce", self.topic, "-f", path, "--csv-key", CSV_KEY, "--csv-value", "json", "-b", bootstrap]
        self._words += ["--rate", str(max(1, round(rows / seconds))), "-q", "--timeout", "60s"]
        self._child: Child | None = None
        self._records: list[int] = []

    def start(self) -> None:
        """Start sending."""
        with open(self._path, encoding="utf-8", newline="") as file:
            self._records = [csv_record_id(row) for row in csv.DictReader(file)]
        for record in self._records:
            self._recorder.sending("yak-produce", f"{self.topic}-0", record)
        self._child = Child(yak_argv(*self._words))

    def finish(self, timeout_seconds: float) -> None:
        """Wait for the end. Raises the YakError that `yak produce` ended with."""
        assert self._child is not None, "start it first"
        if self._child.end(timeout_seconds) != 0:
            raise self._child.failure(f"yak produce of {self._path}")
        for record in self._records:
            self._recorder.sent(record, Outcome.OK, None)

    def abandon(self) -> None:
        """Stop at once."""
        if self._child is not None:
            self._child.end()


def csv_record_id(row: dict[str, str]) -> int:
    """The number of a CSV row's record, whose value is JSON without the key's column."""
    return record_id(json.dumps({column: row[column] for column in CSV_COLUMNS if column != CSV_KEY}).encode())
