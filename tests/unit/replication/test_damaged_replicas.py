"""A batch that is not what was written: told to readers, logged once, shown, and replaced by a copy where there is one."""

import struct

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker.requests import list_offset
from yak.broker.apis.list_offsets import MAX_TIMESTAMP
from yak.cluster.payload import parse_isr
from yak.ids import TopicPartition
from yak.protocol.record_batch import iterate_headers
from yak.replication.damaged_replicas import recovery_damage
from yak.sim.node import SimNode
from yak.sim.seeded_random import SeededRandom
from yak.sim.store_line import STORE
from yak.storage.reader import DamagedBatch

FIRST = "/data/orders-0/00000000000000000000.log"
ORDERS = TopicPartition("orders", 0)


def damage(node: SimNode, number: int, *, at: int = 70, wrong: bytes = b"\xff", cached_bytes: int = 0) -> int:
    """Put wrong bytes into a batch of `orders-0`, into its records unless told otherwise; returns where the batch begins.

    From here on nothing is in the memory of the log, nor in the page cache but for `cached_bytes`.
    """
    content = node.disk.contents()[FIRST]
    position = list(iterate_headers(bytes(content.sound())))[number][0]
    assert content.damage(position + at, wrong)
    node.disk.cached_bytes = cached_bytes
    assert node.broker is not None
    log = node.broker.partitions[ORDERS].log
    assert log is not None
    log.positions.newest = (-1, -1, b"")
    return position


def find_damage(node: SimNode, number: int) -> None:
    """Damage a batch, and let the broker find it out."""
    position, broker = damage(node, number), node.broker
    found = DamagedBatch(FIRST, position, "the CRC-32C does not match")
    broker.damaged_replicas.found(broker.partitions[ORDERS], number, found)
    node._arm_timer()


def told(node: SimNode, event: str) -> list[dict[str, object]]:
    return [notice.fields for notice in node.notices if notice.event == event]


@pytest.fixture
def alone() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    for number in range(4):
        rig.produce("orders", [b"%d" % number * 50])
    return rig


@pytest.fixture
def rig() -> ClusterRig:
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", min_insync_replicas="2")
    for number in range(4):
        assert rig.produce("orders", [b"%d" % number * 50]).error_code == 0
    rig.run_until(lambda: all(rig.replica(node, "orders").high_watermark == 4 for node in (1, 2, 3)))
    return rig


@pytest.mark.parametrize(
    ("at", "wrong"),
    [
        pytest.param(70, b"\xff", id="records"),
        pytest.param(0, struct.pack(">q", 77), id="offset"),
        pytest.param(8, struct.pack(">i", 5), id="length too small"),
        pytest.param(8, struct.pack(">i", 2**30), id="length past the end"),
        pytest.param(0, bytes(61), id="zeros"),
    ],
)
def test_fetch_at_a_damaged_batch_of_the_only_replica_returns_corrupt_message_and_the_rest_is_served(alone, at, wrong):
    position = damage(alone.node, 2, at=at, wrong=wrong)
    before = alone.fetch("orders", 0)
    assert before.error_code == 0
    assert [header.base_offset for _, header in iterate_headers(before.records)] == [0, 1]
    for _ in range(3):
        answer = alone.fetch("orders", 2)
        assert (answer.error_code, bytes(answer.records or b"")) == (ErrorCode.corrupt_message, b"")
    assert [header.base_offset for _, header in iterate_headers(alone.fetch("orders", 3).records)] == [3]
    assert alone.produce("orders", [b"next"]).error_code == 0
    (line,) = told(alone.node, "log-damaged")
    assert (line["partition"], line["file"], line["position"], line["offset"]) == ("orders-0", FIRST, position, 2)
    assert alone.node.broker.damaged_replicas.reads >= 3
    assert len(alone.node.broker.damaged_replicas) == 1


@pytest.mark.parametrize("length", [5, 2**30])
def test_search_by_time_that_cannot_pass_a_damaged_batch_returns_corrupt_message(alone, length):
    """Not "no such record": the consumer would begin at the end."""
    alone.produce("orders", [b"late"], timestamp_ms=alone.world.now_ms + 5_000)
    damage(alone.node, 1, at=8, wrong=struct.pack(">i", length))

    def search(timestamp: int) -> tuple[int, int]:
        found = list_offset(alone, timestamp)
        return found.error_code, found.offset

    assert search(0) == (ErrorCode.none, 0)
    assert search(MAX_TIMESTAMP) == (ErrorCode.corrupt_message, -1), "the record behind the damage has the largest"
    assert search(alone.world.now_ms + 4_000) == (ErrorCode.corrupt_message, -1)


@pytest.mark.parametrize("length", [5, 2**30])
def test_fetch_at_a_batch_of_a_wrong_length_in_the_page_cache_returns_corrupt_message(alone, length):
    damage(alone.node, 2, at=8, wrong=struct.pack(">i", length), cached_bytes=1 << 20)
    answer = alone.fetch("orders", 2)
    assert (answer.error_code, bytes(answer.records or b"")) == (ErrorCode.corrupt_message, b"")
    (line,) = told(alone.node, "log-damaged")
    assert (line["file"], line["offset"]) == (FIRST, 2)


