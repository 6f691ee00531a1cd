"""DescribeAcls, CreateAcls, DeleteAcls (keys 29 to 31, v1-3): read and change the ACLs (KIP-140, KIP-290).

v2: flexible. v3: user resources. Without an authorizer each answer is SECURITY_DISABLED, as from Kafka (AclApis.scala).
The rules of new ACLs and of filters are those of Kafka's AclControlManager. A change is in force on this broker when the
answer is sent, and on the others when they have it.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from yak.acls.bindings import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    bindings_of,
    encode_entry,
    encode_pattern,
)
from yak.acls.filters import AclFilter
from yak.broker.api_table import Api
from yak.broker.call import Call, Fields, Now, Outcome, Slices, error_fields
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges, from_newest_image
from yak.cluster.records import ACL
from yak.cluster.topic_changes import plan_alter
from yak.errors import ErrorCode, PeerError
from yak.limits import ACL_NAME_LENGTH_MAX, ACLS_PER_REQUEST_MAX, ACLS_PER_RESOURCE_MAX
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_TIMEOUT_MS = 10_000
_UNKNOWN_CODE = 0
"""UNKNOWN of every enumeration: a client that sends it did not know what it asked for."""
_COMPARED_PER_ELEMENT = 8
"""Comparisons with a filter that cost a slice as much as one ACL of an answer."""
_Left: TypeAlias = dict[ResourcePattern, list[AccessControlEntry]]
C = TypeVar("C", bound=IntEnum)


def _check_active(broker: Broker, call: Call, operation: Operation) -> None:
    """Raise PeerError if there is no authorizer, or if the client may not read or change ACLs."""
    if not broker.authorization.is_active:
        raise PeerError(ErrorCode.security_disabled, "No Authorizer is configured.")
    broker.authorization.check_cluster(call, operation)


class _NewerCode(PeerError):
    """A code that this broker does not know: no ACL has it."""


def _code(codes: type[C], code: int, what: str, *, is_filter: bool) -> C:
    """The member of a code. Raises PeerError for an unknown one, and for ANY and MATCH outside of a filter."""
    if code not in codes.__members__.values():
        error = PeerError if code == _UNKNOWN_CODE else _NewerCode
        raise error(ErrorCode.invalid_request, f"Invalid {what} {code}")
    if not is_filter and codes(code).name in ("ANY", "MATCH"):
        raise PeerError(ErrorCode.invalid_request, f"Invalid {what} {code}")
    return codes(code)


# ---------------------------------------------------------------------------------------------------------- describe


def describe_acls(broker: Broker, call: Call) -> Outcome:
    """The ACLs that a filter selects, by resource pattern. A filter with a code of a newer version selects none.

    UNKNOWN gets INVALID_REQUEST; Kafka closes the connection for it.
    """
    try:
        _check_active(broker, call, Operation.DESCRIBE)
        wanted = _filter_of(call.request)
    except _NewerCode:
        return Now({**error_fields(None), "resources": []})
    except PeerError as error:
        return Now({**error_fields(error), "resources": []})
    return broker.large_requests.answer(call, _described(broker, wanted))


def _described(broker: Broker, wanted: AclFilter) -> Slices:
    """The ACLs of the image at the first slice."""
    resources: dict[ResourcePattern, list[Fields]] = {}
    pace = Pace()
    for binding in bindings_of(broker.image.acls):
        if wanted.matches(binding):
            resources.setdefault(binding.pattern, []).append(_entry_fields(binding.entry))
        if pace.is_over(1):
            yield
    return Now(
        {
            **error_fields(None),
            "resources": [_pattern_fields(pattern) | {"acls": acls} for pattern, acls in resources.items()],
        }
    )


def _filter_of(requested: Any) -> AclFilter:
    """The filter of a request. Raises PeerError."""
    return AclFilter(
        _code(ResourceType, requested.resource_type_filter, "resource type", is_filter=True),
        requested.resource_name_filter,
        _code(PatternType, requested.pattern_type_filter, "pattern type", is_filter=True),
        requested.principal_filter,
        requested.host_filter,
        _code(Operation, requested.operation, "operation", is_filter=True),
        _code(Permission, requested.permission_type, "permission type", is_filter=True),
    )


def _pattern_fields(pattern: ResourcePattern) -> Fields:
    return {"resource_type": pattern.resource_type, "resource_name": pattern.name, "pattern_type": pattern.pattern_type}


def _entry_fields(entry: AccessControlEntry) -> Fields:
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission,
    }


# ------------------------------------------------------------------------------------------------------------ create


def create_acls(broker: Broker, call: Call) -> Outcome:
    """Add ACLs, each with its own result; one that is there already succeeds."""
    creations = call.request.creations
    patterns: dict[int, str] = {}
    refused: dict[int, PeerError] = {}
    changes: dict[str, dict[str, str | None]] = {}

    def build(results: dict[str, PeerError | None]) -> Outcome:
        errors = (refused.get(index) or results.get(patterns.get(index, "")) for index in range(len(creations)))
        return Now({"results": [error_fields(error) for error in errors]})

    waiting: DelayedMetadataChanges[str] = DelayedMetadataChanges(broker, call, _TIMEOUT_MS, build)
    for index, creation in enumerate(creations):
        try:
            _check_active(broker, call, Operation.ALTER)
            if index >= ACLS_PER_REQUEST_MAX:
                message = f"One request creates at most {ACLS_PER_REQUEST_MAX} ACLs."
                raise PeerError(ErrorCode.policy_violation, message)
            binding = _new_binding(creation)
            pattern = encode_pattern(binding.pattern)
            _add(broker, pattern, binding, changes)
        except PeerError as error:
            refused[index] = error
        else:
            patterns[index] = pattern
    for pattern, entries in changes.items():
        waiting.change(pattern, plan_alter(ACL, pattern, entries))
    return waiting.outcome()


def _add(broker: Broker, pattern: str, binding: AclBinding, changes: dict[str, dict[str, str | None]]) -> None:
    """Add an ACL to those of its pattern, also one that the image has: another broker may have acknowledged its deletion.

    Raises PeerError when the pattern has too many.
    """
    present, added = broker.image.acls.get(pattern, {}), changes.get(pattern, {})
    entry = encode_entry(binding.entry)
    is_new = entry not in present and entry not in added
    may_be_full = len(present) + len(added) >= ACLS_PER_RESOURCE_MAX  # it counts entries in both twice
    if is_new and may_be_full and len(present.keys() | added.keys()) >= ACLS_PER_RESOURCE_MAX:
        message = f"A resource pattern has at most {ACLS_PER_RESOURCE_MAX} ACLs."
        raise PeerError(ErrorCode.policy_violation, message)
    changes.setdefault(pattern, {})[entry] = ""


def _new_binding(creation: Any) -> AclBinding:
    """The ACL of a creation. Raises PeerError (AclControlManager.validateNewAcl)."""
    kind = _code(ResourceType, creation.resource_type, "resource type", is_filter=False)
    pattern_type = _code(PatternType, creation.resource_pattern_type, "pattern type", is_filter=False)
    operation = _code(Operation, creation.operation, "operation", is_filter=False)
    permission = _code(Permission, creation.permission_type, "permission type", is_filter=False)
    if not creation.resource_name:
        raise PeerError(ErrorCode.invalid_request, "Resource name should not be empty")
    if kind is ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        raise PeerError(ErrorCode.invalid_request, message)
    principal_type, colon, name = creation.principal.partition(":")
    if not colon or not principal_type or not name:
        message = (
            f"Could not parse principal from `{creation.principal[:100]}` (it is a type, a colon and a name: User:ann)"
        )
        raise PeerError(ErrorCode.invalid_request, message)
    if not creation.host:
        raise PeerError(ErrorCode.invalid_request, "The host should not be empty: * is every host")
    for text in (creation.resource_name, creation.principal, creation.host):
        if len(text) > ACL_NAME_LENGTH_MAX:
            message = f"A name in an ACL has at most {ACL_NAME_LENGTH_MAX} characters, not {len(text)}."
            raise PeerError(ErrorCode.invalid_request, message)
    entry = AccessControlEntry(creation.principal, creation.host, operation, permission)
    return AclBinding(ResourcePattern(kind, creation.resource_name, pattern_type), entry)


# ------------------------------------------------------------------------------------------------------------ delete


def delete_acls(broker: Broker, call: Call) -> Outcome:
    """Delete the ACLs that each filter selects, also those that another broker has just created."""
    return from_newest_image(broker, call, _TIMEOUT_MS, _delete, is_needed=broker.authorization.is_active)


def _delete(broker: Broker, call: Call) -> Outcome:
    return broker.large_requests.answer(call, _deletion(broker, call))


def _deletion(broker: Broker, call: Call) -> Slices:
    """The ACLs are those of the image at the first slice. An ACL belongs to the first filter that selects it."""
    filters = call.request.filters
    refused: dict[int, PeerError] = {}
    selected: dict[int, list[AclBinding]] = {}
    changes: dict[str, dict[str, str | None]] = {}

    def build(results: dict[str, PeerError | None]) -> Outcome:
        return Now(
            {
                "filter_results": [
                    {
                        **error_fields(refused.get(index)),
                        "matching_acls": [_deleted(binding, results) for binding in selected.get(index, ())],
                    }
                    for index in range(len(filters))
                ]
            }
        )

    waiting: DelayedMetadataChanges[str] = DelayedMetadataChanges(broker, call, _TIMEOUT_MS, build)
    left: _Left = {}
    pace = Pace()
    for binding in bindings_of(broker.image.acls) if broker.authorization.is_active else ():
        left.setdefault(binding.pattern, []).append(binding.entry)
        if pace.is_over(1):
            yield
    for index, requested in enumerate(filters):
        try:
            _check_active(broker, call, Operation.ALTER)
            if index >= ACLS_PER_REQUEST_MAX:
                raise PeerError(ErrorCode.policy_violation, f"One request has at most {ACLS_PER_REQUEST_MAX} filters.")
            wanted = _filter_of(requested)
        except PeerError as error:
            refused[index] = error
            continue
        selected[index] = yield from _take(wanted, left, pace)
        for binding in selected[index]:
            changes.setdefault(encode_pattern(binding.pattern), {})[encode_entry(binding.entry)] = None
    for pattern, entries in changes.items():
        waiting.change(pattern, plan_alter(ACL, pattern, entries))
    return waiting.outcome()


def _take(wanted: AclFilter, left: _Left, pace: Pace) -> Generator[None, None, list[AclBinding]]:
    """Take the ACLs that a filter selects. Most filters name one resource pattern, and need no search of all."""
    one, taken = wanted.only_pattern, list[AclBinding]()
    if one is None and pace.is_over(len(left) // _COMPARED_PER_ELEMENT):
        yield
    for pattern in [each for each in left if wanted.matches_pattern(each)] if one is None else [one]:
        entries = left.get(pattern, [])
        if pace.is_over(1 + len(entries) // _COMPARED_PER_ELEMENT):
            yield
        found = [AclBinding(pattern, entry) for entry in entries if wanted.matches_entry(entry)]
        if found:
            left[pattern] = [entry for entry in entries if not wanted.matches_entry(entry)]
            taken += found
    return taken


def _deleted(binding: AclBinding, results: dict[str, PeerError | None]) -> Fields:
    error = results.get(encode_pattern(binding.pattern))
    return error_fields(error) | _pattern_fields(binding.pattern) | _entry_fields(binding.entry)


APIS = (
    Api(29, "DescribeAcls", range(1, 4), describe_acls),
    Api(30, "CreateAcls", range(1, 4), create_acls, ("principals without a name, such as User:, are refused",)),
    Api(31, "DeleteAcls", range(1, 4), delete_acls),
)
