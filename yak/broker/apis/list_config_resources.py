"""ListConfigResources (key 74, v0-1): the resources whose configs can be described.

v0 is ListClientMetricsResources, which lists client metrics only. v1: types (KIP-1142). Of groups and client metrics
Kafka lists those with configs of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation
from yak.broker.call import Call, Now, Outcome
from yak.broker.config_resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from yak.errors import ErrorCode
from yak.lifecycle.liveness import serving_brokers

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 74, "ListConfigResources", range(2)
ABSENT = ("client metrics: the list is empty, because they cannot have configs",)

_TYPES = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
"""In the order of Kafka's answer."""


def handle(broker: Broker, call: Call) -> Outcome:
    """List the resources of the requested types; of all types when none is given."""
    if not broker.authorization.allows_cluster(call, Operation.DESCRIBE_CONFIGS):
        return Now({"error_code": ErrorCode.cluster_authorization_failed, "config_resources": []})
    if call.version == 0:
        types = {CLIENT_METRICS}
    else:
        types = set(call.request.resource_types) or set(_TYPES)
    if not types <= set(_TYPES):
        return Now({"error_code": ErrorCode.unsupported_version, "config_resources": []})
    brokers = [str(info.node_id) for info in serving_brokers(broker.image)]
    names = {
        GROUP: list(broker.image.group_configs),
        BROKER_LOGGER: brokers,
        BROKER: brokers,
        TOPIC: list(broker.image.topics),
    }
    return Now(
        {
            "error_code": ErrorCode.none,
            "config_resources": [
                {"resource_name": name, "resource_type": kind}
                for kind in _TYPES
                if kind in types
                for name in names.get(kind, ())
            ],
        }
    )
