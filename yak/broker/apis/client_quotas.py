"""DescribeClientQuotas, AlterClientQuotas (keys 48 and 49, v0-1): read and change the quotas of clients.

v1: flexible. Filters and entities are checked as by Kafka's ClientQuotasImage and ClientQuotaControlManager. A changed
quota is in force on this broker when the answer is sent, and on the others when they have the change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from yak.acls.bindings import Operation
from yak.broker.api_table import Api
from yak.broker.call import Call, Fields, Now, Outcome, error_fields
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges
from yak.cluster.records import QUOTA
from yak.cluster.topic_changes import plan_alter
from yak.errors import ErrorCode, PeerError
from yak.limits import CONFIG_VALUE_BYTES_MAX
from yak.quotas.entity import Entity, decode_entity, encode_entity, entity_of
from yak.quotas.quota_types import ENTITY_TYPES, FRACTIONAL, IP, IP_QUOTAS, USER_QUOTAS, QuotaType

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_TIMEOUT_MS = 10_000
_EPSILON: Final = 1e-6
_LONG_MAX: Final = 2.0**63  # what Long.MAX_VALUE is as a double: tools set it for "unlimited"
_INT_MAX: Final = 2**31 - 1
_Filter: TypeAlias = dict[str, tuple[str | None, bool]]
"""By entity type: the name (None for the default), and whether any name matches."""

# ---------------------------------------------------------------------------------------------------------- describe


def describe_client_quotas(broker: Broker, call: Call) -> Outcome:
    """The quotas of the entities that match the filter."""
    try:
        broker.authorization.check_cluster(call, Operation.DESCRIBE_CONFIGS)
        wanted = _filter_of(call.request.components)
    except PeerError as error:
        return Now({**error_fields(error), "entries": None})
    return Now({**error_fields(None), "entries": list(_entries(broker, wanted, is_strict=call.request.strict))})


def _filter_of(components: Any) -> _Filter:
    """The parts of the filter by type. Raises PeerError."""
    wanted: _Filter = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise PeerError(ErrorCode.invalid_request, "the entity type is empty")
        if kind in wanted:
            raise PeerError(ErrorCode.invalid_request, f"entity type {kind} appears more than once in the filter")
        if kind not in ENTITY_TYPES:
            raise PeerError(ErrorCode.unsupported_version, f"entity type {kind} is not supported")
        if component.match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
            raise PeerError(ErrorCode.invalid_request, f"unknown match type {component.match_type}")
        if (component.match_type == _EXACT) != (component.match is not None):
            raise PeerError(ErrorCode.invalid_request, "an exact match needs a name, and the others must have none")
        wanted[kind] = component.match, component.match_type == _SPECIFIED
    if IP in wanted and len(wanted) > 1:
        raise PeerError(ErrorCode.invalid_request, "an ip filter cannot be combined with user or client-id")
    return wanted


def _entries(broker: Broker, wanted: _Filter, *, is_strict: bool) -> Iterator[Fields]:
    """The matching entities. A strict filter matches entities without further types, and an empty one then none."""
    if is_strict and not wanted:
        return
    for text, quotas in sorted(broker.image.quotas.items()):
        entity = decode_entity(text)
        names = dict(entity)
        if is_strict and len(names) > len(wanted):
            continue
        if all(kind in names and (is_any or names[kind] == name) for kind, (name, is_any) in wanted.items()):
            yield {
                "entity": _described(entity),
                "values": [{"key": quota, "value": float(value)} for quota, value in sorted(quotas.items())],
            }


def _described(parts: Iterable[tuple[str, str | None]]) -> list[Fields]:
    """By type, as Kafka's HashMap of them has it: client-id before user."""
    return [{"entity_type": kind, "entity_name": name} for kind, name in sorted(parts, key=itemgetter(0))]


# ------------------------------------------------------------------------------------------------------------- alter


