"""Batches of idempotent producers that were refused only for now: nothing that was sent behind them overtakes them."""

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from yak.partitions.leader_appends import EARLY_PARTITIONS_MAX, EARLY_PRODUCERS_MAX
from yak.sim.request_fields import produce_fields
from yak.sim.wire import record_batch
from yak.storage.producer_state import DEFERRED_EXPIRY_MS, DEFERRED_MS

DEFERRED, OUT_OF_ORDER = ErrorCode.not_enough_replicas, ErrorCode.out_of_order_sequence_number


@pytest.fixture
def rig() -> ClusterRig:
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", min_insync_replicas="2")
    return rig


def send(rig: ClusterRig, sequence: int, node_id: int | None = None) -> int:
    batch = {"producer_id": 7, "epoch": 0, "sequence": sequence}
    return rig.produce("orders", [b"a", b"b"], node_id=node_id, **batch).error_code


def shrink(rig: ClusterRig) -> None:
    """Pause both followers, until the leader is alone in the ISR."""
    leader = rig.leader("orders")
    for node in rig.followers("orders"):
        rig.nodes[node - 1].pause()
    rig.run_until(lambda: rig.replica(leader, "orders").isr == (leader,))


def restore(rig: ClusterRig) -> None:
    for node in rig.followers("orders"):
        rig.nodes[node - 1].resume()
    rig.run_until(lambda: rig.is_in_sync("orders"))


def lead(rig: ClusterRig, node_id: int) -> None:
    rig.elect("orders", node_id)
    rig.run_until(lambda: rig.replica(node_id, "orders").is_leader and rig.is_in_sync("orders"))


@pytest.mark.parametrize("is_known", [True, False])
def test_no_batch_overtakes_one_that_was_refused_for_now(rig, is_known):
    """The successor hears the same, so that librdkafka begins no new epoch, under which all it sent last would count anew."""
    begun = 2 if is_known else 0
    if is_known:
        assert send(rig, 0) == 0
    shrink(rig)
    assert send(rig, begun) == DEFERRED
    restore(rig)
    assert send(rig, begun + 2) == DEFERRED
    rig.run_for(DEFERRED_MS)
    assert send(rig, begun + 2) == OUT_OF_ORDER
    if is_known:
        assert send(rig, 0) == 0  # sent again, and known
    assert send(rig, begun) == 0
    assert send(rig, begun + 2) == 0


def test_a_batch_that_was_on_its_way_for_longer_than_its_refused_successor_is_taken(rig):
    shrink(rig)
    assert send(rig, 2) == DEFERRED
    restore(rig)
    assert [send(rig, 0), send(rig, 2), send(rig, 4)] == [0, 0, 0]


def test_no_batch_overtakes_the_second_of_those_that_were_refused_where_the_first_is_stored_already(rig):
    """Its answer was lost, so it was sent again with what followed it; the third came when the refusals were over."""
    assert send(rig, 0) == 0
    shrink(rig)
    assert [send(rig, 0), send(rig, 2)] == [DEFERRED] * 2
    restore(rig)
    assert send(rig, 4) == DEFERRED
    assert [send(rig, 0), send(rig, 2), send(rig, 4)] == [0, 0, 0]
    assert send(rig, 8) == OUT_OF_ORDER


@pytest.mark.parametrize("is_known", [True, False])
def test_no_batch_overtakes_one_that_came_before_its_broker_knew_that_it_leads(rig, is_known):
    """The leader's place was given back while two batches were on their way; only the second came late enough."""
    begun = 2 if is_known else 0
    if is_known:
        assert send(rig, 0) == 0
    next_leader = rig.followers("orders")[0]
    assert send(rig, begun, next_leader) == ErrorCode.not_leader_or_follower
    lead(rig, next_leader)
    assert send(rig, begun + 2) == DEFERRED
    assert [send(rig, begun), send(rig, begun + 2)] == [0, 0]


def test_no_batch_overtakes_one_that_came_before_its_broker_knew_the_topic(rig):
    """The client heard of the new topic from a broker that was faster."""
    leader = rig.leader("orders")

    def send_new(sequence: int, **more: int) -> int:
        return rig.produce("new", [b"a", b"b"], producer_id=7, epoch=0, sequence=sequence, **more).error_code

    assert send_new(0, node_id=leader) == ErrorCode.unknown_topic_or_partition
    rig.create_topic("new")
    if rig.leader("new") != leader:
        rig.elect("new", leader)
        rig.run_until(lambda: rig.replica(leader, "new").is_leader and rig.is_in_sync("new"))
    assert [send_new(2), send_new(0), send_new(2)] == [DEFERRED, 0, 0]


def test_no_batch_overtakes_one_that_named_its_topic_by_id_before_the_broker_had_a_replica(rig):
    rig.create_topic("small", replication_factor=1)
    first = rig.leader("small")
    target = first % 3 + 1
    topic_id = rig.nodes[target - 1].broker.image.topics["small"].topic_id

    def send_by_id(sequence: int) -> int:
        records = record_batch([b"a", b"b"], rig.world.now_ms, producer_id=7, epoch=0, sequence=sequence)
        fields = produce_fields("small", records)
        fields["topic_data"] = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}]
        return rig.ask(target, 0, 13, **fields).responses[0].partition_responses[0].error_code

    assert send_by_id(0) == ErrorCode.not_leader_or_follower
    moved = [{"name": "small", "partitions": [{"partition_index": 0, "replicas": [target]}]}]
    rig.ask(first, 45, 0, topics=moved)
    rig.run_until(lambda: rig.info("small").replicas == (target,) and rig.replica(target, "small").is_leader)
    assert send_by_id(2) == DEFERRED
    assert [send_by_id(0), send_by_id(2)] == [0, 0]


