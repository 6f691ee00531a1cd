"""The bootstrap addresses and the librdkafka settings of the Python API."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from yak.client.addresses import parse_addresses
from yak.client.api.failures import explaining, require_text
from yak.client.connection import base_config, check_reachable, is_plain
from yak.errors import UsageError

Bootstrap: TypeAlias = str | Iterable[str] | None
"""`host:port`, several with commas or as a list; None is YAK_BOOTSTRAP_SERVERS, else 127.0.0.1:9092."""

VARIABLE = "YAK_BOOTSTRAP_SERVERS"
DEFAULT = "127.0.0.1:9092"
OWN_NAMES = {
    "bootstrap.servers": "bootstrap",
    "metadata.broker.list": "bootstrap",
    "group.id": "group_id",
    "enable.auto.commit": "auto_commit",
    "enable.auto.offset.store": "auto_commit",
    "error_cb": "the errors that the calls raise",
    "delivery.report.only.error": "the future that send() gives",
    "on_delivery": "the future that send() gives",
    "on_commit": "what commit() returns",
}
"""librdkafka settings that the API controls, with its own way for each; setting them directly would break its
guarantees."""


def find_bootstrap(given: Bootstrap) -> str:
    """The bootstrap addresses. Raises UsageError (`bad-address`)."""
    if given is None:
        text, origin = os.environ.get(VARIABLE) or DEFAULT, VARIABLE
    else:
        with explaining(f"bootstrap={given!r} names no broker"):
            text, origin = (given if isinstance(given, str) else ",".join(given)), "bootstrap"
    try:
        return parse_addresses(text)
    except ValueError as error:
        failure = UsageError(
            "bad-address", f'{origin}="{text}" names no broker', why=str(error), try_=('bootstrap="127.0.0.1:9092"',)
        )
        raise failure from None


def check_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The caller's librdkafka settings. Raises UsageError (`usage`) for settings that the API controls."""
    given = dict(config or {})
    for name in given:
        if name in OWN_NAMES:
            failure = UsageError(
                "usage",
                f'"{name}" cannot be set in config',
                why=f"the API has a way of its own: {OWN_NAMES[name]}",
                try_=("config is for librdkafka's other settings",),
            )
            raise failure
    with explaining("config is refused"):
        require_text(*given, *given.values())
    return given


def handle_config(
    bootstrap: str, client_id: str, config: Mapping[str, Any], *, timeout_s: float, is_known: bool
) -> dict[str, Any]:
    """Settings for a librdkafka handle, after a check that a broker answers (at most 3 s).

    `is_known` skips the check. Raises Unreachable (`unreachable`, `wrong-protocol`).
    """
    with explaining("the settings are refused"):
        require_text(client_id, *config.values())
    if not is_known and is_plain(config):
        with explaining("no broker answered"):
            check_reachable(bootstrap, int(timeout_s * 1000))
    common = base_config(bootstrap) | {"client.id": client_id} | dict(config)
    if "logger" not in config and not {"log_level", "debug"}.isdisjoint(config):
        del common["logger"]  # the caller wants librdkafka's log on stderr
    return common
