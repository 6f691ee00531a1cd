"""SyncGroup (key 14, v0-5): the leader sends the assignment, and each member gets its part.

v3: static members (KIP-345). v4: flexible. v5: protocol type and name, to refuse clients that confuse groups. The
answer is sent when the assignment is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Later, Now, Outcome
from yak.broker.delayed_group_requests import MemberWaiting, answer_when_safe
from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import Sync, refused_sync

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.coordination.runtime import Then
    from yak.groups.group import Group

KEY, NAME, VERSIONS = 14, "SyncGroup", range(6)
ABSENT: tuple[str, ...] = ()

_PROTOCOL_VERSION = 5


def _of_consumer_group(broker: Broker, call: Call, coordinated: GroupsPartition, group: Group) -> Outcome:
    """A member of the classic protocol in a consumer group."""

    def operation(then: Then) -> Fields:
        answer = broker.group_coordinator.consumers.sync_classic(group, call.request)
        broker.group_coordinator.when_committed(coordinated, group.group_id, then)
        return answer

    return answer_when_safe(broker.purgatory, call, broker.config.offsets_commit_timeout_ms, operation, refused_sync)


def handle(broker: Broker, call: Call) -> Outcome:
    """Pass the request to the group."""
    request = call.request
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        if call.version >= _PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
            raise PeerError(ErrorCode.inconsistent_group_protocol)
        coordinated = broker.group_coordinator.of(request.group_id)
        group = coordinated.shard.groups.get(request.group_id)
        if group is None:
            raise PeerError(ErrorCode.unknown_member_id)
        if group.consumer is not None:
            return _of_consumer_group(broker, call, coordinated, group)
    except PeerError as refusal:
        return Now(refused_sync(refusal.error_code))
    waiting = MemberWaiting(
        broker.purgatory, call, group.members, lambda fields: fields, refused_sync(ErrorCode.rebalance_in_progress)
    )
    asked = Sync(
        request.member_id,
        getattr(request, "group_instance_id", None),
        request.generation_id,
        getattr(request, "protocol_type", None),
        getattr(request, "protocol_name", None),
        {each.member_id: bytes(each.assignment) for each in request.assignments},
    )
    group.members.sync(asked, waiting, broker.now_ms)
    return Later(waiting)
