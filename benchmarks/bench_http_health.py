"""How fast `/health` is, and what it takes from a Kafka client when both run as fast as they can.

    python benchmarks/bench_http_health.py [--seconds 4] [--rounds 3] [--connections 16]

First /health alone: requests a second and p99, with the broker's CPU. Then a producer at full speed, alone and beside
/health at full speed, in turns; the medians are compared. Goal: 1,500 requests/s with p99 under 15 ms, and at most 10 % less
for the producer. One broker, replication factor 1, acks=all, records of 100 bytes.
"""

import argparse
import os
import statistics
import tempfile
import threading
from pathlib import Path

from http_load.asker import Asked, ask_for
from http_load.producing import full_speed, in_process

from yak.client.admin import Admin
from yak.local.cluster import LocalCluster, UpSettings

TOPIC = "load"


def cpu_seconds(pid: int) -> float:
    """CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
    rate = in_process(full_speed, bootstrap, TOPIC, seconds, batch)
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
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(folder)
        try:
            cluster.up(UpSettings(port=0, brokers=1, leaders=1))
            (broker,) = cluster.status().brokers
            assert broker.http_address is not None
            assert broker.pid is not None
            Admin(broker.address).create_topic(TOPIC, assignment=[[broker.node_id]])
            url = broker.http_address
            ask_for(url, options.path, connections=4, seconds=1.0)
            for connections in (1, options.connections):
                used = cpu_seconds(broker.pid)
                asked = ask_for(url, options.path, connections=connections, seconds=options.seconds)
                used = cpu_seconds(broker.pid) - used
                show(f"{options.path}, {connections} connections", asked)
                print(f"{'':34} {used / asked.requests * 1e6:8.0f} us of the broker's CPU a request", flush=True)
            alone, together = [], []
            in_process(full_speed, broker.address, TOPIC, 1.0, options.batch)
            for _ in range(options.rounds):
                alone.append(in_process(full_speed, broker.address, TOPIC, options.seconds, options.batch))
                rate, asked = beside(
                    url, options.path, options.connections, options.seconds, broker.address, options.batch
                )
                together.append(rate)
                print(f"producer alone {alone[-1]:9,.0f} records/s   beside {rate:9,.0f} records/s", flush=True)
                show(f"{options.path} beside the producer", asked)
            before, after = statistics.median(alone), statistics.median(together)
            print(f"medians: {before:,.0f} -> {after:,.0f} records/s, {(1 - after / before) * 100:.1f} % less")
        finally:
            cluster.discard()


if __name__ == "__main__":
    main()
