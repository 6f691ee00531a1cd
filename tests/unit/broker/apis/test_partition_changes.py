"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments, UnregisterBroker through their APIs."""

import datetime as dt

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker.replicated import heard, join, set_state

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def rig() -> Rig:
    """Broker 1, and two that only the store knows; topic `orders` of two partitions on all three."""
    rig = Rig()
    join(rig, 2)
    join(rig, 3)
    create(rig, "orders", [(1, 2, 3), (2, 1, 3)])
    return rig


def create(rig, name, assignments):
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": index, "broker_ids": replicas} for index, replicas in enumerate(assignments)
        ],
    }
    answer = rig.ask(19, 5, topics=[topic])
    assert answer.topics[0].error_code == 0, answer


def info(rig, partition=0, topic="orders"):
    return rig.node.broker.image.topics[topic].partitions[partition]


# ------------------------------------------------------------------------------------------------- ElectLeaders


def elect(rig, *wanted, kind=PREFERRED, version=2):
    topics = None if wanted == (None,) else [{"topic": name, "partitions": indexes} for name, indexes in wanted]
    return rig.ask(43, version, topic_partitions=topics, **({"election_type": kind} if version else {}))


def elected(answer):
    return {
        (topic.topic, row.partition_id): row.error_code
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_preferred_leader_is_elected_and_in_the_image_when_the_answer_comes(rig, version):
    set_state(rig, 2, "FENCED")
    rig.run_for(100)
    assert info(rig, 1).leader == 1
    set_state(rig, 2, "ACTIVE")
    refused = elected(elect(rig, ("orders", [0, 1]), version=version))
    assert refused == {
        ("orders", 0): ErrorCode.election_not_needed,
        ("orders", 1): ErrorCode.preferred_leader_not_available,
    }
    put_in_sync(rig, 1, (1, 2, 3))
    assert elected(elect(rig, ("orders", [1]), version=version)) == {("orders", 1): 0}
    assert info(rig, 1).leader == 2


def put_in_sync(rig, partition, isr):
    """As the leader of the partition does it."""
    brokers = rig.store.state.brokers
    change_in_store(rig, partition, isr=",".join(f"{node}@{brokers[node]['broker_epoch']}" for node in isr))
    heard(rig)


def change_in_store(rig, partition, **changes):
    """One partition epoch on, which the broker has not heard of yet."""
    topic_id = str(rig.node.broker.image.topics["orders"].topic_id)
    held = rig.store.state.partitions[topic_id, partition]
    held.update(changes, partition_epoch=held["partition_epoch"] + 1)
    change = {name: value for name, value in held.items() if name != "nonce"}
    change |= {"topic_id": topic_id, "partition": partition, "unclean": False}
    rig.store.state.append("PartitionChange", {"changes": [change]}, rig.world.now_ms)


def test_null_topics_are_all_topics_and_the_partitions_that_need_an_election(rig):
    answer = elect(rig, None)
    assert [(topic.topic, topic.partition_result) for topic in answer.replica_election_results] == [("orders", ())]
    set_state(rig, 2, "FENCED")
    rig.run_for(100)
    assert elected(elect(rig, None)) == {("orders", 1): ErrorCode.preferred_leader_not_available}


def test_election_of_unknown_partitions_is_refused_and_the_rest_continues(rig):
    codes = elected(elect(rig, ("orders", [0, 5]), ("nowhere", [0])))
    assert codes == {
        ("orders", 0): ErrorCode.election_not_needed,
        ("orders", 5): ErrorCode.unknown_topic_or_partition,
        ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
    }


def test_each_requested_topic_is_answered_also_without_partitions_or_twice(rig):
    answer = elect(rig, ("orders", [0, 0]), ("nowhere", []), ("orders", [1]))
    assert [
        (topic.topic, [row.partition_id for row in topic.partition_result]) for topic in answer.replica_election_results
    ] == [("orders", [0, 0]), ("nowhere", []), ("orders", [1])]


def test_an_unclean_election_is_only_for_partitions_without_a_leader(rig):
    create(rig, "logs", [(2, 3)])
    assert elected(elect(rig, ("logs", [0]), kind=UNCLEAN)) == {("logs", 0): ErrorCode.election_not_needed}
    set_state(rig, 3, "FENCED")
    set_state(rig, 2, "FENCED")
    rig.run_for(100)
    assert info(rig, topic="logs").leader == -1
    assert elected(elect(rig, ("logs", [0]), kind=UNCLEAN)) == {("logs", 0): ErrorCode.eligible_leaders_not_available}


def test_an_unknown_kind_of_election_is_an_invalid_request(rig):
    answer = elect(rig, ("orders", [0]), kind=7)
    assert answer.error_code == ErrorCode.invalid_request
    assert elected(answer) == {("orders", 0): ErrorCode.invalid_request}


@pytest.mark.parametrize("metadata", ["redis", "raft"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_any_broker_elects_leaders_by_forwarding_the_request_to_the_controller(metadata, version):
    """KafkaApis.handle forwards ElectLeaders; the controller plans with what another broker has just changed."""
    rig = ClusterRig(metadata=metadata, hands_back=False)
    controller = rig.alive().broker.image.controller_id
    rig.create_topic("orders")
    kind = {"election_type": PREFERRED} if version else {}
    for node in rig.nodes:
        others = [each for each in rig.info("orders").replicas if each != rig.leader("orders")]
        target = (others[0], rig.leader("orders"), others[1])
        moves = [{"partition_index": 0, "replicas": target}]
        changed = rig.ask(node.node_id, 45, 0, topics=[{"name": "orders", "partitions": moves}])
        assert moved(changed) == {0: 0}
        topics = [{"topic": "orders", "partitions": [0, 7]}]
        answer = rig.ask(node.node_id, 43, version, topic_partitions=topics, **kind)
        assert elected(answer) == {("orders", 0): 0, ("orders", 7): ErrorCode.unknown_topic_or_partition}
        assert rig.leader("orders") == others[0]
        answer = rig.ask(node.node_id, 43, version, topic_partitions=None, **kind)
        assert elected(answer) == {}
    assert controller == rig.alive().broker.image.controller_id


def test_election_is_repeated_by_the_client_when_the_controller_dies():
    rig = ClusterRig(hands_back=False)
    rig.create_topic("orders")
    controller = rig.alive().broker.image.controller_id
    asked = next(node.node_id for node in rig.nodes if node.node_id != controller)
    fields = {"topic_partitions": None, "election_type": PREFERRED}
    assert rig.ask(asked, 43, 2, **fields).error_code == 0
    pending = rig.begin(asked, 43, 2, **fields)
    rig.nodes[controller - 1].kill()
    rig.run_until(lambda: pending.is_done)
    assert pending.answer.error_code == ErrorCode.not_controller
    channel = rig.nodes[asked - 1].broker.controller_requests.requests.to(controller).channel
    assert not channel.is_proven
    assert (channel, "connect") not in rig.nodes[asked - 1].broker.timers, "it does not connect again by itself"


def test_controller_that_hangs_ends_a_forwarded_election_with_request_timed_out():
    rig = ClusterRig(hands_back=False)
    controller = rig.alive().broker.image.controller_id
    asked = next(node.node_id for node in rig.nodes if node.node_id != controller)
    rig.nodes[controller - 1].pause()
    topics = [{"topic": "orders", "partitions": [0]}]
    timeout = dt.timedelta(milliseconds=100)
    answer = rig.ask(asked, 43, 2, topic_partitions=topics, timeout=timeout, election_type=PREFERRED)
    assert (answer.error_code, elected(answer)) == (
        ErrorCode.request_timed_out,
        {("orders", 0): ErrorCode.request_timed_out},
    )


def test_forwarded_election_is_repeated_by_the_client_once_the_controller_that_hangs_is_fenced():
    rig = ClusterRig(hands_back=False)
    controller = rig.alive().broker.image.controller_id
    asked = rig.nodes[controller % len(rig.nodes)]
    rig.nodes[controller - 1].pause()
    rig.run_for(4_000)  # its session ends after 6 s; the client waits for less
    timeout = dt.timedelta(minutes=2)
    pending = rig.begin(asked.node_id, 43, 2, topic_partitions=None, timeout=timeout, election_type=PREFERRED)
    rig.run_until(lambda: asked.broker.image.controller_id != controller)
    rig.run_for(10)
    assert pending.is_done
    assert pending.answer.error_code == ErrorCode.not_controller


@pytest.mark.parametrize("version", [0, 1, 2])
def test_broker_that_knows_no_other_controller_elects_no_leader(rig, version):
    lifecycle = rig.node.broker.metadata.lifecycle
    lifecycle._session.controller_epoch = 0
    assert not lifecycle.is_controller
    answer = elect(rig, ("orders", [0]), version=version)
    if version:
        assert answer.error_code == ErrorCode.not_controller
    assert elected(answer) == {("orders", 0): ErrorCode.not_controller}
    assert elected(elect(rig, None, version=version)) == {}


def test_elections_and_reassignments_without_the_store_get_retriable_errors(rig):
    create(rig, "logs", [(2, 3)])
    set_state(rig, 2, "FENCED")
    rig.run_for(100)
    rig.node.store_line.block()
    codes = elected(elect(rig, ("orders", [0]))).values()
    assert set(codes) <= {ErrorCode.not_controller, ErrorCode.election_not_needed}
    assert moved(alter(rig, {0: (3, 1)})) == {0: ErrorCode.request_timed_out}


# ---------------------------------------------------------------------------------------------- reassignments


def alter(rig, targets, *, topic="orders", version=1, **more):
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in targets.items()]
    if version:
        more = {"allow_replication_factor_change": True} | more
    return rig.ask(45, version, topics=[{"name": topic, "partitions": partitions}], **more)


def moved(answer):
    assert answer.error_code == 0
    return {row.partition_index: row.error_code for topic in answer.responses for row in topic.partitions}


def under_way(rig, *wanted):
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in wanted] if wanted else None
    answer = rig.ask(46, 0, topics=topics)
    assert answer.error_code == 0
    return {
        (topic.name, row.partition_index): (row.replicas, row.adding_replicas, row.removing_replicas)
        for topic in answer.topics
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 1])
def test_a_move_begins_is_listed_and_can_be_taken_back(rig, version):
    join(rig, 4)
    assert under_way(rig) == {}
    assert moved(alter(rig, {0: (1, 2, 4)}, version=version)) == {0: 0}
    assert under_way(rig) == {("orders", 0): ((1, 2, 4, 3), (4,), (3,))}
    assert info(rig).replicas == (1, 2, 4, 3)
    assert under_way(rig, ("orders", [0, 1, 9]), ("nowhere", [0])) == {("orders", 0): ((1, 2, 4, 3), (4,), (3,))}
    assert under_way(rig, ("orders", [1])) == {}
    assert rig.ask(46, 0, topics=[]).topics == ()
    assert moved(alter(rig, {0: None}, version=version)) == {0: 0}
    assert under_way(rig) == {}
    assert set(info(rig).replicas) == {1, 2, 3}
    assert moved(alter(rig, {0: None}, version=version)) == {0: ErrorCode.no_reassignment_in_progress}


