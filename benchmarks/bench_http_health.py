"""How fast `/health` is, and what it takes from a Kafka client when both run as fast as they can.

    python benchmarks/bench_http_health.py [--seconds 4] [--rounds 3] [--connections 16]

First /health alone: requests a second and p99, with the broker's CPU. Then a producer at full speed, alone and beside
/health at full speed, in turns; the medians are compared. Goal: 1,500 requests/s with p99 under 15 ms, and at most 10 % less
for the producer. One broker, replication factor 1, acks=all, records of 100 bytes.
"""

import argparse
import statistics
import threading

from http_load.asker import Asked, ask_for
from versus.yak_cluster import local_cluster
from yak.client.bench.cpu import process_cpu_seconds
from yak.client.bench.run import run_benchmark

from yak.client.admin import Admin
from yak.client.bench.load import Load

TOPIC = "load"


def produce_rate(bootstrap: str, seconds: float, batch_bytes: int) -> float:
    """Records acknowledged in a second by a producer at full speed."""
    properties = {"batch.size": str(batch_bytes)}
    load = Load("produce", bootstrap, TOPIC, duration_s=seconds, linger_ms=0, warm_up_s=0, properties=properties)
    return run_benchmark(load).records_per_s


def show(name: str, asked: Asked) -> None:
    """One line."""
    print(
        f"{name:34} {asked.requests / asked.seconds:8,.0f} requests/s   p50 {asked.percentile(0.5):6.2f} ms   "
        f"p99 {asked.percentile(0.99):6.2f} ms",
        flush=True,
    )


def beside(url: str, path: str, connections: int, seconds: float, bootstrap: str, batch: int) -> tuple[float, Asked]:
    """A producer and an asker at the same time."""
    found: list[Asked] = []
    asking = threading.Thread(
        target=lambda: found.append(ask_for(url, path, connections=connections, seconds=seconds + 0.5))
    )
    asking.start()
    rate = produce_rate(bootstrap, seconds, batch)
    asking.join()
    return rate, found[0]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--path", default="/health")
    parser.add_argument("--batch", type=int, default=16_384, help="the producer's batch.size")
    options = parser.parse_args()
    with local_cluster(brokers=1) as cluster:
        (broker,) = cluster.status().brokers
        assert broker.http_address is not None
        assert broker.pid is not None
        Admin(broker.address).create_topic(TOPIC, assignment=[[broker.node_id]])
        url = broker.http_address
        ask_for(url, options.path, connections=4, seconds=1.0)
        for connections in (1, options.connections):
            used = process_cpu_seconds(broker.pid)
            asked = ask_for(url, options.path, connections=connections, seconds=options.seconds)
            used = process_cpu_seconds(broker.pid) - used
            show(f"{options.path}, {connections} connections", asked)
            print(f"{'':34} {used / asked.requests * 1e6:8.0f} us of the broker's CPU a request", flush=True)
        alone, together = [], []
        produce_rate(broker.address, 1.0, options.batch)
        for _ in range(options.rounds):
            alone.append(produce_rate(broker.address, options.seconds, options.batch))
            rate, asked = beside(url, options.path, options.connections, options.seconds, broker.address, options.batch)
            together.append(rate)
            print(f"producer alone {alone[-1]:9,.0f} records/s   beside {rate:9,.0f} records/s", flush=True)
            show(f"{options.path} beside the producer", asked)
        before, after = statistics.median(alone), statistics.median(together)
        print(f"medians: {before:,.0f} -> {after:,.0f} records/s, {(1 - after / before) * 100:.1f} % less")


if __name__ == "__main__":
    main()
