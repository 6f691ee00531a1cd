"""A leader that hears neither the metadata store nor a follower for a session refuses writes, and says so to all who ask."""

import pytest

from tests.cluster_rig import ClusterRig
from tests.unit.broker.test_stale_coordinators import make_rig
from yak.errors import ErrorCode
from yak.groups.offsets import OFFSETS_TOPIC

METADATA, FIND_COORDINATOR = 3, 10
SESSION_MS = 6_000
BATCH = [b"a"]


@pytest.fixture
def rig() -> ClusterRig:
    return make_rig()


def isolate(rig: ClusterRig, node_id: int) -> None:
    """Cut a broker from the store and from all others, but not from clients, for longer than a session."""
    for other in {1, 2, 3} - {node_id}:
        rig.cluster.cut(f"n{node_id}", f"n{other}")
    rig.cluster.cut(f"n{node_id}", "store")
    rig.run_for(2 * SESSION_MS)


def named_leader(rig: ClusterRig, node_id: int, topic: str) -> tuple[ErrorCode, int]:
    """What Metadata of that broker says of partition 0."""
    asked = {"include_topic_authorized_operations": False}
    answer = rig.ask(node_id, METADATA, 9, topics=[{"name": topic}], allow_auto_topic_creation=False, **asked)
    partition = answer.topics[0].partitions[0]
    return partition.error_code, partition.leader_id


def test_metadata_of_an_isolated_leader_does_not_name_it(rig: ClusterRig) -> None:
    leader = rig.leader("orders")
    assert named_leader(rig, leader, "orders") == (ErrorCode.none, leader)
    isolate(rig, leader)
    refused = rig.produce("orders", BATCH, node_id=leader)
    assert refused.error_code == ErrorCode.not_leader_or_follower
    assert named_leader(rig, leader, "orders") == (ErrorCode.leader_not_available, -1)
    successor = rig.leader("orders")
    assert successor != leader
    assert named_leader(rig, successor, "orders") == (ErrorCode.none, successor)


def test_find_coordinator_of_an_isolated_coordinator_does_not_name_it(rig: ClusterRig) -> None:
    leader = rig.leader(OFFSETS_TOPIC)
    assert rig.ask(leader, FIND_COORDINATOR, 3, key="g").node_id == leader
    isolate(rig, leader)
    answer = rig.ask(leader, FIND_COORDINATOR, 3, key="g")
    assert (answer.error_code, answer.node_id) == (ErrorCode.coordinator_not_available, -1)


def test_metadata_of_a_leader_that_lost_the_store_alone_still_names_it(rig: ClusterRig) -> None:
    leader = rig.leader("orders")
    for node_id in (1, 2, 3):
        rig.cluster.cut(f"n{node_id}", "store")
    rig.run_for(2 * SESSION_MS)
    assert named_leader(rig, leader, "orders") == (ErrorCode.none, leader)
