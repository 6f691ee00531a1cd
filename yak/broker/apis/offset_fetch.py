"""OffsetFetch (key 9, v1-10): the committed offsets of groups; -1 where there is none, also for unknown groups.

v2: all topics of a group, a top-level error. v5: the leader epoch. v6: flexible. v7: only stable offsets: a partition
with an offset in an open transaction gets UNSTABLE_OFFSET_COMMIT (KIP-447). v8: several groups. v9: members of consumer
groups (KIP-848). v10: topic ids.

Some answers differ from Kafka's, so that clients repeat the request. Before v7 each partition has the error of its group,
as in v1: aiokafka (0.14, v3) ignores the top-level error, and would begin at `auto.offset.reset`. Clients on librdkafka
get partitions with a retriable error of the group, and another offset for a partition that is not stable.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome, Slices
from yak.broker.delayed_answers import DelayedAnswer
from yak.errors import ErrorCode, PeerError
from yak.groups.offsets import Committed, Offsets
from yak.lifecycle.liveness import is_librdkafka
from yak.limits import SLICE_ELEMENTS
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.groups.group import Group

KEY, NAME, VERSIONS = 9, "OffsetFetch", range(1, 11)

_STABLE_VERSION = 7
_SEVERAL_GROUPS_VERSION = 8
_BY_ID_VERSION = 10
_NOTHING = Committed(-1, -1, "", 0)
_NO_OFFSETS = Offsets()
_RETRIED = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
"""The errors of a group after which clients repeat the request."""
_LIBRDKAFKA_STORED = Committed(-1000, -1, "", 0)
"""RD_KAFKA_OFFSET_STORED: librdkafka queries the committed offset.

