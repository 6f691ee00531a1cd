"""Users, ACLs and quotas as rows, what removing one means, and what to do where the brokers refuse. Pure."""

import shlex
from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from yak.acls.bindings import (
    CLUSTER_NAME,
    SUPPORTED,
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from yak.client.acls import check_acl, name_of
from yak.errors import UsageError, YakError
from yak.quotas.entity import encode_entity, entity_of
from yak.quotas.quota_types import ENTITY_TYPES, IP, format_quota
from yak.tui.rows.cells import Cell, Column, Row, figure
from yak.tui.source.security import Quota
from yak.view.formats import group_digits

USER_COLUMNS: Final = (
    Column("USER", 12, most=60, flex=1),
    Column("MECHANISMS", 13, most=40),
    Column("ITERATIONS", 6, most=24, is_right=True),
)
ACL_COLUMNS: Final = (
    Column("PRINCIPAL", 10, most=60, flex=1),
    Column("PERMISSION", 5),
    Column("OPERATION", 8),
    Column("RESOURCE", 12, most=80, flex=1),
    Column("PATTERN", 8),
    Column("HOST", 4, rank=1),
)
QUOTA_COLUMNS: Final = (Column("ENTITY", 12, most=80, flex=1), Column("QUOTA", 18), Column("LIMIT", 8, is_right=True))
PERMISSIONS: Final = ("allow", "deny")
OPERATIONS: Final = tuple(name_of(each) for each in Operation if each is not Operation.ANY)
RESOURCES: Final = tuple(name_of(each) for each in SUPPORTED)
DEFAULT: Final = "<default>"
"""Typed for an entity: all that have no quota of their own."""


class Removal(NamedTuple):
    """The question before a removal, and its command. `typed` is the text to type."""

    title: str
    text: str
    command: str
    typed: str = ""


def user_row(name: str, mechanisms: Mapping[str, int]) -> Row:
    """A user with its mechanisms. One number stands for all if they have the same iterations."""
    iterations = list(dict.fromkeys(mechanisms.values()))
    text = ", ".join(group_digits(each) for each in iterations)
    return Row(name, Cell(name, "strong"), Cell(", ".join(mechanisms)), figure(text, max(iterations, default=None)))


def acl_row(key: str, acl: AclBinding) -> Row:
    """An ACL, with the names of `yak acls`."""
    pattern, entry = acl
    return Row(
        key,
        Cell(entry.principal, "strong"),
        Cell(name_of(entry.permission), "warn" if entry.permission is Permission.DENY else "good"),
        Cell(name_of(entry.operation)),
        Cell(_resource(pattern)),
        Cell(name_of(pattern.pattern_type), "dim" if pattern.pattern_type is PatternType.LITERAL else ""),
        Cell(entry.host, "dim" if entry.host == "*" else ""),
    )


def quota_row(key: str, quota: Quota) -> Row:
    """A quota of an entity."""
    limit = format_quota(quota.name, quota.value)
    return Row(key, Cell(encode_entity(quota.entity), "strong"), Cell(quota.name), figure(limit, quota.value))


def user_removal(name: str, mechanisms: Mapping[str, int]) -> Removal:
    """Removal of all credentials of a user."""
    text = f"{name} can no longer log in with {' and '.join(mechanisms)}. Its open connections stay."
    return Removal(f"Remove user {name}", text, shlex.join(("yak", "users", "remove", name, "--yes")), name)


def acl_removal(_key: str, acl: AclBinding) -> Removal:
    """Removal of one ACL."""
    pattern, entry = acl
    begins = " and all whose names begin so" if pattern.pattern_type is PatternType.PREFIXED else ""
    text = (
        f"This ACL no longer {'allows' if entry.permission is Permission.ALLOW else 'denies'} {entry.principal}, "
        f"from host {entry.host}, {name_of(entry.operation)} of {_resource(pattern)}{begins}. Other ACLs stay."
    )
    return Removal("Remove this ACL", text, f"{acl_command(acl, 'remove')} --yes")


def acl_command(acl: AclBinding, verb: str = "add") -> str:
    """`yak acls add`, or `remove`, for one ACL."""
    pattern, entry = acl
    kind = pattern.resource_type
    flag = "--user-principal" if kind is ResourceType.USER else f"--{name_of(kind)}"
    command = ["yak", "acls", verb, f"--{name_of(entry.permission)}", entry.principal, "--host", entry.host]
    command += ["--operation", name_of(entry.operation), flag]
    command += [pattern.name] if kind is not ResourceType.CLUSTER else []
    command += ["--prefixed"] if pattern.pattern_type is PatternType.PREFIXED else []
    return shlex.join(command)


def acl_of(form: Mapping[str, str]) -> AclBinding:
    """The ACL of a completed form. Raises UsageError (`usage`, `bad-acl-host`)."""
    kind = ResourceType[_code(form["resource"])]
    operation = Operation[_code(form["operation"])]
    pattern_type = PatternType.PREFIXED if form["prefixed"] == "true" else PatternType.LITERAL
    pattern = ResourcePattern(kind, form["name"], pattern_type)
    if kind is ResourceType.CLUSTER:
        pattern = ResourcePattern(kind, CLUSTER_NAME, PatternType.LITERAL)
    if not pattern.name:
        raise UsageError("usage", "Name is needed")
    principal = form["principal"] if ":" in form["principal"] else f"User:{form['principal']}"
    permission = Permission[_code(form["permission"])]
    acl = AclBinding(pattern, AccessControlEntry(principal, form["host"], operation, permission))
    check_acl(acl)
    return acl


def quota_removal(_key: str, quota: Quota) -> Removal:
    """Removal of one quota of an entity."""
    entity = encode_entity(quota.entity)
    text = f"{quota.name} of {entity} is no longer {format_quota(quota.name, quota.value)}. A default may apply then."
    return Removal(f"Remove {quota.name} of {entity}", text, f"{_quota_command(quota, 'remove')} {quota.name}")


def quota_command(quota: Quota) -> str:
    """`yak quotas set` for one quota."""
    return f"{_quota_command(quota, 'set')} {quota.name}={quota.value:.15g}"


def _quota_command(quota: Quota, verb: str) -> str:
    command = ["yak", "quotas", verb]
    for kind, name in quota.entity:
        command += [f"--{kind}-default"] if name is None else [f"--{kind}", name]
    return shlex.join(command)


def quota_of(form: Mapping[str, str]) -> Quota:
    """The quota of a completed form. Raises UsageError (`usage`, `bad-quota`)."""
    parts = [(kind, None if form[kind] == DEFAULT else form[kind]) for kind in ENTITY_TYPES if form[kind]]
    if not parts or (form[IP] and len(parts) > 1):
        raise UsageError("usage", "a quota belongs to a user, a client id, both, or an ip")
    try:
        value = float(form["value"])
    except ValueError:
        value = -1.0
    if not 0 < value < inf:
        raise UsageError("bad-quota", f'"{form["value"]}" is no limit', why="a limit is a number greater than 0")
    return Quota(entity_of(parts), form["quota"], value)


def is_refusal(error: YakError) -> bool:
    """Whether the brokers answered, and refused."""
    return error.code in ("acls-off", "not-authorized", "acl-refused", "quota-refused", "user-refused")


def error_text(error: YakError, operation: str) -> str:
    """An error in sentences, with what to do. `operation` is what reading needs of the cluster."""
    if error.code == "acls-off":
        return (
            "The brokers have no ACLs: without authorizer.class.name every client may do everything. "
            "yak help acls-off shows how to start them with ACLs."
        )
    what = f"{error.message[:1].upper()}{error.message[1:]}: {error.why.rstrip('.') or error.code}."
    if not is_refusal(error):
        return f"{what} The brokers are asked again every 10 s."
    command = f"yak acls add --allow USER --operation {operation} --cluster"
    return f"{what} Reading them needs {operation} of the cluster, which a super user allows: {command}"


def _resource(pattern: ResourcePattern) -> str:
    kind = name_of(pattern.resource_type)
    return kind if pattern.resource_type is ResourceType.CLUSTER else f"{kind} {pattern.name}"


def _code(word: str) -> str:
    """The name in Kafka's enumeration that `name_of` wrote."""
    return word.upper().replace("-", "_")
