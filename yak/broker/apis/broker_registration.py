"""BrokerRegistration (key 62, v3-4), in-process only: register an external broker, or change its registration.

Kafka brokers register with the controller by this API. YAK brokers register in the metadata store; here the metadata
service registers external brokers (`yak.cluster.external_brokers`). The broker's port does not offer the API: no Kafka client
uses it, and a Kafka broker that registered by mistake would believe that it is a member.

`incarnation_id` names the registration; the one listener has the external broker's address. `previous_broker_epoch`
(v3) changes the registration of that epoch; without it a new one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Fields, Later, Now, Outcome
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges
from yak.cluster.external_brokers import (
    SECURITY_PROTOCOLS,
    Address,
    plan_change_external_broker,
    plan_register_external_broker,
)
from yak.errors import ErrorCode, PeerError
from yak.ports.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 62, "BrokerRegistration", range(3, 5)

_TIMEOUT_MS = 10_000


def handle(broker: Broker, call: Call) -> Outcome:
    """Send the change to the metadata store; the answer has the external broker's epoch."""
    node_id = call.request.broker_id

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        error = results.get(node_id)
        if error is not None:
            return Now(_answer(error.error_code))
        return Now(_answer(ErrorCode.none, waiting.values[node_id][0]["broker_epoch"]))

    waiting = DelayedMetadataChanges(call, _TIMEOUT_MS, build)
    try:
        waiting.change(broker, node_id, _plan(broker, call.request))
    except PeerError as error:
        waiting.refuse(node_id, error)
    return build(waiting.results) if waiting.is_done() else Later(waiting)


def _plan(broker: Broker, request: Any) -> tuple[StoreRequest, ...]:
    if request.cluster_id != broker.image.cluster_id:
        raise PeerError(ErrorCode.inconsistent_cluster_id, "the cluster id in the request is not this cluster's")
    if len(request.listeners) != 1 or request.incarnation_id is None or request.broker_id < 0:
        raise PeerError(
            ErrorCode.invalid_request, "an external broker needs a broker id, one listener and an incarnation id"
        )
    (listener,) = request.listeners
    if not 0 <= listener.security_protocol < len(SECURITY_PROTOCOLS):
        raise PeerError(ErrorCode.invalid_request, "unknown security protocol")
    place = Address(listener.host, listener.port, request.rack, SECURITY_PROTOCOLS[listener.security_protocol])
    if request.previous_broker_epoch < 0:
        return plan_register_external_broker(broker.image, request.broker_id, str(request.incarnation_id), place)
    nonce = str(broker.rng.uuid4())
    return plan_change_external_broker(broker.image, request.broker_id, request.previous_broker_epoch, place, nonce)


def _answer(error_code: ErrorCode, broker_epoch: int = -1) -> Fields:
    return {"error_code": error_code, "broker_epoch": broker_epoch}
