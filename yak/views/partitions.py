"""The partitions of the image, with the leaders that they have now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yak.cluster.image import PartitionInfo, TopicInfo

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_NO_LEADER: Final = -1


def present_partitions(broker: Broker, topic: TopicInfo) -> Sequence[PartitionInfo]:
    """A topic's partitions, by number; those whose leader is lost have none.

    The image keeps the last leader when no other can be elected. That is this broker where its log is offline; while the
    metadata store is down also a broker that died, and this broker where it is isolated.
    """
    return [
        replace(info, leader=_NO_LEADER) if _is_lost(broker, topic.name, info) else info for info in topic.partitions
    ]


def _is_lost(broker: Broker, topic: str, info: PartitionInfo) -> bool:
    if info.leader == broker.node_id:
        return broker.is_offline(topic, info.partition) or broker.store_outage.is_isolated_leader(topic, info)
    return broker.store_outage.store_state != "connected" and not broker.failure_watch.probes([info.leader])
