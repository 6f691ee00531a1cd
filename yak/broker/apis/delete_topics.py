"""DeleteTopics (key 20, v1-6): delete topics with all their records. v4: flexible. v5: error messages,
THROTTLING_QUOTA_EXCEEDED (KIP-599). v6: by id.

Internal topics give TOPIC_AUTHORIZATION_FAILED, except to a super user (`yak.broker.internal_topics`).

Names and ids given twice, together or not at all are handled as in Kafka's ControllerApis.deleteTopics. So is a topic by
id that the client may not delete: its answer has the name only where the client may describe the topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.call import Call, Fields, Later, Now, Outcome, Slices, error_fields
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges, from_newest_image
from yak.broker.internal_topics import may_not_delete
from yak.cluster.topic_changes import plan_delete_topic
from yak.errors import ErrorCode, PeerError
from yak.limits import SLICE_ELEMENTS
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.cluster.image import TopicInfo

KEY, NAME, VERSIONS = 20, "DeleteTopics", range(1, 7)

_DISABLED_VERSION = 3
_STRICT_QUOTA_VERSION = 5
_BY_ID_VERSION = 6
_ELEMENTS_OF_A_DELETION = 10
"""It takes as long as so many elements of a slice."""


def handle(broker: Broker, call: Call) -> Outcome:
    """Delete each topic. Another broker may have created one that this image lacks: the image must be the newest."""
    waits = any(_lacks(broker, call, *each) for each in _requested(call))
    return from_newest_image(broker, call, call.timeout_ms, _delete, is_needed=waits)


def _lacks(broker: Broker, call: Call, name: str | None, topic_id: Any) -> bool:
    if topic_id is not None:
        return broker.image.topic_by_id(topic_id) is None
    may_see = broker.authorization.may_see
    return (
        name is not None
        and name not in broker.image.topics
        and (
            may_see(call, Operation.DESCRIBE, ResourceType.TOPIC, name)
            or may_see(call, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)
        )
    )


def _delete(broker: Broker, call: Call) -> Outcome:
    return broker.large_requests.answer(call, _in_slices(broker, call))


def _in_slices(broker: Broker, call: Call) -> Slices:
    """Find the topics, then delete those that exist."""
    times = _requested(call)
    requested = list(times)
    found: dict[int, TopicInfo] = {}
    named: dict[int, TopicInfo] = {}

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        return broker.large_requests.answer(call, _described(requested, named | found, results))

    waiting = DelayedMetadataChanges(broker, call, call.timeout_ms, build)
    for index, (name, topic_id) in enumerate(requested):
        try:
            if times[name, topic_id] > 1:
                raise PeerError(ErrorCode.invalid_request, "the topic is named more than once")
            topic = _find_for_deletion(broker, call, name, topic_id)
            if may_not_delete(broker, call, topic.name):
                raise PeerError(ErrorCode.topic_authorization_failed, f"{topic.name} is internal and cannot be deleted")
            found[index] = topic
        except PeerError as error:
            waiting.refuse(index, error)
            if error.error_code == ErrorCode.topic_authorization_failed:
                named |= _named(broker, call, index, topic_id)
        if index % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
            yield
    times_found = Counter(topic.topic_id for topic in found.values())
    pace = Pace()
    for index, topic in found.items():
        if pace.is_over(_ELEMENTS_OF_A_DELETION):
            yield
        if times_found[topic.topic_id] > 1:
            waiting.results[index] = PeerError(
                ErrorCode.invalid_request, "the request has both a name and an id for the topic"
            )
        elif broker.image.topics.get(topic.name) is not topic and broker.image.topic_by_id(topic.topic_id) is None:
            gone = ErrorCode.unknown_topic_or_partition if requested[index][1] is None else ErrorCode.unknown_topic_id
            waiting.results[index] = PeerError(gone, f"topic {topic.name!r} does not exist")
        else:
            _delete_one(broker, call, waiting, index, topic)
    if not waiting.is_done():
        return Later(waiting)
    return (yield from _described(requested, named | found, waiting.results))


def _described(
    requested: Sequence[tuple[str | None, Any]],
    topics: Mapping[int, TopicInfo],
    results: Mapping[Any, PeerError | None],
) -> Slices:
    responses = []
    for index, (name, topic_id) in enumerate(requested):
        responses.append(_answer(name, topic_id, topics.get(index), results.get(index)))
        if index % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
            yield
    return Now({"responses": responses})


def _requested(call: Call) -> Counter[tuple[str | None, Any]]:
    """How often the request has each name or id."""
    if call.version >= _BY_ID_VERSION:
        return Counter((topic.name, topic.topic_id) for topic in call.request.topics)
    return Counter((name, None) for name in call.request.topic_names)


def _delete_one(broker: Broker, call: Call, waiting: DelayedMetadataChanges[Any], index: int, topic: TopicInfo) -> None:
    try:
        broker.throttling.mutates(call, len(topic.partitions), strict_since=_STRICT_QUOTA_VERSION)
    except PeerError as error:
        waiting.refuse(index, error)
    else:
        waiting.change(index, plan_delete_topic(broker.image, topic))


def _find_for_deletion(broker: Broker, call: Call, name: str | None, topic_id: Any) -> TopicInfo:
    """The topic, if it exists and the client may delete it: this one, or any (ControllerApis.deleteTopics)."""
    authorization = broker.authorization
    if authorization.may_see(call, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        return _find(broker, call, name, topic_id)
    if name is not None and topic_id is None:
        authorization.check(call, Operation.DESCRIBE, ResourceType.TOPIC, name)
    topic = _find(broker, call, name, topic_id)
    authorization.check(call, Operation.DELETE, ResourceType.TOPIC, topic.name)
    return topic


def _named(broker: Broker, call: Call, index: int, topic_id: Any) -> dict[int, TopicInfo]:
    """The topic of an id, if the client may describe it: else the answer must not disclose its name."""
    topic = None if topic_id is None else broker.image.topic_by_id(topic_id)
    if topic is None or not broker.authorization.may_see(call, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return {}
    return {index: topic}


def _find(broker: Broker, call: Call, name: str | None, topic_id: Any) -> TopicInfo:
    if not broker.config.delete_topic_enable:
        code = ErrorCode.topic_deletion_disabled if call.version >= _DISABLED_VERSION else ErrorCode.invalid_request
        raise PeerError(code, "delete.topic.enable=false")
    if (name is None) == (topic_id is None):
        raise PeerError(ErrorCode.invalid_request, "the request must have either a name or an id for the topic")
    if name is not None:
        topic = broker.image.topics.get(name)
        if topic is None:
            raise PeerError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
        return topic
    topic = broker.image.topic_by_id(topic_id)
    if topic is None:
        raise PeerError(ErrorCode.unknown_topic_id, "no topic with this id exists")
    return topic


def _answer(name: str | None, topic_id: Any, topic: TopicInfo | None, error: PeerError | None) -> Fields:
    return {
        "name": name if topic is None else topic.name,
        "topic_id": topic_id if topic is None else topic.topic_id,
        **error_fields(error),
    }
