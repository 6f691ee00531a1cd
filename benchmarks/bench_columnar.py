"""What the columnar reader takes for a row, without Spark: decoding alone, and reading from a broker, beside librdkafka.

Decoding is measured on one fetch answer of a megabyte, so it says what the reader costs when the network is free.
"""

import argparse
import statistics
import struct
import sys
import time
from collections.abc import Callable

import confluent_kafka
import numpy as np
from on_spark.topics import fill, make_topic
from versus.yak_cluster import local_cluster

from yak.protocol.record_writer import build_batch
from yak.spark.columnar.batches import survey, unpack
from yak.spark.columnar.columns import decode
from yak.spark.columnar.read import read
from yak.spark.columnar.schema import OffsetRange, ReadSettings

ANSWER_BYTES = 1 << 20
BATCH_BYTES = 64 << 10
ROUNDS = 5


def answer(size_bytes: int, *, is_varied: bool) -> tuple[np.ndarray, int]:
    """(a megabyte of batches as librdkafka would send them, how many records)."""
    rng = np.random.default_rng(1)
    records_per_batch = BATCH_BYTES // size_bytes
    out, count = bytearray(), 0
    while len(out) < ANSWER_BYTES:
        sizes = rng.integers(size_bytes // 2, size_bytes * 3 // 2, records_per_batch) if is_varied else None
        values = [bytes(size_bytes if sizes is None else sizes[index]) for index in range(records_per_batch)]
        made = bytearray(build_batch([(None, value) for value in values], 1_700_000_000_000))
        struct.pack_into(">q", made, 0, count)  # the base offset lies outside of the CRC
        out += made
        count += records_per_batch
    return np.frombuffer(bytes(out), np.uint8), count


def rate(count: int, work: Callable[[], object], rounds: int = ROUNDS) -> tuple[float, float]:
    """(rows a second, CPU microseconds a row) of the median round."""
    found = []
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((count / (time.perf_counter() - began), (time.process_time() - cpu) * 1e6 / count))
    return statistics.median(each[0] for each in found), statistics.median(each[1] for each in found)


def say(name: str, found: tuple[float, float]) -> None:
    """A line of the result."""
    sys.stdout.write(f"{name:<44} {found[0]:>12,.0f} rows/s  {found[1]:.2f} CPU us a row\n")
    sys.stdout.flush()


def decoding() -> None:
    """Answers of rows of one size, and of sizes that vary."""
    for size_bytes in (100, 1000):
        for is_varied in (False, True):
            data, count = answer(size_bytes, is_varied=is_varied)

            def once(data: np.ndarray = data, count: int = count) -> None:
                for _ in range(20):
                    found = unpack(data, survey(data.data, 0, count, None))
                    assert decode(found, 0, count, include_headers=False).num_rows == count

            shape = "of varied sizes" if is_varied else "of one size"
            say(f"decode, {size_bytes} B {shape}", rate(20 * count, once))


def consume(bootstrap: str, topic: str, records: int) -> None:
    """The same records by librdkafka, as bytes objects."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "fetch.queue.backoff.ms": 1}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    have = 0
    while have < records:
        have += len([message.value() for message in consumer.consume(1000, 10)])
    consumer.close()


def reading(records: int) -> None:
    """From a broker on this machine, over loopback."""
    with local_cluster(brokers=1, no_http=True) as local:
        bootstrap = local.status().brokers[0].address
        for size_bytes, count in ((100, records), (1000, records // 5)):
            for codec in ("none", "lz4", "zstd"):
                topic = f"rows-{size_bytes}-{codec}"
                make_topic(bootstrap, topic, 1)
                fill(bootstrap, topic, 1, count, size_bytes, **{"compression.type": codec})
                for fetch_bytes in (1 << 20, 4 << 20):
                    settings = ReadSettings(bootstrap, fetch_bytes=fetch_bytes)

                    def once(settings: ReadSettings = settings, topic: str = topic, count: int = count) -> None:
                        assert sum(each.num_rows for each in read(OffsetRange(topic, 0, 0, count), settings)) == count

                    say(f"read, {size_bytes} B, {codec}, {fetch_bytes >> 20} MB at a time", rate(count, once))
                say(
                    f"librdkafka, {size_bytes} B, {codec}",
                    rate(count, lambda t=topic, c=count: consume(bootstrap, t, c), 3),
                )


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000, help="of a topic (default 1 million)")
    options = parser.parse_args()
    decoding()
    reading(options.records)


if __name__ == "__main__":
    main()
