"""OffsetDelete (key 47, v0): delete a group's offsets of topics that no member consumes (KIP-496).

Offsets of open transactions are deleted too (OffsetMetadataManager.deleteOffsets). A group without members that loses its
last offset stays, empty, until the next check for expired offsets (GroupCoordinatorShard.cleanupGroupMetadata).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome
from yak.broker.delayed_answers import answer_when_safe
from yak.errors import ErrorCode, PeerError
from yak.groups.offsets import offset_record

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.coordination.runtime import Then

KEY, NAME, VERSIONS = 47, "OffsetDelete", range(1)


def handle(broker: Broker, call: Call) -> Outcome:
    """Delete the offset of each partition; a partition without one is no error.

    Partitions that do not exist for the client come first (KafkaApis.handleOffsetDeleteRequest).
    """
    request = call.request
    try:
        broker.authorization.check(call, Operation.DELETE, ResourceType.GROUP, request.group_id)
        coordinated = broker.group_coordinator.of(request.group_id)
        group = coordinated.shard.groups.get(request.group_id)
        if group is None:
            raise PeerError(ErrorCode.group_id_not_found)
        group.check_deletion_of_offsets()
    except PeerError as refusal:
        return Now({"error_code": refusal.error_code, "topics": []})
    partitions: dict[tuple[str, int], None] = {}
    """Each once: a client may name one as often as its request has room."""
    topics: list[Fields] = []
    for topic in request.topics:
        may_read = broker.authorization.allows(call, Operation.READ, ResourceType.TOPIC, topic.name)
        known = broker.image.topics.get(topic.name)
        is_subscribed = group.is_subscribed(topic.name)
        answers: list[Fields] = []
        for requested in topic.partitions:
            code = ErrorCode.none
            exists = known is not None and 0 <= requested.partition_index < len(known.partitions)
            has_offset = group.offsets.has(topic.name, requested.partition_index)
            if not may_read:
                code = ErrorCode.topic_authorization_failed
            elif not exists and not has_offset:
                code = ErrorCode.unknown_topic_or_partition
            elif is_subscribed:
                code = ErrorCode.group_subscribed_to_topic
            elif has_offset:
                partitions[topic.name, requested.partition_index] = None
            answers.append({"partition_index": requested.partition_index, "error_code": code})
        answers.sort(key=_exists)
        topics.append({"name": topic.name, "partitions": answers})
    topics.sort(key=lambda topic: all(map(_exists, topic["partitions"])))
    fields: Fields = {"error_code": ErrorCode.none, "topics": topics}
    if not partitions:
        return Now(fields)

    def remove(then: Then) -> Fields:
        records = (offset_record(group.group_id, topic, index, None) for topic, index in partitions)
        broker.group_coordinator.delete(coordinated, group, records, then)
        return fields

    return answer_when_safe(broker, call, remove, lambda code: {"error_code": code, "topics": []})


def _exists(answer: Fields) -> bool:
    return answer["error_code"] in (ErrorCode.none, ErrorCode.group_subscribed_to_topic)
