"""The controller of a cluster, by DescribeQuorum (key 55, KIP-595).

In a cluster with a KRaft quorum the controller is the quorum's leader, which need not be a broker. Metadata responses
name any live broker instead, to which clients may send requests for the controller (KIP-590).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from yak.client.raw_connection import RawConnection
from yak.ids import NodeId
from yak.protocol.lean_imports import import_kio

METADATA_TOPIC: Final = "__cluster_metadata"


class Controller(NamedTuple):
    """The quorum's leader and its epoch."""

    node_id: NodeId
    epoch: int


def read_controller(addresses: Iterable[str], *, timeout_s: float) -> Controller | None:
    """The controller, from the first broker that knows it; None if no broker does. Never raises.

    `timeout_s` is for each address.
    """
    import_kio()
    from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest, PartitionData, TopicData
    from kio.schema.types import TopicName
    from kio.static.primitive import i32

    topic = TopicData(topic_name=TopicName(METADATA_TOPIC), partitions=(PartitionData(partition_index=i32(0)),))
    for address in addresses:
        try:
            with RawConnection(address, timeout_s=timeout_s) as connection:
                answer = connection.call(DescribeQuorumRequest(topics=(topic,)))
        except OSError:  # unreachable, or the API is unsupported
            continue
        for found in answer.topics:
            for partition in found.partitions:
                if not int(partition.error_code) and partition.leader_id >= 0:
                    return Controller(int(partition.leader_id), int(partition.leader_epoch))
    return None
