"""A partition and its replicas: a row of `yak isr`, `GET /api/isr` and the `snapshot` event, from any source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yak.ids import LeaderEpoch, NodeId, Offset, PartitionEpoch
from yak.view.partition_state import PartitionState, Replication

NO_LEADER = -1
NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """One partition. `leader` is -1 when there is none; unknown values are None.

    `log_end_offsets` has every replica; `away` gives a short reason for each replica that could not be asked.
    """

    topic: str
    partition: int
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch | None
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    high_watermark: Offset | None
    log_end_offsets: Mapping[NodeId, Offset | None]
    min_isr: int = 1
    away: Mapping[NodeId, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`orders-0`."""
        return f"{self.topic}-{self.partition}"

    @property
    def replication(self) -> Replication:
        """What decides its state."""
        return Replication(self.leader != NO_LEADER, len(self.replicas), len(self.isr), self.min_isr)

    @property
    def state(self) -> PartitionState:
        """The worst condition that applies."""
        return self.replication.state

    def lag(self, node: NodeId) -> Offset | None:
        """A replica's lag behind the leader in records; None when one of the two log ends is unknown.

        The ends are not read at the same moment, so a follower can seem to be ahead: that counts as 0.
        """
        end, leads_to = self.log_end_offsets.get(node), self.log_end_offsets.get(self.leader)
        return None if end is None or leads_to is None else max(leads_to - end, 0)

    def as_json(self) -> dict[str, Any]:
        """The contract of `yak isr -o json`: these keys stay."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "leader": None if self.leader == NO_LEADER else self.leader,
            "leader_epoch": self.leader_epoch,
            "partition_epoch": self.partition_epoch,
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "min_isr": self.min_isr,
            "state": self.state.value,
            "high_watermark": self.high_watermark,
            "log_end_offsets": {str(node): self.log_end_offsets.get(node) for node in self.replicas},
        }
