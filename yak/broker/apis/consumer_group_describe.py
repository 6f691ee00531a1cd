"""ConsumerGroupDescribe (key 69, v0-1): the state and members of consumer groups (KIP-848).

v1: each member's protocol. DescribeGroups describes classic groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 69, "ConsumerGroupDescribe", range(2)
ABSENT: tuple[str, ...] = ()

_NOT_ASKED = -(2**31)


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe each group once, with its own error code."""
    return Now({"groups": [_describe(broker, call, group_id) for group_id in dict.fromkeys(call.request.group_ids)]})


def _describe(broker: Broker, call: Call, group_id: str) -> Fields:
    fields: Fields = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
        "authorized_operations": _NOT_ASKED,
    }
    try:
        broker.authorization.check(call, Operation.DESCRIBE, ResourceType.GROUP, group_id)
        group = broker.group_coordinator.of(group_id).shard.groups.get(group_id)
        if group is None:
            raise PeerError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
        if group.consumer is None:
            raise PeerError(ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group.")
    except PeerError as refusal:
        return fields | {"error_code": refusal.error_code, "error_message": refusal.message or None}
    known = broker.group_coordinator.consumers.describe(group.consumer)
    topics = _topics(known["members"])
    if not all(broker.authorization.allows(call, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        words = "The group has described topic(s) that the client is not authorized to describe."
        return fields | {"error_code": ErrorCode.topic_authorization_failed, "error_message": words}
    if call.request.include_authorized_operations:
        fields["authorized_operations"] = broker.authorization.operations(call, ResourceType.GROUP, group_id)
    return fields | known


def _topics(members: list[Fields]) -> list[str]:
    """The topics of a description (KafkaApis.handleConsumerGroupDescribe)."""
    found: dict[str, None] = {}
    for member in members:
        found |= dict.fromkeys(member["subscribed_topic_names"])
        for part in ("assignment", "target_assignment"):
            found |= dict.fromkeys(topic["topic_name"] for topic in member[part]["topic_partitions"])
    return list(found)
