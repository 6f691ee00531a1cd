"""The metadata quorum as JSON: of this broker's own node, as the leader describes it, and without a leader."""

import uuid

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker.test_quorum_brokers import describe_answer, leader_id, quorum_of
from yak.views.health import HealthView
from yak.views.quorum import described_quorum_json, own_quorum_json, undescribed_quorum_json


@pytest.fixture
def rig() -> ClusterRig:
    return ClusterRig(metadata="raft")


def broker_of(rig, node_id):
    return rig.nodes[node_id - 1].broker


def test_each_broker_knows_its_role_and_the_leader_knows_the_caught_up_voters(rig):
    leader = leader_id(rig)
    for node in (1, 2, 3):
        own = own_quorum_json(broker_of(rig, node))
        assert (own["leader_id"], own["voters"], own["epoch"]) == (leader, [1, 2, 3], quorum_of(rig, leader).epoch)
        assert (own["role"], own["caught_up"]) == (("leader", 3) if node == leader else ("follower", None))
    other = next(node for node in (1, 2, 3) if node != leader)
    rig.nodes[other - 1].kill()
    rig.run_for(2_500)
    assert own_quorum_json(broker_of(rig, leader))["caught_up"] == 2


def test_voter_that_came_back_with_another_directory_is_described_as_an_observer_only(rig):
    leader = leader_id(rig)
    lost = next(node for node in (1, 2, 3) if node != leader)
    quorum = quorum_of(rig, leader)
    assert quorum.leader is not None
    rig.nodes[lost - 1].kill()
    quorum.leader.followers[lost].directory_id = uuid.UUID(int=7)  # as if it fetched with another disk
    shown = described_quorum_json(describe_answer(rig, leader), broker_of(rig, leader).image.brokers)
    (voter,) = (each for each in shown["voters"] if each["node_id"] == lost)
    assert (voter["log_end_offset"], voter["last_fetch_time_ms"], voter["last_caught_up_time_ms"]) == (None, None, None)
    (observer,) = shown["observers"]
    assert (observer["node_id"], observer["log_end_offset"]) == (lost, quorum.log.end_offset)
    assert own_quorum_json(broker_of(rig, leader))["caught_up"] == 2


def test_health_names_the_quorum_instead_of_redis(rig):
    shown = HealthView(broker_of(rig, 1)).present().as_json()
    assert shown["redis"] is None
    assert (shown["quorum"]["state"], shown["quorum"]["voters"]) == ("connected", [1, 2, 3])


def test_health_of_a_cluster_with_redis_has_no_quorum():
    shown = HealthView(Rig().node.broker).present().as_json()
    assert (shown["redis"], shown["quorum"]) == ({"state": "connected", "lost_ms": None}, None)


def test_health_of_brokers_with_both_stores_names_the_one_that_has_the_metadata():
    broker = broker_of(ClusterRig(metadata="both"), 1)
    assert broker.quorum is not None
    shown = HealthView(broker).present().as_json()
    assert (shown["redis"], shown["quorum"]) == ({"state": "connected", "lost_ms": None}, None)


def test_leader_describes_all_voters(rig):
    leader = leader_id(rig)
    rig.run_for(600)
    shown = described_quorum_json(describe_answer(rig, 1), broker_of(rig, 1).image.brokers)
    end = quorum_of(rig, leader).log.end_offset
    assert (shown["leader_id"], shown["observers"]) == (leader, [])
    for each in shown["voters"]:
        assert (each["log_end_offset"], each["lag"]) == (end, 0)
        assert (each["last_fetch_time_ms"] is None) == (each["node_id"] == leader)
        assert each["last_caught_up_time_ms"] > 0
        assert each["directory_id"]
        assert each["port"]


def test_node_without_a_leader_knows_its_own_log_only(rig):
    shown = undescribed_quorum_json(quorum_of(rig, 2))
    ends = {each["node_id"]: each["log_end_offset"] for each in shown["voters"]}
    assert ends == {1: None, 2: quorum_of(rig, 2).log.end_offset, 3: None}
    assert {each["lag"] for each in shown["voters"]} == {None}
