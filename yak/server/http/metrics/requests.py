"""Metrics of the shell: requests and latencies, connections, jobs, the loop, the metadata store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from yak.broker import apis
from yak.broker.counters import FOLLOWER_FETCH
from yak.cluster.broker_lifecycle import LifecycleState
from yak.errors import ErrorCode
from yak.server.http.metrics.text import Samples, counter, gauge, histogram
from yak.version import __version__

if TYPE_CHECKING:
    from yak.server.http.context import Context

BUILD: Final = gauge("yak_build_info", "Always 1; the labels give the version of YAK and the broker's identity")
STATE: Final = gauge("yak_broker_state", "1 for the current broker lifecycle state")
BROKER_EPOCH: Final = gauge("yak_broker_epoch", "Broker epoch of this broker's registration")
IS_CONTROLLER: Final = gauge("yak_is_controller", "1 on the active controller")
CONTROLLER_EPOCH: Final = gauge("yak_controller_epoch", "Controller epoch, from this broker's metadata")
METADATA_OFFSET: Final = gauge("yak_metadata_offset", "Metadata offset applied by this broker")
BROKERS: Final = gauge("yak_brokers", "Registered brokers by state, from this broker's metadata")

REQUEST_SECONDS: Final = histogram(
    "yak_request_seconds",
    "Time from the receipt of a request to its response, by API; includes the wait of delayed fetches and joins",
)
REQUEST_ERRORS: Final = counter(
    "yak_request_errors",
    "Error codes in responses, by API; counts each failed partition, topic or group, or the whole response",
)
BAD_REQUESTS: Final = counter("yak_bad_requests", "Protocol violations and exceeded bounds, by kind")
BUGS: Final = counter("yak_bugs", "Internal errors that did not stop this broker; the broker's log describes each")
RECEIVED: Final = counter("yak_received_bytes", "Bytes received on the Kafka port")
WAITING: Final = gauge("yak_requests_waiting", "Delayed requests: fetches, produces, joins")
CONNECTIONS: Final = gauge("yak_connections", "Open connections to the Kafka port")
CONNECTIONS_LIMIT: Final = gauge("yak_connections_limit", "Maximum number of connections to the Kafka port")
HTTP_CONNECTIONS: Final = gauge("yak_http_connections", "Open connections to the HTTP port")
PAUSES: Final = counter("yak_read_pauses", "Times that reading from a connection was paused to bound memory")
MEMORY: Final = gauge("yak_request_memory_bytes", "Memory for partly received requests and unsent responses")
MEMORY_LIMIT: Final = gauge("yak_request_memory_limit_bytes", "Memory above which reading from connections is paused")

THROTTLED: Final = counter(
    "yak_throttled", "Answers with a throttle time, and refused connections, by the quota that was exceeded"
)
THROTTLE_SECONDS: Final = counter("yak_throttle_seconds", "Sum of the throttle times, by quota")
DENIED: Final = counter("yak_denied_requests", "Requests denied by ACLs, by the operation and the type of the resource")
MUTED: Final = gauge("yak_connections_muted", "Connections that are not read because of a quota")

TURNS: Final = counter(
    "yak_turns", "Steps of the event loop; a step handles all requests of one read, or one other event"
)
SLOWEST_TURN: Final = gauge("yak_slowest_turn_seconds", "Longest step of the event loop since the start")
LOOP_DELAY: Final = histogram(
    "yak_event_loop_delay_seconds",
    "Event loop delay: how late a timer fired, sampled 20 times a second since the first scrape",
)

FLUSH: Final = histogram("yak_log_flush_seconds", "Duration of an fsync of a log")
JOBS: Final = histogram("yak_job_seconds", "Duration of other background jobs, by kind")

STORE_CONNECTED: Final = gauge(
    "yak_store_connected", "1 while the metadata store answers: Redis, or the quorum of brokers"
)
STORE_CALLS: Final = histogram("yak_store_call_seconds", "Round-trip time of a call to the metadata store")
STORE_OUTAGES: Final = counter("yak_store_outages", "Number of metadata store outages")
STORE_OUTAGE_TOTAL: Final = counter("yak_store_outage_seconds", "Total duration of metadata store outages")
STORE_OUTAGE: Final = gauge(
    "yak_store_outage_current_seconds", "Duration of the current metadata store outage; 0 while connected"
)


def gather(context: Context, samples: Samples) -> Iterator[None]:
    """Write all samples; a step takes a fraction of a millisecond."""
    _broker(context, samples)
    yield
    yield from _requests(context, samples)
    _connections(context, samples)
    yield
    _loop_and_jobs(context, samples)
    yield
    _store(context, samples)
    yield


def _broker(context: Context, samples: Samples) -> None:
    broker = context.broker
    image, lifecycle = broker.image, broker.metadata.lifecycle
    samples.add(
        BUILD,
        1,
        version=__version__,
        node_id=str(broker.node_id),
        role=broker.identity.role,
        cluster_id=image.cluster_id,
    )
    for state in LifecycleState:
        samples.add(STATE, int(lifecycle.state is state), state=state.value)
    samples.add(BROKER_EPOCH, lifecycle.broker_epoch)
    samples.add(IS_CONTROLLER, int(lifecycle.is_controller))
    samples.add(CONTROLLER_EPOCH, image.controller_epoch)
    samples.add(METADATA_OFFSET, image.offset)
    by_state: dict[str, int] = {}
    for info in image.brokers.values():
        by_state[info.state.value] = by_state.get(info.state.value, 0) + 1
    for name in sorted(by_state):
        samples.add(BROKERS, by_state[name], state=name)


def _requests(context: Context, samples: Samples) -> Iterator[None]:
    for key, latencies in context.shell.latencies.by_api.items():
        if any(latencies.cells):
            samples.add_histogram(REQUEST_SECONDS, latencies, api=api_name(key))
            yield
    samples.of(REQUEST_SECONDS)
    samples.of(REQUEST_ERRORS)
    for (key, code), count in list(context.broker.counters.errors.items()):
        samples.add(REQUEST_ERRORS, count, api=api_name(key), code=ErrorCode(code).name.upper())
    yield


def api_name(key: int) -> str:
    """Kafka's name of an API; a follower's fetch has a name of its own."""
    if key == FOLLOWER_FETCH:
        return "FollowerFetch"
    return apis.NAMES[key]


def _connections(context: Context, samples: Samples) -> None:
    shell = context.shell
    counters = shell.counters
    samples.of(BAD_REQUESTS)
    for kind, count in counters.bad_requests.items():
        samples.add(BAD_REQUESTS, count, kind=kind)
    samples.add(BUGS, counters.bugs)
    samples.add(RECEIVED, counters.received_bytes)
    samples.add(WAITING, len(context.broker.purgatory))
    samples.add(CONNECTIONS, len(shell.connections))
    samples.add(CONNECTIONS_LIMIT, shell.limits.connections_max)
    samples.add(HTTP_CONNECTIONS, context.connections)
    samples.add(PAUSES, counters.pauses)
    throttling = context.broker.throttling
    samples.add(MUTED, len(throttling))
    samples.of(DENIED)
    for (operation, resource_type), count in context.broker.authorization.denied.items():
        samples.add(DENIED, count, operation=operation.name, resource=resource_type.name)
    for quota, throttled in throttling.counts.items():
        samples.add(THROTTLED, throttled.count, quota=quota.value)
    for quota, throttled in throttling.counts.items():
        samples.add(THROTTLE_SECONDS, throttled.throttle_ms / 1000, quota=quota.value)
    samples.add(MEMORY, shell.memory.held_bytes)
    samples.add(MEMORY_LIMIT, shell.memory.bytes_max)


def _loop_and_jobs(context: Context, samples: Samples) -> None:
    shell = context.shell
    samples.add(TURNS, shell.counters.turns)
    samples.add(SLOWEST_TURN, shell.counters.slowest_turn_ms / 1000)
    samples.add_histogram(FLUSH, shell.jobs.durations["flush"])
    for kind, durations in shell.jobs.durations.items():
        if kind != "flush":
            samples.add_histogram(JOBS, durations, kind=kind)


def _store(context: Context, samples: Samples) -> None:
    outage = context.broker.store_outage
    present_ms = outage.present_ms(context.shell.clock.now_ms())
    samples.add(STORE_CONNECTED, int(present_ms is None))
    if context.shell.store is not None:
        samples.add_histogram(STORE_CALLS, context.shell.store.round_trips)
    samples.add(STORE_OUTAGES, outage.count)
    samples.add(STORE_OUTAGE_TOTAL, (outage.past_ms + (present_ms or 0)) / 1000)
    samples.add(STORE_OUTAGE, (present_ms or 0) / 1000)
