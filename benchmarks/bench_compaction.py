"""Megabytes a second that compaction reads and rewrites on one core, and what it adds to acknowledgements. Run by hand:

    .venv/bin/python benchmarks/bench_compaction.py [--megabytes N] [--rounds N] [--directory DIR]

Each row of the first part is a log of records with one of 50,000 keys; a tenth of the records are tombstones. All of the
log is dirty. Megabytes are those of the uncompressed records. `--megabytes 0` leaves this part out.

The second part is one `yak serve`. A producer sends 1,000 records a second, acks=all, linger 0, while the log cleaner is
idle, while it compacts another topic with records of 100 B, and while it is idle and another process computes, which shows
what a busy processor alone costs. The three take turns, and a round has them in the opposite order of the round before.
The goal is a p99 of at most twice the one without compaction. `--rounds 0` leaves this part out.
"""

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka import Producer
from versus.brokers import running
from versus.loads import ack_latency, send
from versus.yak_broker import YakBroker

from yak.attempts import attempts
from yak.client.admin import Admin
from yak.client.bench.topics import fresh_topic
from yak.config.log_config import LogConfig
from yak.ids import TopicPartition
from yak.protocol.record_batch import read_header
from yak.server.disk import RealDisk
from yak.storage.batch_filter import readable_records
from yak.storage.compaction import Compaction, CompactionResult, Replacement, cleanable
from yak.storage.log_store import LogStore

ROWS = ((100, "none"), (100, "lz4"), (1000, "none"), (1000, "zstd"))
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
KEYS = 50_000
PRODUCED_BYTES = (100, 1000)
MEASURED_SECONDS = 6.0
DIRTY_BYTES = 300_000_000
"""More than the cleaner compacts in `MEASURED_SECONDS`."""
DIRTY_PARTITIONS = 2
"""The load overlaps with both halves of a round: the cleaner reads the keys of a log, rewrites it, and begins the next."""
FLUSHED_SECONDS = 1.0
"""After this time the closed segments are flushed; the cleaner excludes others."""
COMPACTED_SECONDS = 120
P99_GOAL = 2.0
IDLE, COMPACTING, COMPUTING = "idle", "beside compaction", "beside a process that computes"
COMPUTE = "data = bytearray(1 << 20)\nwhile True: sum(bytes(data[:100_000]))"


