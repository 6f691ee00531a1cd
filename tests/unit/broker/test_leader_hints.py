"""An answer that refuses says who leads instead (KIP-951)."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, fetch_fields, produce_fields
from tests.unit.broker.replicated import add_broker, set_partition
from yak.cluster.records import BrokerState
from yak.sim.wire import record_batch

NOT_LEADER, FENCED, UNKNOWN = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_topic_or_partition,
)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    rig.produce("orders", [b"a"])
    add_broker(rig, 2, rack="r2")
    return rig


def produce(rig, version):
    fields = produce_fields("orders", record_batch([b"x"], rig.world.now_ms))
    if version >= 13:
        topic = fields["topic_data"][0]
        topic["topic_id"] = rig.node.broker.image.topics[topic.pop("name")].topic_id
    return rig.ask(0, version, **fields)


def fetch(rig, version, *, epoch=-1):
    fields = fetch_fields("orders", 0)
    topic = fields["topics"][0]
    topic["partitions"][0]["current_leader_epoch"] = epoch
    if version >= 13:
        topic["topic_id"] = rig.node.broker.image.topics[topic.pop("topic")].topic_id
    return rig.ask(1, version, **fields)


def endpoints(answer):
    return [(node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints]


@pytest.mark.parametrize("version", [10, 12, 13])
def test_produce_names_the_leader_and_where_it_listens(rig, version):
    set_partition(rig, "orders", leader=2, replicas=(2, 1), isr=(2, 1))
    answer = produce(rig, version)
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == NOT_LEADER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 1)
    assert endpoints(answer) == [(2, "host-2", 9002, "r2")]


def test_produce_that_waited_when_the_leader_changed_returns_the_new_leader(rig):
    set_partition(rig, "orders", leader=1, replicas=(1, 2), isr=(1, 2))
    pending = rig.begin(0, 12, **produce_fields("orders", record_batch([b"x"], rig.world.now_ms)))
    rig.run_for(10)
    assert not pending.is_done
    set_partition(rig, "orders", leader=2, replicas=(1, 2), isr=(1, 2))
    # the effects leave with the next step
    rig.ask(18, 0, client=rig.new_client())
    rig.run_for(10)
    partition = pending.answer.responses[0].partition_responses[0]
    assert (partition.error_code, partition.current_leader.leader_id) == (NOT_LEADER, 2)
    assert endpoints(pending.answer) == [(2, "host-2", 9002, "r2")]


@pytest.mark.parametrize("version", [12, 15, 16, 18])
def test_fetch_names_the_leader_and_from_version_16_where_it_listens(rig, version):
    add_broker(rig, 3)
    set_partition(rig, "orders", leader=3, replicas=(3, 2), isr=(3, 2))
    rig.node.broker.partitions.clear()
    answer = fetch(rig, version)
    partition = (answer.responses if hasattr(answer, "responses") else answer.topics)[0].partitions[0]
    assert partition.error_code == NOT_LEADER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (3, 1)
    if version >= 16:
        assert endpoints(answer) == [(3, "host-3", 9003, None)]


def test_fetch_with_an_old_leader_epoch_returns_the_new_one(rig):
    set_partition(rig, "orders", leader=1, replicas=(1,), isr=(1,))
    answer = fetch(rig, 17, epoch=0)
    partition = answer.responses[0].partitions[0]
    assert partition.error_code == FENCED
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 1)
    assert [node.node_id for node in answer.node_endpoints] == [1]


def test_partition_without_leader_has_no_hint_and_a_fenced_leader_no_endpoint(rig):
    """A hint of -1 beside one of another partition lets librdkafka read outside of its memory (its issue 5280)."""
    set_partition(rig, "orders", leader=-1, replicas=(1, 2), isr=(2,))
    answer = produce(rig, 11)
    leader = answer.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (-1, -1)  # the defaults: nothing is sent
    assert not answer.node_endpoints
    add_broker(rig, 3, state=BrokerState.FENCED)
    set_partition(rig, "orders", leader=3, replicas=(1, 3), isr=(3,))
    answer = produce(rig, 11)
    assert answer.responses[0].partition_responses[0].current_leader.leader_id == 3
    assert not answer.node_endpoints


def test_broker_that_shuts_down_names_no_leader(rig):
    rig.node.broker.leadership.stop()
    answer = produce(rig, 11)
    partition = answer.responses[0].partition_responses[0]
    assert (partition.error_code, partition.current_leader.leader_epoch) == (NOT_LEADER, -1)
    assert not answer.node_endpoints


def test_partition_that_does_not_exist_has_no_leader_hint(rig):
    answer = rig.ask(0, 11, **produce_fields("orders", record_batch([b"x"], rig.world.now_ms), partition=7))
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == UNKNOWN
    assert partition.current_leader.leader_id == -1
