"""Which replica a consumer reads from (KIP-392): the leader, or one in the consumer's rack.

With `replica.selector.class` set to Kafka's RackAwareReplicaSelector, the leader names a replica in the consumer's
rack, and the consumer fetches committed records there. Rules: Kafka's ReplicaManager.findPreferredReadReplica and
RackAwareReplicaSelector.
"""

from __future__ import annotations

from typing import Final

from yak.cluster.image import Image
from yak.cluster.records import BrokerState
from yak.config.broker_config_table import RACK_AWARE_SELECTOR
from yak.config.broker_configs import BrokerConfig
from yak.ids import NodeId, Offset
from yak.replication.partition import Partition

LEADER_ONLY: Final = -1
"""Only the leader serves this read."""


def chooses_by_rack(config: BrokerConfig, rack_id: str) -> bool:
    """Whether a consumer in this rack may be sent to a follower."""
    return bool(rack_id) and config.replica_selector_class == RACK_AWARE_SELECTOR


def preferred_replica(image: Image, partition: Partition, rack_id: str, fetch_offset: Offset, listener: str) -> NodeId:
    """The follower to read from instead of this leader, LEADER_ONLY for none.

    It is ACTIVE, in the ISR, in the consumer's rack, has the offset and the consumer's `listener`. Of several, the
    largest log end offset wins, then the latest caught-up time, then the largest id. A leader in that rack keeps the
    consumer.
    """
    brokers = image.brokers
    own = brokers.get(partition.node_id)
    if own is not None and own.rack == rack_id:
        return LEADER_ONLY
    best: tuple[Offset, int, NodeId] | None = None
    for node_id in partition.isr:
        info, replica = brokers.get(node_id), partition.replica_states.get(node_id)
        if replica is None or info is None or info.rack != rack_id or info.state is not BrokerState.ACTIVE:
            continue
        if info.endpoint(listener) is None:
            continue
        if replica.log_start_offset <= fetch_offset <= replica.log_end_offset:
            rank = (replica.log_end_offset, replica.last_caught_up_ms, node_id)
            best = rank if best is None else max(best, rank)
    return LEADER_ONLY if best is None else best[2]
