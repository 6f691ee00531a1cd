"""`/api/groups`: all consumer groups; `/api/groups/{group}`: one, with members, committed offsets and lag.

`ListGroups` goes to every broker, everything else to the group's coordinator: the leader of its partition of
`__consumer_offsets`, known from the image.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis import consumer_group_describe, describe_groups, list_groups, offset_fetch
from yak.core.placement import partition_of
from yak.errors import ErrorCode
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import NodeId, TopicPartition
from yak.lifecycle.liveness import serving_brokers
from yak.limits import GROUP_STRING_BYTES_MAX
from yak.server.http.answers import large_answer
from yak.server.http.authentication import CALLER
from yak.server.http.context import Context
from yak.server.http.problems import Problem, bad_parameter, check_error, kafka_problem
from yak.server.http.rights import denied, is_allowed
from yak.server.http.route import Answer, Parameter, Routes
from yak.server.http.schemas import NODE_ID, OFFSET_OR_NULL, PARTITION, TEXT, TEXT_OR_NULL, listing, record
from yak.server.http.topic_partitions import RetryBudget, log_ends
from yak.view.groups import Group, partition_lags
from yak.views.described_groups import classic_group, consumer_group

_ASK_SECONDS: Final = 3.0
_OFFSET_FETCH_BY_NAME: Final = 9
"""The last version that names topics: a deleted topic has no id any more."""
_ASSIGNMENT: Final = {"type": ["array", "null"], "items": record({"topic": TEXT, "partition": PARTITION})}
_HEAD: Final = {
    "group": TEXT,
    "type": {"enum": ["classic", "consumer"]},
    "state": TEXT,
    "protocol_type": TEXT,
    "coordinator": NODE_ID,
}
_GROUP: Final = record(
    {
        **_HEAD,
        "assignor": TEXT_OR_NULL,
        "epoch": {"type": ["integer", "null"]},
        "members": listing(
            record(
                {
                    "member_id": TEXT,
                    "client_id": TEXT,
                    "host": TEXT,
                    "instance_id": TEXT_OR_NULL,
                    "epoch": {"type": ["integer", "null"]},
                    "topics": {"type": ["array", "null"], "items": TEXT},
                    "assignment": _ASSIGNMENT,
                    "target": _ASSIGNMENT,
                }
            )
        ),
        "partitions": listing(
            record(
                {
                    "topic": TEXT,
                    "partition": PARTITION,
                    "committed": OFFSET_OR_NULL,
                    "metadata": TEXT,
                    "log_start_offset": OFFSET_OR_NULL,
                    "high_watermark": OFFSET_OR_NULL,
                    "lag": OFFSET_OR_NULL,
                    "member_id": TEXT_OR_NULL,
                }
            )
        ),
        "lag": OFFSET_OR_NULL,
    }
)


async def _list(context: Context, node_id: NodeId, listed: list[dict[str, Any]], silent: list[dict[str, Any]]) -> None:
    budget = RetryBudget(context)
    while True:
        try:
            fields: dict[str, object] = {"states_filter": [], "types_filter": []}
            found = await context.broker_client.ask(list_groups.KEY, fields, node_id=node_id, timeout_s=_ASK_SECONDS)
        except Problem as problem:
            silent.append({"node_id": node_id, "reason": problem.message})
            return
        if not found.error_code:
            break
        if kafka_problem(found.error_code, "").status != 503 or not await budget.again():
            reason = ErrorCode(found.error_code).name.replace("_", " ")
            silent.append({"node_id": node_id, "reason": reason})
            return
    listed += [
        Group(str(each.group_id), each.group_type, each.group_state, each.protocol_type, node_id).head_json()
        for each in found.groups
    ]


async def describe_group(context: Context, group_id: str) -> Response:
    """One group with its members, committed offsets and lag.

    Raises Problem 404 `group-id-not-found`, 504 `no-answer` when its coordinator does not answer within 3 s.

    Retried while the group's partition of `__consumer_offsets` moves or is loaded; it is read-only, so this is safe.
    """
    budget = RetryBudget(context)
    while True:
        try:
            return await _describe(context, group_id)
        except Problem as problem:
            if problem.status != 503 or not await budget.again():
                raise


def coordinator_of(context: Context, group_id: str) -> NodeId:
    """The group's coordinator. Raises Problem: 404 `group-id-not-found` when the offsets topic does not exist."""
    topic = context.broker.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise _not_found(group_id)
    leader = topic.partitions[partition_of(group_id, len(topic.partitions))].leader
    if leader < 0:
        raise kafka_problem(
            ErrorCode.coordinator_not_available, f"group {group_id!r}", "its coordinator is unreachable"
        )
    return leader


def _not_found(group_id: str) -> Problem:
    return Problem(404, "group-id-not-found", f"group {group_id[:249]!r} does not exist", "GET /api/groups lists them")


