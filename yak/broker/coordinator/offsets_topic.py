"""`__consumer_offsets` itself: made when a group is first asked for, with Kafka's settings for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yak.cluster.controller import NewTopic, plan_create_topic
from yak.groups.placement import OFFSETS_TOPIC
from yak.seams.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker


def plan_offsets_topic(broker: Broker) -> Sequence[StoreRequest]:
    """The requests that make it. Raises PeerError, while followers are expected that are not there yet too.

    It has as many replicas as `offsets.topic.replication.factor` asks for, or as there are brokers, dead ones too, where these
    are fewer: one broker alone serves groups, and a broker that is down for a moment costs no replica for ever.
    """
    config = broker.config
    broker.expected_followers.check(config.offsets_topic_replication_factor)
    return plan_create_topic(
        broker.image,
        NewTopic(
            OFFSETS_TOPIC,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=max(1, min(config.offsets_topic_replication_factor, len(broker.image.brokers))),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        ),
        broker.dice.uuid4(),
    ).requests
