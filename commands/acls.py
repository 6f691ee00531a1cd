"""`yak acls`: who may do what with which topics, groups, transactional ids and the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from yak.commands.app import WHAT, Bundle, CommandGroup, flag
from yak.commands.options import Globals
from yak.errors import UsageError, YakError

if TYPE_CHECKING:
    from yak.acls.bindings import AclBinding, Operation, PatternType, Permission, ResourcePattern, ResourceType
    from yak.acls.filters import AclFilter


def refuse_user(arguments: list[str]) -> list[str]:
    """The same arguments. Raises UsageError (`usage`) for `--user`, which other commands have."""
    for index, word in enumerate(arguments):
        if word == "--user" or word.startswith("--user="):
            name = word.partition("=")[2] or next(iter(arguments[index + 1 :]), "USER")
            raise UsageError("usage", "acls have no option --user", try_=(f"--allow {name}", f"--deny {name}"))
    return arguments


acls = CommandGroup(
    "acls",
    examples=(
        "yak acls list --topic orders",
        "yak acls add --allow ann --operation read --topic orders",
        "yak acls add --allow ann --consumer --topic orders --group billing",
        "yak acls remove --topic orders --allow ann",
    ),
    rewrite=refuse_user,
)

WHICH = "Which resources"
WHO = "Who"


def _names(names: str, help_: str, metavar: str = "NAME") -> Any:
    return flag(names, f"{help_} Repeatable.", WHICH, metavar=metavar)


@dataclass(frozen=True)
class Resources(Bundle):
    """The resources of the ACLs."""

    topic: list[str] | None = _names("--topic", "This topic; * is every topic.")
    group: list[str] | None = _names("--group", "This consumer group.")
    transactional_id: list[str] | None = _names("--transactional-id", "This transactional id.")
    delegation_token: list[str] | None = _names("--delegation-token", "This delegation token.")
    user_principal: list[str] | None = _names("--user-principal", "This owner of delegation tokens.", "PRINCIPAL")
    cluster: bool = flag("--cluster", "The cluster itself.", WHICH, default=False)
    prefixed: bool = flag("--prefixed", "All resources whose name starts with this.", WHICH, default=False)


@dataclass(frozen=True)
class Entries(Bundle):
    """Who may, or may not, do what."""

    allow: list[str] | None = flag("--allow", "User:ann, or ann; * is everyone. Repeatable.", WHO, metavar="PRINCIPAL")
    deny: list[str] | None = flag(
        "--deny", "This principal may not, whatever --allow says. Repeatable.", WHO, metavar="PRINCIPAL"
    )
    host: list[str] | None = flag("--host", "From this IP address only. Repeatable.", WHO, metavar="IP")
    operation: list[str] | None = flag(
        "--operation",
        "read, write, create, delete, alter, describe, describe-configs, alter-configs, cluster-action, "
        "idempotent-write, create-tokens, describe-tokens or all. Repeatable.",
        WHAT,
        metavar="OPERATION",
    )


_COLUMNS = ("permission", "principal", "host", "operation", "resource", "name", "pattern")


@acls.command(
    "list", examples=("yak acls list", "yak acls list --topic orders", "yak acls list --principal ann -o json")
)
def list_acls(
    g: Globals,
    resources: Resources,
    principal: str | None = flag("--principal", "Of User:ann, or ann.", WHO, metavar="PRINCIPAL"),
) -> None:
    """List ACLs; those that apply to a resource if one is named, patterns included.

    With --prefixed, those of exactly that prefix, or of all prefixes.
    """
    from yak.acls.bindings import PatternType
    from yak.acls.filters import AclFilter
    from yak.client.acls import describe_acls

    who = None if principal is None else principal_of(principal)
    pattern_type = PatternType.PREFIXED if resources.prefixed else PatternType.MATCH
    filters = [AclFilter(each.resource_type, each.name, pattern_type, who) for each in _patterns(resources)]
    filters = filters or [AclFilter(*_any_pattern(resources), who)]
    address, timeout_s = g.broker_that_answers()
    found = dict.fromkeys(acl for each in filters for acl in describe_acls(address, each, timeout_s=timeout_s))
    g.out.table([_row(acl) for acl in found], _COLUMNS, empty="No ACLs. yak acls add --help shows how to add one.")


@acls.command(
    "add",
    examples=(
        "yak acls add --allow ann --operation read --topic orders",
        "yak acls add --allow ann --producer --topic orders- --prefixed",
        "yak acls add --allow ann --consumer --topic orders --group billing",
        "yak acls add --deny '*' --host 10.0.0.7 --operation all --cluster",
    ),
)
def add(
    g: Globals,
    resources: Resources,
    entries: Entries,
    producer: bool = flag("--producer", "All that a producer to the topics needs.", WHAT, default=False),
    consumer: bool = flag("--consumer", "All that a consumer of the topics in the groups needs.", WHAT, default=False),
) -> None:
    """Add one ACL for each principal, host, operation and resource.

    --producer is write, describe and create of the topics, and write and describe of transactional ids. --consumer is
    read and describe of the topics, and read of the groups.
    """
    from yak.acls.bindings import AccessControlEntry, AclBinding
    from yak.client.acls import check_acl, create_acls

    patterns, hosts = _patterns(resources), entries.host or ["*"]
    pairs = _grants(patterns, entries.operation, producer=producer, consumer=consumer)
    added = [
        AclBinding(pattern, AccessControlEntry(principal, host, operation, permission))
        for (permission, principal), host, (pattern, operation) in product(_principals(entries), hosts, pairs)
    ]
    if not added:
        why = "an ACL has a principal, an operation and a resource"
        try_ = ("--allow ann --operation read --topic orders",)
        raise UsageError("usage", "no principal is given", why=why, try_=try_)
    for each in added:
        check_acl(each)
    g.must_not_be_readonly("adding ACLs")
    address, timeout_s = g.broker_that_answers()
    create_acls(address, added, timeout_s=timeout_s)
    g.out.table([_row(acl) for acl in added], _COLUMNS)


@acls.command(
    "remove",
    examples=("yak acls remove --topic orders --allow ann", "yak acls remove --allow ann --yes"),
)
def remove(
    g: Globals,
    resources: Resources,
    entries: Entries,
) -> None:
    """Remove ACLs of exactly these resources, principals, hosts and operations; what is not given matches any."""
    from yak.client.acls import delete_acls, describe_acls

    filters = _filters(resources, _principals(entries), entries.host, entries.operation)
    g.must_not_be_readonly("removing ACLs")
    address, timeout_s = g.broker_that_answers()
    found = dict.fromkeys(acl for each in filters for acl in describe_acls(address, each, timeout_s=timeout_s))
    if not found:
        raise YakError("no-acl", "no ACL matches", why="resources are named exactly", try_=("yak acls list",))
    g.out.table([_row(acl) for acl in found], _COLUMNS)
    g.confirm(f"Remove {'this ACL' if len(found) == 1 else f'these {len(found)} ACLs'}?")
    # not by the filters of the options: they may select ACLs that were added since, and that are not in the table
    deleted = delete_acls(address, list(found), timeout_s=timeout_s)
    g.out.note(f"removed {len(deleted)} ACL{'' if len(deleted) == 1 else 's'}")


# ------------------------------------------------------------------------------------------------------------ options


def principal_of(text: str) -> str:
    """`User:ann` for `ann` too. A user with a colon in its name needs the `User:`."""
    return text if ":" in text else f"User:{text}"


def _patterns(resources: Resources) -> list[ResourcePattern]:
    from yak.acls.bindings import CLUSTER_NAME, PatternType, ResourcePattern, ResourceType

    pattern_type = PatternType.PREFIXED if resources.prefixed else PatternType.LITERAL
    named = (
        (ResourceType.TOPIC, resources.topic),
        (ResourceType.GROUP, resources.group),
        (ResourceType.TRANSACTIONAL_ID, resources.transactional_id),
        (ResourceType.DELEGATION_TOKEN, resources.delegation_token),
        (ResourceType.USER, [principal_of(user) for user in resources.user_principal or ()]),
    )
    patterns = [ResourcePattern(kind, name, pattern_type) for kind, names in named for name in names or ()]
    if resources.cluster:
        patterns.append(ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return patterns


def _principals(entries: Entries) -> list[tuple[Permission, str]]:
    from yak.acls.bindings import Permission

    return [
        (permission, principal_of(each))
        for permission, names in ((Permission.ALLOW, entries.allow), (Permission.DENY, entries.deny))
        for each in names or ()
    ]


def _operation(text: str) -> Operation:
    """`describe-configs`, or Kafka's `DescribeConfigs`. Raises UsageError (`usage`)."""
    from yak.acls.bindings import Operation

    wanted = text.replace("-", "").replace("_", "").lower()
    for operation in Operation:
        if operation is not Operation.ANY and operation.name.replace("_", "").lower() == wanted:
            return operation
    raise UsageError("usage", f'there is no operation "{text}"', try_=("yak acls add --help",))