def test_fetch_of_a_batch_that_is_whole_again_ends_the_damaged_state(alone):
    damage(alone.node, 2)
    assert alone.fetch("orders", 2).error_code == ErrorCode.corrupt_message
    content = alone.node.disk.contents()[FIRST]
    content.data[:], content.wounds = content.sound(), []
    assert alone.fetch("orders", 2).error_code == 0
    assert len(alone.node.broker.damaged_replicas) == 0


def test_fetch_that_the_disk_answers_wrong_once_returns_the_batch(rig):
    leader = rig.leader("orders")
    node = rig.nodes[leader - 1]
    node.disk.cached_bytes = 0
    node.broker.partitions[ORDERS].log.positions.newest = (-1, -1, b"")
    node.disk.garble_next(SeededRandom(3), path_contains="/orders-0/")
    assert rig.fetch("orders", 1).error_code == 0
    rig.run_for(5_000)
    assert rig.leader("orders") == leader
    assert not told(node, "log-damaged")


def test_leader_with_a_damaged_batch_resigns_and_leads_again_with_a_whole_copy(rig):
    leader = rig.leader("orders")
    node = rig.nodes[leader - 1]
    damage(node, 2)
    assert rig.fetch("orders", 2).error_code == ErrorCode.kafka_storage_error
    rig.run_until(lambda: rig.leader("orders") not in (leader, -1))
    assert rig.fetch("orders", 2).error_code == 0
    rig.run_until(lambda: rig.is_in_sync("orders") and rig.leader("orders") == leader)
    answer = rig.fetch("orders", 0)
    assert answer.error_code == 0
    assert [header.base_offset for _, header in iterate_headers(answer.records)] == [0, 1, 2, 3]
    assert len(told(node, "log-damaged")) == 1
    assert [rig.events(leader).count(each) for each in ("damaged-replica-resigned", "replica-resync-started")] == [1, 1]
    rig.run_for(10_000)
    assert rig.events(leader).count("damaged-replica-resigned") == 1


def test_leader_whose_follower_refuses_a_batch_checks_its_own_log_and_resigns(rig):
    leader, behind = rig.leader("orders"), rig.followers("orders")[0]
    node = rig.nodes[leader - 1]
    rig.nodes[behind - 1].kill()
    rig.run_until(lambda: behind not in rig.info("orders").isr)
    assert rig.produce("orders", [b"x" * 50]).error_code == 0
    assert rig.produce("orders", [b"y" * 50]).error_code == 0
    damage(node, 4)
    node.disk.cached_bytes = None  # what is in the page cache is given without a check
    rig.nodes[behind - 1].start()
    rig.run_until(lambda: "damaged-replica-resigned" in rig.events(leader))
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.events(behind).count("replica-append-refused") == 1
    assert told(node, "log-damaged")[0]["offset"] == 4


def test_two_damaged_replicas_one_leads_on_and_leadership_does_not_go_back_and_forth():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", replication_factor=2)
    for number in range(4):
        assert rig.produce("orders", [b"%d" % number * 50]).error_code == 0
    first, second = rig.leader("orders"), rig.followers("orders")[0]
    rig.run_until(lambda: rig.replica(second, "orders").high_watermark == 4)
    damage(rig.nodes[first - 1], 2)
    damage(rig.nodes[second - 1], 1)
    assert rig.fetch("orders", 2).error_code == ErrorCode.kafka_storage_error
    rig.run_until(lambda: rig.leader("orders") == second)
    rig.run_for(20_000)
    assert rig.fetch("orders", 1).error_code == ErrorCode.corrupt_message
    assert rig.fetch("orders", 2).error_code == 0
    assert rig.leader("orders") == second
    assert rig.produce("orders", [b"next"], acks=1).error_code == 0
    elections = rig.info("orders").leader_epoch
    rig.run_for(20_000)
    assert (rig.leader("orders"), rig.info("orders").leader_epoch) == (second, elections)
    assert [rig.events(node).count("log-damaged") for node in (first, second)] == [1, 1]
    assert rig.events(first).count("replica-fetch-damaged") == 1


def test_replica_that_resigns_fetches_nothing_before_the_answer_and_comes_back_with_a_whole_copy(rig):
    behind = rig.followers("orders")[0]
    node = rig.nodes[behind - 1]
    rig.cluster.network.cut(STORE, node.party)  # the answer comes late
    rig.world.after(300_000, lambda: rig.cluster.network.reconnect(STORE, node.party))
    partition = node.broker.partitions[ORDERS]
    find_damage(node, 2)
    members: list[list[int]] = []

    def is_back() -> bool:
        (row,) = (row for key, row in rig.cluster.store.state.partitions.items() if key[0] == str(partition.topic_id))
        members.append([member.node_id for member in parse_isr(row["isr"])])
        return "replica-resync-started" in rig.events(behind) and members[-1] == [1, 2, 3]

    rig.world.run(is_back, events_max=100_000)
    left = members.index([each for each in (1, 2, 3) if each != behind])
    # once: with the log that is given up it does not come in again
    assert [behind in each for each in members[left:]] == sorted(behind in each for each in members[left:])
    assert rig.produce("orders", [b"next"]).error_code == 0
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(behind, "orders").log.log_end_offset == 5


