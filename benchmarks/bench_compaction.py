"""Megabytes a second that compaction reads and rewrites on one core. Run by hand:

    .venv/bin/python benchmarks/bench_compaction.py [--megabytes N] [--directory DIR]

Each row is a log of records with one of 50,000 keys; a tenth of the records are tombstones. All of the log is dirty.
Megabytes are those of the uncompressed records.
"""

import argparse
import random
import shutil
import tempfile
import time
import uuid

from aiokafka.record.default_records import DefaultRecordBatchBuilder

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
    """Fill a log, compact it once, and print what that took."""
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


def main() -> None:
    """Print each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    for value_bytes, codec in ROWS:
        directory = tempfile.mkdtemp(prefix="bench-compaction-", dir=options.directory)
        try:
            measure(directory, options.megabytes * 1_000_000, value_bytes, codec)
        finally:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
