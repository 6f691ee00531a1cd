"""ListGroups (key 16, v0-5): the groups that this broker coordinates; a client sends it to every broker.

v3: flexible. v4: states, and a filter by them (KIP-518). v5: types, and a filter by them (KIP-848).

A client that may not describe the cluster gets the groups that it may describe (KafkaApis.handleListGroupsRequest).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome, Slices
from yak.errors import ErrorCode
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 16, "ListGroups", range(6)


def handle(broker: Broker, call: Call) -> Outcome:
    """List the groups, or COORDINATOR_LOAD_IN_PROGRESS while a partition is loading. Filters ignore case."""
    if broker.group_coordinator.runtime.is_loading():
        return Now({"error_code": ErrorCode.coordinator_load_in_progress, "groups": []})
    return broker.large_requests.answer(call, _listed(broker, call))


def _listed(broker: Broker, call: Call) -> Slices:
    """The groups that there are at the first slice; each has the state that it has in its own slice."""
    states = {state.strip().lower() for state in getattr(call.request, "states_filter", ())}
    types = {kind.lower() for kind in getattr(call.request, "types_filter", ())}
    authorization = broker.authorization
    groups: list[Fields] = []
    sees_all = authorization.may_see(call, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    runtime = broker.group_coordinator.runtime
    listed = [list(coordinated.shard.groups.values()) for coordinated in runtime.coordinated.values()]
    pace = Pace()
    for some in listed:
        for group in some:
            if pace.is_over(1):
                yield
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
