"""Elections that a person asks for: who is elected, and how it is refused."""

import uuid
from dataclasses import replace

import pytest

from tests.unit.cluster.conftest import broker, partition_of
from yak.broker.apis.elect_leaders import plan_requested_election
from yak.cluster.image import Image, TopicInfo
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode, PeerError

ACTIVE, FENCED, STOPPING = BrokerState.ACTIVE, BrokerState.FENCED, BrokerState.STOPPING


def image_of(leader, *, replicas=(1, 2, 3), isr=None, elr=(), states=None, roles=None, lossy=()):
    states, roles = states or {}, roles or {}
    brokers = {
        n: broker(n, states.get(n, ACTIVE), role=roles.get(n, "leader"), lossy=99 if n in lossy else 0)
        for n in replicas
    }
    topic = TopicInfo("orders", uuid.UUID(int=1), (partition_of(replicas, isr, elr, leader),), {})
    return Image(brokers=brokers, topics={"orders": topic}, topic_names={topic.topic_id: "orders"})


def elect(image, *, unclean=False, topic="orders", partition=0):
    return plan_requested_election(image, topic, partition, unclean=unclean)


def refusal(image, **asked):
    with pytest.raises(PeerError) as error:
        elect(image, **asked)
    assert error.value.message
    return error.value.error_code


def test_a_preferred_election_gives_the_partition_back_to_its_first_replica():
    election = elect(image_of(2))
    assert (election.leader, election.partition_epoch, election.unclean) == (1, 7, False)
    assert election.arguments()["topic_id"] == str(uuid.UUID(int=1))


def test_the_first_replica_is_preferred_whatever_its_role():
    assert elect(image_of(2, roles={1: "follower"})).leader == 1
    assert refusal(image_of(1, roles={1: "follower"})) == ErrorCode.election_not_needed


@pytest.mark.parametrize("unclean", [False, True])
def test_a_leader_that_is_in_order_stays(unclean):
    assert refusal(image_of(1), unclean=unclean) == ErrorCode.election_not_needed
    if unclean:
        assert refusal(image_of(2), unclean=True) == ErrorCode.election_not_needed


@pytest.mark.parametrize("state", [FENCED, STOPPING])
def test_a_preferred_leader_that_is_not_there_is_refused(state):
    assert refusal(image_of(2, states={1: state}, isr=(2, 3))) == ErrorCode.preferred_leader_not_available
    assert refusal(image_of(2, states={1: state})) == ErrorCode.preferred_leader_not_available


def test_a_preferred_leader_out_of_sync_is_refused():
    assert refusal(image_of(2, isr=(2, 3))) == ErrorCode.preferred_leader_not_available


def test_preferred_election_without_a_leader_selects_any_replica_that_can_lead():
    assert elect(image_of(-1, isr=(2, 3))).leader == 2
    assert elect(image_of(-1, isr=(3,), elr=(2,), states={3: FENCED})).leader == 2
    only_dead = image_of(-1, isr=(3,), states={3: FENCED})
    assert refusal(only_dead) == ErrorCode.preferred_leader_not_available


def test_an_unclean_election_takes_a_clean_leader_where_there_is_one():
    election = elect(image_of(-1, isr=(3,)), unclean=True)
    assert (election.leader, election.unclean) == (3, False)


def test_unclean_election_selects_a_live_replica_when_no_in_sync_replica_is_alive():
    election = elect(image_of(-1, isr=(3,), states={3: FENCED}), unclean=True)
    assert (election.leader, election.unclean) == (1, True)
    election = elect(image_of(-1, isr=(3,), states={3: FENCED}, roles={1: "follower"}), unclean=True)
    assert election.leader == 2


def test_election_without_a_live_replica_is_refused():
    image = image_of(-1, states=dict.fromkeys((1, 2, 3), FENCED))
    assert refusal(image, unclean=True) == ErrorCode.eligible_leaders_not_available
    assert refusal(image) == ErrorCode.preferred_leader_not_available


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("orders", 1), ("orders", -1)])
def test_request_for_an_unknown_topic_or_partition_is_refused(topic, partition):
    assert refusal(image_of(1), topic=topic, partition=partition) == ErrorCode.unknown_topic_or_partition


def test_planning_changes_nothing():
    image = image_of(2)
    elect(image)
    assert image == replace(image_of(2))
