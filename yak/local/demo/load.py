"""The demo's clients: each sends real data while the broker is killed, and tracks its acknowledgements.

All of them use acks=all with idempotence, so a retry after the kill cannot store a duplicate.
"""

import contextlib
import csv
import importlib.metadata
import importlib.util
import json
import logging
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

from yak.errors import YakError
from yak.local.bench.pauses import longest_pause
from yak.local.broker_process import parse_error
from yak.local.demo.ledger import Acknowledged
from yak.local.demo.live_load import LiveLoad
from yak.local.demo.sources import CSV_COLUMNS, host_name, process_samples, server_samples
from yak.local.spawn import yak_argv, yak_environment

SAMPLES_PER_SECOND = 100
CSV_KEY = "folder"


class LoadClient(Protocol):
    """One client under load. Moments are `time.monotonic()`."""

    topic: str
    what: str
    name: str

    def start(self) -> None:
        """Start sending."""

    def acknowledged_count(self) -> int:
        """The number of acknowledged records so far, as far as this client reports it."""

    def first_ack_after(self, moment: float) -> float | None:
        """When the first record that was sent after a moment was acknowledged."""

    def longest_pause(self, since: float, until: float) -> float | None:
        """Seconds of the longest time between two acknowledgements that overlaps this interval; None if unknown."""

    def finish(self, timeout_seconds: float) -> list[Acknowledged]:
        """Stop sending, wait for records in flight, and return the acknowledged records in the order of sending."""

    def abandon(self) -> None:
        """Stop at once after an error of the demo, whatever is in flight."""


class _AckTimes:
    """The acknowledged records, and the times of their acknowledgements."""

    def __init__(self) -> None:
        self._sent_and_acked: list[tuple[float, float]] = []
        self._acknowledged: dict[int, Acknowledged] = {}

    def note(self, number: int, sent_at: float, acknowledged: Acknowledged) -> None:
        self._acknowledged[number] = acknowledged
        self._sent_and_acked.append((sent_at, time.monotonic()))

    def count(self) -> int:
        return len(self._acknowledged)

    def first_after(self, moment: float) -> float | None:
        later = [acked for sent, acked in list(self._sent_and_acked) if sent > moment]
        return min(later, default=None)

    def longest_pause(self, since: float, until: float) -> float | None:
        return longest_pause(sorted(acked for _, acked in list(self._sent_and_acked)), since, until)

    def in_order(self) -> list[Acknowledged]:
        return [self._acknowledged[number] for number in sorted(self._acknowledged)]


class ServerMetrics(LiveLoad):
    """CPU and memory of this machine, sampled live, through confluent-kafka."""

    topic = "server_metrics"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, "yak-demo-metrics", SAMPLES_PER_SECOND)
        self.what = "this machine's CPU and memory, live, keyed by host"
        self._acks = _AckTimes()
        self._host = host_name()
        self._samples = server_samples(self._host)

    def acknowledged_count(self) -> int:
        """The number of acknowledged records so far."""
        return self._acks.count()

    def first_ack_after(self, moment: float) -> float | None:
        """When the first record that was sent after a moment was acknowledged."""
        return self._acks.first_after(moment)

    def longest_pause(self, since: float, until: float) -> float | None:
        """Seconds of the longest time between two acknowledgements that overlaps this interval."""
        return self._acks.longest_pause(since, until)

    def finish(self, timeout_seconds: float) -> list[Acknowledged]:
        """Stop sending and wait for records in flight."""
        self.stop(timeout_seconds)
        return self._acks.in_order()

    def send(self, number: int) -> None:
        """Send one sample."""
        sent_at, key, value = time.monotonic(), self._host.encode(), next(self._samples)

        def delivered(error: object, message: Any) -> None:
            if error is None:
                self._acks.note(
                    number, sent_at, Acknowledged(key, value, int(message.partition()), int(message.offset()))
                )

        self.producer.produce(self.topic, key=key, value=value, on_delivery=delivered)


