"""ListPartitionReassignments (key 46, v0): reassignments in progress (KIP-455); null topics mean all.

Partitions without a reassignment, and those that do not exist, are left out. Any broker answers. A refusal names the
requested partitions, without replicas (Kafka's ListPartitionReassignmentsRequest.getErrorResponse).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from yak.acls.bindings import Operation
from yak.broker.call import Call, Fields, Now, Outcome, error_fields
from yak.cluster.image import TopicInfo
from yak.cluster.reassignment import is_reassigning
from yak.errors import PeerError
from yak.ids import NodeId

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 46, "ListPartitionReassignments", range(1)


def handle(broker: Broker, call: Call) -> Outcome:
    """List the reassignments of the image."""
    requested, topics = call.request.topics, broker.image.topics
    try:
        broker.authorization.check_cluster(call, Operation.DESCRIBE)
    except PeerError as error:
        refused = [
            {"name": topic.name, "partitions": [_replicas(index) for index in topic.partition_indexes]}
            for topic in requested or ()
        ]
        return Now({**error_fields(error), "topics": refused})
    if requested is None:
        wanted: list[tuple[TopicInfo, Iterable[int]]] = [
            (topic, range(len(topic.partitions))) for _name, topic in sorted(topics.items())
        ]
    else:
        wanted = [(topics[topic.name], topic.partition_indexes) for topic in requested if topic.name in topics]
    listed = [{"name": topic.name, "partitions": _under_way(topic, indexes)} for topic, indexes in wanted]
    return Now({**error_fields(None), "topics": [topic for topic in listed if topic["partitions"]]})


def _under_way(topic: TopicInfo, indexes: Iterable[int]) -> list[Fields]:
    return [
        _replicas(index, info.replicas, info.adding_replicas, info.removing_replicas)
        for index in indexes
        if 0 <= index < len(topic.partitions) and is_reassigning(info := topic.partitions[index])
    ]


def _replicas(
    index: int, replicas: Iterable[NodeId] = (), adding: Iterable[NodeId] = (), removing: Iterable[NodeId] = ()
) -> Fields:
    return {
        "partition_index": index,
        "replicas": list(replicas),
        "adding_replicas": list(adding),
        "removing_replicas": list(removing),
    }
