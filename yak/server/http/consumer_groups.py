"""Consumer groups over Kafka's API: `ListGroups` from every broker, everything else from the group's coordinator.

A group's coordinator is the leader of its partition of `__consumer_offsets`, known from the image. While leadership
moves, or a coordinator still loads its groups, the request is retried for `RETRY_SECONDS`; it is read-only, so this is
safe.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from yak.broker.apis import consumer_group_describe, describe_groups, list_groups, list_offsets, offset_fetch
from yak.core.placement import partition_of
from yak.errors import ErrorCode
from yak.groups.classic.assignment import assigned_partitions
from yak.groups.classic.subscription import subscribed_topics
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import NodeId, Offset, TopicPartition
from yak.lifecycle.liveness import serving_brokers
from yak.server.http.context import Context
from yak.server.http.problems import Problem, kafka_problem

RETRY_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 0.1
_MOVING: Final = frozenset(
    (
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.offset_not_available,
    )
)
_CONSUMERS: Final = ("consumer", "")
_STABLE: Final = "Stable"
_EARLIEST, _LATEST = -2, -1


@dataclass(slots=True)
class Listed:
    """All groups that brokers reported, and the brokers that did not answer, with the reason."""

    groups: list[dict[str, Any]] = field(default_factory=list)
    silent: list[dict[str, Any]] = field(default_factory=list)


async def all_groups(context: Context) -> Listed:
    """Every group with its state, type and coordinator, sorted by name."""
    listed = Listed()
    async with trio.open_nursery() as nursery:
        for info in serving_brokers(context.broker.image):
            nursery.start_soon(_list, context, info.node_id, listed)
    listed.groups.sort(key=lambda each: str(each["group"]))
    listed.silent.sort(key=lambda each: int(each["node_id"]))
    return listed


async def _list(context: Context, node_id: NodeId, listed: Listed) -> None:
    until = trio.current_time() + RETRY_SECONDS
    while True:
        try:
            fields: dict[str, object] = {"states_filter": [], "types_filter": []}
            answer = await context.broker_client.ask(list_groups.KEY, fields, node_id=node_id, timeout_s=RETRY_SECONDS)
        except Problem as problem:
            listed.silent.append({"node_id": node_id, "reason": problem.message})
            return
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.none:
            break
        if code not in _MOVING or trio.current_time() >= until:
            listed.silent.append({"node_id": node_id, "reason": code.name.replace("_", " ")})
            return
        await trio.sleep(_PAUSE_SECONDS)
    listed.groups += [
        {
            "group": str(each.group_id),
            "type": each.group_type,
            "state": each.group_state,
            "protocol_type": each.protocol_type,
            "coordinator": node_id,
        }
        for each in answer.groups
    ]


async def describe_group(context: Context, group_id: str) -> dict[str, Any]:
    """One group with its members, committed offsets and lag. Raises Problem 404 `group-id-not-found`."""
    until = trio.current_time() + RETRY_SECONDS
    while True:
        try:
            return await _describe(context, group_id)
        except _Moving as moving:
            problem = moving.problem
        except Problem as error:
            if error.status != 503:
                raise
            problem = error
        if trio.current_time() >= until:
            raise problem
        await trio.sleep(_PAUSE_SECONDS)


class _Moving(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _check(code: int, what: str) -> None:
    if code:
        problem = kafka_problem(code, what)
        raise _Moving(problem) if ErrorCode(code) in _MOVING else problem


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


async def _describe(context: Context, group_id: str) -> dict[str, Any]:
    node_id = coordinator_of(context, group_id)
    found = await _consumer(context, group_id, node_id) or await _classic(context, group_id, node_id)
    committed = await _committed(context, group_id, node_id)
    if found is None:
        raise _not_found(group_id)
    owners = {
        TopicPartition(each["topic"], each["partition"]): member["member_id"]
        for member in found["members"]
        for each in member["assignment"] or ()
    }
    places = sorted({*committed, *owners})
    starts = await _offsets(context, places, _EARLIEST)
    ends = await _offsets(context, places, _LATEST)
    found["partitions"] = [
        _partition_lag(each, committed.get(each), starts.get(each), ends.get(each), owners.get(each)) for each in places
    ]
    lags = [each["lag"] for each in found["partitions"] if each["lag"] is not None]
    return {"group": group_id, "coordinator": node_id, **found, "lag": sum(lags) if lags else None}


def _partition_lag(
    place: TopicPartition, committed: Any, start: Offset | None, end: Offset | None, member_id: str | None
) -> dict[str, Any]:
    offset = None if committed is None else int(committed.committed_offset)
    return {
        "topic": place.topic,
        "partition": place.partition,
        "committed": offset,
        "metadata": "" if committed is None else committed.metadata or "",
        "log_start_offset": start,
        "high_watermark": end,
        "lag": None if offset is None or end is None else max(0, end - offset),
        "member_id": member_id,
    }


async def _consumer(context: Context, group_id: str, node_id: NodeId) -> dict[str, Any] | None:
    fields = {"group_ids": [group_id], "include_authorized_operations": False}
    (group,) = (await context.broker_client.ask(consumer_group_describe.KEY, fields, node_id=node_id)).groups
    if group.error_code == ErrorCode.group_id_not_found:
        return None
    _check(group.error_code, f"group {group_id!r}")
    return {
        "type": "consumer",
        "state": group.group_state,
        "protocol_type": "consumer",
        "assignor": group.assignor_name or None,
        "epoch": int(group.group_epoch),
        "members": [
            {
                **_member(member),
                "epoch": int(member.member_epoch),
                "topics": sorted(map(str, member.subscribed_topic_names)),
                "assignment": _named(member.assignment),
                "target": _named(member.target_assignment),
            }
            for member in group.members
        ],
    }


def _named(assignment: Any) -> list[dict[str, Any]]:
    return [
        {"topic": str(each.topic_name), "partition": int(number)}
        for each in assignment.topic_partitions
        for number in each.partitions
    ]


async def _classic(context: Context, group_id: str, node_id: NodeId) -> dict[str, Any] | None:
    fields = {"groups": [group_id], "include_authorized_operations": False}
    (group,) = (await context.broker_client.ask(describe_groups.KEY, fields, node_id=node_id)).groups
    if group.error_code == ErrorCode.group_id_not_found:
        return None
    _check(group.error_code, f"group {group_id!r}")
    is_told = group.protocol_type in _CONSUMERS and group.group_state == _STABLE
    return {
        "type": "classic",
        "state": group.group_state,
        "protocol_type": group.protocol_type,
        "assignor": group.protocol_data or None,
        "epoch": None,
        "members": [
            {
                **_member(member),
                "epoch": None,
                "topics": _subscribed(member.member_metadata) if is_told else None,
                "assignment": _read(member.member_assignment) if is_told else None,
                "target": None,
            }
            for member in group.members
        ],
    }


def _member(member: Any) -> dict[str, Any]:
    # kio's names differ: instance_id in a consumer group, group_instance_id in a classic one
    instance_id = member.instance_id if hasattr(member, "instance_id") else member.group_instance_id
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "instance_id": instance_id,
    }


def _subscribed(metadata: bytes) -> list[str] | None:
    found = subscribed_topics([metadata])
    return None if found is None else sorted(found)


def _read(assignment: bytes) -> list[dict[str, Any]] | None:
    found = assigned_partitions(assignment)
    return None if found is None else [{"topic": each.topic, "partition": each.partition} for each in found]


async def _committed(context: Context, group_id: str, node_id: NodeId) -> Mapping[TopicPartition, Any]:
    asked = {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None}
    fields = {"groups": [asked], "require_stable": False}
    answer = await context.broker_client.ask(offset_fetch.KEY, fields, node_id=node_id, version=_OFFSET_FETCH_BY_NAME)
    (group,) = answer.groups
    _check(group.error_code, f"group {group_id!r}")
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): each
        for topic in group.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


_OFFSET_FETCH_BY_NAME: Final = 9
"""The last version that names topics: a deleted topic has no id any more."""


async def _offsets(context: Context, places: list[TopicPartition], timestamp: int) -> dict[TopicPartition, Offset]:
    """The first or the last offset of each partition whose leader answers."""
    by_leader: dict[NodeId, dict[str, list[int]]] = {}
    image = context.broker.image
    for each in places:
        topic = image.topics.get(each.topic)
        if (
            topic is not None
            and each.partition < len(topic.partitions)
            and topic.partitions[each.partition].leader >= 0
        ):
            led = by_leader.setdefault(topic.partitions[each.partition].leader, {})
            led.setdefault(each.topic, []).append(each.partition)
    found: dict[TopicPartition, Offset] = {}

    async def ask(node_id: NodeId, wanted: dict[str, list[int]]) -> None:
        asked = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": number, "current_leader_epoch": -1, "timestamp": timestamp}
                    for number in numbers
                ],
            }
            for name, numbers in wanted.items()
        ]
        fields = {"replica_id": -1, "isolation_level": 0, "topics": asked}
        try:
            answer = await context.broker_client.ask(
                list_offsets.KEY, fields, node_id=node_id, version=_LIST_OFFSETS, timeout_s=RETRY_SECONDS
            )
        except Problem:
            return
        found.update(
            (TopicPartition(str(topic.name), int(each.partition_index)), int(each.offset))
            for topic in answer.topics
            for each in topic.partitions
            if not each.error_code and each.offset >= 0
        )

    async with trio.open_nursery() as nursery:
        for node_id, wanted in by_leader.items():
            nursery.start_soon(ask, node_id, wanted)
    return found


_LIST_OFFSETS: Final = 7
