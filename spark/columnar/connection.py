"""A blocking connection to one broker, with which the caller can send a request before it decodes the last response."""

import contextlib
import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from yak.spark.columnar.schema import ReadSettings, UnsupportedSetting
from yak.spark.columnar.wire import API_VERSIONS, VERSIONS, Malformed, frame, read_api_versions

PLAINTEXT: Final = "plaintext"
TLS: Final = "ssl"

REQUEST_TIMEOUT_MS: Final = 10_000
"""Without an answer for so long, the reader disconnects and looks up the leader again.

A broker delays a fetch by at most 0.5 s.
"""

_SIZES: Final = ("max.partition.fetch.bytes", "fetch.message.max.bytes")
_NO_BEARING: Final = """
    acks allow.auto.create.topics api.version.request auto.offset.reset batch.num.messages batch.size buffer.memory
    check.crcs compression.codec compression.type delivery.timeout.ms enable.auto.commit enable.auto.offset.store
    enable.idempotence fetch.error.backoff.ms fetch.max.bytes fetch.max.wait.ms fetch.min.bytes fetch.queue.backoff.ms
    fetch.wait.max.ms group.id group.instance.id heartbeat.interval.ms isolation.level key.deserializer key.serializer
    linger.ms log.connection.close max.block.ms max.in.flight.requests.per.connection max.poll.interval.ms
    max.poll.records message.send.max.retries message.timeout.ms metadata.max.age.ms partition.assignment.strategy
    partitioner queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms
    queued.max.messages.kbytes queued.min.messages reconnect.backoff.max.ms reconnect.backoff.ms retries
    retry.backoff.ms session.timeout.ms socket.keepalive.enable topic.metadata.refresh.interval.ms
    transaction.timeout.ms transactional.id value.deserializer value.serializer
"""
_WITHOUT_BEARING: Final = frozenset(_NO_BEARING.split())
_UNDERSTOOD: Final = {
    *_SIZES,
    "bootstrap.servers",
    "client.id",
    "enable.ssl.certificate.verification",
    "metadata.broker.list",
    "receive.buffer.bytes",
    "request.timeout.ms",
    "security.protocol",
    "socket.receive.buffer.bytes",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
}


@dataclass(frozen=True)
class Connecting:
    """Connection settings and fetch size; `tls` is None for a plaintext connection."""

    client_id: bytes
    request_timeout_s: float
    fetch_bytes: int
    receive_buffer_bytes: int
    tls: ssl.SSLContext | None


def understand(settings: ReadSettings) -> Connecting:
    """The connection settings of `settings`. Raises UnsupportedSetting."""
    client = {name.lower(): value for name, value in settings.client.items()}
    for name in client:
        if name not in _UNDERSTOOD and name not in _WITHOUT_BEARING:
            why = "it is not among the settings that it knows"
            raise UnsupportedSetting(f"kafka.{name}", f"{why}; see docs/spark-source.md" if name else why)
    protocol = client.get("security.protocol", PLAINTEXT).lower()
    if protocol not in (PLAINTEXT, TLS):
        raise UnsupportedSetting("kafka.security.protocol", f"it speaks PLAINTEXT and SSL, not {protocol.upper()}")
    size = next((name for name in _SIZES if name in client), None)
    timeout = next((name for name in ("request.timeout.ms", "socket.timeout.ms") if name in client), None)
    buffer = next((name for name in ("receive.buffer.bytes", "socket.receive.buffer.bytes") if name in client), None)
    return Connecting(
        client_id=client.get("client.id", "yak-spark").encode(),
        request_timeout_s=(_number(client, timeout) if timeout else min(REQUEST_TIMEOUT_MS, settings.timeout_ms))
        / 1000.0,
        fetch_bytes=_number(client, size) if size else settings.fetch_bytes,
        receive_buffer_bytes=max(0, _number(client, buffer, minimum=-1)) if buffer else 0,
        tls=_tls(client) if protocol == TLS else None,
    )


def _number(client: Mapping[str, str], name: str, minimum: int = 1) -> int:
    try:
        number = int(client[name])
    except ValueError:
        number = minimum - 1
    if not minimum <= number <= 1 << 30:
        raise UnsupportedSetting(f"kafka.{name}", f"{client[name]!r} is no number from {minimum} to {1 << 30}")
    return number


def _tls(client: Mapping[str, str]) -> ssl.SSLContext:
    """Verify brokers against `ssl.ca.location`, by default the system's CAs; use a client certificate if one is set."""
    try:
        context = ssl.create_default_context(cafile=client.get("ssl.ca.location") or None)
        if client.get("ssl.certificate.location"):
            context.load_cert_chain(
                client["ssl.certificate.location"],
                client.get("ssl.key.location") or None,
                client.get("ssl.key.password") or "",
            )
    except OSError as error:
        raise UnsupportedSetting("kafka.ssl.*", f"the certificate files cannot be used: {error}") from None
    if client.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
        context.check_hostname = False
    if client.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


ANSWER_BYTES_MAX: Final = 1 << 30
"""Below 2 GiB, so that Arrow's 32-bit positions reach every byte."""
_LENGTH: Final = struct.Struct(">i")


class Connection:
    """A context manager.

    Methods raise OSError when the broker is gone or too slow, and Malformed for invalid responses.

    Raises UnsupportedSetting when the broker does not support the API versions of `wire`.
    """

    def __init__(self, address: tuple[str, int], connecting: Connecting) -> None:
        self.address = address
        self._client_id = connecting.client_id
        self._correlation_id = 0
        plain = socket.create_connection(address, timeout=connecting.request_timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if connecting.receive_buffer_bytes:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, connecting.receive_buffer_bytes)
            tls = connecting.tls
            self._socket = tls.wrap_socket(plain, server_hostname=address[0]) if tls else plain
        except BaseException:
            plain.close()
            raise
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self.close)
            self._check_versions()
            on_failure.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; closing it twice is allowed."""
        self._socket.close()

    def send(self, api_key: int, body: bytes) -> None:
        """Send a request. Responses arrive in the order of the requests."""
        self._correlation_id += 1
        self._socket.sendall(frame(api_key, self._correlation_id, self._client_id, body))

    def receive(self) -> memoryview:
        """The body of the next response."""
        head = self._exactly(2 * _LENGTH.size)
        (length,), (correlation_id,) = _LENGTH.unpack_from(head), _LENGTH.unpack_from(head, _LENGTH.size)
        if not _LENGTH.size <= length <= ANSWER_BYTES_MAX:
            raise Malformed(f"an answer of {length} bytes")
        if correlation_id != self._correlation_id:
            raise Malformed("an answer to another request")
        return self._exactly(length - _LENGTH.size)

    def ask(self, api_key: int, body: bytes) -> memoryview:
        """Send a request and return its response's body."""
        self.send(api_key, body)
        return self.receive()

    def _exactly(self, count: int) -> memoryview:
        received = np.empty(count, np.uint8).data  # unlike a bytearray, not zeroed
        have = 0
        while have < count:
            size = self._socket.recv_into(received[have:])
            if not size:
                raise ConnectionResetError("the connection was closed in the middle of an answer")
            have += size
        return received

    def _check_versions(self) -> None:
        spoken = read_api_versions(self.ask(API_VERSIONS, b""))
        for api_key, version in VERSIONS.items():
            lowest, highest = spoken.get(api_key, (0, -1))
            if not lowest <= version <= highest:
                host, port = self.address
                why = f"{host}:{port} does not speak version {version} of Kafka's API {api_key}"
                raise UnsupportedSetting("this broker", why)