def test_a_move_to_replicas_that_are_in_sync_is_complete_at_once(rig):
    assert moved(alter(rig, {0: (3, 1), 1: (2, 1, 3)})) == {0: 0, 1: 0}
    assert under_way(rig) == {}
    assert (info(rig).replicas, info(rig).leader) == ((3, 1), 1)


def test_each_partition_has_its_own_answer(rig):
    answer = alter(rig, {0: (1, 9), 1: (), 7: (1,)})
    assert moved(answer) == {
        0: ErrorCode.invalid_replica_assignment,
        1: ErrorCode.invalid_replica_assignment,
        7: ErrorCode.unknown_topic_or_partition,
    }
    assert all(row.error_message for row in answer.responses[0].partitions)
    assert moved(alter(rig, {0: (1,)}, topic="nowhere")) == {0: ErrorCode.unknown_topic_or_partition}


def test_replication_factor_change_must_be_allowed_by_the_request(rig):
    answer = alter(rig, {0: (1, 2)}, allow_replication_factor_change=False)
    assert moved(answer) == {0: ErrorCode.invalid_replication_factor}
    assert answer.allow_replication_factor_change is False
    assert moved(alter(rig, {0: (2, 1, 3)}, allow_replication_factor_change=False)) == {0: 0}


def test_reassignment_of_a_partition_that_changed_meanwhile_is_planned_again(rig):
    join(rig, 4)
    moves = [{"partition_index": 0, "replicas": (1, 4)}]
    pending = rig.begin(45, 0, topics=[{"name": "orders", "partitions": moves}])
    change_in_store(rig, 0)  # before the call reaches it
    rig.run_for(200)
    assert pending.answer.responses[0].partitions[0].error_code == 0
    assert info(rig).adding_replicas == (4,)


