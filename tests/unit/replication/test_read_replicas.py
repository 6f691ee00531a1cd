"""Consumers read from a replica in their rack (KIP-392)."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, fetch_fields
from tests.unit.broker.replicated import add_broker, set_partition
from yak.cluster.records import BrokerState
from yak.config.broker_config_table import RACK_AWARE_SELECTOR


@pytest.fixture
def rig() -> Rig:
    rig = Rig(settings={"replica.selector.class": RACK_AWARE_SELECTOR, "broker.rack": "r1"})
    rig.create_topic("orders")
    rig.produce("orders", [b"a", b"b"])
    return rig


def of_version(version, fields):
    """Without what came later."""
    if version < 12:
        del fields["topics"][0]["partitions"][0]["last_fetched_epoch"]
    if version < 11:
        del fields["rack_id"]
    return fields


def fetch(rig, *, rack="", version=12, offset=0, max_wait_ms=0, **session):
    fields = fetch_fields("orders", offset, max_wait_ms=max_wait_ms) | {"rack_id": rack} | session
    answer = rig.ask(1, version, **of_version(version, fields))
    return answer.responses[0].partitions[0] if answer.responses else None


def fetch_in_epoch(rig, offset, epoch):
    fields = fetch_fields("orders", offset)
    fields["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
    return rig.ask(1, 12, **fields).responses[0].partitions[0]


def replicate(rig, *nodes: tuple[int, str | None, int], isr=None):
    """Followers `(node id, rack, log end offset)`, all caught up at the same time."""
    for node_id, rack, _end in nodes:
        add_broker(rig, node_id, rack=rack)
    ids = (1, *(node_id for node_id, _rack, _end in nodes))
    partition = set_partition(rig, "orders", leader=1, replicas=ids, isr=isr or ids)
    for node_id, _rack, end in nodes:
        replica = partition.replica_states[node_id]
        replica.log_end_offset, replica.log_start_offset = end, 0
    return partition


def test_the_leader_names_the_follower_in_the_consumers_rack(rig):
    replicate(rig, (2, "r2", 2), (3, "r3", 2))
    for version in (11, 12):
        answer = fetch(rig, rack="r3", version=version)
        assert (answer.error_code, answer.preferred_read_replica, answer.records) == (0, 3, b"")
        assert answer.high_watermark == 2


@pytest.mark.parametrize("rack", ["", "r1", "elsewhere"])
def test_the_leader_serves_its_own_rack_and_those_without_a_replica_near(rig, rack):
    replicate(rig, (2, "r2", 2))
    answer = fetch(rig, rack=rack)
    assert answer.preferred_read_replica == -1
    assert answer.records


def test_a_consumer_that_cannot_say_its_rack_is_served(rig):
    replicate(rig, (2, "r2", 2))
    assert rig.ask(1, 10, **of_version(10, fetch_fields("orders", 0))).responses[0].partitions[0].records


def test_without_the_selector_the_rack_says_nothing():
    rig = Rig()
    rig.create_topic("orders")
    rig.produce("orders", [b"a", b"b"])
    replicate(rig, (2, "r2", 2))
    assert fetch(rig, rack="r2").records


def test_the_follower_that_is_furthest_is_named_then_the_one_caught_up_last(rig):
    partition = replicate(rig, (2, "r2", 1), (3, "r2", 2), (4, "r2", 2))
    assert fetch(rig, rack="r2").preferred_read_replica == 4
    partition.replica_states[3].last_caught_up_ms += 1
    assert fetch(rig, rack="r2").preferred_read_replica == 3


def test_a_follower_must_be_in_sync_alive_and_have_the_offset(rig):
    replicate(rig, (2, "r2", 2), isr=(1,))
    assert fetch(rig, rack="r2").preferred_read_replica == -1
    partition = replicate(rig, (2, "r2", 1))
    assert fetch(rig, rack="r2", offset=2).preferred_read_replica == -1
    partition.replica_states[2].log_start_offset = 1
    assert fetch(rig, rack="r2").preferred_read_replica == -1
    assert fetch(rig, rack="r2", offset=1).preferred_read_replica == 2
    add_broker(rig, 2, rack="r2", state=BrokerState.FENCED)
    assert fetch(rig, rack="r2", offset=1).preferred_read_replica == -1


def test_fetch_session_returns_the_preferred_read_replica_at_every_request(rig):
    partition = replicate(rig, (2, "r2", 0))
    fields = fetch_fields("orders", 2) | {"rack_id": "r2", "session_epoch": 0}
    session_id = rig.ask(1, 12, **fields).session_id
    assert session_id
    partition.replica_states[2].log_end_offset = 2
    for epoch in (1, 2):
        answer = fetch(rig, rack="r2", offset=2, session_id=session_id, session_epoch=epoch)
        assert answer.preferred_read_replica == 2


def test_a_follower_serves_what_is_committed_and_no_more(rig):
    partition = set_partition(rig, "orders", leader=2, replicas=(2, 1), isr=(2, 1))
    partition.high_watermark = 1
    at_end = fetch(rig, offset=1)
    assert (at_end.error_code, at_end.records, at_end.high_watermark) == (0, b"", 1)
    # between the watermark and the end there is nothing yet; beyond the end it asks the leader again
    assert fetch(rig, offset=2).error_code == 0
    assert fetch_in_epoch(rig, 3, partition.leader_epoch).error_code == ErrorCode.offset_out_of_range
    assert fetch(rig, offset=3).error_code == ErrorCode.not_leader_or_follower, "it may take us for the leader"
    partition.high_watermark = 2
    assert fetch(rig, offset=0).records
    assert fetch(rig, offset=0, version=11).records


def test_follower_refuses_clients_that_know_only_leaders_or_have_another_epoch(rig):
    set_partition(rig, "orders", leader=2, replicas=(2, 1), isr=(2, 1))
    answer = rig.ask(1, 10, **of_version(10, fetch_fields("orders", 0))).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.not_leader_or_follower
    for epoch, code in ((0, ErrorCode.fenced_leader_epoch), (2, ErrorCode.unknown_leader_epoch)):
        assert fetch_in_epoch(rig, 0, epoch).error_code == code


def test_leader_of_an_earlier_incarnation_serves_no_fetch_as_follower(rig):
    """It may have lost its disk: "out of range" would send a consumer that read further back to the beginning."""
    partition = set_partition(rig, "orders", leader=1, replicas=(1, 2), isr=(1, 2))
    info = rig.node.broker.context.image.topics["orders"].partitions[0]
    partition.become(1, info, now_ms=rig.world.now_ms, may_lead=False)
    assert not partition.is_leader
    for offset in (0, 2, 5):
        assert fetch_in_epoch(rig, offset, partition.leader_epoch).error_code == ErrorCode.not_leader_or_follower


def test_a_consumer_that_waits_at_a_follower_is_woken_when_the_watermark_moves(rig):
    partition = set_partition(rig, "orders", leader=2, replicas=(2, 1), isr=(2, 1))
    partition.high_watermark = 0
    pending = rig.begin(1, 12, **fetch_fields("orders", 0, max_wait_ms=5_000))
    rig.run_for(50)
    assert not pending.is_done
    assert partition.follow_high_watermark(2)
    rig.node.broker.advanced(partition)
    rig.ask(18, 0, client=rig.new_client())
    rig.run_for(50)
    assert pending.answer.responses[0].partitions[0].records


def test_leader_returns_offset_out_of_range_only_after_store_confirmed_leadership(rig):
    """Another may lead, with records that this one lacks; who asks may name the epoch that this one told it."""
    partition = replicate(rig, (2, "r2", 2))
    epoch = partition.leader_epoch
    assert fetch_in_epoch(rig, 3, epoch).error_code == ErrorCode.not_leader_or_follower
    rig.run_for(100)
    assert fetch_in_epoch(rig, 3, epoch).error_code == ErrorCode.offset_out_of_range
    assert fetch(rig, offset=3).error_code == ErrorCode.not_leader_or_follower, "for each it is asked anew"
    rig.node.store_line.block()
    for _ in range(20):
        rig.run_for(1_000)
        assert fetch_in_epoch(rig, 3, epoch).error_code == ErrorCode.not_leader_or_follower
    assert fetch(rig, offset=2).error_code == 0
    set_partition(rig, "orders", leader=1, replicas=(1,), isr=(1,))
    assert fetch(rig, offset=3).error_code == ErrorCode.offset_out_of_range, "nobody else has the partition"


def test_leader_that_may_be_fenced_sends_no_consumer_to_its_log_start(rig):
    """Another may lead, with records below our start; who names the epoch is told by the epoch."""
    partition = replicate(rig, (2, "r2", 2))
    assert partition.log.advance_log_start(1)
    assert fetch(rig, offset=0).error_code == ErrorCode.offset_out_of_range
    rig.node.store_line.block()
    rig.run_for(6_000)
    assert fetch(rig, offset=0).error_code == ErrorCode.not_leader_or_follower
    assert fetch_in_epoch(rig, 0, partition.leader_epoch).error_code == ErrorCode.offset_out_of_range


def test_store_answer_for_a_fetch_long_ago_does_not_count_for_another_fetch(rig):
    replicate(rig, (2, "r2", 2))
    assert fetch(rig, offset=3).error_code == ErrorCode.not_leader_or_follower
    rig.run_for(11_000)
    assert fetch(rig, offset=3).error_code == ErrorCode.not_leader_or_follower
    rig.run_for(100)
    assert fetch(rig, offset=3).error_code == ErrorCode.offset_out_of_range


def epoch_end(rig, asked, *, topic="orders"):
    current = rig.node.broker.partitions[topic, 0].leader_epoch
    wanted = {"partition": 0, "current_leader_epoch": current, "leader_epoch": asked}
    answer = rig.ask(23, 4, replica_id=-1, topics=[{"topic": topic, "partitions": [wanted]}])
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


def test_epoch_above_the_leaders_is_unknown_until_the_store_confirms_the_leader(rig):
    """Kafka answers -1 at once (LeaderEpochFileCache.endOffsetFor), which a consumer takes for lost records."""
    partition = replicate(rig, (2, "r2", 2))
    epoch = partition.leader_epoch
    unknown, nowhere = (ErrorCode.unknown_leader_epoch, -1, -1), (ErrorCode.none, -1, -1)
    assert epoch_end(rig, epoch) == (ErrorCode.none, epoch, 2)
    assert epoch_end(rig, epoch + 1) == unknown
    rig.run_for(100)
    assert epoch_end(rig, epoch + 1) == nowhere
    rig.node.store_line.block()
    for _ in range(3):
        rig.run_for(1_000)
        assert epoch_end(rig, epoch + 1) == unknown


def test_epoch_of_a_deleted_topic_has_no_end_offset_in_the_recreated_topic(rig):
    """A consumer of the deleted topic then resets its offset; on UNKNOWN_LEADER_EPOCH it would ask again without end."""
    rig.create_topic("again")
    assert epoch_end(rig, 3, topic="again") == (ErrorCode.none, -1, -1)
