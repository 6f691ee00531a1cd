"""What every librdkafka handle of ours is configured with: who we are, short waits, and a closed mouth."""

from collections.abc import Mapping
from typing import Any

from yak.client.reach import BUDGET_S, require_kafka

QUIET_LEVEL = 0
TRACE_VERBOSITY = 2
IMPATIENT: dict[str, str | int] = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 10,
    "socket.connection.setup.timeout.ms": 1000,
}
"""A client that looks for a new leader within milliseconds. librdkafka's own waits are 100 ms and more, and would hide the
cluster's."""


def base_config(servers: str, *, verbose: int = 0) -> dict[str, Any]:
    """Settings common to producer, consumer and admin.

    librdkafka writes its log to stderr by itself; it is silenced unless `verbose` is 2 or more, where it shows the
    protocol.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "client.id": "yak",
        "socket.connection.setup.timeout.ms": 3000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "broker.address.ttl": 30_000,
        "log_level": QUIET_LEVEL,
        "error_cb": _ignore,
    }
    if verbose >= TRACE_VERBOSITY:
        config["log_level"] = 7
        config["debug"] = "protocol,broker,topic" if verbose == TRACE_VERBOSITY else "all"
    return config


def _ignore(_error: object) -> None:
    """Connection errors come back as time-outs of the calls they spoil; there they are explained."""


def is_plain(config: Mapping[str, Any]) -> bool:
    """Whether connections are neither encrypted nor authenticated, so that a plain request can find out who answers."""
    return str(config.get("security.protocol", "plaintext")).lower() == "plaintext"


def check_reachable(servers: str, timeout_ms: int) -> str:
    """The first bootstrap address that speaks Kafka; waits 3 s, or the time-out where that is less.

    Raises Unreachable (`unreachable`, `wrong-protocol`).
    """
    return require_kafka(servers, budget_s=min(BUDGET_S, timeout_ms / 1000))
