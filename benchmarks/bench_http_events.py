"""What 200 listeners to `/api/events` cost a producer: its p99 without and with them, in turns.

    python benchmarks/bench_http_events.py [--listeners 200] [--rate 2000] [--seconds 6] [--rounds 5]

One broker, replication factor 1, acks=all, records of 100 bytes one by one at a fixed rate. The listeners want everything: so each
is sent the progress of the topic several times a second, and rates once. Goal: at most 10 % on p99.
"""

import argparse
import statistics
import tempfile

from bench_http_health import cpu_seconds
from http_load.listening import Listeners
from http_load.producing import fixed_rate, in_process

from yak.client.admin import Admin
from yak.local.cluster import LocalCluster, UpSettings

TOPIC = "load"


def percentile(latencies: list[float], share: float) -> float:
    """The latency in ms below which this share lies."""
    return latencies[min(len(latencies) - 1, int(len(latencies) * share))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--path", default="/api/events")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(folder)
        try:
            cluster.up(UpSettings(port=0, brokers=1, leaders=1))
            (broker,) = cluster.status().brokers
            assert broker.http_address is not None
            assert broker.pid is not None
            Admin(broker.address).create_topic(TOPIC, assignment=[[broker.node_id]])
            produce = (fixed_rate, broker.address, TOPIC)
            in_process(*produce, 2.0, options.rate)
            found: dict[int, list[float]] = {0: [], options.listeners: []}
            together: dict[int, list[float]] = {listeners: [] for listeners in found}
            for _ in range(options.rounds):
                for listeners, p99s in found.items():
                    used = cpu_seconds(broker.pid)
                    with Listeners(broker.http_address, options.path, listeners) as listening:
                        latencies = in_process(*produce, options.seconds, options.rate)
                    used = cpu_seconds(broker.pid) - used
                    p99s.append(percentile(latencies, 0.99))
                    together[listeners] += latencies
                    print(
                        f"{listeners:4} listeners: p50 {percentile(latencies, 0.5):6.2f} ms   "
                        f"p99 {p99s[-1]:6.2f} ms   broker {used / options.seconds * 100:3.0f} % CPU   "
                        f"{listening.reads / options.seconds:7,.0f} events sent/s",
                        flush=True,
                    )
            before, after = (statistics.median(each) for each in found.values())
            print(f"median p99:    {before:.2f} -> {after:.2f} ms, {(after / before - 1) * 100:+.1f} %")
            before, after = (percentile(sorted(each), 0.99) for each in together.values())
            print(f"p99 of all:    {before:.2f} -> {after:.2f} ms, {(after / before - 1) * 100:+.1f} %")
        finally:
            cluster.discard()


if __name__ == "__main__":
    main()
