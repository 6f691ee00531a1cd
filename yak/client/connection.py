"""The settings of every librdkafka handle: client id, short waits, and no log output."""

from collections.abc import Mapping
from typing import Any

from yak.client.errors import reason_of
from yak.client.login import current_login
from yak.client.reach import BUDGET_S, require_kafka
from yak.client.security import in_force
from yak.errors import Unreachable

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
"""Settings to find a new leader within milliseconds. librdkafka's own waits of 100 ms and more would hide the cluster's
failover time."""


def security_settings() -> dict[str, Any]:
    """How this process's connections are encrypted and log in, under librdkafka's names."""
    login = current_login()
    return in_force().librdkafka() | (login.librdkafka() if login is not None else {})


def base_config(servers: str, *, verbose: int = 0) -> dict[str, Any]:
    """Settings common to producer, consumer and admin.

    librdkafka logs to stderr by default; it is silenced unless `verbose` is 2 or more, which logs the protocol.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "client.id": "yak",
        "socket.connection.setup.timeout.ms": 3000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "broker.address.ttl": 30_000,
        "log_level": QUIET_LEVEL,
        "logger": _NoisyLineFilter(),
        "error_cb": _ignore,
    } | security_settings()
    if verbose >= TRACE_VERBOSITY:
        del config["logger"]
        config["log_level"] = 7
        config["debug"] = "protocol,broker,topic" if verbose == TRACE_VERBOSITY else "all"
    return config


class _NoisyLineFilter:
    """Drops the log lines that librdkafka writes at every level: those of fatal errors, which its calls raise too."""

    def log(self, *_: object) -> None:
        """As `logging.Logger.log`."""


def _ignore(_error: object) -> None:
    """Ignore connection errors: they surface as timeouts of the failing calls, which explain them."""


def is_plain(config: Mapping[str, Any]) -> bool:
    """Whether these settings leave it to `yak.client.security` how to connect, so that a request can probe the broker."""
    return str(config.get("security.protocol", "plaintext")).lower() == "plaintext"


def check_reachable(servers: str, timeout_ms: int) -> str:
    """The first bootstrap address that speaks Kafka; waits at most 3 s, or the timeout if that is less.

    A login is tried there, because librdkafka would repeat a wrong one until its timeout. Raises Unreachable
    (`unreachable`, `wrong-protocol`, `login-failed`).
    """
    answered = require_kafka(servers, budget_s=min(BUDGET_S, timeout_ms / 1000))
    if current_login() is not None:
        from yak.client.raw_connection import RawConnection

        try:
            RawConnection(answered, timeout_s=timeout_ms / 1000, only_login=True).close()
        except OSError as error:
            message = "the broker closed the connection, or did not answer, during the login"
            raise Unreachable(
                "login-failed", message, why=f"{answered}: {reason_of(error)}", try_=("yak doctor",)
            ) from None
    return answered
