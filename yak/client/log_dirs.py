"""Sizes of replicas on disk by a raw request (DescribeLogDirs, key 35), for which librdkafka has no call.

It uses version 1, the last without tagged fields; Kafka 1.0 to 4 support it.
"""

from typing import Any, Final

from yak.client.metadata import ClusterMetadata
from yak.client.raw_connection import RawConnection
from yak.client.reach import of_each
from yak.ids import NodeId

_DESCRIBE_LOG_DIRS: Final = 35, 1


def replica_sizes(metadata: ClusterMetadata, *, timeout_s: float) -> dict[int, dict[tuple[str, int], int]]:
    """The bytes of each replica, by broker; empty for a broker that does not answer."""

    def ask(node_id: NodeId) -> dict[tuple[str, int], int]:
        try:
            with RawConnection(metadata.brokers[node_id].address, timeout_s=timeout_s) as connection:
                return sizes_in(connection.call(_DESCRIBE_LOG_DIRS, {"topics": None}))
        except OSError:
            return {}

    return of_each(metadata.brokers, ask)


def sizes_in(answer: Any) -> dict[tuple[str, int], int]:
    """The size of each replica that an answer has, without those that are being moved to another directory."""
    return {
        (str(topic.name), int(each.partition_index)): int(each.partition_size)
        for directory in answer.results
        if not directory.error_code
        for topic in directory.topics
        for each in topic.partitions
        if not each.is_future_key
    }
