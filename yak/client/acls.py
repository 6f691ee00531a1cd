"""ACLs by DescribeAcls, CreateAcls and DeleteAcls v3 (keys 29 to 31), with every type of resource that Kafka has."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from ipaddress import ip_address
from typing import Any, Final

from yak.acls.bindings import (
    SUPPORTED,
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from yak.acls.filters import AclFilter
from yak.client.errors import Change, from_answer
from yak.client.raw_connection import call_change, call_once
from yak.errors import UsageError, YakError
from yak.limits import ACLS_PER_REQUEST_MAX

_DESCRIBE_ACLS: Final = 29, 3
_CREATE_ACLS: Final = 30, 3
_DELETE_ACLS: Final = 31, 3
_SECURITY_DISABLED: Final = 54
_SHOWS: Final = "yak acls list"


def name_of(code: IntEnum) -> str:
    """The name of a type, an operation or a permission as the options of `yak acls` have it."""
    return code.name.lower().replace("_", "-")


def check_acl(acl: AclBinding) -> None:
    """Refuse an ACL that concerns no request: of an operation that the resource lacks, or of no client's address.

    Raises UsageError (`usage`, `bad-acl-host`).
    """
    kind, operation, host = acl.pattern.resource_type, acl.entry.operation, acl.entry.host
    if operation is not Operation.ALL and operation not in SUPPORTED[kind]:
        what = f"{name_of(operation)} is no operation of a {name_of(kind)}"
        why = f"there are {', '.join(map(name_of, SUPPORTED[kind]))} and all"
        raise UsageError("usage", what, why=why, try_=("yak acls add --help",))
    try:
        if host != "*":
            ip_address(host)
    except ValueError:
        why = "clients' addresses are compared with it: a host name or a network matches no client"
        raise UsageError("bad-acl-host", f'"{host}" is no ip', why=why, try_=("--host 10.0.0.1",)) from None


def describe_acls(address: str, wanted: AclFilter, *, timeout_s: float) -> list[AclBinding]:
    """The ACLs that a filter selects. Raises Unreachable, or YakError (`acls-off`, `not-authorized`, `acl-refused`)."""
    what = "the ACLs could not be read"
    answer = call_once(address, _DESCRIBE_ACLS, _filter_fields(wanted), what, timeout_s)
    _check(answer, what)
    return [AclBinding(_pattern(resource), _entry(acl)) for resource in answer.resources for acl in resource.acls]


def create_acls(address: str, bindings: Sequence[AclBinding], *, timeout_s: float) -> None:
    """Add ACLs. Raises Unreachable, or YakError (`acls-off`, `not-authorized`, `acl-refused`) for the first one that was refused."""
    creations = [
        {
            "resource_type": pattern.resource_type,
            "resource_name": pattern.name,
            "resource_pattern_type": pattern.pattern_type,
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation,
            "permission_type": entry.permission,
        }
        for pattern, entry in bindings
    ]
    change = Change("the ACLs were", "added", _SHOWS)
    results = call_change(address, _CREATE_ACLS, {"creations": creations}, change, timeout_s).results
    if not all(each.error_code for each in results):
        change = Change("some of the ACLs were", "added", _SHOWS)
    for result in results:
        _check_change(result, change)


def delete_acls(address: str, acls: Sequence[AclBinding], *, timeout_s: float) -> list[AclBinding]:
    """Delete exactly these ACLs; returns those that there were.

    Raises Unreachable, or YakError (`acls-off`, `not-authorized`, `acl-refused`).
    """
    change = Change("the ACLs were", "removed", _SHOWS)
    deleted, filters = [], [_filter_fields(_exactly(each)) for each in acls]
    for start in range(0, len(filters), ACLS_PER_REQUEST_MAX):
        fields = {"filters": filters[start : start + ACLS_PER_REQUEST_MAX]}
        for result in call_change(address, _DELETE_ACLS, fields, change, timeout_s).filter_results:
            _check_change(result, change)
            for acl in result.matching_acls:
                _check_change(acl, change)
                deleted.append(AclBinding(_pattern(acl), _entry(acl)))
    return deleted


def _exactly(acl: AclBinding) -> AclFilter:
    (kind, name, pattern_type), (principal, host, operation, permission) = acl
    return AclFilter(kind, name, pattern_type, principal, host, operation, permission)


def _filter_fields(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _pattern(answer: Any) -> ResourcePattern:
    return ResourcePattern(ResourceType(answer.resource_type), answer.resource_name, PatternType(answer.pattern_type))


def _entry(answer: Any) -> AccessControlEntry:
    return AccessControlEntry(
        answer.principal, answer.host, Operation(answer.operation), Permission(answer.permission_type)
    )


def _check_change(answer: Any, change: Change) -> None:
    try:
        _check(answer, change.not_made)
    except YakError as error:
        raise change.failure(error) from None


def _check(answer: Any, what: str) -> None:
    if not answer.error_code:
        return
    if answer.error_code == _SECURITY_DISABLED:
        raise YakError(
            "acls-off",
            what,
            why="the brokers have no authorizer: every client may do everything",
            try_=("yak help acls-off",),
        )
    raise from_answer(answer, what, "acl-refused", invalid="yak acls add --help")
