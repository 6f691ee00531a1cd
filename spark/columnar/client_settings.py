"""The user's `kafka.*` options, as far as the columnar reader supports them.

There are three kinds: supported settings, settings that do not affect reading a given range (groups, commits,
producing), and all others. The others are refused by name, so that no setting is silently ignored.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yak.spark.columnar.schema import ReadSettings, UnsupportedSetting

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
            raise UnsupportedSetting(f"kafka.{name}", f"{why}; see docs/spark.md" if name else why)
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
