"""ListGroups (key 16, v0-5): the groups that this broker coordinates; a client asks every broker.

v3: flexible. v4: states, and a filter by them (KIP-518). v5: types, and a filter by them (KIP-848).

A client that may not describe the cluster gets the groups that it may describe (KafkaApis.handleListGroupsRequest).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.call import Call, Now, Outcome
from yak.errors import ErrorCode

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 16, "ListGroups", range(6)
ABSENT: tuple[str, ...] = ()


def handle(broker: Broker, call: Call) -> Outcome:
    """List the groups, or COORDINATOR_LOAD_IN_PROGRESS while a partition is loading. Filters ignore case."""
    coordinator = broker.group_coordinator
    if coordinator.runtime.is_loading():
        return Now({"error_code": ErrorCode.coordinator_load_in_progress, "groups": []})
    states = {state.strip().lower() for state in getattr(call.request, "states_filter", ())}
    types = {kind.lower() for kind in getattr(call.request, "types_filter", ())}
    authorization, groups = broker.authorization, []
    sees_all = authorization.may_see(call, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    for coordinated in coordinator.runtime.coordinated.values():
        for group in coordinated.shard.groups.values():
            state = group.state_name
            if (states and state.lower() not in states) or (types and group.type_name not in types):
                continue
            if not sees_all and not authorization.may_see(call, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
                continue
            groups.append(
                {
                    "group_id": group.group_id,
                    "protocol_type": group.protocol_type,
                    "group_state": state,
                    "group_type": group.type_name,
                }
            )
    return Now({"error_code": ErrorCode.none, "groups": groups})
