"""CreateTopics (key 19, v2-7): create topics, or only validate the request.

v4: -1 means the broker's defaults. v5: flexible, configs in the answer. v6: THROTTLING_QUOTA_EXCEEDED (KIP-599). v7:
topic ids. A topic is answered as created when this broker leads its share of the partitions, so that a client may
produce at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis.metadata import check_creation, may_create
from yak.broker.call import Call, Fields, Now, Outcome, Slices, error_fields
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges, after_followers, from_newest_image
from yak.broker.topic_creation import named_twice, too_many_partitions
from yak.cluster.topic_changes import NewTopic, TopicPlan
from yak.config.describe import describe_topic
from yak.errors import ErrorCode, PeerError
from yak.limits import TOPICS_PER_CREATE_MAX
from yak.protocol.codec import encode_items
from yak.protocol.pace import Pace
from yak.protocol.response_encoder import EncodedItems
from yak.protocol.topic_names import METADATA_TOPIC

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 19, "CreateTopics", range(2, 8)
_CONFIGS_VERSION = 5
_STRICT_QUOTA_VERSION = 6
_ELEMENTS_OF_A_TOPIC = 10
"""A topic takes as long as so many elements of a slice: 100 us."""
_Alike: TypeAlias = dict[tuple[tuple[str, str], ...], EncodedItems]
"""Encoded config rows by a topic's overrides."""


def handle(broker: Broker, call: Call) -> Outcome:
    """Create the topics. A request with a replicated topic first waits for expected followers.

    A topic that exists may have been deleted by another broker, which has acknowledged it: the image must be the newest.
    """
    exists = any(
        topic.name in broker.image.topics and may_create(broker, call, topic.name) for topic in call.request.topics
    )
    return from_newest_image(broker, call, call.timeout_ms, _create_with_followers, is_needed=exists)


def _create_with_followers(broker: Broker, call: Call) -> Outcome:
    if broker.expected_followers.is_awaited and any(_is_replicated(broker, topic) for topic in call.request.topics):
        return after_followers(broker, call, call.timeout_ms, _create)
    return _create(broker, call)


def _is_replicated(broker: Broker, requested: Any) -> bool:
    try:
        return broker.topic_creation.replication_factor(_new_topic(requested)) > 1
    except PeerError:
        return False


def _create(broker: Broker, call: Call) -> Outcome:
    return broker.large_requests.answer(call, _create_in_slices(broker, call))


def _create_in_slices(broker: Broker, call: Call) -> Slices:
    """Check each topic on its own, and create the valid ones."""
    request = call.request
    requested = request.topics
    plans: dict[str, TopicPlan] = {}

    def build(results: dict[Any, PeerError | None]) -> Outcome:
        names = list(dict.fromkeys(topic.name for topic in requested))
        alike: _Alike = {}
        answers = [_answer(broker, call, name, plans.get(name), results.get(name), alike) for name in names]
        return Now({"topics": answers})

    waiting = DelayedMetadataChanges(broker, call, call.timeout_ms, build)
    twice = named_twice(topic.name for topic in requested)
    refusal, full = _refusal(broker, call, requested, twice), broker.full_brokers()
    pace = Pace()
    for topic in requested:
        if pace.is_over(_ELEMENTS_OF_A_TOPIC):
            yield
        try:
            if topic.name in twice:
                raise PeerError(ErrorCode.invalid_request, "Duplicate topic name.")
            check_creation(broker, call, topic.name)
            if refusal is not None:
                raise refusal
            plan = broker.topic_creation.plan(_new_topic(topic), full)
            broker.throttling.mutates(call, len(plan.assignments), strict_since=_STRICT_QUOTA_VERSION)
        except PeerError as error:
            waiting.refuse(topic.name, error)
            continue
        plans[topic.name] = plan
        if not request.validate_only:
            broker.topic_creation.send(waiting, topic.name, plan.requests)
    return waiting.outcome()


def _refusal(broker: Broker, call: Call, requested: Sequence[Any], twice: Collection[str]) -> PeerError | None:
    """The error for all topics of a request that can be created, if any: those named `twice` or denied cannot."""
    if len(requested) > TOPICS_PER_CREATE_MAX:
        message = f"{len(requested)} topics in one request; the maximum is {TOPICS_PER_CREATE_MAX}"
        return PeerError(ErrorCode.policy_violation, message)
    default = broker.config.num_partitions
    return too_many_partitions(
        len(topic.assignments) or (default if topic.num_partitions == -1 else max(0, topic.num_partitions))
        for topic in requested
        if topic.name not in twice and topic.name != METADATA_TOPIC and may_create(broker, call, topic.name)
    )


def _new_topic(requested: Any) -> NewTopic:
    # If a config is given twice, the last value counts, as in Kafka.
    configs: dict[str, str | None] = {config.name: config.value for config in requested.configs}
    assignments: dict[int, tuple[int, ...]] = {}
    assigned_twice: int | None = None
    for assignment in requested.assignments:
        if assignment.partition_index in assignments:
            assigned_twice = assignment.partition_index
        assignments[assignment.partition_index] = tuple(assignment.broker_ids)
    return NewTopic(
        requested.name, requested.num_partitions, requested.replication_factor, assignments, configs, assigned_twice
    )


def _answer(
    broker: Broker, call: Call, name: str, plan: TopicPlan | None, error: PeerError | None, alike: _Alike
) -> Fields:
    answer: Fields = {
        "name": name,
        **error_fields(error),
        "topic_id": None,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }
    if error is None and plan is not None:
        made = broker.image.topics.get(name)
        # another replica in the ISR becomes leader: the topic works
        offline = [
            info.partition
            for info in (() if made is None else made.partitions)
            if broker.is_offline(name, info.partition) and not set(info.isr) - {broker.node_id}
        ]
        if offline:
            answer["error_code"] = ErrorCode.kafka_storage_error
            answer["error_message"] = (
                f"the topic was created, but broker {broker.node_id} could not create {len(offline)} of its logs"
            )
        answer["topic_id"] = plan.topic_id if made is None else made.topic_id
        if not broker.authorization.may_see(call, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            return answer | {"topic_config_error_code": ErrorCode.topic_authorization_failed}
        answer["num_partitions"] = len(plan.assignments)
        answer["replication_factor"] = plan.replication_factor
        if call.version >= _CONFIGS_VERSION:
            answer["configs"] = _configs(broker, call, plan, alike)
    return answer


def _configs(broker: Broker, call: Call, plan: TopicPlan, alike: _Alike) -> EncodedItems:
    """A topic's encoded config rows, shared by the topics of the request with the same overrides."""
    key = tuple(sorted(plan.configs.items()))
    if key not in alike:
        rows = [
            {
                "name": row.name,
                "value": row.value,
                "read_only": row.read_only,
                "config_source": row.source,
                "is_sensitive": row.is_sensitive,
            }
            for row in describe_topic(plan.configs, *broker.config_levels)
        ]
        alike[key] = encode_items(KEY, call.version, ("topics", "configs"), rows)
    return alike[key]
