"""Heartbeat (key 12, v0-4): keep a classic group's member alive, and tell it if it must rejoin.

v3: static members (KIP-345). v4: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Now, Outcome
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 12, "Heartbeat", range(5)
ABSENT: tuple[str, ...] = ()


def handle(broker: Broker, call: Call) -> Outcome:
    """Renew the member's session."""
    request = call.request
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        try:
            coordinated = broker.group_coordinator.of(request.group_id)
        except PeerError as refusal:
            if refusal.error_code == ErrorCode.coordinator_load_in_progress:
                # loading renews the session, whatever the answer (KafkaApis: no error while loading)
                return Now({"error_code": ErrorCode.none})
            raise
        group = coordinated.shard.groups.get(request.group_id)
        if group is None:
            raise PeerError(ErrorCode.unknown_member_id)
        if group.consumer is not None:
            return Now({"error_code": broker.group_coordinator.consumers.heartbeat_classic(group, request)})
        group.members.heartbeat(
            request.member_id,
            getattr(request, "group_instance_id", None),
            request.generation_id,
            broker.now_ms,
        )
    except PeerError as refusal:
        return Now({"error_code": refusal.error_code})
    return Now({"error_code": ErrorCode.none})
