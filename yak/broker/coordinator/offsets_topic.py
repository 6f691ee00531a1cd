"""`__consumer_offsets` itself: made when a group is first asked for, with Kafka's settings for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from yak.broker.lost_directories import full_brokers
from yak.cluster.controller import NewTopic, plan_create_topic
from yak.groups.placement import OFFSETS_TOPIC
from yak.seams.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_FACTOR: Final = "offsets.topic.replication.factor"


def plan_offsets_topic(broker: Broker) -> Sequence[StoreRequest]:
    """The requests that make it. Raises PeerError, while followers are expected that are not there yet too.

    It has as many replicas as `offsets.topic.replication.factor` asks for. Where that is not set, it has fewer where there are fewer
    brokers, so that one broker alone serves groups; but registered brokers that are down count, and so do those that
    `default.replication.factor` speaks of: a broker that is down for a moment, or starts a moment later, costs no replica for ever.
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
