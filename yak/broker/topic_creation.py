"""Topic creation, as shared by CreateTopics, auto-creation, and the first use of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from yak.cluster.topic_changes import NewTopic, TopicDefaults, TopicPlan, plan_create_topic
from yak.config.topic_configs import validate_topic_config
from yak.errors import ErrorCode, PeerError
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import NodeId
from yak.limits import PARTITIONS_PER_REQUEST_MAX
from yak.ports.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.delayed_metadata_changes import DelayedMetadataChanges

DEFAULT_LOG = "yak"
"""The default topic of clients that name none. It has a single partition, so that its records have one order."""
_OFFSETS_TOPIC_FACTOR: Final = "offsets.topic.replication.factor"


def replication_factor(broker: Broker, new: NewTopic) -> int:
    """The replication factor that a topic requests, or the default."""
    if new.assignments:
        return max(len(replicas) for replicas in new.assignments.values())
    return broker.config.default_replication_factor if new.replication_factor == -1 else new.replication_factor


def plan_topic(broker: Broker, new: NewTopic, full: Collection[NodeId]) -> TopicPlan:
    """Plan a requested topic, checked against the image, with no replica on the brokers in `full` (`full_brokers`).

    Raises PeerError.
    """
    config = broker.config
    broker.expected_followers.check(replication_factor(broker, new))
    try:
        plan = plan_create_topic(
            broker.image,
            new,
            broker.rng.uuid4(),
            defaults=TopicDefaults(config.num_partitions, config.default_replication_factor),
            validate_config=validate_topic_config,
            full=full,
        )
    except PeerError as error:
        raise broker.expected_followers.explain(error) from None
    broker.replica_bound.check(plan.requests)
    return plan


def refuse_many_partitions(new_partitions: Iterable[int]) -> None:
    """Raise PeerError (POLICY_VIOLATION) when one request creates too many partitions in total.

    Kafka's ReplicationControlManager.validateTotalNumberOfPartitions, with its message.
    """
    if sum(new_partitions) > PARTITIONS_PER_REQUEST_MAX:
        words = f"Excessively large number of partitions per request. At most {PARTITIONS_PER_REQUEST_MAX} are created at once."
        raise PeerError(ErrorCode.policy_violation, words)


def named_twice(names: Iterable[str]) -> frozenset[str]:
    """The names that occur more than once in a request."""
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def send_plan(
    broker: Broker, waiting: DelayedMetadataChanges[Any], name: str, requests: Sequence[StoreRequest]
) -> None:
    """Send the requests that create a topic or partitions, and count their replicas; a refusal becomes the result."""
    if waiting.change(name, requests):
        broker.replica_bound.count(requests)


def plan_auto_creation(broker: Broker, name: str) -> Sequence[StoreRequest]:
    """The requests that create a topic which a client only named. Raises PeerError."""
    if name == OFFSETS_TOPIC:
        return plan_offsets_topic(broker)
    new = NewTopic(name, num_partitions=1 if name == DEFAULT_LOG else -1)
    return plan_topic(broker, new, broker.full_brokers()).requests


def plan_offsets_topic(broker: Broker) -> Sequence[StoreRequest]:
    """The requests that create `__consumer_offsets`. Raises PeerError, also while expected followers are missing.

    The topic has `offsets.topic.replication.factor` replicas. If that is not set, a smaller cluster gets fewer, so that
    a single broker serves groups. The factor is then at least the number of registered brokers, down ones included, and
    `default.replication.factor`: a broker that is briefly down, or starts later, costs no replica for good.
    """
    config = broker.config
    replication_factor = config.offsets_topic_replication_factor
    if _OFFSETS_TOPIC_FACTOR not in config.static:
        replication_factor = min(replication_factor, max(len(broker.image.brokers), config.default_replication_factor))
    broker.expected_followers.check(config.offsets_topic_replication_factor)
    return plan_create_topic(
        broker.image,
        NewTopic(
            OFFSETS_TOPIC,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=max(1, replication_factor),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        ),
        broker.rng.uuid4(),
        full=broker.full_brokers(),
    ).requests
