"""A load that costs its sender next to nothing: one batch, encoded once, sent again and again over plain sockets.

librdkafka needs more CPU for a gigabyte of small records than the brokers do, so where all share two cores a bulk load
measures librdkafka on both sides. Here the brokers are the limit: both get the same bytes, as many requests in flight as an
idempotent producer has, and each response is checked.
"""

import selectors
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from yak.attempts import attempts
from yak.client.admin import Admin
from yak.client.metadata import ClusterMetadata
from yak.errors import YakError
from yak.local.bench.fleet import used_between
from yak.sim.wire import record_batch

BATCH_BYTES = 1_000_000
"""librdkafka's `batch.size`."""
IN_FLIGHT = 5
SECONDS_MAX = 120.0
NOT_YET = (3, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: a leader that has not heard yet that it is one."""
_PRODUCE, _VERSION = 0, 8
_HEAD = struct.Struct(">ihhih5s")
_NAME = b"bench"
_ACKS_ALL, _TIMEOUT_MS = -1, 30_000


@dataclass(frozen=True, slots=True)
class PreparedResult:
    """One run; CPU is of the brokers."""

    records: int
    gigabytes: float
    seconds: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_s_per_gb(self) -> float:
        """Of all brokers for a gigabyte (10^9 bytes) of values."""
        return self.cpu_s / self.gigabytes


class _Frames:
    """The requests: all alike but for the partition and the correlation id."""

    def __init__(self, topic: str, size_bytes: int) -> None:
        self.records = max(1, BATCH_BYTES // (size_bytes + 12))
        self.batch = memoryview(record_batch([bytes(size_bytes)] * self.records, time.time_ns() // 1_000_000))
        self._topic = topic.encode()

    def head(self, correlation_id: int, partition: int) -> bytes:
        name = struct.pack(">h", len(self._topic)) + self._topic
        body = struct.pack(">hhii", -1, _ACKS_ALL, _TIMEOUT_MS, 1) + name
        body += struct.pack(">iii", 1, partition, len(self.batch))
        length = _HEAD.size - 4 + len(body) + len(self.batch)
        return _HEAD.pack(length, _PRODUCE, _VERSION, correlation_id, len(_NAME), _NAME) + body


class _Leader:
    """The connection to one broker, and the partitions that it leads."""

    def __init__(self, address: tuple[str, int], partitions: list[int], frames: _Frames, topic: str) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._partitions = partitions
        self._frames = frames
        # behind length, correlation id, count of topics, the one's name, count of partitions, and the one's index
        self._error_at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
        self._unsent: list[memoryview] = []
        self._received = bytearray()
        self._sent = 0
        self.in_flight = 0

    @property
    def wants_to_send(self) -> bool:
        return bool(self._unsent)

    def begin(self) -> None:
        head = self._frames.head(self._sent, self._partitions[self._sent % len(self._partitions)])
        self._unsent += [memoryview(head), self._frames.batch]
        self._sent += 1
        self.in_flight += 1

    def send(self) -> None:
        try:
            count = self.socket.sendmsg(self._unsent[:8])
        except BlockingIOError:
            return
        while count and count >= len(self._unsent[0]):
            count -= len(self._unsent.pop(0))
        if count:
            self._unsent[0] = self._unsent[0][count:]

    def receive(self, *, is_new: bool) -> int:
        """How many requests were acknowledged. Raises YakError when one was refused, but for the reasons of a new topic."""
        data = self.socket.recv(65536)
        if not data:
            raise YakError("bench-errors", "a broker closed the connection of the prepared load")
        self._received += data
        done = 0
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                break
            (error_code,) = struct.unpack_from(">h", self._received, self._error_at)
            del self._received[:end]
            self.in_flight -= 1
            if error_code and not (is_new and error_code in NOT_YET):
                raise YakError("bench-errors", f"a prepared batch was refused with error code {error_code}")
            done += not error_code
        return done


def run_prepared(
    bootstrap: str, topic: str, size_bytes: int, records: int, cpu_seconds: Callable[[], Mapping[str, float]]
) -> PreparedResult:
    """Write at least `records` records of `size_bytes` to an existing topic with acks=all. Raises YakError, OSError."""
    metadata = _metadata_with(Admin(bootstrap), topic)
    frames = _Frames(topic, size_bytes)
    led: dict[int, list[int]] = {}
    for partition in metadata.require_topic(topic).partitions:
        led.setdefault(partition.leader, []).append(partition.number)
    brokers = metadata.brokers
    leaders = [
        _Leader((brokers[node].host, brokers[node].port), sorted(partitions), frames, topic)
        for node, partitions in sorted(led.items())
    ]
    try:
        _send(leaders, 2 * sum(map(len, led.values())), is_new=True)
        before, began_s = cpu_seconds(), time.monotonic()
        batches = -(-records // frames.records)
        _send(leaders, batches, is_new=False)
        seconds = time.monotonic() - began_s
        used = sum(used_between(before, cpu_seconds()).values())
    finally:
        for leader in leaders:
            leader.socket.close()
    done = batches * frames.records
    return PreparedResult(done, done * size_bytes / 1e9, seconds, used)


def _metadata_with(admin: Admin, topic: str) -> ClusterMetadata:
    """The metadata when every partition of a new topic has a leader; a broker may be a moment behind another."""
    for _ in attempts(10.0, 0.05):
        metadata = admin.metadata()
        found = metadata.topics.get(topic)
        if found is not None and all(each.leader >= 0 for each in found.partitions):
            return metadata
    raise YakError("bench-topic", f"topic {topic} has no leaders")


def _send(leaders: list[_Leader], batches: int, *, is_new: bool) -> None:
    """So many batches, divided as the brokers take them; returns when all are acknowledged."""
    deadline_s = time.monotonic() + SECONDS_MAX
    done = 0
    with selectors.DefaultSelector() as selector:
        for leader in leaders:
            selector.register(leader.socket, selectors.EVENT_READ, leader)
        while done < batches:
            for leader in leaders:
                while done + sum(each.in_flight for each in leaders) < batches and leader.in_flight < IN_FLIGHT:
                    leader.begin()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if leader.wants_to_send else 0)
                selector.modify(leader.socket, wanted, leader)
            for key, events in selector.select(1.0):
                if events & selectors.EVENT_READ:
                    done += key.data.receive(is_new=is_new)
                if events & selectors.EVENT_WRITE and key.data.wants_to_send:
                    key.data.send()
            if time.monotonic() > deadline_s:
                raise YakError(
                    "bench-errors", f"{batches - done} prepared batches had no answer in {SECONDS_MAX:.0f} s"
                )
