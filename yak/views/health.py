"""Whether this broker is healthy, and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from yak.cluster.image import Image, TopicInfo
from yak.config.topic_configs import resolve_log_config
from yak.ids import NodeId
from yak.view.partition_state import NONE, BrokerCounts, Replication, StateCounts, count_by_broker
from yak.views.partitions import present_partitions
from yak.views.quorum import own_quorum_json

if TYPE_CHECKING:
    from yak.broker.broker import Broker

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


class Health:
    """The health of a broker at this moment, for one answer."""

    def __init__(self, broker: Broker, count: Callable[[], PartitionCounts]) -> None:
        self._broker, self._count = broker, count
        self._disks = [
            {"index": index, "state": "online" if directory.failure is None else "offline"}
            for index, directory in enumerate(broker.log_store.directories)
        ]
        self.own_reasons = self._own_reasons()
        """Problems of this broker."""

    @property
    def counts(self) -> PartitionCounts:
        """Those of the image: with thousands of partitions they take milliseconds, so not every answer has them."""
        return self._count()

    def _own_reasons(self) -> list[str]:
        reasons = []
        if self._broker.context.is_stopping:
            reasons.append("this broker is stopping")
        elif reason := self._broker.store_outage.unready_reason:
            reasons.append(reason)
        offline = sum(disk["state"] == "offline" for disk in self._disks)
        if offline:
            reasons.append(f"{offline} of {len(self._disks)} data directories are offline")
        return reasons

    @property
    def is_ready(self) -> bool:
        """Whether clients should be sent here."""
        return not self.own_reasons

    @property
    def reasons(self) -> list[str]:
        """All problems; empty if healthy. Those of the cluster do not make this broker unready."""
        reasons, states = list(self.own_reasons), self.counts.states
        if states.offline:
            reasons.append(f"{states.offline} partitions are offline")
        if states.under_min_isr:
            reasons.append(f"{states.under_min_isr} partitions are under min.insync.replicas")
        return reasons

    @property
    def controller_id(self) -> int | None:
        """The controller, if there is one."""
        controller_id = self._broker.image.controller_id
        return None if controller_id == -1 else controller_id

    def store_json(self) -> dict[str, Any]:
        """The metadata store: `redis` or `quorum`, and null for the other."""
        broker, outage = self._broker, self._broker.store_outage
        store = {"state": outage.store_state, "lost_ms": outage.present_ms(broker.now_ms)}
        quorum = own_quorum_json(broker) if broker.metadata_in_quorum else None
        if quorum is None:
            return {"redis": store, "quorum": None}
        return {"redis": None, "quorum": store | quorum}

    def as_json(self) -> dict[str, Any]:
        """The answer's body."""
        broker, reasons = self._broker, self.reasons
        image, lifecycle, own = broker.image, broker.metadata.lifecycle, self.counts.of(broker.node_id)
        return {
            "status": "unhealthy" if reasons else "ok",
            "reasons": reasons,
            "node_id": broker.node_id,
            "role": broker.identity.role,
            "state": lifecycle.state.value,
            "cluster_id": image.cluster_id,
            "broker_epoch": lifecycle.broker_epoch,
            "controller_id": self.controller_id,
            "controller_epoch": image.controller_epoch,
            "is_controller": lifecycle.is_controller,
            "metadata_offset": image.offset,
            "leaders": own.leaders,
            "replicas": own.replicas,
            **self.counts.states._asdict(),
            **self.store_json(),
            "disks": self._disks,
        }


class HealthView:
    """Builds `Health`. Partition counts are computed once per image and failed log directory, and each second while the
    metadata store is down.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._image: Image | None = None
        self._losses = (0, 0)
        """The seconds without a metadata store, and the number of failed log directories."""
        self._counts = PartitionCounts()

    def present(self) -> Health:
        """The present health of the broker."""
        return Health(self._broker, self._count)

    def _count(self) -> PartitionCounts:
        broker, image = self._broker, self._broker.image
        lost_s = (broker.store_outage.present_ms(broker.now_ms) or 0) // 1_000
        losses = (lost_s, sum(directory.failure is not None for directory in broker.log_store.directories))
        if image is not self._image or losses != self._losses:
            self._image, self._losses, self._counts = image, losses, _count(broker, image)
        return self._counts


class MinIsrs:
    """`min.insync.replicas` of the topics of the present image, resolved once per distinct override."""

    def __init__(self, broker: Broker) -> None:
        self._broker_levels = broker.config_levels
        self._known: dict[str | None, int] = {}

    def of(self, topic: TopicInfo) -> int:
        """A topic's `min.insync.replicas`."""
        value = topic.configs.get(_MIN_ISR)
        found = self._known.get(value)
        if found is None:
            own = {} if value is None else {_MIN_ISR: value}
            found = self._known[value] = resolve_log_config(own, *self._broker_levels).min_insync_replicas
        return found


def _count(broker: Broker, image: Image) -> PartitionCounts:
    min_isrs = MinIsrs(broker)
    found = [
        (info, min_isrs.of(topic)) for topic in image.topics.values() for info in present_partitions(broker, topic)
    ]
    return PartitionCounts(
        StateCounts.of(Replication.of(info, min_isr) for info, min_isr in found),
        count_by_broker(info for info, _ in found),
        sum(bool(info.adding_replicas or info.removing_replicas) for info, _ in found),
    )
