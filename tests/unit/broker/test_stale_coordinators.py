"""A coordinator that stood still does not tell of commits as they were."""

import datetime as dt
from typing import Any

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Client, Pending
from yak.cluster.broker_lifecycle import LifecycleState
from yak.errors import ErrorCode
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import TopicPartition
from yak.partitions.transaction_markers import TxnMarker
from yak.ports.metadata_store import StoreOutcome
from yak.sim.node import SimNode
from yak.transactions.records import TRANSACTION_TOPIC
from yak.transactions.transaction import COMPLETE_COMMIT, PREPARE_COMMIT

API_VERSIONS, DELETE_GROUPS, FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP = 18, 42, 10, 8, 9, 11
GROUP = "g"


@pytest.fixture
def rig() -> ClusterRig:
    return make_rig()


def make_rig(**settings: str) -> ClusterRig:
    """Three brokers with a topic `orders`, and one partition of committed offsets on all of them."""
    settings = {name.replace("_", "."): value for name, value in settings.items()}
    settings |= {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
    rig = ClusterRig(settings=settings)
    rig.create_topic("orders")
    rig.ask(1, FIND_COORDINATOR, 3, key=GROUP)
    rig.run_until(lambda: all(OFFSETS_TOPIC in node.broker.image.topics for node in rig.nodes))
    rig.run_for(500)
    return rig


def begin_commit(rig: ClusterRig, offset: int, group: str = GROUP):
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [partition]}]
    fields = {"group_id": group, "member_id": "", "topics": topics}
    return rig.begin(rig.leader(OFFSETS_TOPIC), OFFSET_COMMIT, 2, **fields)


def commit(rig: ClusterRig, offset: int, group: str = GROUP) -> None:
    pending = begin_commit(rig, offset, group)
    rig.run_until(lambda: pending.is_done)
    assert pending.answer.topics[0].partitions[0].error_code == ErrorCode.none


def begin_fetch(rig: ClusterRig, node_id: int):
    return rig.begin(node_id, OFFSET_FETCH, 5, group_id=GROUP, topics=[{"name": "orders", "partition_indexes": [0]}])


def told(rig: ClusterRig, node_id: int):
    """What an OffsetFetch hears there."""
    pending = begin_fetch(rig, node_id)
    rig.run_until(lambda: pending.is_done)
    return pending.answer


def offset_told(rig: ClusterRig, node_id: int) -> int:
    return told(rig, node_id).topics[0].partitions[0].committed_offset


def pause_coordinator(rig: ClusterRig) -> int:
    """Pause it until another one has committed, and return its node id."""
    old = rig.leader(OFFSETS_TOPIC)
    rig.nodes[old - 1].pause()
    rig.run_until(lambda: rig.leader(OFFSETS_TOPIC) not in (old, -1))
    rig.run_for(500)
    commit(rig, 9)
    return old


def pause_followers(rig: ClusterRig) -> list[SimNode]:
    followers = [rig.nodes[node_id - 1] for node_id in rig.followers(OFFSETS_TOPIC)]
    for node in followers:
        node.pause()
    return followers


def resumed(rig: ClusterRig, nodes: list[SimNode], pending: Pending) -> Any:
    """The answer to a request that waits for these nodes."""
    assert not pending.is_done
    for node in nodes:
        node.resume()
    rig.run_until(lambda: pending.is_done)
    return pending.answer


