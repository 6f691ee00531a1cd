"""DescribeProducers (key 61, v0): the producers that wrote to a partition, with their epochs and sequences.

A follower answers from its own replica (Kafka's Partition.activeProducerState).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome, Slices
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.protocol.pace import Pace
from yak.protocol.topic_names import validate_topic_name

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.storage.producer_state import ProducerDescription

KEY, NAME, VERSIONS = 61, "DescribeProducers", range(1)


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe each partition's producers, once."""
    return broker.large_requests.answer(call, _described(broker, call))


def _described(broker: Broker, call: Call) -> Slices:
    """Each producer is described as it is in its own slice."""
    topics: dict[str, dict[int, Fields]] = {}
    pace = Pace()
    for topic in call.request.topics:
        partitions = topics.setdefault(topic.name, {})
        for index in topic.partition_indexes:
            if index in partitions:
                continue
            producers: list[Fields] = []
            partitions[index] = answer = {
                "partition_index": index,
                "error_code": ErrorCode.none,
                "error_message": None,
                "active_producers": producers,
            }
            if pace.is_over(1):
                yield
            try:
                for producer in _producers(broker, call, topic.name, index):
                    producers.append(_fields(producer))
                    if pace.is_over(1):
                        yield
            except PeerError as error:
                answer["error_code"], answer["error_message"] = error.error_code, error.message
    return Now({"topics": [{"name": name, "partitions": list(found.values())} for name, found in topics.items()]})


def _producers(broker: Broker, call: Call, topic: str, index: int) -> Iterator[ProducerDescription]:
    broker.authorization.check(call, Operation.READ, ResourceType.TOPIC, topic)
    validate_topic_name(topic)
    log = broker.leadership.replica_of(TopicPartition(topic, index)).log
    assert log is not None
    return log.producers.describe()


def _fields(producer: ProducerDescription) -> Fields:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "coordinator_epoch": producer.coordinator_epoch,
        "current_txn_start_offset": producer.current_txn_start_offset,
    }