def alter_client_quotas(broker: Broker, call: Call) -> Outcome:
    """Set and remove quotas; each entity has its own result, and an entity that is named twice is refused."""
    request = call.request
    entries = [(entry, _parts(entry)) for entry in request.entries]

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        answers = []
        for index, (_entry, parts) in enumerate(entries):
            answers.append({**error_fields(results.get(index)), "entity": _described(parts)})
        return Now({"entries": answers})

    waiting = DelayedMetadataChanges(broker, call, _TIMEOUT_MS, build)
    named: set[Entity] = set()
    for index, (entry, parts) in enumerate(entries):
        try:
            broker.authorization.check_cluster(call, Operation.ALTER_CONFIGS)
            entity = _checked_entity(parts)
            changes = _checked_changes(entity, entry.ops)
            if entity in named:
                raise PeerError(ErrorCode.invalid_request, f"entity {encode_entity(entity)} is named more than once")
        except PeerError as error:
            waiting.refuse(index, error)
            continue
        named.add(entity)
        if changes and not request.validate_only:
            # also what the image has already: another broker may have acknowledged a newer change
            waiting.change(index, plan_alter(QUOTA, encode_entity(entity), changes))
    return waiting.outcome()


def _parts(entry: Any) -> list[tuple[str, str | None]]:
    return [(part.entity_type, part.entity_name) for part in entry.entity]


def _checked_entity(parts: list[tuple[str, str | None]]) -> Entity:
    """The entity of these parts. Raises PeerError."""
    kinds = [kind for kind, _name in parts]
    if not kinds:
        raise PeerError(ErrorCode.invalid_request, "the entity is empty")
    for kind, name in parts:
        if kind not in ENTITY_TYPES:
            raise PeerError(ErrorCode.invalid_request, f"unknown entity type {kind}")
        if kinds.count(kind) > 1:
            raise PeerError(ErrorCode.invalid_request, f"entity type {kind} is given more than once")
        if name == "":
            raise PeerError(ErrorCode.invalid_request, f"an empty {kind} is not supported")
        if name is not None and len(name.encode()) > CONFIG_VALUE_BYTES_MAX:
            raise PeerError(ErrorCode.invalid_request, f"the {kind} is too long")
        if kind == IP and name is not None:
            _check_ip(name)
    if IP in kinds and len(kinds) > 1:
        raise PeerError(ErrorCode.invalid_request, "an ip cannot be combined with user or client-id")
    return entity_of(parts)


def _check_ip(name: str) -> None:
    try:
        ip_address(name)
    except ValueError:
        raise PeerError(ErrorCode.invalid_request, f"{name} is not a valid ip") from None


def _checked_changes(entity: Entity, ops: Any) -> dict[str, str | None]:
    """The new values by quota, None for one to remove. Raises PeerError."""
    known = IP_QUOTAS if entity[0][0] == IP else USER_QUOTAS
    changes: dict[str, str | None] = {}
    for change in ops:
        quota = change.key
        if quota in changes:
            raise PeerError(ErrorCode.invalid_request, f"quota {quota} is given more than once")
        if change.remove:
            changes[quota] = None
            continue
        if quota not in known:
            raise PeerError(ErrorCode.invalid_request, f"unknown quota {quota}")
        changes[quota] = _checked_value(QuotaType(quota), change.value)
    return changes


def _checked_value(quota: QuotaType, value: float) -> str:
    if not value > 0 or math.isinf(value):
        raise PeerError(ErrorCode.invalid_request, f"quota {quota} must be greater than 0")
    if quota not in FRACTIONAL:
        if value - math.floor(value) > _EPSILON:
            raise PeerError(ErrorCode.invalid_request, f"quota {quota} cannot be a fractional value")
        if value > (_INT_MAX if quota in IP_QUOTAS else _LONG_MAX):
            raise PeerError(ErrorCode.invalid_request, f"quota {quota} is too large")
    return repr(value)


APIS = (
    Api(48, "DescribeClientQuotas", range(2), describe_client_quotas),
    Api(49, "AlterClientQuotas", range(2), alter_client_quotas, ("host names as ip: give the address",)),
)
