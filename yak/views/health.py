"""Whether this broker is healthy, and if not, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from yak.cluster.image import Image, TopicInfo
from yak.config.topic_configs import resolve_log_config
from yak.ids import NodeId
from yak.view.partition_state import NONE, BrokerCounts, Replication, StateCounts, count_by_broker
from yak.views.quorum import own_quorum_json

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.partitions.store_outage import StoreState

_MIN_ISR: Final = "min.insync.replicas"


@dataclass(slots=True, frozen=True)
class PartitionCounts:
    """Counts of one image."""

    states: StateCounts = NONE
    by_broker: Mapping[NodeId | None, BrokerCounts] = field(default_factory=dict)
    reassigning: int = 0
    """Partitions that are being reassigned."""

    def of(self, node_id: NodeId) -> BrokerCounts:
        """The counts of one broker."""
        return self.by_broker.get(node_id, BrokerCounts())


@dataclass(slots=True)
class Health:
    """The answer to `GET /health`."""

    node_id: int
    role: str
    state: str
    broker_epoch: int
    cluster_id: str
    controller_id: int | None
    controller_epoch: int
    is_controller: bool
    metadata_offset: int
    counts: PartitionCounts
    store: StoreState
    store_lost_ms: int | None
    quorum: dict[str, Any] | None
    """This broker's node of the metadata quorum; None while the metadata are in Redis."""
    disks: list[dict[str, Any]]
    own_reasons: list[str] = field(default_factory=list)
    """Problems of this broker."""
    cluster_reasons: list[str] = field(default_factory=list)
    """Problems of the cluster: they do not make this broker unready."""

    @property
    def is_ready(self) -> bool:
        """Whether clients should be sent here."""
        return not self.own_reasons

    @property
    def reasons(self) -> list[str]:
        """All problems; empty if healthy."""
        return self.own_reasons + self.cluster_reasons

    def store_json(self) -> dict[str, Any]:
        """The metadata store: `redis` or `quorum`, and null for the other."""
        store = {"state": self.store, "lost_ms": self.store_lost_ms}
        if self.quorum is None:
            return {"redis": store, "quorum": None}
        return {"redis": None, "quorum": store | self.quorum}

    def as_json(self) -> dict[str, Any]:
        """The answer's body."""
        return {
            "status": "unhealthy" if self.reasons else "ok",
            "reasons": self.reasons,
            "node_id": self.node_id,
            "role": self.role,
            "state": self.state,
            "cluster_id": self.cluster_id,
            "broker_epoch": self.broker_epoch,
            "controller_id": self.controller_id,
            "controller_epoch": self.controller_epoch,
            "is_controller": self.is_controller,
            "metadata_offset": self.metadata_offset,
            "leaders": self.counts.of(self.node_id).leaders,
            "replicas": self.counts.of(self.node_id).replicas,
            **self.counts.states._asdict(),
            **self.store_json(),
            "disks": self.disks,
        }


class HealthView:
    """Builds `Health`. Partition counts are computed once per image."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._image: Image | None = None
        self._counts = PartitionCounts()

    def present(self) -> Health:
        """The present health of the broker."""
        broker = self._broker
        image, lifecycle = broker.image, broker.metadata.lifecycle
        health = Health(
            node_id=broker.node_id,
            role=broker.identity.role,
            state=lifecycle.state.value,
            broker_epoch=lifecycle.broker_epoch,
            cluster_id=image.cluster_id,
            controller_id=None if image.controller_id == -1 else image.controller_id,
            controller_epoch=image.controller_epoch,
            is_controller=lifecycle.is_controller,
            metadata_offset=image.offset,
            counts=self.counts(),
            store=broker.store_outage.store_state,
            store_lost_ms=broker.store_outage.present_ms(broker.now_ms),
            quorum=own_quorum_json(broker) if broker.metadata_in_quorum else None,
            disks=[
                {"index": index, "state": "online" if directory.failure is None else "offline"}
                for index, directory in enumerate(broker.log_store.directories)
            ],
        )
        health.own_reasons = self._own_reasons(health)
        states = health.counts.states
        if states.offline:
            health.cluster_reasons.append(f"{states.offline} partitions are offline")
        if states.under_min_isr:
            health.cluster_reasons.append(f"{states.under_min_isr} partitions are under min.insync.replicas")
        return health

    def counts(self) -> PartitionCounts:
        """The counts of the current image."""
        image = self._broker.image
        if image is not self._image:
            self._image, self._counts = image, _count(self._broker, image)
        return self._counts

    def _own_reasons(self, health: Health) -> list[str]:
        broker = self._broker
        reasons = []
        if broker.context.is_stopping:
            reasons.append("this broker is stopping")
        elif reason := broker.store_outage.unready_reason:
            reasons.append(reason)
        offline = sum(disk["state"] == "offline" for disk in health.disks)
        if offline:
            reasons.append(f"{offline} of {len(health.disks)} data directories are offline")
        return reasons


class MinIsrs:
    """`min.insync.replicas` of the topics of one image, resolved once per distinct override."""

    def __init__(self, broker: Broker, image: Image) -> None:
        self._dynamic = image.broker_configs.get(broker.node_id, {})
        self._default = image.default_broker_configs
        self._static = broker.config.static
        self._known: dict[str | None, int] = {}

    def of(self, topic: TopicInfo) -> int:
        """A topic's `min.insync.replicas`."""
        value = topic.configs.get(_MIN_ISR)
        found = self._known.get(value)
        if found is None:
            own = {} if value is None else {_MIN_ISR: value}
            config = resolve_log_config(own, self._dynamic, self._default, self._static)
            found = self._known[value] = config.min_insync_replicas
        return found


def _count(broker: Broker, image: Image) -> PartitionCounts:
    min_isrs = MinIsrs(broker, image)
    found = [(info, min_isrs.of(topic)) for topic in image.topics.values() for info in topic.partitions]
    return PartitionCounts(
        StateCounts.of(Replication.of(info, min_isr) for info, min_isr in found),
        count_by_broker(info for info, _ in found),
        sum(bool(info.adding_replicas or info.removing_replicas) for info, _ in found),
    )
