"""What every handler is given: the broker to look at, the door to ask by, and what was set at the start."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    body_bytes_max: int = 16 * 1024 * 1024
    """Of a JSON body; an upload that is streamed has no bound but its rate."""
    body_in_flight_bytes_max: int = 64 * 1024 * 1024
    """Of all bodies held at once."""
    body_deadline_ms: int = 30_000
    """For the whole body, and a second more for each 64 KiB."""
    send_deadline_ms: int = 30_000
    """A client that takes nothing for so long is dropped."""
    idle_ms_max: int = 75_000
    graceful_stop_ms: int = 2_000
    json_depth_max: int = 64
    consumers_max: int = 64
    """Instances of consumer groups in this broker, each with threads and queues of its own (see docs/http.md)."""
    consumers_per_group_max: int = 32
    consumer_idle_ms_max: int = 300_000
    """An instance that nobody used for so long is closed; the REST proxy's `consumer.instance.timeout.ms`."""
    consumer_wait_ms_max: int = 300_000
    """The longest wait of one read."""
    consumer_answer_bytes_max: int = 2 * 1024 * 1024
    """Of keys and values in one answer, whatever `max_bytes` says."""


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
    parts: dict[str, Any] = field(default_factory=dict)
    """What groups of routes keep between requests (consumer instances, listeners), each under its own name."""
    at_stop: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What gives back what is held in the cluster; called when the broker is told to stop, while it still answers Kafka."""