class CsvFile:
    """A CSV file through `yak produce` in its own process, which ends with 0 only when all rows are stored."""

    topic = "files"

    def __init__(self, bootstrap: str, path: str, rows: int, seconds: float) -> None:
        self.what = f"a CSV file of {rows} rows: Python's files, keyed by {CSV_KEY}"
        self.name = "yak produce -f (its own process)"
        self._path = path
        self._rows = rows
        arguments = ["produce", self.topic, "-f", path, "--csv-key", CSV_KEY, "--csv-value", "json"]
        arguments += ["--rate", str(max(1, round(rows / seconds))), "-b", bootstrap, "-q", "--timeout", "60s"]
        self._arguments = arguments
        self._child: subprocess.Popen[str] | None = None
        self._ended_well = False

    def start(self) -> None:
        """Start sending."""
        self._child = subprocess.Popen(  # noqa: S603 - our own command, no shell
            yak_argv(*self._arguments),
            env=yak_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def acknowledged_count(self) -> int:
        """The number of acknowledged records: all rows or none."""
        return self._rows if self._ended_well else 0

    def first_ack_after(self, moment: float) -> float | None:  # noqa: ARG002 - it only tells at its end
        """None: the process reports no single record."""
        return None

    def longest_pause(self, since: float, until: float) -> float | None:  # noqa: ARG002 - likewise
        """None: the process reports no single record."""
        return None

    def finish(self, timeout_seconds: float) -> list[Acknowledged]:
        """Wait for the end. Raises the YakError that `yak produce` ended with."""
        assert self._child is not None, "start it first"
        try:
            _, errors = self._child.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            self._child.kill()
            _, errors = self._child.communicate()
        if self._child.returncode != 0:
            raise parse_error(errors, self._child.returncode) or YakError(
                "demo-client",
                f"yak produce of {self._path} ended with exit code {self._child.returncode}",
                why=errors.strip().rpartition("\n")[2] or "it said nothing",
            )
        self._ended_well = True
        return list(self._acknowledged())

    def abandon(self) -> None:
        """Stop at once."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.communicate()

    def _acknowledged(self) -> Iterator[Acknowledged]:
        with open(self._path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                yield Acknowledged(row[CSV_KEY].encode(), csv_content(row))


class Processes:
    """This machine's processes through kafka-python, which shares no code with librdkafka; only if it is installed."""

    topic = "processes"
    what = "this machine's processes, live, keyed by pid"

    def __init__(self, bootstrap: str) -> None:
        from kafka import KafkaProducer

        # It logs the intended kill to stderr.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self.name = f"kafka-python {importlib.metadata.version('kafka-python')} (no librdkafka in it)"
        self._enough = threading.Event()
        self._acks = _AckTimes()
        self._thread = threading.Thread(target=self._run, name="processes", daemon=True)
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            client_id="yak-demo-processes",
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

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def acknowledged_count(self) -> int:
        """The number of acknowledged records so far."""
        return self._acks.count()

    def first_ack_after(self, moment: float) -> float | None:
        """When the first record that was sent after a moment was acknowledged."""
        return self._acks.first_after(moment)

    def longest_pause(self, since: float, until: float) -> float | None:
        """Seconds of the longest time between two acknowledgements that overlaps this interval."""
        return self._acks.longest_pause(since, until)

    def finish(self, timeout_seconds: float) -> list[Acknowledged]:
        """Stop sending and wait for records in flight."""
        self._enough.set()
        self._thread.join(timeout_seconds)
        self._producer.flush(timeout_seconds)
        self._producer.close(timeout=5)
        return self._acks.in_order()

    def abandon(self) -> None:
        """Stop at once."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        with contextlib.suppress(Exception):
            self._producer.close(timeout=0)

    def _run(self) -> None:
        began = time.monotonic()
        for number, (key, value) in enumerate(process_samples()):
            self._send(number, key, value)
            if self._enough.wait(max(0.0, began + (number + 1) / SAMPLES_PER_SECOND - time.monotonic())):
                return

    def _send(self, number: int, key: bytes, value: bytes) -> None:
        sent_at = time.monotonic()

        def stored(metadata: Any) -> None:
            acknowledged = Acknowledged(key, value, int(metadata.partition), int(metadata.offset))
            self._acks.note(number, sent_at, acknowledged)

        self._producer.send(self.topic, key=key, value=value).add_callback(stored)


def csv_content(row: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """The content of a CSV row without its key column, independent of the order and spacing of its JSON."""
    return tuple((column, row[column]) for column in CSV_COLUMNS if column != CSV_KEY)


def content_of(topic: str, value: bytes) -> object:
    """The identifying content of a topic's record; the bytes themselves for a foreign record."""
    if topic != CsvFile.topic:
        return value
    try:
        return csv_content({column: str(text) for column, text in json.loads(value).items()})
    except (ValueError, KeyError, AttributeError):
        return value
