"""The demos' clients: each sends real data while brokers are killed, and records what is acknowledged.

All of them use acks=all with idempotence, so a retry after a kill cannot store a duplicate.
"""

import contextlib
import csv
import importlib.metadata
import importlib.util
import json
import logging
import os
import socket
import sys
import sysconfig
import time
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from yak.local.chaos.recorder import Recorder
from yak.local.demo.child import Child
from yak.local.load import LibrdkafkaLoad, Load
from yak.local.spawn import yak_argv
from yak.sim.history_checker.history import UNREADABLE, Outcome

CSV_COLUMNS = ("row", "folder", "file", "size_bytes", "modified")


def record_id(value: bytes | None) -> int:
    """The unique number of a record by its value: its number among its source's, and a checksum of its content.

    The spacing and the order of its JSON do not matter. UNREADABLE for a record of another source.
    """
    try:
        fields = json.loads(value or b"")
        number = int(fields["sample"] if "sample" in fields else fields["row"])
    except (ValueError, KeyError, TypeError):
        return UNREADABLE
    return (number & 0x7FFFFFFF) << 32 | zlib.crc32(json.dumps(fields, sort_keys=True).encode())


def host_name() -> str:
    """The key of every sample."""
    return socket.gethostname() or "localhost"


def server_samples(host: str) -> Iterator[bytes]:
    """CPU and memory of this machine as JSON, sampled at each iteration.

    `cpu_seconds` is the kernel's own counter since boot, which is exact at any sampling rate; a percentage over a few
    milliseconds would not be.
    """
    psutil.cpu_percent()
    for number in range(sys.maxsize):
        memory = psutil.virtual_memory()
        cpu = psutil.cpu_times()
        yield _json(
            {
                "sample": number,
                "host": host,
                "time_ms": time.time_ns() // 1_000_000,
                "cpu_seconds": {"user": cpu.user, "system": cpu.system, "idle": cpu.idle},
                "load_1m": os.getloadavg()[0],
                "memory_used_bytes": memory.total - memory.available,
                "memory_percent": memory.percent,
            }
        )


def process_samples() -> Iterator[tuple[bytes, bytes]]:
    """(pid, JSON) of the processes of this machine, in an endless cycle."""
    number = 0
    while True:
        for process in psutil.process_iter(["pid", "name", "memory_info", "cpu_times"]):
            info = process.info
            memory, cpu = info["memory_info"], info["cpu_times"]
            value = {
                "sample": number,
                "time_ms": time.time_ns() // 1_000_000,
                "name": info["name"],
                "rss_bytes": memory.rss if memory else None,
                "cpu_seconds": cpu.user + cpu.system if cpu else None,
            }
            yield str(info["pid"]).encode(), _json(value)
            number += 1


def write_file_list(path: str, at_most: int) -> int:
    """Write a CSV of files of the running Python (of the executable's bundle when frozen); return the number of
    rows."""
    root = Path(getattr(sys, "_MEIPASS", None) or sysconfig.get_paths()["stdlib"])
    rows = 0
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_COLUMNS)
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                if rows >= at_most:
                    return rows
                try:
                    found = os.stat(os.path.join(folder, name), follow_symlinks=False)
                except OSError:
                    continue
                relative = os.path.relpath(folder, root).split(os.sep)[0]
                modified = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime))
                writer.writerow((rows, relative, name, found.st_size, modified))
                rows += 1
    return rows


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


SAMPLES_PER_SECOND: Final = 100
CSV_KEY: Final = "folder"


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
        value, partition = next(self._samples), number % self._partitions
        record = record_id(value)
        self._recorder.sending(self.client_id, f"{self.topic}-{partition}", record)
        if not self.produce(
            self.topic, value, partial(self._recorder.delivered, record), key=self._host, partition=partition
        ):
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
        try:
            importlib.metadata.version("kafka-python")
        except importlib.metadata.PackageNotFoundError:
            return False
        return importlib.util.find_spec("kafka") is not None

    def send(self, number: int) -> None:  # noqa: ARG002 - the samples have numbers of their own
        key, value = next(self._samples)
        record = record_id(value)
        self._recorder.sending(self.client_id, f"{self.topic}-0", record)
        sent = self._producer.send(self.topic, key=key, value=value)
        sent.add_callback(lambda found: self._recorder.sent(record, Outcome.OK, int(found.offset)))

    def finish(self, timeout_seconds: float) -> None:
        self.stop(timeout_seconds)
        self._producer.flush(timeout_seconds)
        self._producer.close(timeout=5)

    def abandon(self) -> None:
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
        self._argv = ["produce", self.topic, "-f", path, "--csv-key", CSV_KEY, "--csv-value", "json", "-b", bootstrap]
        self._argv += ["--rate", str(max(1, round(rows / seconds))), "-q", "--timeout", "60s"]
        self._child: Child | None = None
        self._records: list[int] = []

    def start(self) -> None:
        with open(self._path, encoding="utf-8", newline="") as file:
            self._records = [csv_record_id(row) for row in csv.DictReader(file)]
        for record in self._records:
            self._recorder.sending("yak-produce", f"{self.topic}-0", record)
        self._child = Child(yak_argv(*self._argv))

    def finish(self, timeout_seconds: float) -> None:
        """Wait for the end. Raises the YakError that `yak produce` ended with."""
        assert self._child is not None, "start it first"
        if self._child.end(timeout_seconds) != 0:
            raise self._child.failure(f"yak produce of {self._path}")
        for record in self._records:
            self._recorder.sent(record, Outcome.OK, None)

    def abandon(self) -> None:
        if self._child is not None:
            self._child.end()


def csv_record_id(row: dict[str, str]) -> int:
    """The number of a CSV row's record, whose value is JSON without the key's column."""
    return record_id(json.dumps({column: row[column] for column in CSV_COLUMNS if column != CSV_KEY}).encode())
