"""OffsetForLeaderEpoch (key 23, v2-4): the end offset of an epoch in this log, by which readers find divergence.

v3: replica id, without effect: only the leader answers, as in Kafka. v4: flexible. Rules: KIP-101, KIP-279,
KIP-320; LeaderEpochFileCache.endOffsetFor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Slices
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 23, "OffsetForLeaderEpoch", range(2, 5)


def slices(broker: Broker, call: Call) -> Slices:
    """Answer the partitions in slices."""
    topics = []
    pace = Pace()
    for topic in call.request.topics:
        partitions: list[Fields] = []
        topics.append({"topic": topic.topic, "partitions": partitions})
        for requested in topic.partitions:
            partitions.append(_end_of(broker, call, topic.topic, requested))
            if pace.is_over(1):
                yield
    return Now({"topics": topics})


def _end_of(broker: Broker, call: Call, topic: str, requested: Any) -> Fields:
    answer: Fields = {
        "error_code": ErrorCode.none,
        "partition": requested.partition,
        "leader_epoch": -1,
        "end_offset": -1,
    }
    try:
        if not broker.authorization.may_see(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            broker.authorization.check(call, Operation.DESCRIBE, ResourceType.TOPIC, topic)
        place = TopicPartition(topic, requested.partition)
        partition = broker.leadership.leader_of(place, requested.current_leader_epoch)
        if requested.leader_epoch > partition.leader_epoch:
            # Another broker may lead, with epochs that are unknown here: -1 would mean lost records to the reader.
            # Once the store confirmed this leader, the reader's records are of a log that is gone: a deleted topic's.
            if partition.replica_states and not broker.store_outage.still_leads(partition):
                raise PeerError(ErrorCode.unknown_leader_epoch)
            return answer
        assert partition.log is not None
        if requested.leader_epoch == partition.leader_epoch:
            answer["leader_epoch"], answer["end_offset"] = requested.leader_epoch, partition.log.log_end_offset
        else:
            answer["leader_epoch"], answer["end_offset"] = partition.log.end_offset_for_epoch(requested.leader_epoch)
    except PeerError as error:
        answer["error_code"] = error.error_code
    return answer
