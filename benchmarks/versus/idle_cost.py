"""The cost of a broker without requests: alone, with many connections, with many partitions."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from versus.brokers import Broker, running, start_and_wait
from versus.table import AT_MOST_KAFKA, Table, Turns

from yak.client.admin import Admin
from yak.client.bench.topics import wait_whole
from yak.client.reach import split_address

CONNECTIONS = 1000
PARTITIONS = (1000, 10_000)
TOPIC_PARTITIONS = 500
STARTED_S, SETTLE_S, IDLE_S = 10.0, 5.0, 5.0
"""After a start modules are loaded and classes compiled; after another change, before the measurement; its length."""
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A request that any broker answers: ApiVersions v0 without a client id, with its length."""


@contextmanager
def connections(bootstrap: str, count: int) -> Iterator[None]:
    """So many open connections, each of which had one request answered. Raises OSError."""
    with ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(split_address(bootstrap), timeout=30))
            sock.sendall(API_VERSIONS)
            if not sock.recv(65536):
                raise ConnectionError(f"{bootstrap} closed a connection")
        yield


class Standing:
    def __init__(self, fresh: dict[str, Callable[[], Broker]], say: Callable[[str], None], *, is_quick: bool) -> None:
        self._fresh = fresh
        self._say = say
        self._scale = 10 if is_quick else 1
        self.table = Table(tuple(fresh))

    def run(self) -> None:
        """Each side from its start to its most partitions. Raises RuntimeError, YakError, OSError."""
        Turns(tuple(self._fresh)).take(self._measure)

    def _measure(self, name: str) -> None:
        began = time.monotonic()
        with running(self._fresh[name]()) as broker:
            time.sleep(STARTED_S)
            self._sample("idle", broker)
            count = CONNECTIONS // self._scale
            with connections(broker.bootstrap, count):
                self._sample(f"{count:,} connections", broker)
            admin = Admin(broker.bootstrap, timeout_ms=60_000)
            made = 0
            for wanted in PARTITIONS:
                wanted //= self._scale
                while made < wanted:
                    topic, more = f"standing-{made}", min(TOPIC_PARTITIONS, wanted - made)
                    admin.create_topic(topic, partitions=more, replication_factor=1)
                    wait_whole(admin, topic, more, seconds=120, poll_s=0.2)
                    made += more
                self._sample(f"{wanted:,} partitions", broker)
            broker.kill()
            what = f"{made:,} partitions: start after kill -9"
            self.table.add(what, "s", AT_MOST_KAFKA, name, start_and_wait(broker))
        self._say(f"{name} at idle: {time.monotonic() - began:.0f} s")

    def _sample(self, what: str, broker: Broker) -> None:
        time.sleep(SETTLE_S)
        before, began = broker.cpu_seconds(), time.monotonic()
        time.sleep(IDLE_S)
        used_ms = 1000 * (broker.cpu_seconds() - before) / (time.monotonic() - began)
        self.table.add(f"{what}: memory", "MB", AT_MOST_KAFKA, broker.name, broker.all_rss_bytes() / 1e6)
        self.table.add(f"{what}: CPU", "ms/s", AT_MOST_KAFKA, broker.name, used_ms)
