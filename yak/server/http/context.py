"""What every handler is given: the broker to look at, the door to ask by, and what was set at the start."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from yak.broker.broker import Broker
from yak.server.http.door import Door

if TYPE_CHECKING:
    from yak.server.shell import Shell


@dataclass(slots=True)
class HttpLimits:
    """Bounds of HTTP, changeable by tests. Sizes in bytes, times in ms."""

    connections_max: int = 512
    connections_per_ip_max: int = 256
    header_bytes_max: int = 16 * 1024
    """Of the request line and the headers together."""
    head_deadline_ms: int = 10_000
    """From a head's first byte to its end; for the first one from the connection's start."""
    body_bytes_max: int = 4 * 1024 * 1024
    """Of a JSON body; an upload that is streamed has no bound but its rate."""
    body_in_flight_bytes_max: int = 64 * 1024 * 1024
    """Of all bodies held at once."""
    body_deadline_ms: int = 30_000
    """For the whole body, and a second more for each 64 KiB."""
    send_deadline_ms: int = 30_000
    """A client that takes nothing (of 64 KiB) for so long is dropped."""
    idle_ms_max: int = 75_000
    graceful_stop_ms: int = 2_000
    json_depth_max: int = 64
    json_values_max: int = 50_000
    """Of one JSON body. The parser holds Python's lock for all of it: 300,000 keys took half a second."""
    records_per_request_max: int = 10_000
    """Written or read by one request; an upload or a stream has no such bound."""
    answer_bytes_max: int = 4 * 1024 * 1024
    """Of records in one answer, before they become JSON; one record may be larger."""
    decompressed_bytes_max: int = 32 * 1024 * 1024
    """Of one batch that is shown."""
    retry_ms: int = 3_000
    """How long a moment of leadership change is waited out."""
    csv_row_chars_max: int = 1024 * 1024
    csv_rows_per_batch: int = 500
    failed_rows_named_max: int = 20
    streams_max: int = 256
    stream_partitions_max: int = 256
    """Of one stream: the id of each event names them all."""
    heartbeat_ms: int = 15_000
    event_listeners_max: int = 256
    events_kept_max: int = 10_000
    """For listeners that come back; about 3 MB."""
    consumers_max: int = 64
    """Instances of consumer groups in this broker, each with threads and queues of its own (see docs/http.md)."""
    consumers_per_group_max: int = 32
    consumer_idle_ms_max: int = 300_000
    """An instance that nobody used for so long is closed; the REST proxy's `consumer.instance.timeout.ms`."""
    consumer_wait_ms_max: int = 300_000
    """The longest wait of one read."""
    consumer_answer_bytes_max: int = 2 * 1024 * 1024
    """Of keys and values in one answer, whatever `max_bytes` says."""


_HANDLES_PER_CONSUMER: Final = 8
"""Sockets and pipes of librdkafka, to a handful of brokers."""


def handles_of_http(handles: int) -> int:
    """How many file handles, of those that clients of the broker may have, are kept for HTTP: a quarter at most."""
    limits = HttpLimits()
    return min(limits.connections_max + _HANDLES_PER_CONSUMER * limits.consumers_max, handles // 4)


def limits_of(handles: int) -> HttpLimits:
    """The usual bounds, or lower ones where there are few file handles."""
    usual = HttpLimits()
    return HttpLimits(
        connections_max=min(usual.connections_max, max(8, handles // 2)),
        consumers_max=min(usual.consumers_max, max(1, handles // 2 // _HANDLES_PER_CONSUMER)),
    )


@dataclass(slots=True)
class Context:
    """Handlers read `broker` between turns and never change it; what changes goes through `door`."""

    shell: "Shell"
    broker: Broker
    door: Door
    http_port: int
    """The port that is answered on."""
    host: str
    advertised_host: str
    token: str | None = None
    limits: HttpLimits = field(default_factory=HttpLimits)
    started_ms: int = 0
    body_bytes_held: int = 0
    """Of bodies that are being read or worked on."""
    connections: Callable[[], int] = lambda: 0
    """How many HTTP connections are open."""
    parts: dict[str, Any] = field(default_factory=dict)
    """What groups of routes keep between requests (consumer instances, listeners), each under its own name."""
    at_stop: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What gives back what is held in the cluster; called when the broker is told to stop, while it still answers Kafka."""
