"""A partition and its replicas: a row of `yak isr`, `GET /api/isr` and the `snapshot` event, from any source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yak.ids import LeaderEpoch, NodeId, Offset, PartitionEpoch
from yak.view.partition_state import Replicated

NO_LEADER = -1
NO_ANSWER = "no answer"
OFFLINE = "offline"
"""Of a replica whose broker answers without it: its log directory failed, or its log is damaged or missing."""


@dataclass(frozen=True, slots=True)
class PartitionReplicas(Replicated):
    """One partition. `leader` is -1 when there is none; unknown values are None.

    `log_end_offsets` has every replica; `away` gives a short reason for each replica without an answer.
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
    topic_id: str = ""

    def as_json(self) -> dict[str, Any]:
        """The contract of `yak isr -o json`: these keys stay."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "leader": None if self.replication.is_offline else self.leader,
            "leader_epoch": self.leader_epoch,
            "partition_epoch": self.partition_epoch,
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "min_isr": self.min_isr,
            "state": self.state.value,
            "high_watermark": self.high_watermark,
            "log_end_offsets": {str(node): self.log_end_offsets.get(node) for node in self.replicas},
        }
