"""Quotas of clients by DescribeClientQuotas and AlterClientQuotas v1 (keys 48 and 49), for which librdkafka has no call."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from yak.client.errors import Change, from_answer
from yak.client.raw_connection import call_change, call_once, first
from yak.errors import UsageError, YakError
from yak.quotas.entity import Entity, entity_of

_DESCRIBE: Final = 48, 1
_ALTER: Final = 49, 1
_EXACT, _DEFAULT = 0, 1


@dataclass(frozen=True, slots=True)
class EntityQuotas:
    """An entity and its quotas by name."""

    entity: Entity
    quotas: Mapping[str, float]


def describe_quotas(address: str, entity: Entity | None, *, timeout_s: float) -> list[EntityQuotas]:
    """The quotas of exactly one entity, or of all. Raises Unreachable, or YakError (`not-authorized`, `quota-refused`)."""
    components = [
        {"entity_type": kind, "match_type": _DEFAULT if name is None else _EXACT, "match": name}
        for kind, name in entity or ()
    ]
    fields = {"components": components, "strict": entity is not None}
    answer = call_once(address, _DESCRIBE, fields, "the quotas could not be read", timeout_s)
    if answer.error_code:
        raise _refusal("the quotas could not be read", answer)
    found = [
        EntityQuotas(
            entity_of((part.entity_type, part.entity_name) for part in entry.entity),
            {value.key: float(value.value) for value in entry.values},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda each: [(kind, name or "") for kind, name in each.entity])


def alter_quotas(
    address: str, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool, timeout_s: float
) -> None:
    """Set quotas of an entity, and remove those that are None. Raises Unreachable, or YakError (`not-authorized`, `quota-refused`)."""
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [{"key": key, "value": value or 0, "remove": value is None} for key, value in changes.items()],
    }
    change = Change("the quotas were", "changed", "yak quotas list")
    fields = {"entries": [entry], "validate_only": validate_only}
    entries = call_change(address, _ALTER, fields, change, timeout_s).entries
    try:
        answer = first(entries)
    except OSError as error:
        raise change.failure(YakError("quota-refused", change.not_made, why=f"{address}: {error}")) from None
    if answer.error_code:
        raise change.failure(_refusal(change.not_made, answer))


def address_of(host: str) -> str:
    """The ip of a host. Raises UsageError (`bad-quota`)."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        why = f"the name does not resolve ({error.strerror or error})"
        raise UsageError("bad-quota", f'"{host}" is no ip', why=why, try_=("--ip 10.0.0.1",)) from None


def _refusal(what: str, answer: Any) -> YakError:
    return from_answer(answer, what, "quota-refused", invalid="yak quotas set --help")