async def _describe(context: Context, group_id: str) -> Response:
    node_id = coordinator_of(context, group_id)
    found = None
    for described in (
        (consumer_group_describe.KEY, "group_ids", consumer_group),
        (describe_groups.KEY, "groups", classic_group),
    ):
        found = found or await _group(context, group_id, node_id, *described)
    committed = await _committed(context, group_id, node_id)
    if found is None:
        raise _not_found(group_id)
    partitions = sorted(place for place in {*committed, *found.assigned} if _may_describe(context, place.topic))
    starts, ends = await log_ends(context, partitions, _ASK_SECONDS)

    def show(group: Group = found) -> dict[str, Any]:
        lags = partition_lags(
            group,
            {place: int(each.committed_offset) for place, each in committed.items()},
            {place: (starts.get(place), ends.get(place)) for place in partitions},
            {place: each.metadata or "" for place, each in committed.items()},
        )
        return replace(group, partitions=lags).as_json()

    return await large_answer(context, show, len(partitions) + len(found.members or ()))


async def _group(
    context: Context, group_id: str, node_id: NodeId, api_key: int, names: str, read: Callable[[Any, NodeId], Group]
) -> Group | None:
    """The group, if it has the type that an API describes. `names` is the request's field of groups."""
    fields = {names: [group_id], "include_authorized_operations": False}
    (found,) = (await context.broker_client.ask(api_key, fields, node_id=node_id, timeout_s=_ASK_SECONDS)).groups
    if found.error_code == ErrorCode.group_id_not_found:
        return None
    check_error(found, f"group {group_id!r}")
    group = read(found, node_id)
    if api_key == consumer_group_describe.KEY:
        _check_topics(context, group)
    return group


def _may_describe(context: Context, topic: str) -> bool:
    """Whether the caller may: a coordinator that is another broker answers this broker, which may do everything."""
    return is_allowed(context.broker, CALLER.get(), Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _check_topics(context: Context, group: Group) -> None:
    """Raise Problem 403 `topic-authorization-failed`, as the coordinator does, for a topic without DESCRIBE rights."""
    for member in group.members or () if context.broker.authorization.is_active else ():
        partitions = (*(member.assigned or ()), *(member.target or ()))
        for topic in dict.fromkeys([*(member.topics or ()), *(each.topic for each in partitions)]):
            if not _may_describe(context, topic):
                api, access = "ConsumerGroupDescribe", (Operation.DESCRIBE, ResourceType.TOPIC, topic)
                denied(context.broker, context.shell.rate_limit, CALLER.get(), api, *access)
                code = ErrorCode.topic_authorization_failed
                raise kafka_problem(code, f"group {group.group_id!r}", consumer_group_describe.TOPICS_DENIED)


async def _committed(context: Context, group_id: str, node_id: NodeId) -> Mapping[TopicPartition, Any]:
    requested = {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None}
    fields = {"groups": [requested], "require_stable": False}
    answered = await context.broker_client.ask(
        offset_fetch.KEY, fields, node_id=node_id, timeout_s=_ASK_SECONDS, version=_OFFSET_FETCH_BY_NAME
    )
    (group,) = answered.groups
    check_error(group, f"group {group_id!r}")
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): each
        for topic in group.topics
        if _may_describe(context, str(topic.name))
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


ROUTES: Final = Routes("Administration")


@ROUTES.add(
    "GET /api/groups",
    "All groups with state and coordinator",
    answers={
        200: Answer(
            "the groups by name; `silent` lists brokers that did not answer, whose groups are missing",
            record({"groups": listing(record(_HEAD)), "silent": listing(record({"node_id": NODE_ID, "reason": TEXT}))}),
        )
    },
)
async def groups(context: Context, _request: Request) -> Response:
    """All groups of all brokers, and the brokers that did not answer, with the reason."""
    listed: list[dict[str, Any]] = []
    silent: list[dict[str, Any]] = []
    async with trio.open_nursery() as nursery:
        for info in serving_brokers(context.broker.image):
            nursery.start_soon(_list, context, info.node_id, listed, silent)
    listed.sort(key=lambda each: str(each["group"]))
    silent.sort(key=lambda each: int(each["node_id"]))
    return await large_answer(context, lambda: {"groups": listed, "silent": silent}, len(listed))


# a group's name may have slashes, and the path is matched unquoted
@ROUTES.add(
    "GET /api/groups/{group:path}",
    "One group: members, assignments, committed offsets and lag",
    parameters=(Parameter("group", {"type": "string", "minLength": 1}, "its name", where="path"),),
    answers={200: Answer("the group; `lag` is the sum over partitions with a known lag", _GROUP)},
)
async def group(context: Context, request: Request) -> Response:
    """One group, with its lag."""
    name = request.path_params["group"]
    if not name:
        raise Problem(404, "not-found", "the path names no group", "GET /api/groups lists all groups")
    if len(name.encode()) > GROUP_STRING_BYTES_MAX:
        raise bad_parameter(f"a group's name has at most {GROUP_STRING_BYTES_MAX} bytes")
    return await describe_group(context, name)
