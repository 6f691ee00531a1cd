"""Who may lead when nobody is left that has everything: `unclean.leader.election.enable`, and where it is set."""

import uuid

import pytest

from tests.unit.cluster.conftest import broker, partition_of
from yak.cluster.controller import needed_elections
from yak.cluster.image import Image, TopicInfo
from yak.cluster.records import NO_LEADER, BrokerState

NAME = "unclean.leader.election.enable"


def image_of(topic_configs, all_brokers):
    """Node 1, alone in the ISR, is gone; node 2 lags."""
    brokers = {1: broker(1, BrokerState.FENCED), 2: broker(2)}
    topic = TopicInfo("orders", uuid.UUID(int=1), (partition_of((1, 2), isr=(1,)),), topic_configs)
    return Image(brokers=brokers, topics={"orders": topic}, default_broker_configs=all_brokers)


@pytest.mark.parametrize(
    ("topic_configs", "all_brokers", "own", "leader"),
    [
        ({}, {}, False, NO_LEADER),
        ({}, {}, True, 2),
        ({}, {NAME: "true"}, False, 2),
        ({}, {NAME: "false"}, True, NO_LEADER),
        ({NAME: "true"}, {NAME: "false"}, False, 2),
        ({NAME: "false"}, {NAME: "true"}, True, NO_LEADER),
    ],
)
def test_unclean_election_config_is_taken_from_topic_then_cluster_then_controller(
    topic_configs, all_brokers, own, leader
):
    (election,) = needed_elections(image_of(topic_configs, all_brokers), unclean=own)
    assert (election.leader, election.unclean) == (leader, leader != NO_LEADER)
    # the store compares the config, which another broker may have changed since this image
    config = topic_configs.get(NAME) or all_brokers.get(NAME) or ""
    assert election.arguments()["unclean_config"] == (None if leader == NO_LEADER else config)