def batches(total_bytes: int, value_bytes: int, codec: str) -> list[bytes]:
    """Batches of records of about 16 KB before compression, with random keys and values half of which is random."""
    rng = random.Random(1)
    made, size = [], 0
    count = max(1, 16_384 // (value_bytes + 20))
    zeros = bytes(value_bytes - value_bytes // 2)
    while size < total_bytes:
        builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 1 << 21)
        for index in range(count):
            value = None if rng.random() < 0.1 else rng.randbytes(value_bytes // 2) + zeros
            builder.append(index, 1_700_000_000_000, b"user-%08d" % rng.randrange(KEYS), value, [])
        made.append(bytes(builder.build()))
        size += count * value_bytes
    return made


def measure(directory: str, total_bytes: int, value_bytes: int, codec: str) -> None:
    disk = RealDisk()
    config = LogConfig(cleanup_policy="compact", segment_bytes=64 << 20)
    store = LogStore.open(disk, [directory], 1, uuid.uuid4, 0, lambda _topic: config)
    log = store.create(TopicPartition("bench", 0), uuid.uuid4(), config)
    records = uncompressed = 0
    for batch in batches(total_bytes, value_bytes, codec):
        header = read_header(batch)
        log.append(header, bytearray(batch), 0, 0)
        records += header.records_count
        uncompressed += len(readable_records(header, batch))
    log.roll(0)
    log.recovery_point = log.log_end_offset
    compaction = Compaction(log, cleanable(log, log.log_end_offset, 0), 64 << 20, 0)
    longest = 0.0
    started = time.perf_counter()
    used = time.process_time()
    pieces = 0
    done = None
    while not isinstance(done, CompactionResult):
        piece = time.perf_counter()
        done = compaction.next_piece(disk)
        longest = max(longest, time.perf_counter() - piece)
        pieces += 1
        if isinstance(done, Replacement):
            log.replace_segments(done.replaced, done.cleaned).run(disk)
    used = time.process_time() - used
    took = time.perf_counter() - started
    print(
        f"{value_bytes:5} B {codec:5} {uncompressed / 1e6:6.0f} MB {records:9} records: {uncompressed / 1e6 / used:6.1f} MB/s of processor time, "
        f"{uncompressed / 1e6 / took:6.1f} MB/s; {pieces} pieces, the longest {longest * 1e3:.1f} ms; "
        f"{done.bytes_after / 1e6:.0f} MB left"
    )


class BesideCompaction:
    """A running broker, and the acknowledgements of a steady producer beside different loads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "yak"
        self.broker = YakBroker(self._folder, configs=("log.cleaner.backoff.ms=0",))
        self._made = 0
        self._p50_ms: dict[tuple[int, str], list[float]] = {}
        self._p99_ms: dict[tuple[int, str], list[float]] = {}

    def measure_idle(self, size_bytes: int) -> str:
        with fresh_topic(Admin(self.broker.bootstrap), self._name("steady"), 1) as topic:
            self._take(topic, size_bytes, IDLE)
        return ""

    def measure_computing(self, size_bytes: int) -> str:
        with (
            fresh_topic(Admin(self.broker.bootstrap), self._name("steady"), 1) as topic,
            subprocess.Popen([sys.executable, "-c", COMPUTE]) as process,
        ):
            try:
                self._take(topic, size_bytes, COMPUTING)
            finally:
                process.kill()
        return ""

    def measure_compacting(self, size_bytes: int) -> str:
        """One load while the cleaner compacts a topic. Returns its speed. Raises RuntimeError if it was done too soon."""
        admin = Admin(self.broker.bootstrap)
        configs = {"segment.bytes": str(16 << 20)}
        with (
            fresh_topic(admin, self._name("dirty"), DIRTY_PARTITIONS, configs=configs) as dirty,
            fresh_topic(admin, self._name("steady"), 1) as steady,
        ):
            self._fill(dirty)
            time.sleep(FLUSHED_SECONDS)
            admin.alter_configs("topic", dirty, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
            self._take(steady, size_bytes, COMPACTING)
            if self._bytes_per_ms(dirty) is not None:
                raise RuntimeError("the topic was compacted before the end of the load: raise DIRTY_BYTES")
            for _ in attempts(COMPACTED_SECONDS, 0.1):
                if (speed := self._bytes_per_ms(dirty)) is not None:
                    return f", {speed / 1e3:.1f} MB/s by the clock"
        raise RuntimeError(f"{dirty} is not compacted after {COMPACTED_SECONDS} s:\n{self.broker.log_tail()}")

    def latest_p99(self, size_bytes: int) -> str:
        return ", ".join(f"{load} {self._p99_ms[size_bytes, load][-1]:.3f}" for load in (IDLE, COMPACTING, COMPUTING))

    def report(self, size_bytes: int) -> str:
        """Medians over the rounds, and their ratios to those of an idle cleaner."""
        lines = []
        for name, found in (("p50", self._p50_ms), ("p99", self._p99_ms)):
            idle = statistics.median(found[size_bytes, IDLE])
            for load in (IDLE, COMPACTING, COMPUTING):
                values = found[size_bytes, load]
                median = statistics.median(values)
                spread = f"{min(values):.3f} to {max(values):.3f}"
                goal = f" (goal {P99_GOAL:g})" if (name, load) == ("p99", COMPACTING) else ""
                lines.append(
                    f"{size_bytes:5} B {name} {load:30} {median:.3f} ms ({spread}), ratio {median / idle:.2f}{goal}"
                )
        return "\n".join(lines)

    def _name(self, word: str) -> str:
        self._made += 1
        return f"{word}-{self._made}"

    def _take(self, topic: str, size_bytes: int, load: str) -> None:
        result = ack_latency(self.broker, topic, MEASURED_SECONDS, size_bytes).result
        assert result is not None
        for percent, found in ((50, self._p50_ms), (99, self._p99_ms)):
            found.setdefault((size_bytes, load), []).append(result.latency.percentile(percent) / 1e6)

    def _fill(self, topic: str) -> None:
        rng = random.Random(1)
        zeros = bytes(50)
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "batch.size": 16_384,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        for _ in range(DIRTY_BYTES // 100):
            value = None if rng.random() < 0.1 else rng.randbytes(50) + zeros
            send(producer, topic, value, key=b"user-%08d" % rng.randrange(KEYS))
        if producer.flush(60):
            raise RuntimeError(f"{topic} could not be filled")

    def _bytes_per_ms(self, topic: str) -> float | None:
        """What the cleaner read, divided by the time that it took; None before the last partition is compacted."""
        rounds: dict[str, tuple[int, int]] = {}
        for line in (self._folder / "broker.log").read_text().splitlines():
            found = re.search(rf"log-compacted .*partition=({topic}-\d+) .*bytes_before=(\d+) .*took_ms=(\d+)", line)
            if found:
                rounds[found[1]] = int(found[2]), int(found[3])
        if len(rounds) < DIRTY_PARTITIONS:
            return None
        return sum(read for read, _ in rounds.values()) / sum(took_ms for _, took_ms in rounds.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    for value_bytes, codec in ROWS if options.megabytes else ():
        directory = tempfile.mkdtemp(prefix="bench-compaction-", dir=options.directory)
        try:
            measure(directory, options.megabytes * 1_000_000, value_bytes, codec)
        finally:
            shutil.rmtree(directory)
    if options.rounds:
        with tempfile.TemporaryDirectory(prefix="bench-compaction-", dir=options.directory) as directory:
            measure_produce(Path(directory), options.rounds)


def measure_produce(folder: Path, rounds: int) -> None:
    beside = BesideCompaction(folder)
    with running(beside.broker):
        for number in range(rounds):
            for size_bytes in PRODUCED_BYTES:
                loads = [beside.measure_idle, beside.measure_compacting, beside.measure_computing]
                speed = "".join(measure(size_bytes) for measure in (reversed(loads) if number % 2 else loads))
                load = f"load average {os.getloadavg()[0]:.1f}"
                p99 = beside.latest_p99(size_bytes)
                print(f"round {number + 1}, {size_bytes} B, p99 in ms: {p99}{speed}, {load}", flush=True)
    for size_bytes in PRODUCED_BYTES:
        print(beside.report(size_bytes))


if __name__ == "__main__":
    main()
