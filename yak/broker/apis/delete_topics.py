"""DeleteTopics (key 20, v1-6): remove topics with all their records. v4: flexible. v5: words. v6: by id.

Internal topics are deleted by no client (`yak.broker.internal_topics`): TOPIC_AUTHORIZATION_FAILED.

Rules for names and ids that are given twice, together or not at all: Kafka's ControllerApis.deleteTopics.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Fields, Later, Now, Outcome
from yak.broker.changes_waiting import ChangesWaiting
from yak.broker.internal_topics import is_kept_from
from yak.cluster.controller import plan_delete_topic
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.cluster.image import TopicInfo

KEY, NAME, VERSIONS = 20, "DeleteTopics", range(1, 7)
ABSENT: tuple[str, ...] = ()

_DISABLED_VERSION = 3
_BY_ID_VERSION = 6


def handle(broker: Broker, call: Call) -> Outcome:
    """Delete each topic."""
    request = call.request
    if call.version >= _BY_ID_VERSION:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, None) for name in request.topic_names]
    times = Counter(asked)
    found: dict[int, TopicInfo] = {}

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        return Now(
            {
                "responses": [
                    _answer(name, topic_id, found.get(index), results.get(index))
                    for index, (name, topic_id) in enumerate(asked)
                ]
            }
        )

    waiting = ChangesWaiting(call, max(1, int(request.timeout.total_seconds() * 1000)), build)
    for index, (name, topic_id) in enumerate(asked):
        try:
            if times[name, topic_id] > 1:
                raise PeerError(ErrorCode.invalid_request, "the topic is named more than once")
            topic = _find(broker, call, name, topic_id)
            if is_kept_from(broker, call, topic.name):
                raise PeerError(ErrorCode.topic_authorization_failed, f"{topic.name} is deleted by the brokers alone")
            found[index] = topic
        except PeerError as error:
            waiting.refuse(index, error)
    times_found = Counter(topic.topic_id for topic in found.values())
    for index, topic in found.items():
        if times_found[topic.topic_id] > 1:
            waiting.results[index] = PeerError(ErrorCode.invalid_request, "the topic is named by name and by id")
        else:
            waiting.change(broker, index, plan_delete_topic(broker.image, topic))
    return build(waiting.results) if waiting.is_done() else Later(waiting)


def _find(broker: Broker, call: Call, name: str | None, topic_id: Any) -> TopicInfo:
    if not broker.config.delete_topic_enable:
        code = ErrorCode.topic_deletion_disabled if call.version >= _DISABLED_VERSION else ErrorCode.invalid_request
        raise PeerError(code, "delete.topic.enable=false")
    if (name is None) == (topic_id is None):
        raise PeerError(ErrorCode.invalid_request, "a topic is named either by name or by id")
    if name is not None:
        topic = broker.image.topics.get(name)
        if topic is None:
            raise PeerError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
        return topic
    topic = broker.image.topic_by_id(topic_id)
    if topic is None:
        raise PeerError(ErrorCode.unknown_topic_id, "no topic has this id")
    return topic


def _answer(name: str | None, topic_id: Any, topic: TopicInfo | None, error: PeerError | None) -> Fields:
    return {
        "name": name if topic is None else topic.name,
        "topic_id": topic_id if topic is None else topic.topic_id,
        "error_code": ErrorCode.none if error is None else error.error_code,
        "error_message": None if error is None else error.message,
    }
