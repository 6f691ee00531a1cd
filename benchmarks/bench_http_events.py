"""What 200 listeners to `/api/events` cost a producer: its p99 without and with them, in turns.

    python benchmarks/bench_http_events.py [--listeners 200] [--rate 2000] [--seconds 6] [--rounds 5]

One broker, replication factor 1, acks=all, records of 100 bytes one by one at a fixed rate. The listeners want everything: so each
is sent the progress of the topic several times a second, and rates once. Goal: at most 10 % on p99.
"""

import argparse
import statistics

from http_load.listening import Listeners
from versus.yak_cluster import local_cluster
from yak.client.bench.cpu import process_cpu_seconds
from yak.client.bench.run import run_benchmark

from yak.client.admin import Admin
from yak.client.bench.histogram import Histogram
from yak.client.bench.load import Load

TOPIC = "load"


def acknowledged(bootstrap: str, seconds: float, rate: int) -> Histogram:
    """The latencies of records sent one by one at a steady rate, each from when it was due."""
    return run_benchmark(
        Load("latency", bootstrap, TOPIC, rate=rate, duration_s=seconds, linger_ms=0, warm_up_s=0)
    ).latency


def ms(latency: Histogram, percent: float) -> float:
    """A percentile in milliseconds."""
    return latency.percentile(percent) / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--path", default="/api/events")
    options = parser.parse_args()
    with local_cluster(brokers=1) as cluster:
        (broker,) = cluster.status().brokers
        assert broker.http_address is not None
        assert broker.pid is not None
        Admin(broker.address).create_topic(TOPIC, assignment=[[broker.node_id]])
        acknowledged(broker.address, 2.0, options.rate)
        found: dict[int, list[float]] = {0: [], options.listeners: []}
        together = {listeners: Histogram() for listeners in found}
        for _ in range(options.rounds):
            for listeners, p99s in found.items():
                used = process_cpu_seconds(broker.pid)
                with Listeners(broker.http_address, options.path, listeners) as listening:
                    latency = acknowledged(broker.address, options.seconds, options.rate)
                used = process_cpu_seconds(broker.pid) - used
                p99s.append(ms(latency, 99))
                together[listeners].add(latency)
                print(
                    f"{listeners:4} listeners: p50 {ms(latency, 50):6.2f} ms   "
                    f"p99 {p99s[-1]:6.2f} ms   broker {used / options.seconds * 100:3.0f} % CPU   "
                    f"{listening.reads / options.seconds:7,.0f} events sent/s",
                    flush=True,
                )
        before, after = (statistics.median(each) for each in found.values())
        print(f"median p99:    {before:.2f} -> {after:.2f} ms, {(after / before - 1) * 100:+.1f} %")
        before, after = (ms(each, 99) for each in together.values())
        print(f"p99 of all:    {before:.2f} -> {after:.2f} ms, {(after / before - 1) * 100:+.1f} %")


if __name__ == "__main__":
    main()
