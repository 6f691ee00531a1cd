"""The audit log: each change, or attempt, and its principal, as log events named `audit`.

Each request of a client that changes the cluster gives an event for each result: `done`, `denied`, or `failed` with its
error. It has the principal, the host, the API, and the changed resources. Of any other request the first denied operation
is logged. Requests of brokers are not: the broker that took the client's request logs it, also one over HTTP
(`yak.server.http.broker_client`).

Denials are among the events that clients can provoke, which the log writes a limited number of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, Literal, TypeAlias

from yak.acls.bindings import Operation, PatternType, Permission, ResourceType
from yak.broker.authorization import AUTHORIZATION_ERRORS
from yak.broker.call import Call, Fields
from yak.core.events import Effect, Notice
from yak.errors import ErrorCode

_RESOURCES_MAX: Final = 20
"""Resources that one event names; it has the number of the others."""
_LENGTH_MAX: Final = 300
"""Characters of a resource in an event: a client sends any name."""
_NONE: Final = ErrorCode.none
Result: TypeAlias = tuple[str, int]
"""What was to be changed, and the error code of its answer."""
ResultsOf: TypeAlias = Callable[[Any, Fields], Iterator[Result]]
"""The results of one API's request (kio's) and answer."""


class Audit:
    """Writes the events of one broker."""

    def __init__(self, emit: Callable[[Effect], None], api_names: Mapping[int, str]) -> None:
        self._emit, self._api_names = emit, api_names

    def answered(self, call: Call, fields: Fields) -> None:
        """Log the results of a request, if it changes the cluster."""
        connection = call.connection
        if call.api_key in AUDITED and connection.proven is None:
            for notice in self.notices(call.api_key, call.request, fields, connection.principal, connection.host):
                self._emit(notice)

    def notices(self, api_key: int, request: Any, fields: Fields, principal: str, host: str) -> Iterator[Notice]:
        """The events of an answer to a request (kio's) of this principal; none if the request changes nothing."""
        results_of = AUDITED.get(api_key)
        if results_of is None:
            return
        is_dry_run = getattr(request, "validate_only", False) or getattr(request, "dry_run", False)
        by_code: dict[int, list[str]] = {}
        for what, code in results_of(request, fields):
            by_code.setdefault(code, []).append(what)
        for code, resources in by_code.items():
            found: tuple[Literal["done", "denied", "failed"], dict[str, object]] = "done", {}
            if code in AUTHORIZATION_ERRORS:
                found = "denied", {}
            elif code != _NONE:
                found = "failed", {"error": ErrorCode(code).name.upper()}
            elif is_dry_run:
                continue
            result, more = found
            yield self._notice(api_key, principal, host, result, resources, **more)

    def denied(self, call: Call, operation: Operation, kind: ResourceType, name: str) -> None:
        """Log a denied operation of a request whose results are not logged."""
        if call.api_key not in AUDITED:
            connection, what = call.connection, f"{operation.name} {kind.name} {name}"
            self._emit(self._notice(call.api_key, connection.principal, connection.host, "denied", [what]))

    def _notice(
        self,
        api_key: int,
        principal: str,
        host: str,
        result: Literal["done", "denied", "failed"],
        resources: list[str],
        **more: object,
    ) -> Notice:
        named = [text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}…" for text in resources[:_RESOURCES_MAX]]
        if len(resources) > _RESOURCES_MAX:
            named.append(f"{len(resources) - _RESOURCES_MAX} more")
        fields: dict[str, object] = {
            "result": result,
            "principal": principal,
            "host": host,
            "api": self._api_names.get(api_key, str(api_key)),
            "resources": ", ".join(named),
            **more,
        }
        level: Literal["info", "warning"] = "info" if result == "done" else "warning"
        return Notice(level, "audit", fields, is_provoked=result != "done")


# ------------------------------------------------------------------------------------- the results of each API's answer


def _named(items: str, name: str, kind: str) -> ResultsOf:
    """The results of an answer that has a list of resources of one kind."""

    def results(_request: Any, fields: Fields) -> Iterator[Result]:
        for item in fields[items]:
            yield f"{kind} {item[name]}", item["error_code"]

    return results


def _partitions(topics: str, partitions: str, topic_name: str = "name", index: str = "partition_index") -> ResultsOf:
    """The results of an answer that has partitions by topic."""

    def results(_request: Any, fields: Fields) -> Iterator[Result]:
        for topic in fields[topics]:
            for each in topic[partitions]:
                yield f"partition {topic[topic_name]}-{each[index]}", each["error_code"]
        if fields.get("error_code") and not fields[topics]:
            yield "all partitions", fields["error_code"]

    return results


def _whole(describe: Callable[[Any], str]) -> ResultsOf:
    """The result of an answer with one error code."""

    def results(request: Any, fields: Fields) -> Iterator[Result]:
        yield describe(request), fields["error_code"]

    return results


_CONFIG_RESOURCES: Final = {2: "topic", 4: "broker", 8: "broker logger", 16: "client metrics", 32: "group"}


def _configs(request: Any, fields: Fields) -> Iterator[Result]:
    """The names of changed configs; a value may be a secret."""
    for item, answer in zip(request.resources, fields["responses"], strict=True):
        kind = _CONFIG_RESOURCES.get(item.resource_type, f"resource type {item.resource_type}")
        names = " ".join(config.name[:_LENGTH_MAX] for config in item.configs[:_RESOURCES_MAX])
        yield f"{kind} {item.resource_name or 'default'}: {names}", answer["error_code"]


def _quotas(request: Any, fields: Fields) -> Iterator[Result]:
    for item, answer in zip(request.entries, fields["entries"], strict=True):
        entity = ",".join(f"{part.entity_type}={part.entity_name or '<default>'}" for part in item.entity)
        changes = " ".join(f"{op.key}={'none' if op.remove else op.value}" for op in item.ops[:_RESOURCES_MAX])
        yield f"quotas of {entity}: {changes}", answer["error_code"]


def _deleted_offsets(request: Any, fields: Fields) -> Iterator[Result]:
    group = request.group_id
    if fields["error_code"]:
        yield f"offsets of group {group}", fields["error_code"]
    for topic in fields["topics"]:
        for each in topic["partitions"]:
            yield f"offset of group {group} in {topic['name']}-{each['partition_index']}", each["error_code"]


def _deleted_topics(_request: Any, fields: Fields) -> Iterator[Result]:
    for answer in fields["responses"]:
        yield f"topic {answer['name'] or answer['topic_id']}", answer["error_code"]


def _markers(_request: Any, fields: Fields) -> Iterator[Result]:
    for marker in fields["markers"]:
        for topic in marker["topics"]:
            for each in topic["partitions"]:
                what = f"transaction of producer {marker['producer_id']} in {topic['name']}-{each['partition_index']}"
                yield what, each["error_code"]


_Pattern: TypeAlias = tuple[int, int, str]
_Entry: TypeAlias = tuple[str, str, int, int]


def _acl(pattern: _Pattern, entry: _Entry) -> str:
    kind, pattern_type, name = pattern
    principal, host, operation, permission = entry
    what = f"{_code_name(Permission, permission)} {principal} {_code_name(Operation, operation)}"
    return f"{what} {_code_name(ResourceType, kind)} {_code_name(PatternType, pattern_type)} {name} from {host}"


def _code_name(codes: type[IntEnum], code: int) -> str:
    return next((known.name for known in codes if known == code), str(code))


def _created_acls(request: Any, fields: Fields) -> Iterator[Result]:
    for item, answer in zip(request.creations, fields["results"], strict=True):
        pattern = item.resource_type, item.resource_pattern_type, item.resource_name
        entry = item.principal, item.host, item.operation, item.permission_type
        yield _acl(pattern, entry), answer["error_code"]


def _deleted_acls(request: Any, fields: Fields) -> Iterator[Result]:
    for item, answer in zip(request.filters, fields["filter_results"], strict=True):
        if answer["error_code"]:
            pattern = item.resource_type_filter, item.pattern_type_filter, item.resource_name_filter or "*"
            entry = item.principal_filter or "*", item.host_filter or "*", item.operation, item.permission_type
            yield _acl(pattern, entry), answer["error_code"]
        for each in answer["matching_acls"]:
            pattern = each["resource_type"], each["pattern_type"], each["resource_name"]
            entry = each["principal"], each["host"], each["operation"], each["permission_type"]
            yield _acl(pattern, entry), each["error_code"]


def _created_token(_request: Any, fields: Fields) -> Iterator[Result]:
    owner = f"{fields['principal_type']}:{fields['principal_name']}"
    yield f"delegation token {fields['token_id']} of {owner}".replace("  ", " "), fields["error_code"]


AUDITED: Final[Mapping[int, ResultsOf]] = {
    19: _named("topics", "name", "topic"),  # CreateTopics
    20: _deleted_topics,
    21: _partitions("topics", "partitions"),  # DeleteRecords
    27: _markers,  # WriteTxnMarkers
    30: _created_acls,
    31: _deleted_acls,
    33: _configs,  # AlterConfigs
    34: _partitions("results", "partitions", "topic_name"),  # AlterReplicaLogDirs
    37: _named("results", "name", "partitions of topic"),  # CreatePartitions
    38: _created_token,
    39: _whole(lambda _request: "a delegation token"),  # RenewDelegationToken: the request has only its HMAC, a secret
    40: _whole(lambda _request: "a delegation token"),  # ExpireDelegationToken
    42: _named("results", "group_id", "group"),  # DeleteGroups
    43: _partitions("replica_election_results", "partition_result", "topic", "partition_id"),  # ElectLeaders
    44: _configs,  # IncrementalAlterConfigs
    45: _partitions("responses", "partitions"),  # AlterPartitionReassignments
    47: _deleted_offsets,
    49: _quotas,
    51: _named("results", "user", "user"),  # AlterUserScramCredentials
    57: _whole(lambda request: "features " + " ".join(each.feature for each in request.feature_updates)),
    64: _whole(lambda request: f"broker {request.broker_id}"),  # UnregisterBroker
    80: _whole(lambda request: f"voter {request.voter_id}"),  # AddRaftVoter
    81: _whole(lambda request: f"voter {request.voter_id}"),  # RemoveRaftVoter
}
"""The results of the answers to requests that change the cluster, by API key."""
