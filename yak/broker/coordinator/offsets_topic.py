"""Creation of `__consumer_offsets`: when a group is first used, with Kafka's settings for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from yak.broker.lost_directories import full_brokers
from yak.cluster.topic_changes import NewTopic, plan_create_topic
from yak.groups.placement import OFFSETS_TOPIC
from yak.seams.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_FACTOR: Final = "offsets.topic.replication.factor"


def plan_offsets_topic(broker: Broker) -> Sequence[StoreRequest]:
    """The requests that create the topic. Raises PeerError, also while expected followers are missing.

    The topic has `offsets.topic.replication.factor` replicas. If that is not set, a smaller cluster gets fewer, so that
    a single broker serves groups. The factor is then at least the number of registered brokers, down ones included, and
    `default.replication.factor`: a broker that is briefly down, or starts later, costs no replica for good.
    """
    config = broker.config
    replication_factor = config.offsets_topic_replication_factor
    if _FACTOR not in config.static:
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
        broker.dice.uuid4(),
        full=full_brokers(broker),
    ).requests
