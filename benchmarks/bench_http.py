"""What HTTP clients cost a producer: its figures alone and beside them, in turns, with one broker and acks=all.

    python benchmarks/bench_http.py [--part health|events|metrics]... [--seconds 6] [--rounds 5]

health    16 connections ask for /health as fast as they can, beside a producer at full speed.
          Goals: 1,500 answers a second with a p99 under 15 ms, and a producer that is at most 10 % slower.
events    200 listeners to /api/events, beside 2,000 records a second. Goal: a p99 that grows by 10 % at most.
metrics   a scrape of 5,000 partitions every second, beside 300 records a second.
          Goals: a scrape in less than 300 ms, and a p99 that at most doubles.

Latencies count from when a record was due, so that a broker that stands still is seen.
"""

import argparse
import multiprocessing
import selectors
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

from yak.client.admin import Admin
from yak.client.bench.clients import run_benchmark
from yak.client.bench.load import Load
from yak.local.bench.fleet import own_fleet, process_cpu_seconds

TOPIC, TOPIC_PARTITIONS = "load", 500


@dataclass(frozen=True, slots=True)
class Part:
    """The clients of one part. `rate` is the producer's, None at full speed."""

    path: str
    connections: int
    rate: float | None
    pause_s: float = 0.0
    partitions: int = 0

    @property
    def is_endless(self) -> bool:
        return self.path == "/api/events"


PARTS = {
    "health": Part("/health", 16, None),
    "events": Part("/api/events", 200, 2_000),
    "metrics": Part("/metrics", 1, 300, pause_s=1.0, partitions=5_000),
}


@dataclass(slots=True)
class Seen:
    """What the clients got: reads of their sockets, and the sorted times of whole answers."""

    reads: int = 0
    answers_ms: list[float] = field(default_factory=list)

    def line(self, seconds: float) -> str:
        if not self.answers_ms:
            return f"{self.reads / seconds:7,.0f} reads/s"
        p50, p99 = (self.answers_ms[int((len(self.answers_ms) - 1) * share)] for share in (0.5, 0.99))
        return f"{len(self.answers_ms) / seconds:7,.0f} answers/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms"


@contextmanager
def clients(url: str, part: Part) -> Iterator[Seen]:
    """The clients in a process of their own while the block runs; the result is filled in at its end."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=ask, args=(url, part, theirs), daemon=True)
    process.start()
    theirs.close()  # so that the end of the process is seen here
    assert ours.recv() == "ready"
    seen = Seen()
    try:
        yield seen
    finally:
        ours.send("stop")
        seen.reads, seen.answers_ms = ours.recv()
        process.join()


def ask(url: str, part: Part, control: Connection) -> None:
    """Send the next request after each whole response, on each connection, until `control` receives a message."""
    where = urlsplit(url)
    request = f"GET {part.path} HTTP/1.1\r\nhost: {where.netloc}\r\naccept: */*\r\n\r\n".encode()
    reads, answers_ms, sent_at = 0, list[float](), dict[socket.socket, float]()
    with selectors.DefaultSelector() as selector:
        for _ in range(part.connections):
            sock = socket.create_connection((where.hostname, where.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(sock, selectors.EVENT_READ, bytearray())
            sock.sendall(request)
            sent_at[sock] = time.perf_counter()
        selector.register(control, selectors.EVENT_READ)
        control.send("ready")
        while True:
            for key, _ in selector.select():
                if key.fileobj is control:
                    control.send((reads, sorted(answers_ms)))
                    return
                sock, answer = key.fileobj, key.data
                data = sock.recv(1 << 20)
                assert data, "the broker closed a connection"
                reads += 1
                if part.is_endless:
                    continue
                answer += data
                if not is_whole(answer):
                    continue
                answers_ms.append((time.perf_counter() - sent_at[sock]) * 1000)
                answer.clear()
                time.sleep(part.pause_s)
                sent_at[sock] = time.perf_counter()
                sock.sendall(request)


def is_whole(answer: bytearray) -> bool:
    """Whether all of an answer with a Content-Length is there."""
    head, found, body = bytes(answer).partition(b"\r\n\r\n")
    if not found:
        return False
    assert head.startswith(b"HTTP/1.1 200"), head
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return len(body) >= int(length)


def produce(bootstrap: str, part: Part, seconds: float) -> float:
    """The producer's figure: records a second at full speed, else the p99 in ms."""
    kind = "produce" if part.rate is None else "latency"
    load = Load(kind, bootstrap, TOPIC, rate=part.rate, duration_s=seconds, linger_ms=0, warm_up_s=0)
    result = run_benchmark(load)
    return result.records_per_s if part.rate is None else result.latency.percentile(99) / 1e6


def measure(name: str, seconds: float, rounds: int) -> None:
    part = PARTS[name]
    with own_fleet(1) as cluster:
        (broker,) = cluster.status().brokers
        assert broker.http_address is not None
        assert broker.pid is not None
        admin = Admin(broker.address, timeout_ms=60_000)
        admin.create_topic(TOPIC, assignment=[[broker.node_id]])
        for number in range(part.partitions // TOPIC_PARTITIONS):
            admin.create_topic(f"more-{number}", partitions=TOPIC_PARTITIONS, replication_factor=1)
        produce(broker.address, part, 2.0)
        used_s = process_cpu_seconds(broker.pid)
        with clients(broker.http_address, part) as seen:
            time.sleep(seconds)
        used_s = process_cpu_seconds(broker.pid) - used_s
        print(f"{name}: alone {seen.line(seconds)}, {used_s / seconds:.0%} of a core", flush=True)
        alone, together = [], []
        for _ in range(rounds):
            alone.append(produce(broker.address, part, seconds))
            with clients(broker.http_address, part) as seen:
                together.append(produce(broker.address, part, seconds))
            print(f"{name}: producer {alone[-1]:,.2f} -> {together[-1]:,.2f}, {seen.line(seconds)}", flush=True)
    before, after = statistics.median(alone), statistics.median(together)
    unit = "records/s" if part.rate is None else "ms p99"
    print(f"{name}: medians {before:,.2f} -> {after:,.2f} {unit}, {(after / before - 1) * 100:+.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated (default: all)")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for name in options.part or PARTS:
        measure(name, options.seconds, options.rounds)


if __name__ == "__main__":
    main()
