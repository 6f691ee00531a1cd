"""A socket that speaks frames to a broker, right or wrong, and the check that a broker took no harm."""

import contextlib
import socket
import struct
import time
from typing import Any, Self

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from support.client_kinds import Confluent

from tests.rig import build, fetch_fields
from yak.sim.wire import read_answer, record_batch, request_class, request_frame

PATIENCE_SECONDS = 20.0
LOG_HANDLES_MAX = 8
"""Files of logs that a broker may keep open after it was asked for them; sockets are counted one by one."""


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class RawSocket:
    """One connection, whatever it speaks. A context manager."""

    def __init__(self, port: int, *, source: str = "127.0.0.1") -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS, source_address=(source, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Bytes as they are; a connection that was closed meanwhile is no surprise."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(data)

    def is_closed(self, seconds: float = PATIENCE_SECONDS) -> bool:
        """Whether the broker closes within the time; what it still sends is thrown away."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.sock.settimeout(left)
            try:
                if not self.sock.recv(65536):
                    return True
            except TimeoutError:
                return False
            except ConnectionResetError:
                return True
        return False


class RawClient(RawSocket):
    """One connection that speaks Kafka's protocol."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._correlation_id = 0

    def send_frame(self, frame: bytes) -> None:
        """Bytes with their length before them."""
        self.send(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        """One answer with its length prefix. Raises Closed."""
        head = self._receive(4)
        return head + self._receive(struct.unpack(">i", head)[0])

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                part = self.sock.recv(count - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                raise Closed
            data += part
        return data

    def request(self, api_key: int, version: int, **fields: Any) -> bytes:
        """The frame of a request with kio's fields, not sent."""
        self._correlation_id += 1
        body = build(request_class(api_key, version), fields)
        return request_frame(api_key, version, self._correlation_id, body)

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Send a request and give its answer's body. Raises Closed."""
        self.send_frame(self.request(api_key, version, **fields))
        correlation_id, body = read_answer(api_key, version, self.receive_frame())
        assert correlation_id == self._correlation_id
        return body

    def produce(
        self, topic: str, records: bytes | None, *, partition: int = 0, version: int = 9, acks: int = -1
    ) -> Any:
        """One partition's records, whatever they are; the partition's answer."""
        import datetime as dt

        answer = self.ask(
            0,
            version,
            transactional_id=None,
            acks=acks,
            timeout=dt.timedelta(seconds=5),
            topic_data=[{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
        )
        return answer.responses[0].partition_responses[0]

    def end_offset(self, topic: str) -> int:
        """The high watermark of partition 0."""
        return int(self.ask(1, 12, **fetch_fields(topic, 0, max_bytes=1)).responses[0].partitions[0].high_watermark)


class RawTarget:
    """A broker that is sent frame after frame on a connection that is made anew when the broker ended it.

    Most bad frames close the connection; one that waits for more bytes is left alone after `wait_seconds`.
    """

    def __init__(self, broker: Any, wait_seconds: float) -> None:
        self._broker = broker
        self._wait_seconds = wait_seconds
        self._raw = RawClient(broker.port)
        self._count = 0

    def attempt(self, frame: bytes) -> None:
        """Send one frame; the broker lives on."""
        self._raw.sock.settimeout(self._wait_seconds)
        self._raw.send_frame(frame)
        self._count += 1
        try:
            head = self._raw.sock.recv(65536)
        except (TimeoutError, ConnectionResetError):
            head = b""
        if not head or self._count % 50 == 0:
            self._raw.sock.close()
            self._raw = RawClient(self._broker.port)
        assert self._broker.is_running

    def close(self) -> None:
        """Send no more."""
        self._raw.sock.close()


def batch(*values: bytes, **fields: int) -> bytes:
    """A valid record batch of now."""
    return record_batch(list(values) or [b"x"], fields.pop("timestamp_ms", time.time_ns() // 1_000_000), **fields)


class Health:
    """What a broker had before something bad was sent: `check` proves that it has no more afterwards, and serves."""

    def __init__(self, broker: Any, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        client = Confluent(broker.bootstrap)
        if topic not in client.topics():
            client.create_topic(topic, configs={"retention.ms": "-1"})
        self._produced = client.watermarks(topic)[1]
        common = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
        self._producer = Producer({**common, "enable.idempotence": True})
        self._consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "h", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, 0, self._produced)])
        self.exercise()
        self._process = psutil.Process(broker.pid)
        self._handles, self._connections = self._settled(None)

    def exercise(self) -> None:
        """A healthy client, one that was there all the time, writes one record and reads it back."""
        value = b"healthy %d" % self._produced
        told: list[Any] = []
        self._producer.produce(self._topic, value, on_delivery=lambda error, sent: told.append((error, sent.offset())))
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        assert told == [(None, self._produced)]
        message = self._consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        assert (message.error(), message.offset(), message.value()) == (None, self._produced, value)
        self._produced += 1

    def close(self) -> None:
        """End the healthy client."""
        self._consumer.close()

    def check(self) -> None:
        """The broker lives, logged no bug, serves a healthy client, and holds no handle or connection more."""
        assert self._broker.is_running, self._broker.log()[-3000:]
        self.exercise()
        handles, connections = self._settled((self._handles + LOG_HANDLES_MAX, self._connections))
        assert handles <= self._handles + LOG_HANDLES_MAX
        assert connections <= self._connections
        assert_no_bugs(self._broker)

    def _settled(self, wanted: tuple[int, int] | None) -> tuple[int, int]:
        deadline = time.monotonic() + 10
        counts = self._counts()
        while time.monotonic() < deadline:
            if wanted is not None and counts[0] <= wanted[0] and counts[1] <= wanted[1]:
                break
            time.sleep(0.1)
            now = self._counts()
            if wanted is None and now == counts:
                break
            counts = now
        return counts

    def _counts(self) -> tuple[int, int]:
        established = [each for each in self._process.net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED]
        return self._process.num_fds(), sum(1 for each in established if each.laddr.port == self._broker.port)


def assert_no_bugs(broker: Any) -> None:
    """No traceback, and no line that reports a bug."""
    log = broker.log()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
    assert " request-failed " not in log
