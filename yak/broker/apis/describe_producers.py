"""DescribeProducers (key 61, v0): the producers that wrote to a partition, with their epochs and sequences.

A follower answers from its own replica (Kafka's Partition.activeProducerState).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.protocol.topic_names import validate_topic_name

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 61, "DescribeProducers", range(1)
ABSENT: tuple[str, ...] = ()


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe each partition's producers, once."""
    topics: dict[str, dict[int, Fields]] = {}
    for topic in call.request.topics:
        partitions = topics.setdefault(topic.name, {})
        for index in topic.partition_indexes:
            if index not in partitions:
                partitions[index] = _producers(broker, call, topic.name, index)
    return Now({"topics": [{"name": name, "partitions": list(found.values())} for name, found in topics.items()]})


def _producers(broker: Broker, call: Call, topic: str, index: int) -> Fields:
    answer: Fields = {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "error_message": None,
        "active_producers": [],
    }
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.TOPIC, topic)
        validate_topic_name(topic)
        partition = broker.leadership.replica_of(TopicPartition(topic, index))
        assert partition.log is not None
        answer["active_producers"] = [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.current_txn_start_offset,
            }
            for producer in partition.log.producers.describe()
        ]
    except PeerError as error:
        answer["error_code"], answer["error_message"] = error.error_code, error.message
    return answer
