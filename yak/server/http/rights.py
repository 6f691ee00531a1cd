"""What the Kafka requests need that HTTP sends to another broker.

That broker takes them as requests of a broker, which may do everything. So this broker checks the caller's rights before:
as the handlers of `yak.broker.apis` do for the requests that it answers itself.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.apis import (
    NAMES,
    alter_partition_reassignments,
    consumer_group_describe,
    describe_groups,
    describe_log_dirs,
    elect_leaders,
    fetch,
    init_producer_id,
    list_groups,
    list_offsets,
    offset_fetch,
    produce,
)
from yak.server import log
from yak.server.http.problems import Problem

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.cluster.image import TopicInfo
    from yak.server.http.authentication import Caller
    from yak.server.log import RateLimit


class RequiredRight(NamedTuple):
    """An operation on resources of a type, whose names the request's fields have."""

    operation: Operation
    kind: ResourceType
    names: Callable[[Mapping[str, Any]], Iterable[str]]


def _named(items: str, name: str) -> Callable[[Mapping[str, Any]], list[str]]:
    return lambda fields: [str(item[name]) for item in fields[items]]


def _cluster(_fields: Mapping[str, Any]) -> tuple[str]:
    return (CLUSTER_NAME,)


_ALTER_CLUSTER: Final = RequiredRight(Operation.ALTER, ResourceType.CLUSTER, _cluster)
_DESCRIBE_CLUSTER: Final = RequiredRight(Operation.DESCRIBE, ResourceType.CLUSTER, _cluster)
NEEDS: Final[Mapping[int, RequiredRight]] = {
    produce.KEY: RequiredRight(Operation.WRITE, ResourceType.TOPIC, _named("topic_data", "name")),
    fetch.KEY: RequiredRight(Operation.READ, ResourceType.TOPIC, _named("topics", "topic")),
    list_offsets.KEY: RequiredRight(Operation.DESCRIBE, ResourceType.TOPIC, _named("topics", "name")),
    offset_fetch.KEY: RequiredRight(Operation.DESCRIBE, ResourceType.GROUP, _named("groups", "group_id")),
    describe_groups.KEY: RequiredRight(Operation.DESCRIBE, ResourceType.GROUP, lambda fields: fields["groups"]),
    consumer_group_describe.KEY: RequiredRight(
        Operation.DESCRIBE, ResourceType.GROUP, lambda fields: fields["group_ids"]
    ),
    list_groups.KEY: _DESCRIBE_CLUSTER,
    describe_log_dirs.KEY: _DESCRIBE_CLUSTER,
    init_producer_id.KEY: RequiredRight(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, _cluster),
    elect_leaders.KEY: _ALTER_CLUSTER,
    alter_partition_reassignments.KEY: _ALTER_CLUSTER,
}
"""By API key. Of any other request, ALTER on the cluster is needed."""


def check_rights(
    broker: "Broker", rate_limit: "RateLimit", caller: "Caller", api_key: int, fields: Mapping[str, Any]
) -> None:
    """Raise Problem 403 `not-allowed` unless the caller may send this request, and count and log the denial."""
    if not broker.authorization.is_active:
        return
    need = NEEDS.get(api_key, _ALTER_CLUSTER)
    api = NAMES.get(api_key, str(api_key))
    check_names(broker, rate_limit, caller, api, need.operation, need.kind, need.names(fields))


def check_names(
    broker: "Broker",
    rate_limit: "RateLimit",
    caller: "Caller",
    api: str,
    operation: Operation,
    kind: ResourceType,
    names: Iterable[str],
) -> None:
    """As `check_rights`, for an operation on each of these resources, whether they exist or not."""
    for name in names:
        if not is_allowed(broker, caller, operation, kind, name):
            raise denied(broker, rate_limit, caller, api, operation, kind, name)


def is_allowed(broker: "Broker", caller: "Caller", operation: Operation, kind: ResourceType, name: str) -> bool:
    """Whether the caller has this right."""
    return broker.authorization.authorize(caller.principal, caller.host, operation, kind, name)


def visible_configs(broker: "Broker", caller: "Caller", topic: "TopicInfo") -> dict[str, str] | None:
    """A topic's configs; None without DESCRIBE_CONFIGS, which is another right than that to describe the topic."""
    if not is_allowed(broker, caller, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        return None
    return dict(topic.configs)


def denied(
    broker: "Broker",
    rate_limit: "RateLimit",
    caller: "Caller",
    api: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
) -> Problem:
    """The refusal of a request, which is counted and in the audit log now."""
    broker.authorization.count_denied(operation, kind)
    resource = f"{operation.name} {kind.name} {name[:249]}"
    rate_limit.write("warning", "audit", _audited("denied", caller, api, resource))
    return refusal(caller, operation, kind, name)


def note_change(caller: "Caller", api: str, resource: str) -> None:
    """Write a change that was no Kafka request to the audit log."""
    log.write("info", "audit", _audited("done", caller, api, resource))


def _audited(result: str, caller: "Caller", api: str, resource: str) -> dict[str, object]:
    return {
        "result": result,
        "principal": caller.principal,
        "host": caller.host,
        "api": api,
        "resources": resource,
    }


def refusal(caller: "Caller", operation: Operation, kind: ResourceType, name: str) -> Problem:
    """The answer to a denied operation."""
    message = f"{caller.principal} may not {operation.name} {kind.name.lower()} {name[:249]!r}"
    return Problem(403, "not-allowed", message, "use another user, or ask an administrator for an ACL")