def _grants(
    patterns: list[ResourcePattern], operations: list[str] | None, *, producer: bool, consumer: bool
) -> list[tuple[ResourcePattern, Operation]]:
    """The operations on each resource (Kafka's AclCommand for --producer and --consumer). Raises UsageError (`usage`)."""
    from yak.acls.bindings import Operation, ResourceType

    roles: dict[ResourceType, tuple[Operation, ...]] = {}
    read, write, describe = Operation.READ, Operation.WRITE, Operation.DESCRIBE
    if producer:
        roles[ResourceType.TOPIC] = (write, describe, Operation.CREATE)
        roles[ResourceType.TRANSACTIONAL_ID] = (write, describe)
    if consumer:
        roles[ResourceType.TOPIC] = tuple(dict.fromkeys((*roles.get(ResourceType.TOPIC, ()), read, describe)))
        roles[ResourceType.GROUP] = (read,)
    kinds = {pattern.resource_type for pattern in patterns}
    needed = ({ResourceType.TOPIC} if roles else set()) | ({ResourceType.GROUP} if consumer else set())
    if not patterns or needed - kinds:
        missing = "--topic, --group, --transactional-id or --cluster" if not needed else "--topic"
        if needed - kinds == {ResourceType.GROUP}:
            missing = "--group"
        raise UsageError("usage", f"{missing} is missing", try_=("yak acls add --help",))
    if roles and (operations or kinds - roles.keys()):
        from yak.client.acls import name_of

        excluded = "--operation" if operations else f"a {name_of(min(kinds - roles.keys()))}"
        why = "they are groups of operations, on topics, groups and transactional ids"
        what = f"{'--consumer' if consumer else '--producer'} excludes {excluded}"
        raise UsageError("usage", what, why=why, try_=("yak acls add --help",))
    chosen = [_operation(text) for text in operations or ("all",)]
    return [(pattern, each) for pattern in patterns for each in (roles[pattern.resource_type] if roles else chosen)]


