"""ACLs: a resource pattern, and an entry for a principal, a host and an operation (Kafka's AclBinding).

In the metadata each pattern is a resource whose configs are its entries (`encode_pattern`, `encode_entry`). The part of
each text that may have any characters comes last; a comma in a host is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""Any resource, or any host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a cluster resource (Kafka's Resource.CLUSTER_NAME)."""


class ResourceType(IntEnum):
    """Kafka's ResourceType; ANY is for filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Kafka's PatternType (KIP-290); ANY and MATCH are for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """Kafka's AclOperation; ANY is for filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Kafka's AclPermissionType; ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that have a meaning for a resource (Kafka's AclEntry.supportedOperations)."""


class ResourcePattern(NamedTuple):
    """The resources of a type whose name is `name`, or begins with it. LITERAL `*` is all of them."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType


class AccessControlEntry(NamedTuple):
    """What a principal may, or may not, do from a host. The host is an IP address or `*`."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclBinding(NamedTuple):
    """One ACL."""

    pattern: ResourcePattern
    entry: AccessControlEntry


# ------------------------------------------------------------------------------------------------- in the metadata


def encode_pattern(pattern: ResourcePattern) -> str:
    """The name of a pattern in the metadata: `TOPIC,LITERAL,orders`."""
    return f"{pattern.resource_type.name},{pattern.pattern_type.name},{pattern.name}"


def decode_pattern(text: str) -> ResourcePattern | None:
    """The pattern that `encode_pattern` wrote; None if this version does not know its form or types."""
    parts = text.split(",", 2)
    if len(parts) < 3:
        return None
    kind, pattern_type, name = parts
    if kind not in ResourceType.__members__ or pattern_type not in PatternType.__members__:
        return None
    return ResourcePattern(ResourceType[kind], name, PatternType[pattern_type])


def encode_entry(entry: AccessControlEntry) -> str:
    """The name of an entry in the metadata: `ALLOW,READ,*,User:ann`."""
    host = entry.host.replace("%", "%25").replace(",", "%2C")
    return f"{entry.permission.name},{entry.operation.name},{host},{entry.principal}"


def decode_entry(text: str) -> AccessControlEntry | None:
    """The entry that `encode_entry` wrote; None if this version does not know its form, operation or permission."""
    parts = text.split(",", 3)
    if len(parts) < 4:
        return None
    permission, operation, host, principal = parts
    if permission not in Permission.__members__ or operation not in Operation.__members__:
        return None
    host = host.replace("%2C", ",").replace("%25", "%")
    return AccessControlEntry(principal, host, Operation[operation], Permission[permission])


def bindings_of(acls: Mapping[str, Mapping[str, str]]) -> Iterator[AclBinding]:
    """All ACLs of an image that this version knows, by pattern, in the order of their texts."""
    for text in sorted(acls):
        pattern = decode_pattern(text)
        if pattern is not None:
            for entry in map(decode_entry, sorted(acls[text])):
                if entry is not None:
                    yield AclBinding(pattern, entry)