def test_client_of_a_paused_coordinator_retries_and_reads_the_next_ones_commit(rig: ClusterRig) -> None:
    commit(rig, 5)
    assert offset_told(rig, rig.leader(OFFSETS_TOPIC)) == 5
    old = pause_coordinator(rig)
    answer = resumed(rig, [rig.nodes[old - 1]], begin_fetch(rig, old))
    assert answer.error_code in (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
    assert offset_told(rig, rig.leader(OFFSETS_TOPIC)) == 9


def test_committed_offsets_are_returned_while_the_store_is_unavailable(rig: ClusterRig) -> None:
    """No broker can take the coordinator's place then."""
    commit(rig, 5)
    for node in rig.nodes:
        node.store_line.block()
    rig.run_for(20_000)
    assert offset_told(rig, rig.leader(OFFSETS_TOPIC)) == 5


def refuse_changes(rig: ClusterRig, message: str = "OOM command not allowed") -> None:
    """Let the store refuse whatever writes, as a Redis does that has no memory or no room on its disk."""
    call = rig.cluster.store.call
    refused = StoreOutcome("STORE_ERROR", value={"message": message})
    rig.cluster.store.call = lambda request, now_ms: call(request, now_ms) if request.script == "verify" else refused


def test_committed_offsets_are_returned_while_the_store_refuses_every_change(rig: ClusterRig) -> None:
    """No broker can take the coordinator's place then either."""
    commit(rig, 5)
    call = rig.cluster.store.call
    refuse_changes(rig)
    rig.run_for(20_000)
    assert offset_told(rig, rig.leader(OFFSETS_TOPIC)) == 5
    rig.cluster.store.call = call
    rig.run_for(20_000)
    assert offset_told(rig, rig.leader(OFFSETS_TOPIC)) == 5


def test_no_committed_offsets_are_returned_while_the_store_is_a_replica(rig: ClusterRig) -> None:
    """Its master may have elected the next coordinator, which the replica need not know."""
    commit(rig, 5)
    refuse_changes(rig, "READONLY You can't write against a read only replica.")
    rig.run_for(20_000)
    assert told(rig, rig.leader(OFFSETS_TOPIC)).error_code == ErrorCode.coordinator_load_in_progress


def test_paused_coordinator_returns_no_offsets_of_before_when_the_store_refuses_changes(rig: ClusterRig) -> None:
    """The store elected the next coordinator before it was full."""
    commit(rig, 5)
    old = pause_coordinator(rig)
    refuse_changes(rig)
    answer = resumed(rig, [rig.nodes[old - 1]], begin_fetch(rig, old))
    assert answer.error_code in (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
    rig.run_for(20_000)
    assert told(rig, old).error_code == ErrorCode.not_coordinator


def test_committed_offsets_are_returned_while_the_store_has_lost_the_metadata(rig: ClusterRig) -> None:
    """It waits for a broker that is gone, and whom it does not know nobody succeeds."""
    commit(rig, 5)
    leader = rig.leader(OFFSETS_TOPIC)
    rig.nodes[leader % 3].kill()
    rig.run_until(lambda: leader % 3 + 1 not in rig.info(OFFSETS_TOPIC).isr)
    rig.cluster.store.flush_all()
    rig.run_for(20_000)
    broker = rig.nodes[leader - 1].broker
    assert broker.metadata.lifecycle.state is LifecycleState.FROZEN
    assert broker.store_outage.since_ms is None
    assert offset_told(rig, leader) == 5


def test_coordinator_that_was_just_unfenced_and_leads_returns_offsets_at_once(rig: ClusterRig) -> None:
    commit(rig, 5)
    for node in rig.nodes:
        node.kill()
    for node in rig.nodes:
        node.start()
    rig.run_until(lambda: rig.leader(OFFSETS_TOPIC) != -1 and rig.is_in_sync(OFFSETS_TOPIC))
    broker = rig.nodes[rig.leader(OFFSETS_TOPIC) - 1].broker
    rig.run_until(
        lambda: bool(broker.group_coordinator.runtime.coordinated) and not broker.group_coordinator.runtime.is_loading()
    )
    assert offset_told(rig, rig.leader(OFFSETS_TOPIC)) == 5


def test_offset_is_not_returned_before_its_record_is_committed(rig: ClusterRig) -> None:
    """Also if the request waited for an earlier commit: a failover could still take the later one back."""
    commit(rig, 0)
    leader = rig.leader(OFFSETS_TOPIC)
    replica = rig.replica(leader, OFFSETS_TOPIC)
    first = replica.log_end_offset - 1  # the commit of offset N has the record first + N
    fetches, late = [], 0
    for number in range(1, 60):
        begin_commit(rig, number)
        fetches.append(begin_fetch(rig, leader))
        rig.run_for(1)
    while fetches:
        rig.run_until(lambda: fetches[0].is_done)
        late += replica.high_watermark < replica.log_end_offset
        told_offset = fetches.pop(0).answer.topics[0].partitions[0].committed_offset
        assert first + told_offset < replica.high_watermark
    assert late


def test_offset_fetch_that_waits_while_the_group_is_deleted_is_retried(rig: ClusterRig) -> None:
    """A failover could still take the deletion back, and who is told of no offset begins where it likes."""
    commit(rig, 5)
    leader = rig.leader(OFFSETS_TOPIC)
    followers = pause_followers(rig)
    begin_commit(rig, 7)
    rig.run_for(50)
    pending = begin_fetch(rig, leader)
    rig.run_for(50)
    rig.begin(leader, DELETE_GROUPS, 1, groups_names=[GROUP])
    rig.run_for(50)
    assert resumed(rig, followers, pending).error_code == ErrorCode.not_coordinator
    assert offset_told(rig, leader) == -1


def test_offsets_of_a_group_that_starts_again_are_returned_after_committed_deletion(rig: ClusterRig) -> None:
    """A failover could still take the deletion back: -1 would send the new member to `auto.offset.reset`."""
    commit(rig, 5)
    leader = rig.leader(OFFSETS_TOPIC)
    followers = pause_followers(rig)
    rig.begin(leader, DELETE_GROUPS, 1, groups_names=[GROUP])
    rig.run_for(50)
    timeouts = dict.fromkeys(("session_timeout", "rebalance_timeout"), dt.timedelta(seconds=10))
    protocols = [{"name": "range", "metadata": b""}]
    fields = {"group_id": GROUP, "member_id": "", "protocol_type": "consumer", "protocols": protocols}
    joined = rig.begin(leader, JOIN_GROUP, 4, **fields, **timeouts)
    rig.run_for(50)
    assert joined.answer.error_code == ErrorCode.member_id_required
    pending = begin_fetch(rig, leader)
    rig.run_for(50)
    assert resumed(rig, followers, pending).topics[0].partitions[0].committed_offset == -1


@pytest.mark.parametrize(
    ("name", "topics", "listed"),
    [
        ("librdkafka", [{"name": "orders", "partition_indexes": [0, 3]}], [("orders", 0), ("orders", 3)]),
        ("librdkafka", None, []),
        ("apache-kafka-java", [{"name": "orders", "partition_indexes": [0, 3]}], []),
    ],
)
@pytest.mark.parametrize("version", [7, 9])
@pytest.mark.parametrize("error", [ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress])
def test_offset_fetch_to_be_repeated_has_unstable_partitions_for_librdkafka_only(
    rig: ClusterRig,
    name: str,
    topics: list[dict[str, object]] | None,
    listed: list[tuple[str, int]],
    version: int,
    error: ErrorCode,
) -> None:
    """librdkafka repeats the request for the sake of these partitions, and queries an offset of -1000 again."""
    other = rig.leader(OFFSETS_TOPIC)
    if error == ErrorCode.not_coordinator:
        other = other % 3 + 1
    else:
        rig.nodes[other - 1].broker.store_outage.may_have_successor = lambda _partition: True
    rig.ask(other, OFFSET_FETCH, 1, group_id=GROUP, topics=[])
    rig._clients[other, API_VERSIONS] = rig._clients[other, OFFSET_FETCH]
    rig.ask(other, API_VERSIONS, 3, client_software_name=name, client_software_version="2.16.0")
    if version < 8:
        answer = rig.ask(other, OFFSET_FETCH, version, group_id=GROUP, topics=topics)
    else:
        asked = {"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": topics}
        (answer,) = rig.ask(other, OFFSET_FETCH, version, groups=[asked]).groups
    assert answer.error_code == error
    assert [
        (topic.name, each.partition_index, each.committed_offset, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ] == [(*each, -1000, ErrorCode.unstable_offset_commit) for each in listed]


def test_group_whose_commit_waits_does_not_keep_the_offsets_of_other_groups_back() -> None:
    """One partition of `__consumer_offsets` without its ISR refused all groups of a request, again and again."""
    rig = make_rig(offsets_commit_timeout_ms="1000")
    commit(rig, 5, group="other")
    commit(rig, 5)
    leader = rig.leader(OFFSETS_TOPIC)
    pause_followers(rig)
    begin_commit(rig, 7)
    rig.run_for(50)
    topics = [{"name": "orders", "partition_indexes": [0]}]
    asked = [{"group_id": name, "topics": topics} for name in (GROUP, "other")]
    pending = rig.begin(leader, OFFSET_FETCH, 8, groups=asked)
    rig.run_until(lambda: pending.is_done)
    first, other = pending.answer.groups
    assert (first.group_id, first.error_code) == (GROUP, ErrorCode.not_coordinator)
    assert other.error_code == ErrorCode.none
    assert other.topics[0].partitions[0].committed_offset == 5


def test_fetches_that_timed_out_leave_nothing_behind_while_nothing_is_committed() -> None:
    rig = make_rig(offsets_commit_timeout_ms="100")
    leader = rig.leader(OFFSETS_TOPIC)
    for node in rig.nodes:
        node.store_line.block()
    rig.run_for(500)
    rig.nodes[leader % 3].kill()  # it stays in the ISR
    rig.run_for(500)
    uncommitted = begin_commit(rig, 5)
    rig.run_for(300)
    assert uncommitted.is_done
    for _ in range(150):
        asked = begin_fetch(rig, leader)
        rig.run_for(120)
        assert asked.is_done
    waiting = rig.replica(leader, OFFSETS_TOPIC).waiting_produces
    assert 1 <= len(waiting) <= 65
    assert not waiting[0][1].finished, "the commit's own callback still waits"


# -------------------------------------------------------------------------------------------------------- transactions

INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 22, 24, 26
TX = "payments"


class TransactionsOfOneProducer:
    """A producer of protocol 1, whose epoch is the same in each of its transactions."""

    def __init__(self, rig: ClusterRig) -> None:
        self.rig = rig
        for node in rig.nodes:
            # one connection to each broker: a request over an older one is late
            rig._clients[node.node_id, ADD_PARTITIONS_TO_TXN] = Client(rig.cluster, node.node_id)
            rig._clients[node.node_id, END_TXN] = rig._clients[node.node_id, ADD_PARTITIONS_TO_TXN]
        rig.ask(1, FIND_COORDINATOR, 3, key=TX, key_type=1)
        rig.run_until(lambda: all(TRANSACTION_TOPIC in node.broker.image.topics for node in rig.nodes))
        rig.run_for(500)
        asked = {"transactional_id": TX, "transaction_timeout": dt.timedelta(minutes=1)}
        made = rig.ask(rig.leader(TRANSACTION_TOPIC), INIT_PRODUCER_ID, 2, **asked)
        assert made.error_code == ErrorCode.none
        self.named = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch, "transactional_id": TX}

    def add(self) -> None:
        """Begin a transaction with a partition."""
        fields = {f"v3_and_below_{name}": value for name, value in self.named.items()}
        topics = [{"name": "orders", "partitions": [0]}]
        answer = self.rig.ask(
            self.rig.leader(TRANSACTION_TOPIC), ADD_PARTITIONS_TO_TXN, 3, **fields, v3_and_below_topics=topics
        )
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == ErrorCode.none

    def begin_end(self, node_id: int):
        return self.rig.begin(node_id, END_TXN, 3, **self.named, committed=True)

    def end(self) -> None:
        """Commit, and wait until the markers are written."""
        pending = self.begin_end(self.rig.leader(TRANSACTION_TOPIC))
        self.rig.run_until(lambda: pending.is_done)
        assert pending.answer.error_code == ErrorCode.none
        self.rig.run_for(500)


@pytest.mark.parametrize("is_paused", [True, False])
def test_former_transaction_coordinator_does_not_take_the_end_of_a_later_transaction_for_done(is_paused: bool) -> None:
    """It knows an earlier commit of the same epoch, which a client may repeat. It is paused, or cut from all brokers."""
    rig = make_rig(transaction_state_log_num_partitions="1", transaction_state_log_replication_factor="3")
    producer = TransactionsOfOneProducer(rig)
    producer.add()
    producer.end()
    old = rig.leader(TRANSACTION_TOPIC)
    if is_paused:
        rig.nodes[old - 1].pause()
    else:
        for other in ("store", *(f"n{node.node_id}" for node in rig.nodes if node.node_id != old)):
            rig.cluster.cut(f"n{old}", other)
    rig.run_until(lambda: rig.leader(TRANSACTION_TOPIC) not in (old, -1))
    rig.run_for(500)
    producer.add()
    pending = producer.begin_end(old)
    if is_paused:
        rig.nodes[old - 1].resume()
    rig.run_until(lambda: pending.is_done)
    assert pending.is_lost or pending.answer.error_code == ErrorCode.not_coordinator
    producer.end()


def elect_apart(rig: ClusterRig) -> tuple[int, int]:
    """The transaction coordinator, and another broker that now leads the partition."""
    coordinator = rig.leader(TRANSACTION_TOPIC)
    leader = coordinator % 3 + 1
    if rig.leader("orders") != leader:
        rig.elect("orders", leader)
        rig.run_until(lambda: rig.leader("orders") == leader)
    rig.run_for(500)
    return coordinator, leader


FAILOVER_MS = 8_000
"""A session of a broker, an election, and what waited for it."""


def test_markers_for_a_paused_leader_are_written_by_the_next_one_at_once() -> None:
    """They were on their way to the paused one, which keeps its connections. An answer is awaited for 30 s."""
    rig = make_rig(transaction_state_log_num_partitions="1", transaction_state_log_replication_factor="1")
    producer = TransactionsOfOneProducer(rig)
    coordinator, leader = elect_apart(rig)
    producer.add()
    producer.end()  # there is a connection for markers
    producer.add()
    rig.nodes[leader - 1].pause()
    producer.begin_end(coordinator)
    rig.run_for(FAILOVER_MS)
    transactions = rig.nodes[coordinator - 1].broker.transaction_coordinator
    assert transactions.describe(TX).state is COMPLETE_COMMIT


def test_markers_that_a_coordinator_in_between_fenced_are_sent_again_when_its_predecessor_leads_again() -> None:
    """Both elections are in one round of metadata records, so the predecessor never resigned."""
    rig = make_rig(transaction_state_log_num_partitions="1", transaction_state_log_replication_factor="3")
    producer = TransactionsOfOneProducer(rig)
    coordinator, leader = elect_apart(rig)
    producer.add()
    identity = producer.named["producer_id"], producer.named["producer_epoch"]
    marker = TxnMarker(*identity, rig.info(TRANSACTION_TOPIC).leader_epoch + 1, True, 0)
    codes: list[ErrorCode] = []
    rig.nodes[leader - 1].broker.transaction_markers.write(TopicPartition("orders", 0), marker, codes.append)
    producer.end()
    transactions = rig.nodes[coordinator - 1].broker.transaction_coordinator
    assert (codes, transactions.describe(TX).state) == ([ErrorCode.none], PREPARE_COMMIT)
    rig.elect(TRANSACTION_TOPIC, coordinator % 3 + 1, coordinator)
    rig.run_for(500)
    assert transactions.describe(TX).state is COMPLETE_COMMIT


def test_batch_whose_coordinator_is_paused_is_verified_by_the_next_one_at_once() -> None:
    rig = make_rig(transaction_state_log_num_partitions="1", transaction_state_log_replication_factor="3")
    producer = TransactionsOfOneProducer(rig)
    coordinator, leader = elect_apart(rig)
    producer.add()
    codes: list[ErrorCode] = []

    def verify() -> None:
        identity = producer.named["producer_id"], producer.named["producer_epoch"]
        place = TopicPartition("orders", 0)
        rig.nodes[leader - 1].broker.verification.verify(place, TX, identity, 9, codes.append)

    verify()
    rig.run_for(500)
    rig.nodes[coordinator - 1].pause()
    verify()
    rig.run_for(FAILOVER_MS)
    verify()
    rig.run_for(500)
    assert codes == [ErrorCode.none, ErrorCode.not_enough_replicas, ErrorCode.none]
