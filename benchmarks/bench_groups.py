"""Consumer groups: how fast they settle, notice a death, commit, and are read by a coordinator that starts.

    .venv/bin/python benchmarks/bench_groups.py [--part settle|death|commits|load]...

One broker on this machine, with real consumers (librdkafka) for `settle` and `death` and plain sockets for the rest.
Prints a line for each figure; exits with 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from versus.brokers import running
from versus.yak_broker import YakBroker

from yak.client.raw_connection import RawConnection
from yak.local.bench.fleet import process_cpu_seconds
from yak.protocol.codec import encode_request

TOPIC = "shared"
OFFSET_COMMIT, FIND_COORDINATOR, OFFSET_FETCH = 8, 10, 9
SETTLE_S_GOAL, DEATH_MS_GOAL, COMMITS_CPU_GOAL, LOAD_S_GOAL = 3.0, 500.0, 25.0, 2.0
SESSION_MS = 6_000


class Figures:
    def __init__(self) -> None:
        self.is_missed = False

    def say(self, what: str, value: float, unit: str, goal: float) -> None:
        met = value <= goal
        self.is_missed |= not met
        print(f"{what:<66} {value:9.1f} {unit:<4} goal {goal:g} {'met' if met else 'MISSED'}", flush=True)


# ------------------------------------------------------------------------------------------------------ real consumers


class Member(threading.Thread):
    """One consumer in a thread of its own; `partitions` is what it has now."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(daemon=True)
        self.partitions: int | None = None
        self.over = threading.Event()
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "enable.auto.commit": False,
        }

    def run(self) -> None:
        consumer = Consumer(self._config)

        def assigned(_consumer: Any, partitions: list[Any]) -> None:
            self.partitions = len(partitions)

        def revoked(_consumer: Any, _partitions: list[Any]) -> None:
            self.partitions = None

        consumer.subscribe([TOPIC], on_assign=assigned, on_revoke=revoked)
        while not self.over.is_set():
            consumer.poll(0.1)
        consumer.close()


def settled(members: list[Member], total: int) -> bool:
    counts = [member.partitions for member in members]
    return None not in counts and sum(count or 0 for count in counts) == total


def bench_settle(bootstrap: str, figures: Figures, count: int = 100) -> None:
    """A hundred members join at once."""
    members = [Member(bootstrap, "settle") for _ in range(count)]
    started = time.monotonic()
    for member in members:
        member.start()
    while not settled(members, count):
        time.sleep(0.01)
    figures.say(f"{count} members join and settle", time.monotonic() - started, "s", SETTLE_S_GOAL)
    for member in members:
        member.over.set()
    for member in members:
        member.join()


LONER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer(
    {
        "bootstrap.servers": sys.argv[1],
        "group.id": "death",
        "session.timeout.ms": int(sys.argv[2]),
        "heartbeat.interval.ms": 500,
    }
)
consumer.subscribe(["shared"], on_assign=lambda _c, found: print("assigned", len(found), flush=True))
while True:
    consumer.poll(0.1)
