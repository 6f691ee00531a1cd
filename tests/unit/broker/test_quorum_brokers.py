"""Brokers that are their own metadata store: a quorum under the cluster rig's network."""

import datetime as dt
import uuid

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from yak.broker.controlled_shutdown import QUORUM_LOST_MS_MAX
from yak.protocol.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from yak.quorum.quorum import Quorum, Role
from yak.sim.request_fields import create_fields

VOTE, DESCRIBE_QUORUM, ENVELOPE, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, API_VERSIONS, FETCH = 52, 55, 58, 80, 81, 18, 1
METADATA = 3
ALL_TOPICS = {"topics": None, "allow_auto_topic_creation": False}


def quorum_of(rig: ClusterRig, node_id: int) -> Quorum:
    broker = rig.nodes[node_id - 1].broker
    assert broker is not None
    assert broker.quorum is not None
    return broker.quorum.quorum


def leader_id(rig: ClusterRig) -> int:
    return next(
        node.node_id
        for node in rig.nodes
        if node.broker is not None and not node.is_paused and quorum_of(rig, node.node_id).is_ready_leader
    )


def describe_answer(rig: ClusterRig, node_id: int):
    topics = [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
    return rig.ask(node_id, DESCRIBE_QUORUM, 2, topics=topics)


def describe(rig: ClusterRig, node_id: int):
    answer = describe_answer(rig, node_id)
    return answer.topics[0].partitions[0], answer.nodes


def addition(voter_id: int, directory_id: uuid.UUID, timeout_ms: int, host: str = "node9", port: int = 9092) -> dict:
    """The fields of AddRaftVoter."""
    listener = {"name": "PLAINTEXT", "host": host, "port": port}
    fields = {"voter_id": voter_id, "voter_directory_id": directory_id, "listeners": [listener]}
    return fields | {"cluster_id": None, "timeout": dt.timedelta(milliseconds=timeout_ms)}


@pytest.fixture
def rig() -> ClusterRig:
    return ClusterRig(metadata="raft")


def test_three_brokers_without_a_store_take_acks_all(rig):
    rig.create_topic("orders")
    assert rig.produce("orders", [b"a"]).error_code == ErrorCode.none
    assert rig.is_in_sync("orders")
    assert len({quorum_of(rig, node).machine.state.cluster["h"] for node in (1, 2, 3)}) == 1


def test_killed_leader_of_the_quorum_is_replaced_and_its_partitions_move(rig):
    rig.create_topic("orders", partitions=3)
    old = leader_id(rig)
    led = [number for number in range(3) if rig.leader("orders", number) == old]
    rig.nodes[old - 1].kill()
    rig.run_until(lambda: any(quorum_of(rig, n.node_id).is_ready_leader for n in rig.nodes if n.broker is not None))
    assert leader_id(rig) != old
    rig.run_until(lambda: all(rig.leader("orders", number) not in (old, -1) for number in led))
    rig.create_topic("later", replication_factor=2)
    for number in range(3):
        assert rig.produce("orders", [b"a"], partition=number).error_code == ErrorCode.none


def test_new_leader_of_the_quorum_gets_the_offsets_of_idle_partitions(rig):
    rig.create_topic("orders", partitions=3)
    for number in range(3):
        rig.produce("orders", [b"a"], partition=number)
    old = leader_id(rig)
    led = sum(rig.leader("orders", number) != old for number in range(3))
    rig.nodes[old - 1].pause()
    others = [node.node_id for node in rig.nodes if node.node_id != old]
    rig.run_until(lambda: any(quorum_of(rig, each).is_ready_leader for each in others))
    state = quorum_of(rig, leader_id(rig)).machine.state
    rig.run_until(lambda: list(state.high_watermarks.values()).count((0, 1)) >= led)


def test_restarted_voter_catches_up_and_has_the_same_state(rig):
    rig.create_topic("orders")
    rig.nodes[1].kill()
    rig.run_for(500)
    rig.create_topic("later", replication_factor=2)
    rig.nodes[1].start()
    rig.run_until(lambda: rig.nodes[1].is_ready and rig.is_in_sync("orders"))
    assert quorum_of(rig, 2).machine.state.topics == quorum_of(rig, leader_id(rig)).machine.state.topics


def test_voter_that_lost_power_keeps_its_vote_and_log(rig):
    rig.create_topic("orders")
    node = rig.nodes[leader_id(rig) - 1]
    epoch, end = quorum_of(rig, node.node_id).epoch, quorum_of(rig, node.node_id).high_watermark
    node.crash()
    node.start()
    quorum = quorum_of(rig, node.node_id)
    assert quorum.epoch >= epoch
    assert quorum.log.end_offset >= end


def test_without_a_majority_data_flow_and_changes_are_refused(rig):
    rig.create_topic("orders", partitions=3)
    alive = leader_id(rig)
    for node in rig.nodes:
        if node.node_id != alive:
            node.kill()
    led = next(number for number in range(3) if rig.leader("orders", number) == alive)
    rig.run_for(5_000)
    assert rig.produce("orders", [b"a"], partition=led, acks=1).error_code == ErrorCode.none
    fetched = rig.fetch("orders", 0, partition=led, node_id=alive)
    assert fetched.error_code == ErrorCode.none
    answer = rig.ask(alive, 19, 5, **create_fields("later", {}, 1))
    assert answer.topics[0].error_code == ErrorCode.request_timed_out
    assert quorum_of(rig, alive).role is not Role.LEADER


def test_stop_without_a_majority_ends_soon_and_waits_for_an_election(rig):
    rig.create_topic("orders")
    last = next(node for node in rig.nodes if node.node_id != leader_id(rig))
    for node in rig.nodes:
        if node is not last:
            node.kill()
    last.stop()
    rig.run_for(QUORUM_LOST_MS_MAX - 200)
    assert last.broker is not None
    rig.run_for(700)
    assert last.broker is None


def test_every_broker_describes_the_quorum_as_its_leader_does(rig):
    found = [describe(rig, node_id) for node_id in (1, 2, 3)]
    for partition, nodes in found:
        assert partition.leader_id == leader_id(rig)
        assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
        assert all(voter.replica_directory_id is not None for voter in partition.current_voters)
        assert all(voter.log_end_offset >= 0 for voter in partition.current_voters)
        leader = next(voter for voter in partition.current_voters if voter.replica_id == partition.leader_id)
        # Kafka's LeaderState.describeReplicaState gives the leader the present time twice
        assert leader.last_fetch_timestamp == leader.last_caught_up_timestamp > 0
        assert {node.node_id for node in nodes} == {1, 2, 3}


@pytest.mark.parametrize("asked", [1, 2, 3, 4])
def test_voters_are_removed_and_added_through_any_broker(asked):
    rig = ClusterRig(size=4, metadata="raft")
    partition, _nodes = describe(rig, 1)
    assert [observer.replica_id for observer in partition.observers] == [4]
    gone = next(voter for voter in partition.current_voters if voter.replica_id != leader_id(rig))
    fields = {"cluster_id": None, "voter_id": gone.replica_id, "voter_directory_id": gone.replica_directory_id}
    assert rig.ask(asked, REMOVE_RAFT_VOTER, 0, **fields).error_code == ErrorCode.none
    new = quorum_of(rig, 4).config
    fields = addition(4, new.directory_id, 10_000, new.host, new.port)
    assert rig.ask(asked, ADD_RAFT_VOTER, 0, **fields).error_code == ErrorCode.none
    partition, _nodes = describe(rig, asked)
    assert sorted(voter.replica_id for voter in partition.current_voters) == sorted({1, 2, 3, 4} - {gone.replica_id})
    assert rig.ask(asked, ADD_RAFT_VOTER, 0, **fields).error_code == ErrorCode.duplicate_voter


def test_voter_that_does_not_catch_up_is_not_added(rig):
    answer = rig.ask(1, ADD_RAFT_VOTER, 0, **addition(9, METADATA_TOPIC_ID, 200))
    assert answer.error_code == ErrorCode.request_timed_out
    assert "did not catch up" in answer.error_message
    assert quorum_of(rig, 1).voters.node_ids == (1, 2, 3)


@pytest.mark.parametrize("is_leader", [True, False])
def test_addition_with_a_long_timeout_is_answered_with_its_own_reason_by_any_broker(rig, is_leader, monkeypatch):
    monkeypatch.setattr("yak.sim.routing.ANSWER_WAIT_US", 300_000_000)
    asked = next(node for node in (1, 2, 3) if (node == leader_id(rig)) is is_leader)
    answer = rig.ask(asked, ADD_RAFT_VOTER, 0, **addition(9, METADATA_TOPIC_ID, 90_000))
    assert answer.error_code == ErrorCode.request_timed_out
    assert "did not catch up" in answer.error_message


def test_clients_cannot_vote_nor_call_the_store(rig):
    partition = {"partition_index": 0, "replica_epoch": 99, "replica_id": 9, "replica_directory_id": None}
    partition |= {"voter_directory_id": None, "last_offset_epoch": 99, "last_offset": 99, "pre_vote": False}
    topics = [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]
    epoch = quorum_of(rig, 1).epoch
    assert rig.ask(1, VOTE, 2, cluster_id=None, voter_id=1, topics=topics) is None
    assert rig.ask(1, ENVELOPE, 0, request_data=b"[]") is None
    assert quorum_of(rig, 1).epoch == epoch


def test_clients_find_no_topic_under_the_metadata_logs_id(rig):
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    topics = [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}]
    answer = rig.ask(1, FETCH, 13, max_wait=dt.timedelta(0), min_bytes=0, topics=topics, replica_id=-1)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.unknown_topic_id


