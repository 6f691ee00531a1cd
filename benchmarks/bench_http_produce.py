"""`POST /produce` against one broker: records and calls a second, latency, and what the broker's processor pays for it.

    python benchmarks/bench_http_produce.py --records 100 --connections 4 --seconds 10

Clients are processes with a keep-alive connection each, which send bodies made before the clock starts.
"""

import argparse
import http.client
import json
import multiprocessing
import statistics
import time

import psutil

from yak.local.bench.fleet import own_fleet

TOPIC = "bench"
WARM_UP_SECONDS = 1.0


def bodies(records: int, value_bytes: int) -> list[bytes]:
    """Some different bodies of so many records, each with a key and about so many bytes of JSON."""
    made = []
    for body in range(20):
        rows = [
            {
                "key": f"user-{body * records + row}",
                "payload": {"id": row, "price": row * 1.25, "ok": True, "text": "x" * max(0, value_bytes - 45)},
            }
            for row in range(records)
        ]
        made.append(json.dumps({"topic": TOPIC, "records": rows}).encode())
    return made


def load(
    address: str, records: int, value_bytes: int, begin: float, seconds: float, results: multiprocessing.Queue
) -> None:
    """One connection at full speed; puts its latencies in ms of the calls after the warm-up."""
    made = bodies(records, value_bytes)
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    latencies: list[float] = []
    number = 0
    time.sleep(max(0.0, begin - time.time()))
    end = begin + WARM_UP_SECONDS + seconds
    while (now := time.time()) < end:
        started = time.perf_counter()
        connection.request("POST", "/produce", made[number % len(made)])
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:500]
        if now >= begin + WARM_UP_SECONDS:
            latencies.append((time.perf_counter() - started) * 1000)
        number += 1
    results.put(latencies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--records", type=int, default=100, help="records in each call")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    with own_fleet(1) as cluster:
        (broker,) = cluster.status().brokers
        assert broker.http_address is not None
        assert broker.pid is not None
        made = http.client.HTTPConnection(broker.http_address.removeprefix("http://"), timeout=30)
        made.request("POST", "/topics", json.dumps({"name": TOPIC, "partitions": given.partitions}))
        assert made.getresponse().status == 201
        measure(given, broker.http_address, psutil.Process(broker.pid))


def measure(given: argparse.Namespace, address: str, broker: psutil.Process) -> None:
    results: multiprocessing.Queue = multiprocessing.Queue()
    begin = time.time() + 1.0
    arguments = (address, given.records, given.value_bytes, begin, given.seconds, results)
    clients = [multiprocessing.Process(target=load, args=arguments) for _ in range(given.connections)]
    for client in clients:
        client.start()
    time.sleep(max(0.0, begin + WARM_UP_SECONDS - time.time()))
    before = sum(broker.cpu_times()[:2])
    latencies = [each for _ in clients for each in results.get()]
    busy = sum(broker.cpu_times()[:2]) - before
    for client in clients:
        client.join()
    calls = len(latencies) / given.seconds
    cuts = statistics.quantiles(latencies, n=100)
    print(
        f"{given.connections} connections, {given.records} records of {given.value_bytes} bytes a call, one broker, acks=all"
    )
    print(f"{calls * given.records:,.0f} records/s   {calls:,.0f} calls/s")
    print(f"latency p50 {cuts[49]:.1f} ms   p99 {cuts[98]:.1f} ms   max {max(latencies):.1f} ms")
    print(
        f"broker: {busy / given.seconds:.0%} of a core, {busy * 1e6 / (len(latencies) * given.records):.1f} us a record"
    )


if __name__ == "__main__":
    main()
