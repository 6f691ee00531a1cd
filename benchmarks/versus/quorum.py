"""Who leads Kafka's metadata quorum, asked of a broker: DescribeQuorum (key 55, KIP-595)."""

from collections.abc import Sequence

from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.types import TopicName
from kio.static.primitive import i32

from yak.client.raw_connection import RawConnection

METADATA_TOPIC = "__cluster_metadata"
ASK_SECONDS = 1.0


def active_controller(addresses: Sequence[str]) -> int | None:
    """The quorum's leader, as the first broker says that knows one."""
    topic = TopicData(topic_name=TopicName(METADATA_TOPIC), partitions=(PartitionData(partition_index=i32(0)),))
    for address in addresses:
        try:
            with RawConnection(address, timeout_s=ASK_SECONDS) as connection:
                answer = connection.call(DescribeQuorumRequest(topics=(topic,)))
        except OSError:
            continue
        for found in answer.topics:
            for partition in found.partitions:
                if partition.leader_id >= 0:
                    return int(partition.leader_id)
    return None
