"""The cluster as one broker knows it: brokers, controller, metadata store, and partition health counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.cluster.image import BrokerInfo, Image
from yak.config.listeners import bracketed
from yak.view.partition_state import BrokerCounts
from yak.views.health import HealthView

if TYPE_CHECKING:
    from yak.broker.broker import Broker


class ClusterView:
    """Builds `GET /api/cluster`."""

    def __init__(self, broker: Broker, http_scheme: str) -> None:
        """`http_scheme` is that of the brokers' HTTP addresses, http or https."""
        self._broker, self._http_scheme = broker, http_scheme
        self._health = HealthView(broker)

    def present(self) -> dict[str, Any]:
        """The present state of the cluster."""
        image = self._broker.image
        health = self._health.present()
        return {
            "cluster_id": image.cluster_id,
            "reported_by": self._broker.node_id,
            "controller_id": health.controller_id,
            "controller_epoch": image.controller_epoch,
            "metadata_offset": image.offset,
            "metadata_time_ms": image.timestamp_ms,
            "incarnation": image.incarnation,
            **health.store_json(),
            "brokers": [
                self._one(image, image.brokers[node_id], health.counts.of(node_id)) for node_id in sorted(image.brokers)
            ],
            "topics": len(image.topics),
            "partitions": sum(len(topic.partitions) for topic in image.topics.values()),
            **health.counts.states._asdict(),
            "reassigning": health.counts.reassigning,
        }

    def _one(self, image: Image, info: BrokerInfo, counts: BrokerCounts) -> dict[str, Any]:
        return {
            **registration_json(info, self._http_scheme),
            "is_controller": info.node_id == image.controller_id,
            "leaders": counts.leaders,
            "replicas": counts.replicas,
            "replicas_in_sync": counts.replicas - counts.out_of_sync,
        }


def registration_json(info: BrokerInfo, http_scheme: str) -> dict[str, Any]:
    """A broker's registration, as `GET /api/cluster` and the `snapshot` event have it."""
    return {
        "node_id": info.node_id,
        "role": info.role,
        "state": info.state.value,
        "broker_epoch": info.broker_epoch,
        "rack": info.rack,
        "host": info.host,
        "port": info.port,
        "http_address": http_address(info, http_scheme),
    }


def http_address(info: BrokerInfo | None, scheme: str) -> str | None:
    """`scheme://HOST:PORT` of a broker; None if it serves no HTTP."""
    if info is None or not info.http_port:
        return None
    return f"{scheme}://{bracketed(info.host)}:{info.http_port}"
