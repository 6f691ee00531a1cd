"""Replication progress: one row per partition, as in `yak isr -o json`.

Only the leader knows the log end offsets of all replicas: its followers report them with each fetch. In rows of other
partitions the offsets are None until the leader has answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yak.cluster.image import PartitionInfo, TopicInfo
from yak.ids import NodeId, Offset, TopicPartition
from yak.view.lag import lag_records
from yak.view.partition_replicas import PartitionReplicas
from yak.view.partition_state import ALL, Conditions, Replication
from yak.views.health import MinIsrs
from yak.views.partitions import present_partitions

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.replication.partition import Partition

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A filter on partitions."""

    topic: str | None = None
    conditions: Conditions = ALL
    leader: NodeId | None = None

    def is_wanted(self, info: PartitionInfo, min_isr: int) -> bool:
        """Whether a partition passes the filter."""
        return self.leader in (None, info.leader) and self.conditions.match(Replication.of(info, min_isr))


def rows(broker: Broker, wanted: PartitionFilter) -> Iterator[Row]:
    """A row per partition of the current image, by topic and number; with offsets where this broker leads."""
    image = broker.image
    min_isrs = MinIsrs(broker)
    names = sorted(image.topics) if wanted.topic is None else [wanted.topic]
    for topic in (image.topics[name] for name in names if name in image.topics):
        min_isr = min_isrs.of(topic)
        for info in present_partitions(broker, topic):
            if wanted.is_wanted(info, min_isr):
                yield row(broker, topic, info, min_isr)


def row(broker: Broker, topic: TopicInfo, info: PartitionInfo, min_isr: int) -> Row:
    """One partition, as `yak isr -o json` has it, with the topic's id: a topic of the same name may be another one."""
    partition = led(broker, topic, info)
    ends = {} if partition is None else partition.log_end_offsets()
    found = PartitionReplicas(
        topic.name,
        info.partition,
        info.leader,
        info.leader_epoch,
        info.partition_epoch,
        info.replicas,
        info.isr,
        None if partition is None else partition.high_watermark,
        {node: _known(ends.get(node)) for node in info.replicas},
        min_isr,
    ).as_json()
    return {"topic_id": str(topic.topic_id), **found}


def led(broker: Broker, topic: TopicInfo, info: PartitionInfo) -> Partition | None:
    """The partition, if this broker leads it, also according to the image."""
    if info.leader != broker.node_id:
        return None
    partition = broker.partitions.get(TopicPartition(topic.name, info.partition))
    if partition is None or not partition.is_leader or partition.log is None or partition.topic_id != topic.topic_id:
        return None
    return partition


def _known(offset: Offset | None) -> Offset | None:
    return None if offset is None or offset < 0 else offset


def detail(broker: Broker, topic: TopicInfo, info: PartitionInfo) -> Row:
    """Everything that this broker knows of one partition; values that only the leader knows are None elsewhere."""
    leads = led(broker, topic, info) is not None
    found = row(broker, topic, info, MinIsrs(broker).of(topic))
    partition = broker.partitions.get(TopicPartition(topic.name, info.partition))
    log = None if partition is None or partition.topic_id != topic.topic_id else partition.log
    found |= {
        "reported_by": broker.node_id,
        "isr_members": [{"node_id": node, "broker_epoch": epoch} for node, epoch in info.isr_members],
        "eligible_leaders": list(info.elr),
        "adding_replicas": list(info.adding_replicas),
        "removing_replicas": list(info.removing_replicas),
        "log_start_offset": None if log is None else log.log_start_offset,
        "last_stable_offset": None if partition is None or not leads else partition.last_stable_offset,
        "size_bytes": None if log is None else log.size_bytes,
        "segments": None if log is None else len(log.segments),
        "recovery_point": None if log is None else log.recovery_point,
        "followers": _followers(broker, partition) if leads and partition is not None else [],
    }
    return found


def _followers(broker: Broker, partition: Partition) -> list[Row]:
    end = partition.log_end_offset
    return [
        {
            "node_id": state.node_id,
            "broker_epoch": None if state.broker_epoch < 0 else state.broker_epoch,
            "in_sync": state.node_id in partition.isr,
            "log_end_offset": _known(state.log_end_offset),
            "lag": lag_records(_known(state.log_end_offset), end),
            "last_fetched_ms_ago": max(0, broker.now_ms - state.last_fetch_ms),
            "last_caught_up_ms_ago": max(0, broker.now_ms - state.last_caught_up_ms),
        }
        for state in partition.replica_states.values()
    ]