def test_many_partitions_take_several_calls(rig):
    create(rig, "wide", [(1, 2)] * 450)
    codes = moved(alter(rig, dict.fromkeys(range(450), (2, 1)), topic="wide"))
    assert codes == dict.fromkeys(range(450), 0)
    assert all(partition.replicas == (2, 1) for partition in rig.node.broker.image.topics["wide"].partitions)
    codes = elected(elect(rig, ("wide", list(range(450)))))
    assert codes == {("wide", index): 0 for index in range(450)}
    assert all(partition.leader == 2 for partition in rig.node.broker.image.topics["wide"].partitions)


# -------------------------------------------------------------------------------------------- UnregisterBroker


def unregister(rig, node_id):
    answer = rig.ask(64, 0, broker_id=node_id)
    return answer.error_code, answer.error_message


def test_fenced_broker_can_be_unregistered_and_an_alive_broker_cannot(rig):
    alive = "The broker is alive, or was until a moment ago: stop it first."
    assert unregister(rig, 3) == (ErrorCode.invalid_request, alive)
    set_state(rig, 3, "FENCED")
    assert unregister(rig, 3) == (0, None)
    assert 3 not in rig.node.broker.image.brokers
    assert unregister(rig, 3) == (ErrorCode.broker_id_not_registered, "Broker 3 is not registered.")