librdkafka (2.16) does not repeat an OffsetFetch if the consumer's assignment has changed since. It continues each
partition that has UNSTABLE_OFFSET_COMMIT from the offset of the answer; Kafka's -1 would mean `auto.offset.reset`, which
skips records, or reads them again. It forgets a partition that an answer with an error lacks until the next rebalance.
"""


def handle(broker: Broker, call: Call) -> Outcome:
    """Answer when all records behind the answer are committed."""
    request = call.request
    # Each group once: a request of 100 KB that names one with all its offsets again and again would be answered with GBs.
    several = call.version >= _SEVERAL_GROUPS_VERSION
    requested = list({(each.group_id, each.topics): each for each in request.groups}.values()) if several else [request]
    found: dict[int, GroupsPartition] = {}
    groups: dict[int, Group | None] = {}
    refusals: dict[int, ErrorCode] = {}
    for index, each in enumerate(requested):
        try:
            broker.authorization.check(call, Operation.DESCRIBE, ResourceType.GROUP, each.group_id)
            coordinated = broker.group_coordinator.of(each.group_id, may_be_empty=True)
            if broker.store_outage.may_have_successor(coordinated.partition):
                raise PeerError(ErrorCode.coordinator_load_in_progress)
            group = coordinated.shard.groups.get(each.group_id)
            if group is not None:
                group.check_fetch(getattr(each, "member_id", None), getattr(each, "member_epoch", -1))
        except PeerError as refusal:
            refusals[index] = refusal.error_code
            continue
        found[index], groups[index] = coordinated, group

    def answer() -> Outcome:
        sizes = (_size(each, groups.get(index)) for index, each in enumerate(requested))
        is_large = len(requested) + sum(sizes) >= SLICE_ELEMENTS
        served = _answer(broker, call, requested, groups, refusals, is_copy=is_large)
        return broker.large_requests.answer(call, served, is_large=is_large)

    missing = {
        index: coordinated
        for index, coordinated in found.items()
        if coordinated.partition.high_watermark < coordinated.shard.end_of(requested[index].group_id)
    }
    if not missing:
        return answer()

    def late() -> Outcome:
        refusals.update(dict.fromkeys(missing, _as_fetch(ErrorCode.coordinator_not_available)))
        return answer()

    waiting = DelayedAnswer(broker.purgatory, call, broker.config.offsets_commit_timeout_ms, late)

    def then(index: int, error_code: ErrorCode) -> None:
        missing.pop(index, None)
        if error_code != ErrorCode.none:
            refusals[index] = _as_fetch(error_code)
        if not missing:
            waiting.complete_with(answer)

    for index, coordinated in list(missing.items()):
        broker.group_coordinator.when_committed(coordinated, requested[index].group_id, partial(then, index))
    return waiting.outcome()


def _answer(
    broker: Broker,
    call: Call,
    requested: list[Any],
    groups: dict[int, Group | None],
    refusals: dict[int, ErrorCode],
    *,
    is_copy: bool,
) -> Slices:
    """All slices answer with the offsets that are committed at the first one: later changes may be taken back."""
    offsets = []
    for index, each in enumerate(requested):
        try:
            is_known = index in groups and index not in refusals
            offsets.append(_offsets(broker, each, groups[index], is_copy=is_copy) if is_known else _NO_OFFSETS)
        except PeerError as error:
            refusals[index] = error.error_code
            offsets.append(_NO_OFFSETS)
    answers, pace = [], Pace()
    for index, each in enumerate(requested):
        answer = yield from _group(broker, call, each, offsets[index], refusals.get(index), pace)
        answers.append(answer)
        if pace.is_over(1):
            yield
    if call.version >= _SEVERAL_GROUPS_VERSION:
        named = zip(requested, answers, strict=True)
        return Now({"groups": [{"group_id": each.group_id, **answer} for each, answer in named]})
    for topic in answers[0]["topics"]:
        del topic["topic_id"]
    return Now(answers[0])


def _as_fetch(error_code: ErrorCode) -> ErrorCode:
    """Consumers before 3.9 do not know COORDINATOR_NOT_AVAILABLE here (GroupCoordinatorService.handleOffsetFetchException)."""
    return ErrorCode.not_coordinator if error_code == ErrorCode.coordinator_not_available else error_code


def _offsets(broker: Broker, requested: Any, was: Group | None, *, is_copy: bool) -> Offsets:
    """The committed offsets of a group that was `was` when the request came.

    Raises PeerError if the group has moved to another coordinator, and NOT_COORDINATOR if it was deleted meanwhile: its
    tombstones may not be committed yet.
    """
    coordinated = broker.group_coordinator.of(requested.group_id, may_be_empty=True)
    group = coordinated.shard.groups.get(requested.group_id)
    if was is not None and group is not was:
        raise PeerError(ErrorCode.not_coordinator)
    if group is None:
        return _NO_OFFSETS
    return group.offsets.at(coordinated.partition.high_watermark, _names(broker, requested), is_copy=is_copy)


def _names(broker: Broker, requested: Any) -> set[str] | None:
    """The topics that the request names for a group; None for all, also if an id is unknown: it may be known later."""
    if requested.topics is None:
        return None
    topics = requested.topics
    names = [broker.topic_name(each.topic_id) if hasattr(each, "topic_id") else each.name for each in topics]
    return None if None in names else {name for name in names if name}


def _size(requested: Any, group: Group | None) -> int:
    """How many partitions the answer has for a group."""
    if requested.topics is None:
        return 0 if group is None else sum(map(len, group.offsets.topics.values()))
    return sum(len(topic.partition_indexes) for topic in requested.topics)


def _group(
    broker: Broker, call: Call, requested: Any, offsets: Offsets, refusal: ErrorCode | None, pace: Pace
) -> Generator[None, None, Fields]:
    topics: list[Fields] = []
    if refusal is not None and call.version >= _STABLE_VERSION:
        topics = _to_be_retried(call, requested) if refusal in _RETRIED else []
    elif requested.topics is None:
        for name in offsets.topics:
            if broker.authorization.may_see(call, Operation.DESCRIBE, ResourceType.TOPIC, name):
                known = yield from _known_topic(broker, call, name, offsets, pace)
                topics.append(known)
    else:
        answers = []
        for topic in requested.topics:
            answer = yield from _topic(broker, call, topic, offsets, refusal, pace)
            answers.append(answer)
        # those with an error are behind the others, as in KafkaApis.fetchOffsetsForGroup
        topics = [fields for _, fields in sorted(answers, key=itemgetter(0))]
    return {"error_code": refusal or ErrorCode.none, "topics": topics}


def _to_be_retried(call: Call, requested: Any) -> list[Fields]:
    """The topics of an answer with a retriable error of the group: none, as in Kafka, except for librdkafka.

    After NOT_COORDINATOR librdkafka finds the new coordinator and never repeats the request (its issue 5586), unless a
    partition has UNSTABLE_OFFSET_COMMIT.
    """
    if requested.topics is None or not is_librdkafka(call.connection.client_software):
        return []
    return [
        {
            "name": getattr(topic, "name", ""),
            "topic_id": getattr(topic, "topic_id", None),
            "partitions": [
                _fields(index, _LIBRDKAFKA_STORED, ErrorCode.unstable_offset_commit)
                for index in topic.partition_indexes
            ],
        }
        for topic in requested.topics
    ]


def _known_topic(broker: Broker, call: Call, name: str, offsets: Offsets, pace: Pace) -> Generator[None, None, Fields]:
    info = broker.image.topics.get(name)
    return {
        "name": name,
        "topic_id": None if info is None else info.topic_id,
        "partitions": (
            yield from _partitions(broker, call, name, sorted(offsets.topics[name]), offsets, pace, ErrorCode.none)
        ),
    }


def _topic(
    broker: Broker, call: Call, requested: Any, offsets: Offsets, refusal: ErrorCode | None, pace: Pace
) -> Generator[None, None, tuple[bool, Fields]]:
    """Whether the topic has an error, and its answer."""
    by_id = call.version >= _BY_ID_VERSION
    name = broker.topic_name(requested.topic_id) if by_id else requested.name
    code = refusal or (ErrorCode.unknown_topic_id if name is None else ErrorCode.none)
    if (
        refusal is None
        and name is not None
        and not broker.authorization.allows(call, Operation.DESCRIBE, ResourceType.TOPIC, name)
    ):
        offsets, code = _NO_OFFSETS, ErrorCode.topic_authorization_failed
    return code != ErrorCode.none, {
        "name": getattr(requested, "name", ""),
        "topic_id": getattr(requested, "topic_id", None),
        "partitions": (
            yield from _partitions(broker, call, name or "", requested.partition_indexes, offsets, pace, code)
        ),
    }


def _partitions(
    broker: Broker, call: Call, topic: str, indexes: Iterable[int], offsets: Offsets, pace: Pace, code: ErrorCode
) -> Generator[None, None, list[Fields]]:
    answers = []
    for index in indexes:
        answers.append(_partition(broker, call, topic, index, offsets, code))
        if pace.is_over(1):
            yield
    return answers


def _partition(broker: Broker, call: Call, topic: str, index: int, offsets: Offsets, error_code: ErrorCode) -> Fields:
    committed, known = offsets.get(topic, index), broker.image.topics.get(topic)
    if committed is None or (known is not None and committed.is_of_another(known.topic_id)):
        committed = _NOTHING
    must_be_stable = error_code == ErrorCode.none and getattr(call.request, "require_stable", False)
    if must_be_stable and offsets.has_pending(topic, index):
        committed = _LIBRDKAFKA_STORED if is_librdkafka(call.connection.client_software) else _NOTHING
        error_code = ErrorCode.unstable_offset_commit
    return _fields(index, committed, error_code)


def _fields(index: int, committed: Committed, error_code: ErrorCode) -> Fields:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error_code,
    }
