"""DescribeClientQuotas, AlterClientQuotas (keys 48 and 49, v0-1): there are no quotas, and none can be set.

v1: flexible. Wrong filters and entities get the errors of Kafka's ClientQuotasImage and ClientQuotaControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.call import Api, Call, Fields, Now, Outcome
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_IP = "ip"
_TYPES = ("user", "client-id", _IP)
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_USER_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_IP_QUOTAS = ("connection_creation_rate",)
_FRACTIONAL = ("request_percentage", "controller_mutation_rate")


def describe_client_quotas(broker: Broker, call: Call) -> Outcome:
    """Check the filter; nothing matches it."""
    del broker
    try:
        _check_filter(call.request.components)
    except PeerError as error:
        return Now({**_failure(error), "entries": None})
    return Now({**_failure(None), "entries": []})


def _check_filter(components: Any) -> None:
    types: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise PeerError(ErrorCode.invalid_request, "the entity type is empty")
        if kind in types:
            raise PeerError(ErrorCode.invalid_request, f"entity type {kind} appears more than once in the filter")
        if kind not in _TYPES:
            raise PeerError(ErrorCode.unsupported_version, f"entity type {kind} is not supported")
        if component.match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
            raise PeerError(ErrorCode.invalid_request, f"unknown match type {component.match_type}")
        if (component.match_type == _EXACT) != (component.match is not None):
            raise PeerError(ErrorCode.invalid_request, "an exact match needs a name, and the others must have none")
        types.add(kind)
    if _IP in types and len(types) > 1:
        raise PeerError(ErrorCode.invalid_request, "an ip filter cannot be combined with user or client-id")


def alter_client_quotas(broker: Broker, call: Call) -> Outcome:
    """Refuse to set a quota. The removal of a quota succeeds, as in Kafka when the entity has none."""
    del broker
    return Now({"entries": [_altered(entry) for entry in call.request.entries]})


def _altered(entry: Any) -> Fields:
    error = None
    try:
        _check_alteration(entry)
    except PeerError as refusal:
        error = refusal
    entity = [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]
    return {**_failure(error), "entity": entity}


def _check_alteration(entry: Any) -> None:
    """Raise PeerError unless the alteration only removes quotas."""
    types = {part.entity_type for part in entry.entity}
    if not types:
        raise PeerError(ErrorCode.invalid_request, "the entity is empty")
    for kind in sorted(types.difference(_TYPES)):
        raise PeerError(ErrorCode.invalid_request, f"unknown entity type {kind}")
    if _IP in types and len(types) > 1:
        raise PeerError(ErrorCode.invalid_request, "an ip cannot be combined with user or client-id")
    keys = [change.key for change in entry.ops]
    if len(set(keys)) < len(keys):
        raise PeerError(ErrorCode.invalid_request, "a quota is given more than once")
    for change in entry.ops:
        if change.remove:
            continue
        if change.key not in (_IP_QUOTAS if _IP in types else _USER_QUOTAS):
            raise PeerError(ErrorCode.invalid_request, f"unknown quota {change.key}")
        if not change.value > 0:
            raise PeerError(ErrorCode.invalid_request, f"quota {change.key} must be greater than 0")
        if change.key not in _FRACTIONAL and change.value % 1 > 1e-6:
            raise PeerError(ErrorCode.invalid_request, f"quota {change.key} cannot be a fractional value")
    if any(not change.remove for change in entry.ops):
        raise PeerError(ErrorCode.unsupported_version, "this version of YAK does not support client quotas")


def _failure(error: PeerError | None) -> Fields:
    return {
        "error_code": ErrorCode.none if error is None else error.error_code,
        "error_message": None if error is None else error.message,
    }


APIS = (
    Api(48, "DescribeClientQuotas", range(2), ("quotas: no entity has one",), describe_client_quotas),
    Api(
        49,
        "AlterClientQuotas",
        range(2),
        ("quotas: setting one is refused with UNSUPPORTED_VERSION; removing one succeeds, since there is none",),
        alter_client_quotas,
    ),
)