"""


def bench_death(bootstrap: str, figures: Figures, total: int = 100) -> None:
    """One of two members is killed; the other has everything within its session and a bit."""
    member = Member(bootstrap, "death")
    member.start()
    child = subprocess.Popen([sys.executable, "-c", LONER, bootstrap, str(SESSION_MS)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    while member.partitions != total // 2:
        time.sleep(0.01)
    time.sleep(2)
    child.send_signal(signal.SIGKILL)
    child.wait()
    killed = time.monotonic()
    while member.partitions != total:
        time.sleep(0.005)
    beyond_ms = (time.monotonic() - killed) * 1000 - SESSION_MS
    figures.say(
        f"a dead member's partitions move, beyond its session of {SESSION_MS} ms", beyond_ms, "ms", DEATH_MS_GOAL
    )
    member.over.set()
    member.join()


# ------------------------------------------------------------------------------------------------------- plain sockets


def commit(group: str, offset: int, partitions: int = 1) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [
            {
                "name": TOPIC,
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                    for index in range(partitions)
                ],
            }
        ],
    }


def commit_frame(group: str, offset: int) -> bytes:
    frame = encode_request(OFFSET_COMMIT, 8, 1, "bench", commit(group, offset))
    return struct.pack(">i", len(frame)) + frame


def connect(broker: YakBroker) -> RawConnection:
    """A connection to the broker, which has made the topic of committed offsets then."""
    connection = RawConnection(broker.bootstrap, timeout_s=30)
    connection.call((FIND_COORDINATOR, 2), {"key": "x", "key_type": 0})
    return connection


def bench_commits(broker: YakBroker, figures: Figures, groups: int = 1_000, seconds: int = 15) -> None:
    """Each group commits once a second on a connection of its own."""
    connect(broker).close()
    socks = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(groups)]
    selector = selectors.DefaultSelector()
    for number, sock in enumerate(socks):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(commit_frame(f"g-{number}", 0))
        assert sock.recv(4096), "the broker closed the connection"
        selector.register(sock, selectors.EVENT_READ)
    frames = [commit_frame(f"g-{number}", 7) for number in range(groups)]
    before, started = process_cpu_seconds(broker.pids()[0]), time.monotonic()
    sent = answered = 0
    latencies: list[float] = []
    sent_at: dict[int, float] = {}
    while answered < groups * seconds:
        due = min(int((time.monotonic() - started) * groups), groups * seconds)
        while sent < due:
            sock = socks[sent % groups]
            sent_at[sock.fileno()] = time.monotonic()
            sock.sendall(frames[sent % groups])
            sent += 1
        for key, _events in selector.select(0.001):
            data = key.fileobj.recv(4096)  # type: ignore[union-attr]
            assert data, "the broker closed the connection"
            latencies.append(time.monotonic() - sent_at[key.fd])
            answered += 1
    taken = time.monotonic() - started
    cpu = (process_cpu_seconds(broker.pids()[0]) - before) / taken * 100
    latencies.sort()
    print(
        f"  commits: median {latencies[len(latencies) // 2] * 1000:.2f} ms, p99 {latencies[-len(latencies) // 100] * 1000:.2f} ms"
    )
    figures.say(f"{groups} groups commit once a second: of one core", cpu, "%", COMMITS_CPU_GOAL)
    for sock in socks:
        sock.close()


def bench_load(broker: YakBroker, figures: Figures, groups: int = 10_000) -> None:
    """Ten thousand groups of three partitions each are read by a coordinator that starts after kill -9."""
    with connect(broker) as connection:
        for number in range(groups):
            body = connection.call((OFFSET_COMMIT, 8), commit(f"load-{number}", number, partitions=3))
        assert all(not each.error_code for topic in body.topics for each in topic.partitions)
    broker.kill()
    broker.start()
    assert broker.broker is not None
    broker.broker.wait_ready()
    ready = time.monotonic()
    with RawConnection(broker.bootstrap, timeout_s=30) as connection:
        for number in (0, groups - 1):
            while (body := committed(connection, number, [0, 2])).error_code:
                time.sleep(0.01)
            assert [each.committed_offset for each in body.topics[0].partitions] == [number, number]
        while any(committed(connection, number, []).error_code for number in range(0, groups, 97)):
            time.sleep(0.01)
    figures.say(f"{groups} groups are read after kill -9", time.monotonic() - ready, "s", LOAD_S_GOAL)


def committed(connection: RawConnection, number: int, partitions: list[int]) -> Any:
    """The committed offsets of a group, or an error while it is loaded."""
    topics = [{"name": TOPIC, "partition_indexes": partitions}] if partitions else []
    return connection.call((OFFSET_FETCH, 5), {"group_id": f"load-{number}", "topics": topics})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("settle", "death", "commits", "load")
    parser.add_argument("--part", action="append", choices=names, help="only this part; may be repeated (default: all)")
    parts = parser.parse_args().part or names
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="yak-groups-") as name:
        configs = ("max.connections.per.ip=2000",)
        with running(YakBroker(Path(name) / "yak", configs=configs)) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic(TOPIC, 100, 1)])[TOPIC].result(30)
            if "settle" in parts:
                bench_settle(broker.bootstrap, figures)
            if "death" in parts:
                bench_death(broker.bootstrap, figures)
            if "commits" in parts:
                bench_commits(broker, figures)
            if "load" in parts:
                bench_load(broker, figures)
    return 1 if figures.is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
