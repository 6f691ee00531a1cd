"""DescribeCluster (key 60, v0-2): the cluster's id, controller and brokers.

v1: endpoint types (only brokers, 1). v2: fenced brokers on request; as in Kafka, those that were stopped in order are
among them until they are unregistered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.apis.metadata import cluster_operations, controller_for
from yak.broker.call import Call, Now, Outcome
from yak.errors import ErrorCode
from yak.lifecycle.liveness import is_serving

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 60, "DescribeCluster", range(3)
ABSENT = ("controller endpoints: MISMATCHED_ENDPOINT_TYPE",)

_BROKERS, _CONTROLLERS = 1, 2


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe the cluster as this broker knows it."""
    request, image, listener = call.request, broker.image, call.connection.listener.name
    endpoint_type = getattr(request, "endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        error_code, message = ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {endpoint_type}"
        if endpoint_type == _CONTROLLERS:
            error_code = ErrorCode.mismatched_endpoint_type
            message = "This endpoint is of type BROKER; YAK has no endpoints of type CONTROLLER"
        return Now(
            {
                "error_code": error_code,
                "error_message": message,
                "endpoint_type": _BROKERS,
                "cluster_id": image.cluster_id,
                "controller_id": -1,
                "brokers": [],
            }
        )
    with_fenced = getattr(request, "include_fenced_brokers", False)
    return Now(
        {
            "error_code": ErrorCode.none,
            "error_message": None,
            "endpoint_type": _BROKERS,
            "cluster_id": image.cluster_id,
            "controller_id": controller_for(broker, listener),
            "brokers": [
                {
                    "broker_id": info.node_id,
                    "host": endpoint.host,
                    "port": endpoint.port,
                    "rack": info.rack,
                    "is_fenced": not is_serving(info),
                }
                for _node_id, info in sorted(image.brokers.items())
                if (with_fenced or is_serving(info)) and (endpoint := info.endpoint(listener)) is not None
            ],
            "cluster_authorized_operations": cluster_operations(broker, call),
        }
    )
