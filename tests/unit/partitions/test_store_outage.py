"""An outage of the metadata store: the broker stays ready for clients, also while it joins again after it."""

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from yak.cluster.broker_lifecycle import LifecycleState


def reasons_by_state(rig: Rig | ClusterRig, outage, ms: int) -> dict[LifecycleState, str]:
    """Why the broker is not ready, in each state that it passes in this time."""
    lifecycle, seen = outage._metadata.lifecycle, {}
    end_ms = rig.world.now_ms + ms

    def is_over() -> bool:
        seen[lifecycle.state] = seen.get(lifecycle.state) or outage.unready_reason
        return rig.world.now_ms >= end_ms

    rig.world.run(is_over, events_max=100_000)
    return seen


def test_broker_is_ready_during_an_outage_and_in_each_state_after_it():
    rig = Rig()
    rig.create_topic("orders")
    outage = rig.node.broker.store_outage
    rig.node.store_line.block()
    during = reasons_by_state(rig, outage, 20_000)
    assert outage.store_state == "lost"
    rig.node.store_line.unblock()
    after = reasons_by_state(rig, outage, 5_000)
    assert outage.store_state == "connected"
    assert {
        LifecycleState.DISCONNECTED,
        LifecycleState.VERIFYING,
        LifecycleState.ACTIVE,
    } <= during.keys() | after.keys()
    assert set(during.values()) | set(after.values()) == {""}


def test_broker_that_was_fenced_in_an_outage_of_its_own_is_not_ready_until_it_is_unfenced():
    rig = ClusterRig()
    node = rig.nodes[1]
    outage = node.broker.store_outage
    node.store_line.block()
    rig.run_for(10_000)
    node.store_line.unblock()
    seen = reasons_by_state(rig, outage, 5_000)
    assert any(reason.startswith("this broker is ") for reason in seen.values())
    assert outage.unready_reason == ""


def test_broker_whose_store_lost_the_metadata_is_not_ready():
    rig = ClusterRig()
    rig.create_topic("orders", replication_factor=3)
    rig.nodes[2].kill()
    rig.cluster.store.flush_all()
    rig.run_for(10_000)
    outage = rig.nodes[0].broker.store_outage
    assert outage.store_state == "frozen"
    assert outage.unready_reason.startswith("this broker is FROZEN: ")


def test_starting_broker_is_not_ready_before_it_joined():
    outage = ClusterRig(size=1).nodes[0].broker.store_outage
    outage._metadata.lifecycle.is_ready = False
    outage._metadata.lifecycle.state = LifecycleState.CATCHING_UP
    assert outage.unready_reason.startswith("this broker is CATCHING_UP")


@pytest.mark.parametrize("followers", [0, 2])
def test_leader_with_silent_followers_is_isolated_after_a_session_timeout(followers):
    rig = ClusterRig()
    rig.create_topic("orders", replication_factor=1 + followers)
    leader = rig.leader("orders")
    node, partition = rig.nodes[leader - 1], rig.replica(leader, "orders")
    outage = node.broker.store_outage
    node.store_line.block()
    rig.run_until(lambda: outage.since_ms is not None)
    rig.run_for(10_000)
    assert not outage.is_isolated(partition)
    for other in {1, 2, 3} - {leader}:
        rig.nodes[other - 1].kill()
    rig.run_for(10_000)
    assert outage.is_isolated(partition) == bool(followers)