def test_api_versions_lists_the_changes_of_voters_only_in_a_quorum(rig):
    listed = {row.api_key for row in rig.ask(1, API_VERSIONS, 0).api_keys}
    assert {DESCRIBE_QUORUM, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER} <= listed
    assert not {VOTE, ENVELOPE} & listed


def test_cluster_with_redis_refuses_to_change_voters():
    rig = Rig()
    answer = rig.ask(REMOVE_RAFT_VOTER, 0, cluster_id=None, voter_id=1, voter_directory_id=METADATA_TOPIC_ID)
    assert answer.error_code == ErrorCode.unsupported_version
    assert "--metadata raft" in answer.error_message


def test_broker_that_has_not_joined_answers_no_client(rig):
    for node in rig.nodes:
        node.kill()
    rig.nodes[0].start()
    rig.run_for(1_000)
    assert not rig.nodes[0].is_ready
    assert rig.ask(1, METADATA, 12, **ALL_TOPICS) is None
    rig.nodes[1].start()
    rig.run_until(lambda: rig.nodes[0].is_ready)
    assert rig.ask(1, METADATA, 12, **ALL_TOPICS) is not None


def test_observer_that_was_removed_is_not_described_for_ever():
    rig = ClusterRig(size=4, metadata="raft")
    leader = quorum_of(rig, leader_id(rig))
    assert [each.replica_id for each in describe(rig, leader.config.node_id)[0].observers] == [4]
    rig.nodes[3].kill()
    leader.leader.followers[4].last_fetch_ms -= 300_000
    assert describe(rig, leader.config.node_id)[0].observers == ()


def test_addition_that_waits_for_a_voter_delays_no_other_request_of_the_same_broker(rig):
    other = next(node for node in (1, 2, 3) if node != leader_id(rig))
    fields = addition(9, uuid.UUID(int=9), 2_000) | {"cluster_id": quorum_of(rig, 1).config.cluster_id}
    pending = rig.begin(other, ADD_RAFT_VOTER, 0, **fields)
    rig.run_for(200)
    topics = [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
    described = rig.begin(other, DESCRIBE_QUORUM, 2, topics=topics)
    rig.run_for(200)
    assert not pending.is_done
    assert described.is_done
    rig.run_until(lambda: pending.is_done)
    assert pending.answer.error_code == ErrorCode.request_timed_out
