"""CreatePartitions (key 37, v0-3): add partitions to topics. v2: flexible. v3: THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Now, Outcome, error_fields
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges, after_followers, from_newest_image
from yak.broker.topic_creation import named_twice, too_many_partitions
from yak.errors import ErrorCode, PeerError
from yak.groups.offsets import OFFSETS_TOPIC
from yak.transactions.records import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 37, "CreatePartitions", range(4)
ABSENT = ("more partitions of __consumer_offsets and __transaction_state, which Kafka adds: INVALID_PARTITIONS",)
_STRICT_QUOTA_VERSION = 3


def handle(broker: Broker, call: Call) -> Outcome:
    """Add partitions to each topic. A request with a replicated topic first waits for expected followers.

    Another broker may have created a topic that this image lacks, and acknowledged it: the image must be the newest.
    """
    lacks = any(
        topic.name not in broker.image.topics and _may_alter(broker, call, topic.name) for topic in call.request.topics
    )
    return from_newest_image(broker, call, call.timeout_ms, _grow_with_followers, is_needed=lacks)


def _grow_with_followers(broker: Broker, call: Call) -> Outcome:
    if broker.expected_followers.is_awaited and any(
        _factor(broker, topic.name) > 1 and _may_alter(broker, call, topic.name) for topic in call.request.topics
    ):
        return after_followers(broker, call, call.timeout_ms, _grow)
    return _grow(broker, call)


def _may_alter(broker: Broker, call: Call, name: str) -> bool:
    return broker.authorization.may_see(call, Operation.ALTER, ResourceType.TOPIC, name)


def _factor(broker: Broker, name: str) -> int:
    topic = broker.image.topics.get(name)
    return 0 if topic is None else len(topic.partitions[0].replicas)


def _grow(broker: Broker, call: Call) -> Outcome:
    request = call.request
    requested = request.topics

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        names = dict.fromkeys(topic.name for topic in requested)
        return Now({"results": [{"name": name, **error_fields(results.get(name))} for name in names]})

    waiting = DelayedMetadataChanges(broker, call, call.timeout_ms, build)
    twice = named_twice(topic.name for topic in requested)
    refusal, full = _refusal(broker, call, requested, twice), broker.full_brokers()
    for topic in requested:
        try:
            if topic.name in twice:
                raise PeerError(ErrorCode.invalid_request, "Duplicate topic name.")
            broker.authorization.check(call, Operation.ALTER, ResourceType.TOPIC, topic.name)
            if refusal is not None:
                raise refusal
            if topic.name in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
                message = (
                    f"The number of partitions of {topic.name} decides where each group or transaction is stored and "
                    "cannot change."
                )
                raise PeerError(ErrorCode.invalid_partitions, message)
            assignments = None
            if topic.assignments is not None:
                assignments = [tuple(assignment.broker_ids) for assignment in topic.assignments]
            broker.expected_followers.check(_factor(broker, topic.name))
            requests = broker.topic_creation.plan_growth(topic.name, topic.count, assignments, full)
            added = topic.count - len(broker.image.topics[topic.name].partitions)
            broker.throttling.mutates(call, added, strict_since=_STRICT_QUOTA_VERSION)
        except PeerError as error:
            waiting.results[topic.name] = broker.expected_followers.explain(error)
            continue
        if not request.validate_only:
            broker.topic_creation.send(waiting, topic.name, requests)
    return waiting.outcome()


def _refusal(broker: Broker, call: Call, requested: Sequence[Any], twice: Collection[str]) -> PeerError | None:
    """The error for all topics but those named `twice`: too many partitions. Kafka bounds CreateTopics only; YAK bounds
    both alike.

    A topic that the client may not alter does not count: the error would disclose its number of partitions.
    """
    present = broker.image.topics
    return too_many_partitions(
        max(0, topic.count - len(present[topic.name].partitions))
        for topic in requested
        if topic.name in present and topic.name not in twice and _may_alter(broker, call, topic.name)
    )
