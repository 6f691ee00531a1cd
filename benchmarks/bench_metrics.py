"""What a scrape of many partitions takes, and what it costs a producer meanwhile.

    .venv/bin/python benchmarks/bench_metrics.py [PARTITIONS] [SECONDS]

One broker with PARTITIONS partitions (5000) in topics of ten. A producer sends a small batch 300 times a second; its times are from
when each was due, so that a broker that stands still is seen. SECONDS (15) without scrapes, then as long with one every second,
and both once more. The goals: a scrape in under 300 ms, and the producer's p99 at most doubled by scrapes.
"""

from __future__ import annotations

import http.client
import multiprocessing
import socket
import statistics
import struct
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from yak.groups.record import Record
from yak.local import ports, redis_child
from yak.local.broker_process import BrokerSpec, ReadyBroker, StartingBroker
from yak.local.processes import kill
from yak.protocol.codec import encode_request
from yak.protocol.record_writer import build_batch

TOPIC_PARTITIONS = 10
TOPICS_PER_REQUEST = 50
RATE = 300
SCRAPE_MS_GOAL = 300
P99_GOAL = 2.0
_LENGTH = struct.Struct(">i")


def create(broker: ReadyBroker, partitions: int) -> str:
    """Topics of ten partitions each; the name of one."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    names = [f"topic-{number:05}" for number in range(partitions // TOPIC_PARTITIONS)]
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        topics = [NewTopic(name, TOPIC_PARTITIONS, 1) for name in names[first : first + TOPICS_PER_REQUEST]]
        for future in admin.create_topics(topics, request_timeout=60, operation_timeout=60).values():
            future.result(90)
    return names[0]


def produce(address: str, topic: str, seconds: float) -> list[float]:
    """Times of produces at a fixed rate, in ms, each from when it was due."""
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    batch = build_batch([Record(b"key", b"x" * 100)], int(time.time() * 1000))
    partitions = [{"index": 0, "records": batch}]
    fields = {
        "transactional_id": None,
        "acks": -1,
        "timeout": 5_000,
        "topic_data": [{"name": topic, "partition_data": partitions}],
    }
    frame = encode_request(0, 9, 1, "bench", fields)
    request = _LENGTH.pack(len(frame)) + frame
    times: list[float] = []
    began = time.perf_counter()
    for number in range(int(seconds * RATE)):
        due = began + number / RATE
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        sock.sendall(request)
        size = _LENGTH.unpack(read(sock, 4))[0]
        read(sock, size)
        times.append((time.perf_counter() - due) * 1000)
    sock.close()
    return times


def read(sock: socket.socket, size: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, "the broker closed the connection"
        data += piece
    return data


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


def percentile(times: list[float], share: float) -> float:
    """Of times, that share took no longer."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def say(what: str, times: list[float]) -> float:
    """One line; gives the p99."""
    p50, p99, p999 = (percentile(times, share) for share in (0.5, 0.99, 0.999))
    print(
        f"{what:<18} p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   p99.9 {p999:6.2f} ms   max {max(times):6.2f} ms",
        flush=True,
    )
    return p99


def measure(broker: ReadyBroker, topic: str, seconds: float) -> bool:
    """All phases; whether the goals are met."""
    here, there = multiprocessing.Pipe()
    assert broker.http_port is not None
    address = f"127.0.0.1:{broker.http_port}"
    scraper = multiprocessing.Process(target=scrape_when_told, args=(address, there))
    scraper.start()
    without: list[float] = []
    during: list[float] = []
    scrapes: list[tuple[float, int]] = []
    try:
        here.send("begin")  # loads the library, outside of what is measured
        produce(broker.address, topic, 3)
        here.send("stop")
        here.recv()
        for _ in range(2):
            without += produce(broker.address, topic, seconds)
            here.send("begin")
            during += produce(broker.address, topic, seconds)
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
    with tempfile.TemporaryDirectory(prefix="yak-metrics-") as name:
        folder = Path(name)
        redis = redis_child.start(str(folder / "redis"), ports.find_free("127.0.0.1"), str(folder / "redis.log"))
        broker = None
        try:
            spec = BrokerSpec(1, "127.0.0.1", 0, str(folder / "data"), redis.url, http_port=0)
            broker = StartingBroker(spec, log_path=str(folder / "log"), ready_file=str(folder / "ready")).wait_ready(60)
            began = time.monotonic()
            topic = create(broker, partitions)
            print(f"{partitions} partitions made in {time.monotonic() - began:.1f} s", flush=True)
            met = measure(broker, topic, seconds)
        finally:
            if broker is not None:
                kill(broker.process)
            kill(redis.process)
    print(f"goals (scrape < {SCRAPE_MS_GOAL} ms, p99 at most {P99_GOAL:g} times): {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
