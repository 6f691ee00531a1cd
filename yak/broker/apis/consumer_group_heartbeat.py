"""ConsumerGroupHeartbeat (key 68, v0-1): join, stay in and leave a consumer group, and get its assignment (KIP-848).

v1: regular expressions, and member ids made by the client. The answer is sent when the records behind it are committed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis.classic_members import client_host
from yak.broker.call import Call, Fields, Now, Outcome
from yak.broker.delayed_answers import answer_when_safe
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.coordination.runtime import Then

KEY, NAME, VERSIONS = 68, "ConsumerGroupHeartbeat", range(2)
ABSENT = ("racks: they are stored and described, but no assignor uses them",)


def handle(broker: Broker, call: Call) -> Outcome:
    """Let the group decide, and answer when the decision is committed."""
    request = call.request
    if "consumer" not in broker.config.group_coordinator_rebalance_protocols:
        return Now(_refused(ErrorCode.unsupported_version))
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        for name in request.subscribed_topic_names or ():
            broker.authorization.check(call, Operation.DESCRIBE, ResourceType.TOPIC, name)
        coordinated = broker.group_coordinator.of(request.group_id, may_be_empty=True)

        def operation(then: Then) -> Fields:
            return broker.group_coordinator.consumers.heartbeat(
                coordinated,
                request,
                client_id=call.client_id or "",
                client_host=client_host(call),
                api_version=call.version,
                then=then,
                sees=partial(broker.authorization.may_see, call, Operation.DESCRIBE, ResourceType.TOPIC),
            )

        return answer_when_safe(broker, call, operation, _refused)
    except PeerError as refusal:
        return Now(_refused(refusal.error_code, refusal.message))


def _refused(error_code: ErrorCode, message: str = "") -> Fields:
    return {
        "error_code": error_code,
        "error_message": message or None,
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval": 0,
        "assignment": None,
    }
