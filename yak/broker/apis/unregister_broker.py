"""UnregisterBroker (key 64, v0): remove a broker that will not come back.

Any broker takes the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.acls.bindings import Operation
from yak.broker.call import Call, Now, Outcome, error_fields
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges
from yak.cluster.topic_changes import plan_unregister_broker
from yak.errors import PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 64, "UnregisterBroker", range(1)
ABSENT = ("unregistering a broker that is alive: INVALID_REQUEST, stop it first",)

_TIMEOUT_MS = 10_000


def handle(broker: Broker, call: Call) -> Outcome:
    """Unregister the broker, unless it is alive."""
    node_id = call.request.broker_id

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        return Now(error_fields(results.get(node_id)))

    waiting = DelayedMetadataChanges(broker, call, _TIMEOUT_MS, build)
    try:
        broker.authorization.check_cluster(call, Operation.ALTER)
        waiting.change(node_id, plan_unregister_broker(broker.image, node_id))
    except PeerError as error:
        waiting.refuse(node_id, error)
    return waiting.outcome()
