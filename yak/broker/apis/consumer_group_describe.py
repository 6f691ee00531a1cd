"""ConsumerGroupDescribe (key 69, v0-1): the state and members of consumer groups (KIP-848).

v1: each member's protocol. DescribeGroups describes classic groups.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from yak.acls.bindings import Operation, ResourceType
from yak.broker.authorization import OPERATIONS_OMITTED
from yak.broker.call import Call, Fields, Now, Outcome, Slices
from yak.errors import ErrorCode, PeerError
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 69, "ConsumerGroupDescribe", range(2)
TOPICS_DENIED: Final = "The group has described topic(s) that the client is not authorized to describe."


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe each group once, with its own error code."""
    return broker.large_requests.answer(call, _described(broker, call))


def _described(broker: Broker, call: Call) -> Slices:
    """Each group is described as it is when its turn comes, with all members of that moment."""
    groups: list[Fields] = []
    pace = Pace()
    for group_id in dict.fromkeys(call.request.group_ids):
        group = yield from _describe(broker, call, group_id, pace)
        groups.append(group)
        if pace.is_over(1):
            yield
    return Now({"groups": groups})


def _describe(broker: Broker, call: Call, group_id: str, pace: Pace) -> Generator[None, None, Fields]:
    fields: Fields = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
        "authorized_operations": OPERATIONS_OMITTED,
    }
    if "consumer" not in broker.config.group_coordinator_rebalance_protocols:
        return fields | {"error_code": ErrorCode.unsupported_version}
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
    members: list[Fields] = []
    topics: dict[str, None] = {}
    for member in known["members"]:
        members.append(member)
        named = _topics(member)
        topics.update(dict.fromkeys(named))
        if pace.is_over(1 + len(named)):
            yield
    if not all(broker.authorization.allows(call, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return fields | {"error_code": ErrorCode.topic_authorization_failed, "error_message": TOPICS_DENIED}
    if call.request.include_authorized_operations:
        fields["authorized_operations"] = broker.authorization.operations(call, ResourceType.GROUP, group_id)
    return fields | known | {"members": members}


def _topics(member: Fields) -> list[str]:
    """The topics of a member's description (KafkaApis.handleConsumerGroupDescribe); a topic may come several times."""
    parts = (member["assignment"], member["target_assignment"])
    subscribed: list[str] = member["subscribed_topic_names"]
    return subscribed + [topic["topic_name"] for part in parts for topic in part["topic_partitions"]]
