"""Microseconds of one append and bytes per second of reads, on this machine's disk. Run by hand:

.venv/bin/python benchmarks/bench_log_append.py [--rounds N] [--directory DIR]

The first figure is with a file that writes nowhere (Python alone), the second with the real disk and its system call.
"""

import argparse
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from yak.config.log_config import LogConfig
from yak.ids import TopicPartition
from yak.protocol.record_batch import read_header
from yak.server.disk import RealDisk
from yak.sim.disk import SimDisk
from yak.storage.log import Log
from yak.storage.log_store import LogStore


def make_batch(records: int, value_bytes: int, *, producer_id: int = -1) -> bytes:
    """A batch of equal records."""
    builder = DefaultRecordBatchBuilder(
        2, 0, 0, producer_id, 0 if producer_id >= 0 else -1, 0 if producer_id >= 0 else -1, 1 << 21
    )
    for index in range(records):
        builder.append(index, 1_700_000_000_000, None, bytes(value_bytes), [])
    return bytes(builder.build())


class NullFile:
    """Takes appends and keeps nothing."""

    path = "/dev/null"

    def append(self, buffers: object) -> int:
        """Nothing is written."""
        return 0


def best_of(rounds: int, run: Callable[[], float]) -> float:
    """The least of several measurements: what the code costs when nothing disturbs it."""
    return min(run() for _ in range(rounds))


def time_appends(log: Log, batch: bytes, count: int) -> float:
    """Microseconds of one append."""
    header = read_header(batch)
    append = log.append
    start = time.perf_counter()
    for _ in range(count):
        append(header, batch, 0, 0)
    return (time.perf_counter() - start) / count * 1e6


def time_reads(log: Log, max_bytes: int) -> tuple[float, float]:
    """(GB/s, microseconds of one read) of a sequential consumer over the whole log."""
    offset, total, reads = log.log_start_offset, 0, 0
    start = time.perf_counter()
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes, log.log_end_offset, at_least_one=True)
        assert not hasattr(data, "run"), "not in the page cache"
        total += len(data)
        reads += 1
        position = 0
        # as a client does, find where the answer ends; only the last header matters to the broker
        while position < len(data):
            header = read_header(data, position)
            position += header.size_bytes
        offset += (len(data) // header.size_bytes) * (header.last_offset_delta + 1)
    elapsed = time.perf_counter() - start
    return total / elapsed / 1e9, elapsed / reads * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", default=None)
    arguments = parser.parse_args()
    small, idempotent, large = make_batch(1, 100), make_batch(1, 100, producer_id=7), make_batch(1000, 1000)
    config = LogConfig()

    def store(disk: object, path: str) -> LogStore:
        return LogStore.open(disk, [path], 1, uuid.uuid4, 0, lambda _topic: config)  # type: ignore[arg-type]

    null = store(SimDisk(), "/data").create(TopicPartition("null", 0), uuid.uuid4(), config)
    null.active.file = NullFile()  # type: ignore[assignment]
    for name, batch in (("1 record", small), ("1 record, idempotent", idempotent), ("1 MB", large)):
        figure = best_of(
            arguments.rounds, lambda batch=batch: time_appends(null, batch, 20_000 if len(batch) < 10_000 else 150)
        )
        null.truncate_fully_and_start_at(0, 0)
        null.active.file = NullFile()  # type: ignore[assignment]
        print(f"append, Python alone, {name:22} {figure:8.2f} us")

    path = tempfile.mkdtemp(prefix="yak-bench-", dir=arguments.directory)
    try:
        real = store(RealDisk(), path)
        log = real.create(TopicPartition("small", 0), uuid.uuid4(), config)
        figure = best_of(arguments.rounds, lambda: time_appends(log, small, 20_000))
        print(f"append, real disk,    {'1 record':22} {figure:8.2f} us")
        big = real.create(TopicPartition("large", 0), uuid.uuid4(), config)
        figure = best_of(arguments.rounds, lambda: time_appends(big, large, 50))
        print(f"append, real disk,    {'1 MB':22} {figure:8.2f} us = {len(large) / figure / 1e3:.2f} GB/s")
        rate, each = time_reads(big, 1_100_000)
        print(f"read 1 MB at a time:  {rate:.2f} GB/s, {each:.0f} us a read")
        rate, each = time_reads(log, 65536)
        print(f"read 64 KB of small batches (with a client's header walk): {rate:.2f} GB/s, {each:.0f} us a read")
        header = read_header(small)
        start = time.perf_counter()
        for _ in range(20_000):
            offset = log.append(header, small, 0, 0)
            log.read(offset, 1 << 20, offset + 1, at_least_one=True)
        print(f"append and tail read, 1 record: {(time.perf_counter() - start) / 20_000 * 1e6:.2f} us")
    finally:
        shutil.rmtree(path)


if __name__ == "__main__":
    main()