def test_replica_that_may_not_resign_continues_fetching():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", replication_factor=2)
    assert rig.produce("orders", [b"a" * 50]).error_code == 0
    leader, behind = rig.leader("orders"), rig.followers("orders")[0]
    rig.run_until(lambda: rig.is_in_sync("orders"))
    node = rig.nodes[behind - 1]
    partition = node.broker.partitions[ORDERS]
    codes: list[str] = []

    def note(request, outcome):
        if request.script == "leave_isr":
            codes.append(outcome.value["codes"][0])

    rig.cluster.on_call = note
    rig.nodes[leader - 1].kill()
    rig.run_until(lambda: rig.info("orders").leader == behind)
    rig.run_for(100)  # records of the same election arrive later
    partition.isr = (behind, leader)  # as an image shows it that is behind the store
    find_damage(node, 0)
    rig.run_until(lambda: bool(codes))
    rig.run_for(100)
    assert codes[0] == "LAST_MEMBER"
    assert not partition.is_resigning


def test_replica_with_a_fetch_on_its_way_resigns_only_when_the_leader_has_answered_it(rig):
    leader, behind = rig.leader("orders"), rig.followers("orders")[0]
    node, network = rig.nodes[behind - 1], rig.cluster.network
    asked: list[int] = []

    def note(request, outcome):
        if request.script == "leave_isr":
            asked.append(rig.world.now_us)

    rig.cluster.on_call = note
    partition, fetchers = node.broker.partitions[ORDERS], node.broker.replica_fetchers
    fetchers._fetchers[leader].restart()
    rig.run_until(lambda: fetchers.is_naming(partition))
    network.cut(rig.nodes[leader - 1].party, node.party)
    find_damage(node, 2)
    rig.run_for(1_000)
    assert asked == []
    assert partition.is_resigning
    network.reconnect(rig.nodes[leader - 1].party, node.party)
    rig.run_until(lambda: bool(asked))
    rig.run_until(lambda: rig.is_in_sync("orders"))


def test_replica_whose_recovery_found_damage_resigns_before_any_read():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000", "log.flush.offset.checkpoint.interval.ms": "500"})
    rig.create_topic("orders", flush_messages="1")
    for number in range(4):
        assert rig.produce("orders", [b"%d" % number * 50]).error_code == 0
    node = rig.nodes[rig.leader("orders") - 1]
    rig.run_until(lambda: rig.replica(node.node_id, "orders").log.recovery_point == 4)
    rig.run_for(1_000)
    damage(node, 1)
    for each in rig.nodes:
        each.kill()
    for each in rig.nodes:
        each.start()
    rig.run_until(lambda: "damaged-replica-resigned" in rig.events(node.node_id))
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert [each["served"] for each in told(node, "log-damaged")] == [True]
    assert rig.replica(node.node_id, "orders").log.damage_at_load is None


def test_leader_damaged_at_recovery_returns_no_lso_while_another_broker_may_lead(rig):
    """The marker of a transaction may be damaged: then its records seem to be open."""
    leader = rig.leader("orders")
    partition = rig.replica(leader, "orders")

    def end(isolation_level: int) -> tuple[int, int]:
        found = list_offset(rig, node_id=leader, isolation_level=isolation_level)
        return found.error_code, found.offset

    partition.log.damage_at_load = DamagedBatch(FIRST, 0, "the CRC-32C does not match", 0)
    assert end(0) == (0, 4)
    assert end(1) == (ErrorCode.offset_not_available, -1)
    members, partition.isr = partition.isr, (leader,)
    assert end(1) == (0, 4)
    partition.isr, partition.log.log_start_offset = members, 1
    assert end(1) == (0, 4), "the damaged batch is deleted, and no reason to resign"


def test_replica_resigns_for_what_its_recovery_found_though_its_log_was_truncated_behind_that(rig):
    behind = rig.followers("orders")[0]
    partition = rig.replica(behind, "orders")
    log = partition.log
    log.damage_at_load = DamagedBatch(FIRST, 0, "the CRC-32C does not match", 1)
    rig.nodes[behind - 1].broker.damaged_replicas.added(partition)
    log.lower_recovery_point(2)
    log.truncate_to(2)
    rig.nodes[behind - 1]._arm_timer()
    rig.run_until(lambda: "damaged-replica-resigned" in rig.events(behind))


@pytest.mark.parametrize(("offset", "is_left"), [(2, True), (1, False), (0, False)])
def test_truncation_removes_the_damage_that_recovery_found_with_its_batch(rig, offset, is_left):
    log = rig.replica(rig.followers("orders")[0], "orders").log
    log.damage_at_load = DamagedBatch(FIRST, 0, "the CRC-32C does not match", 1)
    log.lower_recovery_point(offset)
    log.truncate_to(offset)
    assert (recovery_damage(log) is not None) == is_left
