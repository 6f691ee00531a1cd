"""DescribeTopicPartitions (key 75, v0): topics a page at a time, for admin clients (KIP-966).

An empty list means all topics. A page ends after `response_partition_limit` partitions (at most 2,000, as in Kafka),
with a cursor for the next page.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis.metadata import describe_partitions, missing_topic
from yak.broker.call import Call, Fields, Now, Slices
from yak.errors import ErrorCode, PeerError
from yak.protocol.pace import Pace
from yak.protocol.topic_names import is_internal, validate_topic_name

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.cluster.image import TopicInfo

KEY, NAME, VERSIONS = 75, "DescribeTopicPartitions", range(1)
ABSENT = ("last known ELR: empty, because an ISR keeps its last members even when they are offline",)

PARTITIONS_MAX = 2_000


def slices(broker: Broker, call: Call) -> Slices:
    """Describe one page of topics in slices."""
    request, image = call.request, broker.image
    names = sorted({topic.name for topic in request.topics}) if request.topics else sorted(image.topics)
    start = 0
    after = request.cursor
    if after is not None:
        if after.partition_index < 0 or (request.topics and after.topic_name not in names):
            named = names if request.topics else ()
            return Now(
                {"topics": [missing_topic(ErrorCode.invalid_request, name) for name in named], "next_cursor": None}
            )
        names = [name for name in names if name >= after.topic_name]
        start = after.partition_index if names and names[0] == after.topic_name else 0
    room = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    topics: list[Fields] = []
    cursor: Fields | None = None
    pace = Pace()
    for name in names:
        if not broker.authorization.may_see(call, Operation.DESCRIBE, ResourceType.TOPIC, name):
            if request.topics:
                broker.authorization.note_denied(call, Operation.DESCRIBE, ResourceType.TOPIC, name)
                topics.append(missing_topic(ErrorCode.topic_authorization_failed, name))
            start = 0
            continue
        if room <= 0:
            # a cursor never names a topic that the client may not describe
            cursor = {"topic_name": name, "partition_index": 0}
            break
        info = broker.image.topics.get(name)
        answer = yield from _describe(broker, call, name, info, start, room, pace)
        topics.append(answer)
        if pace.is_over(1):
            yield
        count = len(answer["partitions"])
        room -= count
        if info is not None and start + count < len(info.partitions):
            cursor = {"topic_name": name, "partition_index": start + count}
            break
        start = 0
    return Now({"topics": topics, "next_cursor": cursor})


def _describe(
    broker: Broker, call: Call, name: str, topic: TopicInfo | None, start: int, room: int, pace: Pace
) -> Generator[None, None, Fields]:
    operations = broker.authorization.operations(call, ResourceType.TOPIC, name)
    if topic is None:
        try:
            validate_topic_name(name)
        except PeerError as error:
            return missing_topic(error.error_code, name, operations=operations)
        return missing_topic(ErrorCode.unknown_topic_or_partition, name, operations=operations)
    page = topic.partitions[start : start + room]
    partitions = yield from describe_partitions(broker, call, name, page, pace)
    for answer, info in zip(partitions, page, strict=True):
        answer["eligible_leader_replicas"] = list(info.elr)
        answer["last_known_elr"] = []
        answer["error_code"] = ErrorCode.none  # also without a leader, unlike in Metadata (KRaftMetadataCache)
    return {
        "error_code": ErrorCode.none,
        "name": name,
        "topic_id": topic.topic_id,
        "is_internal": is_internal(name),
        "partitions": partitions,
        "topic_authorized_operations": operations,
    }
