"""The objects that every handler receives: the broker to read, the broker client, and the settings."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from yak.broker.broker import Broker
from yak.server.http.broker_client import BrokerClient
from yak.views.cluster import ClusterView

if TYPE_CHECKING:
    from yak.server.http.authentication import HttpAuthentication
    from yak.server.shell import Shell
    from yak.server.tls_listener import ListenerTls

_T = TypeVar("_T")


CONSUMER_SESSION_MS: Final = 10_000
"""Of an instance in its group. A killed broker takes its instances along: the group must not wait 45 s for them."""


@dataclass(slots=True)
class HttpLimits:
    """Limits of HTTP; tests change them. Sizes in bytes, times in ms."""

    connections_max: int = 512
    connections_per_ip_max: int = 256
    header_bytes_max: int = 16 * 1024
    """Of the request line and the headers together."""
    head_deadline_ms: int = 10_000
    """From a head's first byte to its end; for the first head, from the connection's start."""
    body_bytes_max: int = 4 * 1024 * 1024
    """Of a JSON body. A streamed upload has no limit but its minimum rate."""
    body_in_flight_bytes_max: int = 64 * 1024 * 1024
    """Of all bodies held at once."""
    body_deadline_ms: int = 30_000
    """For the whole body, plus one second for each 64 KiB."""
    send_deadline_ms: int = 30_000
    """A client that does not accept 64 KiB in this time is disconnected."""
    idle_ms_max: int = 75_000
    graceful_stop_ms: int = 2_000
    release_ms: int = CONSUMER_SESSION_MS
    """At the stop, for consumer instances to leave their groups. Without it the members' sessions end after as long."""
    json_depth_max: int = 64
    json_values_max: int = 50_000
    """Of one JSON body. The parser holds the GIL throughout: 300,000 keys took half a second."""
    records_per_request_max: int = 10_000
    """Written or read by one request, or read by one fetch of a stream; an upload and a stream have no such limit."""
    new_topics_per_request_max: int = 100
    """Created by one request, one after the other: each takes a change of the metadata."""
    answer_bytes_max: int = 4 * 1024 * 1024
    """Of records in one answer, before they become JSON; a single record may be larger."""
    decompressed_bytes_max: int = 32 * 1024 * 1024
    """Of one batch that is decoded for display."""
    retry_ms: int = 3_000
    """How long a request is retried during a leadership change."""
    csv_row_chars_max: int = 1024 * 1024
    csv_rows_per_batch: int = 500
    csv_batch_chars_max: int = 1024 * 1024
    """A batch ends with the row that reaches this: 500 rows of `csv_row_chars_max` would be held at once."""
    failed_rows_named_max: int = 20
    streams_max: int = 256
    stream_partitions_max: int = 256
    """Of one stream: the id of each event names them all."""
    heartbeat_ms: int = 15_000
    event_listeners_max: int = 256
    events_buffered_max: int = 10_000
    """For listeners that reconnect; about 3 MB."""
    consumers_max: int = 64
    """Consumer instances in this broker, each with threads and queues of its own (see docs/http.md)."""
    consumers_per_group_max: int = 32
    consumer_idle_ms_max: int = 300_000
    """An unused instance is closed after this time; the REST proxy's `consumer.instance.timeout.ms`."""
    consumer_wait_ms_max: int = 300_000
    """The longest wait of one read."""
    consumer_answer_bytes_max: int = 2 * 1024 * 1024
    """Of keys and values in one answer, whatever `max_bytes` says."""


_HANDLES_PER_CONSUMER: Final = 8
"""Sockets and pipes of librdkafka, to a handful of brokers."""


def handles_of_http(handles: int) -> int:
    """How many of the file handles for the broker's clients are reserved for HTTP: at most a quarter."""
    limits = HttpLimits()
    return min(limits.connections_max + _HANDLES_PER_CONSUMER * limits.consumers_max, handles // 4)


def limits_of(handles: int) -> HttpLimits:
    """The default limits, or lower ones where file handles are scarce."""
    usual = HttpLimits()
    return HttpLimits(
        connections_max=min(usual.connections_max, max(8, handles // 2)),
        consumers_max=min(usual.consumers_max, max(1, handles // 2 // _HANDLES_PER_CONSUMER)),
    )


@dataclass(slots=True)
class Context:
    """Handlers read `broker` between turns and never change it; changes go through `broker_client`."""

    shell: "Shell"
    broker: Broker
    broker_client: BrokerClient
    http_port: int
    host: str
    advertised_host: str
    token: str | None = None
    authentication: "HttpAuthentication" = "none"
    tls: "ListenerTls | None" = None
    """The TLS of this port, and of requests to other brokers; None: plain HTTP."""
    limits: HttpLimits = field(default_factory=HttpLimits)
    started_ms: int = 0
    body_bytes_held: int = 0
    """Of bodies that are being read or processed."""
    connections: int = 0
    """Open HTTP connections."""
    parts: dict[Any, Any] = field(default_factory=dict)
    """State that groups of routes keep between requests (consumer instances, listeners)."""
    at_stop: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Called at the stop, while the broker still answers Kafka, to release what HTTP holds in the cluster."""

    @property
    def scheme(self) -> str:
        """The scheme of the addresses of all brokers, which must speak HTTP alike."""
        return "http" if self.tls is None else "https"

    def part(self, make: "Callable[[Context], _T]") -> _T:
        """The state that `make` makes of this context, at the first call."""
        found: _T | None = self.parts.get(make)
        if found is None:
            found = self.parts[make] = make(self)
        return found


def cluster_view(context: Context) -> ClusterView:
    """The view of the cluster that all requests share: it computes its counts once for each image."""
    return ClusterView(context.broker, context.scheme)
