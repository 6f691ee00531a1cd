"""DescribeGroups (key 15, v0-6): the state and members of classic groups.

v3: authorized operations. v4: static members. v5: flexible. v6: GROUP_ID_NOT_FOUND for groups that do not exist
(KIP-1043); before v6 they are "Dead".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.authorization import OPERATIONS_OMITTED
from yak.broker.call import Call, Fields, Now, Slices
from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import ClassicState
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.groups.classic.group import ClassicGroup

KEY, NAME, VERSIONS = 15, "DescribeGroups", range(7)

_NOT_FOUND_VERSION = 6


def slices(broker: Broker, call: Call) -> Slices:
    """Describe the groups in slices, each once: an answer with one of many members again and again has no bound."""
    groups: list[Fields] = []
    pace = Pace()
    for group_id in dict.fromkeys(call.request.groups):
        group = _describe(broker, call, group_id)
        groups.append(group)
        if pace.is_over(1 + len(group["members"])):
            yield
    return Now({"groups": groups})


def _describe(broker: Broker, call: Call, group_id: str) -> Fields:
    fields: Fields = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "group_id": group_id,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": OPERATIONS_OMITTED,
    }
    try:
        broker.authorization.check(call, Operation.DESCRIBE, ResourceType.GROUP, group_id)
        coordinated = broker.group_coordinator.of(group_id, may_be_empty=True)
    except PeerError as refusal:
        return fields | {"error_code": refusal.error_code}
    group = coordinated.shard.groups.get(group_id)
    if group is not None and group.consumer is None:
        fields |= _known(group.members)
    else:
        fields["group_state"] = ClassicState.DEAD.value
        if call.version >= _NOT_FOUND_VERSION:
            what = "not found" if group is None else "is not a classic group"
            message = f"Group {group_id} {what}."
            return fields | {"error_code": ErrorCode.group_id_not_found, "error_message": message}
    if getattr(call.request, "include_authorized_operations", False):
        fields["authorized_operations"] = broker.authorization.operations(call, ResourceType.GROUP, group_id)
    return fields


def _known(group: ClassicGroup) -> Fields:
    is_stable = group.state is ClassicState.STABLE
    return {
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        # as ClassicGroupMember.describeNoMetadata: during a rebalance the protocol is not chosen yet, and the assignments
        # are those of the last generation
        "protocol_data": (group.protocol or "") if is_stable else "",
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata_of(group.protocol) if is_stable else b"",
                "member_assignment": member.assignment,
            }
            for member in group.members.values()
        ],
    }