def test_sequences_for_partitions_without_a_replica_are_remembered_within_a_bound(rig):
    appends = rig.nodes[0].broker.leader_appends
    for producer_id in range(EARLY_PRODUCERS_MAX + 1):
        rig.produce("none", [b"a"], node_id=1, producer_id=producer_id, epoch=0, sequence=0)
    assert len(appends._early["none", 0]) == EARLY_PRODUCERS_MAX
    for index in range(EARLY_PARTITIONS_MAX + 1):
        rig.produce("none", [b"a"], node_id=1, partition=index, producer_id=7, epoch=0, sequence=0)
    assert len(appends._early) == EARLY_PARTITIONS_MAX


def test_after_an_election_the_first_batch_of_an_unknown_producer_is_its_first_sequence(rig):
    """The former leader is paused, and has the first batch; the client sends the second to the new leader at once."""
    lead(rig, rig.followers("orders")[0])
    assert send(rig, 2) == DEFERRED
    assert [send(rig, 0), send(rig, 2)] == [0, 0]


def test_after_an_election_a_forgotten_producer_begins_a_new_epoch(rig):
    lead(rig, rig.followers("orders")[0])
    rig.run_for(3 * DEFERRED_MS)
    assert send(rig, 8) == DEFERRED
    rig.run_for(DEFERRED_MS)
    assert send(rig, 8) == OUT_OF_ORDER
    rig.run_for(DEFERRED_EXPIRY_MS)
    assert send(rig, 8) == 0, "no client waits any more for a batch of before the election"


def test_batch_that_another_leader_appended_delays_no_producer(rig):
    next_leader = rig.followers("orders")[0]
    assert send(rig, 0, next_leader) == ErrorCode.not_leader_or_follower
    assert [send(rig, 0), send(rig, 2)] == [0, 0]
    lead(rig, next_leader)
    assert send(rig, 2) == 0, "sent again, since its answer was lost"
    assert send(rig, 4) == 0


def test_deferred_sequence_expires_when_no_client_can_wait_for_it_any_more(rig):
    first = rig.leader("orders")
    for node in rig.followers("orders"):
        assert send(rig, 0, node) == ErrorCode.not_leader_or_follower
    rig.nodes[first - 1].kill()
    rig.run_until(lambda: rig.leader("orders") not in (first, -1))
    rig.run_for(DEFERRED_MS)
    assert send(rig, 2) == OUT_OF_ORDER
    rig.run_for(DEFERRED_EXPIRY_MS)
    assert send(rig, 2) == 0


def test_after_an_election_a_batch_waits_for_its_predecessor_that_the_leader_before_holds_yet(rig):
    """That one hears of the election later than the client, and answers then: librdkafka would begin a new epoch meanwhile."""
    assert send(rig, 0) == 0
    preferred = rig.leader("orders")
    lead(rig, rig.followers("orders")[0])
    assert send(rig, 4) == DEFERRED
    assert send(rig, 2) == 0
    assert send(rig, 4) == 0
    assert send(rig, 2) == 0  # once more
    lead(rig, preferred)
    assert send(rig, 8) == DEFERRED
    rig.run_for(DEFERRED_MS)
    assert send(rig, 8) == OUT_OF_ORDER


def test_gap_across_an_election_is_deferred_however_long_the_former_leader_was_paused(rig):
    """A chaos run: a leader was paused for 9 s with two batches; librdkafka sent the third to the next leader first."""
    assert send(rig, 0) == 0
    lead(rig, rig.followers("orders")[0])
    rig.run_for(3 * DEFERRED_MS)
    assert send(rig, 4) == DEFERRED
    rig.run_for(DEFERRED_MS // 2)
    assert send(rig, 6) == DEFERRED
    assert [send(rig, 2), send(rig, 4), send(rig, 6)] == [0, 0, 0]
    assert send(rig, 10) == OUT_OF_ORDER, "the gap is in this leader's epoch"


def test_log_names_the_producers_whose_sequence_was_deferred_or_refused(rig):
    """After a chaos run one must be able to see why a client began a new epoch."""
    assert send(rig, 0) == 0
    preferred = rig.leader("orders")
    lead(rig, rig.followers("orders")[0])
    lead(rig, preferred)
    assert send(rig, 4) == DEFERRED
    rig.run_for(DEFERRED_MS)
    assert send(rig, 4) == OUT_OF_ORDER
    told = [each for node in rig.nodes for each in node.notices if each.event.startswith("producer-")]
    told.sort(key=lambda each: each.event)
    assert [each.event for each in told] == ["producer-deferred", "producer-refused"]
    assert all(each.is_provoked for each in told)
    assert told[1].fields["partition"] == "orders-0"
    assert told[1].fields["sequence"] == 4
    assert told[1].fields["code"] == "out_of_order_sequence_number"
