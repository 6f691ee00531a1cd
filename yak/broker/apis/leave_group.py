"""LeaveGroup (key 13, v0-5): members leave, or an administrator removes them.

v3: several members, static ones by their instance id (KIP-345). v4: flexible. v5: a reason (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome
from yak.broker.delayed_group_requests import answer_when_safe
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.coordination.runtime import Then
    from yak.groups.group import Group

KEY, NAME, VERSIONS = 13, "LeaveGroup", range(6)
ABSENT: tuple[str, ...] = ()

_SEVERAL_VERSION = 3


def handle(broker: Broker, call: Call) -> Outcome:
    """Remove each member; the remaining members rebalance once."""
    request = call.request
    if call.version >= _SEVERAL_VERSION:
        leaving = [(each.member_id, each.group_instance_id, getattr(each, "reason", None)) for each in request.members]
    else:
        leaving = [(request.member_id, None, None)]
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        coordinated = broker.group_coordinator.of(request.group_id)
    except PeerError as refusal:
        return Now({"error_code": refusal.error_code, "members": []})
    group = coordinated.shard.groups.get(request.group_id)
    if group is None:
        answers = [
            {"member_id": member_id, "group_instance_id": instance_id, "error_code": ErrorCode.unknown_member_id}
            for member_id, instance_id, _reason in leaving
        ]
    elif group.consumer is not None:
        return _leave_consumer_group(broker, call, coordinated, group, leaving)
    else:
        answers = group.members.leave_all(leaving, broker.now_ms)
        coordinated.shard.drop_if_void(group)
    return Now(_answer(call, answers))


def _answer(call: Call, answers: list[Fields]) -> Fields:
    if call.version >= _SEVERAL_VERSION:
        return {"error_code": ErrorCode.none, "members": answers}
    return {"error_code": answers[0]["error_code"], "members": []}


def _leave_consumer_group(
    broker: Broker,
    call: Call,
    coordinated: GroupsPartition,
    group: Group,
    leaving: list[tuple[str, str | None, str | None]],
) -> Outcome:
    def operation(then: Then) -> Fields:
        return _answer(call, broker.group_coordinator.consumers.leave_classic(coordinated, group, leaving, then))

    return answer_when_safe(
        broker.purgatory,
        call,
        broker.config.offsets_commit_timeout_ms,
        operation,
        lambda code: {"error_code": code, "members": []},
    )