def _any_pattern(resources: Resources) -> tuple[ResourceType, None, PatternType]:
    """What selects every resource pattern, with --prefixed those of prefixes."""
    from yak.acls.bindings import PatternType, ResourceType

    return ResourceType.ANY, None, PatternType.PREFIXED if resources.prefixed else PatternType.ANY


def _filters(
    resources: Resources,
    principals: list[tuple[Permission, str]],
    hosts: list[str] | None,
    operations: list[str] | None,
) -> list[AclFilter]:
    """A filter for each combination. Raises UsageError (`usage`) when nothing is given."""
    from yak.acls.filters import AclFilter

    everything, patterns = AclFilter(), _patterns(resources)
    if not (patterns or principals or hosts or operations):
        raise UsageError(
            "usage", "it does not say what to remove", try_=("yak acls remove --topic orders --allow ann",)
        )
    anyone: list[tuple[Permission, str | None]] = [(everything.permission, None)]
    named: list[tuple[ResourceType, str | None, PatternType]] = [*patterns]
    chosen = [_operation(text) for text in operations or ()]
    return [
        AclFilter(*pattern, principal, host, operation, permission)
        for pattern, (permission, principal), host, operation in product(
            named or [_any_pattern(resources)],
            [*principals] or anyone,
            [*hosts] if hosts else [None],
            chosen or [everything.operation],
        )
    ]


# ------------------------------------------------------------------------------------------------------------- output


def _row(acl: AclBinding) -> dict[str, Any]:
    from yak.client.acls import name_of

    pattern, entry = acl
    return {
        "permission": name_of(entry.permission),
        "principal": entry.principal,
        "host": entry.host,
        "operation": name_of(entry.operation),
        "resource": name_of(pattern.resource_type),
        "name": pattern.name,
        "pattern": name_of(pattern.pattern_type),
    }
