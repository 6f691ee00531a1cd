"""OffsetCommit (key 8, v2-10): store a group's offsets; answered when they are committed.

The empty group id is valid here, as in Kafka (GroupCoordinatorService.commitOffsets). v3: throttle time. v5: no own
retention time any more. v6: the leader epoch. v7: static members. v8: flexible. v9: members of consumer groups
(KIP-848). v10: topic ids. Since Kafka 4.3 an older member epoch may be enough (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Slices, milliseconds
from yak.broker.delayed_answers import answer_when_safe
from yak.errors import ErrorCode, PeerError
from yak.groups.offsets import NO_EXPIRY, Committed
from yak.limits import GROUP_STRING_BYTES_MAX
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.coordination.runtime import Then
    from yak.groups.consumer.partitions import TopicIdPartition
    from yak.groups.group import Group

KEY, NAME, VERSIONS = 8, "OffsetCommit", range(2, 11)

_LAST_RETENTION_VERSION = 4
_GROUP_UNKNOWN_VERSION = 9
_BY_ID_VERSION = 10

Commit = tuple[str, int, Committed]


def slices(broker: Broker, call: Call) -> Slices:
    """Check each offset on its own, then the member that commits the valid ones (KafkaApis.handleOffsetCommitRequest)."""
    request = call.request
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
    except PeerError as refusal:
        return Now(with_error_for_all(call, refusal.error_code))
    commits: list[Commit] = []
    by_id = call.version >= _BY_ID_VERSION
    expire_ms = NO_EXPIRY
    if call.version <= _LAST_RETENTION_VERSION:
        retention_ms = milliseconds(request.retention_time)
        expire_ms = broker.wall_ms + retention_ms if retention_ms >= 0 else NO_EXPIRY
    fields = yield from check_topics(broker, call, commits, by_id=by_id, expire_ms=expire_ms)
    if not has_existing(fields):
        return Now(fields)
    try:
        coordinated, group = _group_of(broker, call, commits)
    except PeerError as refusal:
        return Now(with_error(fields, refusal.error_code))
    if not commits:
        coordinated.shard.drop_if_void(group)
        return Now(fields)

    def commit(then: Then) -> Fields:
        broker.group_coordinator.commit(coordinated, group, commits, then)
        return fields

    return answer_when_safe(broker, call, commit, partial(with_error, fields))


def _group_of(broker: Broker, call: Call, commits: list[Commit]) -> tuple[GroupsPartition, Group]:
    """The group; a "simple" consumer (generation below zero) creates it. Raises PeerError if it may not commit."""
    request = call.request
    coordinated = broker.group_coordinator.of(request.group_id, may_be_empty=True)
    group = coordinated.shard.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            raise PeerError(
                ErrorCode.group_id_not_found if call.version >= _GROUP_UNKNOWN_VERSION else ErrorCode.illegal_generation
            )
        return coordinated, coordinated.shard.ensure(request.group_id)
    group.check_commit(
        request.member_id,
        getattr(request, "group_instance_id", None),
        generation,
        partitions_by_id(broker, commits),
        api_version=call.version,
        now_ms=broker.now_ms,
    )
    return coordinated, group


def partitions_by_id(broker: Broker, commits: list[Commit]) -> Iterator[TopicIdPartition]:
    """The partitions of offsets; without those of a topic that was deleted since."""
    topics = broker.image.topics
    return ((topics[name].topic_id, partition) for name, partition, _ in commits if name in topics)


def check_topics(
    broker: Broker, call: Call, commits: list[Commit], *, by_id: bool, expire_ms: int = NO_EXPIRY
) -> Generator[None, None, Fields]:
    """Add the offsets that can be stored to `commits`, in slices; returns the answer, with an error for each other.

    Partitions that do not exist for the client come first (KafkaApis.handleOffsetCommitRequest).
    """
    answers: list[Fields] = []
    pace = Pace()
    for topic in call.request.topics:
        answer = yield from _check_topic(broker, call, topic, commits, by_id, expire_ms, pace)
        answer["partitions"].sort(key=_exists)
        answers.append(answer)
    answers.sort(key=lambda answer: all(map(_exists, answer["partitions"])))
    return {"topics": answers}


def _exists(answer: Fields) -> bool:
    return answer["error_code"] in (ErrorCode.none, ErrorCode.offset_metadata_too_large)


def _check_topic(
    broker: Broker, call: Call, topic: Any, commits: list[Commit], by_id: bool, expire_ms: int, pace: Pace
) -> Generator[None, None, Fields]:
    name = broker.topic_name(topic.topic_id) if by_id else topic.name
    info = None if name is None else broker.image.topics.get(name)
    may_read = name is None or broker.authorization.allows(call, Operation.READ, ResourceType.TOPIC, name)
    answers = []
    for item in topic.partitions:
        if pace.is_over(1):
            yield
        metadata = item.committed_metadata or ""
        code = ErrorCode.none
        if not may_read:
            code = ErrorCode.topic_authorization_failed
        elif info is None or name is None:
            code = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        elif not 0 <= item.partition_index < len(info.partitions):
            code = ErrorCode.unknown_topic_or_partition
        elif _is_too_long(metadata, broker.config.offset_metadata_max_bytes):
            code = ErrorCode.offset_metadata_too_large
        else:
            epoch = getattr(item, "committed_leader_epoch", -1)
            committed = Committed(item.committed_offset, epoch, metadata, broker.wall_ms, expire_ms, info.topic_id)
            commits.append((name, item.partition_index, committed))
        answers.append({"partition_index": item.partition_index, "error_code": code})
    return _topic(topic, answers)


def _is_too_long(metadata: str, limit: int) -> bool:
    """The limit counts Java characters, though named in bytes; a record has room for GROUP_STRING_BYTES_MAX bytes."""
    return len(metadata.encode("utf-16-le")) // 2 > limit or len(metadata.encode()) > GROUP_STRING_BYTES_MAX


def _topic(topic: Any, partitions: list[Fields]) -> Fields:
    named: Fields = {"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": topic.name}
    return {**named, "partitions": partitions}


def has_existing(fields: Fields) -> bool:
    """Whether the answer has a partition that exists: the group decides about those (OffsetMetadataManager)."""
    return any(_exists(answer) for topic in fields["topics"] for answer in topic["partitions"])


def with_error(fields: Fields, error_code: ErrorCode) -> Fields:
    """The same answer, with an error for the offsets that were to be written; with none those keep their own."""
    for topic in fields["topics"]:
        for answer in topic["partitions"]:
            if error_code != ErrorCode.none and _exists(answer):
                answer["error_code"] = error_code
    return fields


def with_error_for_all(call: Call, error_code: ErrorCode) -> Fields:
    """An answer with the same error for each offset."""
    return {
        "topics": [
            _topic(
                topic,
                [{"partition_index": item.partition_index, "error_code": error_code} for item in topic.partitions],
            )
            for topic in call.request.topics
        ]
    }
