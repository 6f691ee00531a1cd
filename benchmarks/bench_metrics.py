"""What a scrape of many partitions takes, and what it costs a producer meanwhile.

    .venv/bin/python benchmarks/bench_metrics.py [PARTITIONS] [SECONDS]

One broker with PARTITIONS partitions (5000) in topics of ten. A producer sends a small batch 300 times a second; its times are from
when each was due, so that a broker that stands still is seen. SECONDS (15) without scrapes, then as long with one every second,
and both once more. The goals: a scrape in under 300 ms, and the producer's p99 at most doubled by scrapes.
"""

from __future__ import annotations

import http.client
import multiprocessing
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from versus.brokers import free_port, running
from versus.yak_broker import YakBroker
from yak.client.bench.run import run_benchmark

from yak.client.bench.histogram import Histogram
from yak.client.bench.load import Load

TOPIC_PARTITIONS = 10
TOPICS_PER_REQUEST = 50
RATE = 300
SCRAPE_MS_GOAL = 300
P99_GOAL = 2.0


def create(broker: YakBroker, partitions: int) -> str:
    """Topics of ten partitions each; the name of one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = [f"topic-{number:05}" for number in range(partitions // TOPIC_PARTITIONS)]
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        topics = [NewTopic(name, TOPIC_PARTITIONS, 1) for name in names[first : first + TOPICS_PER_REQUEST]]
        for future in admin.create_topics(topics, request_timeout=60, operation_timeout=60).values():
            future.result(90)
    return names[0]


def produce(broker: YakBroker, topic: str, seconds: float) -> Histogram:
    """The latencies of small batches at a fixed rate, each from when it was due."""
    load = Load("latency", broker.bootstrap, topic, rate=RATE, duration_s=seconds, linger_ms=0, warm_up_s=0)
    return run_benchmark(load).latency


def scrape_when_told(address: str, told: Connection) -> None:
    """A process of its own, that takes nothing from the producer: (ms, bytes) of each scrape between two words."""
    host, _, port = address.rpartition(":")
    client = http.client.HTTPConnection(host, int(port), timeout=30)
    while told.recv() == "begin":
        found = []
        while not told.poll(1.0):
            began = time.perf_counter()
            client.request("GET", "/metrics")
            answer = client.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            found.append(((time.perf_counter() - began) * 1000, len(body)))
        told.recv()
        told.send(found)


def say(what: str, latency: Histogram) -> float:
    """One line; gives the p99 in ms."""
    p50, p99, p999 = (latency.percentile(percent) / 1e6 for percent in (50, 99, 99.9))
    longest = latency.max / 1e6
    print(
        f"{what:<18} p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   p99.9 {p999:6.2f} ms   max {longest:6.2f} ms", flush=True
    )
    return p99


def measure(broker: YakBroker, topic: str, seconds: float) -> bool:
    """All phases; whether the goals are met."""
    here, there = multiprocessing.Pipe()
    address = f"127.0.0.1:{broker.http_port}"
    scraper = multiprocessing.Process(target=scrape_when_told, args=(address, there))
    scraper.start()
    there.close()  # so that the end of the scraper is seen here
    without, during = Histogram(), Histogram()
    scrapes: list[tuple[float, int]] = []
    try:
        here.send("begin")  # loads the library, outside of what is measured
        produce(broker, topic, 3)
        here.send("stop")
        here.recv()
        for _ in range(2):
            without.add(produce(broker, topic, seconds))
            here.send("begin")
            during.add(produce(broker, topic, seconds))
            here.send("stop")
            scrapes += here.recv()
        here.send("end")
    finally:
        scraper.join(10)
        scraper.kill()
    quiet, busy = say("without scrapes", without), say("with scrapes", during)
    times = [ms for ms, _size in scrapes]
    print(
        f"{len(scrapes)} scrapes of {scrapes[-1][1] / 1e6:.1f} MB: median {statistics.median(times):.0f} ms, max {max(times):.0f} ms"
    )
    return max(times) < SCRAPE_MS_GOAL and busy <= P99_GOAL * quiet


def main() -> int:
    """1 when a goal is missed."""
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 15.0
    with (
        tempfile.TemporaryDirectory(prefix="yak-metrics-") as name,
        running(YakBroker(Path(name) / "yak", http_port=free_port())) as broker,
    ):
        began = time.monotonic()
        topic = create(broker, partitions)
        print(f"{partitions} partitions made in {time.monotonic() - began:.1f} s", flush=True)
        met = measure(broker, topic, seconds)
    print(f"goals (scrape < {SCRAPE_MS_GOAL} ms, p99 at most {P99_GOAL:g} times): {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
