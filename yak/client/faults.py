"""The fault rules of brokers, for tests: lists, adds and clears them, by an Envelope request (key 58) to each broker.

Rules are of one broker, in its memory. A rule on several brokers has the same id on each, and each counts for itself.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from yak.client.errors import reason_of
from yak.client.raw_connection import RawConnection
from yak.errors import Unreachable, UsageError, YakError
from yak.faults import COMMAND

ENVELOPE: Final = 58, 0
_ID_BYTES: Final = 4


def new_rule_id() -> str:
    """An id for a rule, the same on all brokers that get it."""
    return os.urandom(_ID_BYTES).hex()


def list_faults(address: str, *, timeout_s: float) -> list[dict[str, Any]]:
    """The rules of one broker with their counts, oldest first. Raises as `add_fault`."""
    found: list[dict[str, Any]] = _call(address, {"do": "list"}, timeout_s)
    return found


def add_fault(address: str, rule: Mapping[str, object], *, timeout_s: float) -> None:
    """Add a rule to one broker: the fields of `yak.faults.rule.parse_rule`, `id` among them.

    Raises Unreachable, or UsageError: `bad-fault`, `faults-off`, `faults-refused`.
    """
    _call(address, {"do": "add", "rule": dict(rule)}, timeout_s)


def add_to_all(addresses: Iterable[str], rule: Mapping[str, object], *, timeout_s: float) -> None:
    """Add a rule to each of several brokers, or to none of them. Raises as `add_fault`."""
    applied: list[str] = []
    try:
        for address in addresses:
            applied.append(address)
            add_fault(address, rule, timeout_s=timeout_s)
    except YakError as error:
        if isinstance(error, UsageError):
            applied.pop()  # it refused; one that did not answer may have the rule
        for address in applied:
            with contextlib.suppress(YakError):
                clear_faults(address, str(rule["id"]), timeout_s=timeout_s)
        raise


def clear_faults(address: str, rule_id: str | None = None, *, timeout_s: float) -> list[str]:
    """Remove one rule, or all, from one broker; returns the ids of those that it had. Raises as `add_fault`."""
    gone: list[str] = _call(address, {"do": "clear", "id": rule_id}, timeout_s)
    return gone


def _call(address: str, wanted: Mapping[str, object], timeout_s: float) -> Any:
    data = COMMAND + json.dumps(wanted).encode()
    fields = {"request_data": data, "request_principal": None, "client_host_address": b""}
    try:
        with RawConnection(address, timeout_s=timeout_s) as connection:
            found = json.loads(connection.call(ENVELOPE, fields).response_data or b"")
    except (OSError, ValueError) as error:
        why = f"{reason_of(error)}; a version without fault injection closes the connection"
        raise Unreachable("unreachable", f"{address} did not answer about faults", why=why) from None
    if refused := found.get("error"):
        raise UsageError.from_json(refused)
    return found["result"]
