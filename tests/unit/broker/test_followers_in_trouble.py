"""Followers whose log does not follow on as usual: batches cut by a log start, answers from before an election, no log."""

import datetime as dt
import errno

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.unit.broker.replicated import call_store
from tests.unit.broker.requests import BROKER, GROUP, TOPIC, alter
from tests.unit.noted_calls import note_calls
from yak.config.log_config import LogConfig
from yak.errors import ProtocolViolation
from yak.ids import TopicPartition
from yak.protocol.fetch_answer import DivergingEpoch
from yak.protocol.record_batch import iterate_headers
from yak.replication import isr
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import record_batch
from yak.storage.log_store import LogStore

RATE = "follower.replication.throttled.rate"


@pytest.fixture
def rig() -> ClusterRig:
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", min_insync_replicas="2")
    return rig


def truncate(broker, partition, diverging: DivergingEpoch) -> None:
    broker.truncations.truncate_to_divergence(partition, partition.log, diverging, 0)


def test_a_replica_that_begins_inside_a_batch_takes_that_batch(rig):
    slow, leader = rig.followers("orders")[0], rig.leader("orders")
    rig.produce("orders", [b"a"])
    rig.nodes[slow - 1].kill()
    rig.run_until(lambda: slow not in rig.info("orders").isr)
    for _ in range(4):
        assert rig.produce("orders", [b"b"] * 5).error_code == 0
    rig.replica(leader, "orders").log.advance_log_start(8)
    rig.nodes[slow - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    replica = rig.replica(slow, "orders")
    assert (replica.log_start_offset, replica.log_end_offset) == (8, 21)
    rig.run_until(lambda: replica.high_watermark == 21)


def test_a_follower_that_may_not_join_yet_gets_what_a_leader_that_is_alone_takes(rig, monkeypatch):
    """Below the minimum nothing is committed, so no news of a high watermark tells it of records either."""
    leader, (follower, other) = rig.leader("orders"), rig.followers("orders")
    for node in (follower, other):
        rig.nodes[node - 1].kill()
    rig.run_until(lambda: rig.info("orders").isr == (leader,))
    with monkeypatch.context() as patched:
        patched.setattr(isr, "wanted_isr", lambda *_: None)
        rig.nodes[follower - 1].start()
        rig.run_for(1_000)
        for number in range(3):
            assert rig.produce("orders", [b"%d" % number], acks=1).error_code == 0
        rig.run_for(100)
        assert rig.info("orders").isr == (leader,)
        assert rig.replica(follower, "orders").log_end_offset == 3
    rig.produce("orders", [b"next"], acks=1)
    rig.run_until(lambda: follower in rig.info("orders").isr)


def test_a_replica_that_parts_from_its_leader_below_the_leaders_log_start_keeps_nothing(rig):
    old, others = rig.leader("orders"), rig.followers("orders")
    rig.produce("orders", [b"a"])
    for node_id in others:
        rig.cluster.cut(f"n{old}", f"n{node_id}")
    for _ in range(5):
        assert rig.produce("orders", [b"never committed"], acks=1).error_code == 0
    rig.nodes[old - 1].kill()
    rig.run_until(lambda: rig.info("orders").leader in others)
    leader = rig.leader("orders")
    rig.run_until(lambda: rig.replica(leader, "orders").is_leader)
    for _ in range(8):
        assert rig.produce("orders", [b"b"]).error_code == 0
    rig.run_until(lambda: rig.replica(leader, "orders").high_watermark == 9)
    rig.replica(leader, "orders").log.advance_log_start(4)
    for node_id in others:
        rig.cluster.reconnect(f"n{old}", f"n{node_id}")
    rig.nodes[old - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    log = rig.replica(old, "orders").log
    assert "replica-fully-truncated" in rig.events(old)
    assert (log.segments[0].base_offset, log.log_start_offset, log.log_end_offset) == (4, 4, 9)


def test_an_answer_from_before_an_election_is_not_taken_for_one_after_it(rig):
    leader, (other, follower) = rig.leader("orders"), rig.followers("orders")
    rig.produce("orders", [b"a"])
    rig.cluster.cut(f"n{leader}", f"n{other}")
    rig.cluster.cut(f"n{leader}", f"n{follower}", both=False)
    assert rig.produce("orders", [b"x"], acks=1).error_code == 0
    rig.run_for(20)
    rig.cluster.cut(f"n{follower}", f"n{leader}", both=False)
    rig.elect("orders", other, leader)
    rig.run_until(lambda: rig.replica(follower, "orders").leader_epoch == 2)
    rig.run_for(20)
    rig.cluster.reconnect(f"n{leader}", f"n{follower}", both=False)
    rig.run_for(20)
    assert rig.replica(follower, "orders").log_end_offset == 1
    rig.cluster.reconnect(f"n{follower}", f"n{leader}", both=False)
    rig.cluster.reconnect(f"n{leader}", f"n{other}")
    rig.run_until(lambda: rig.is_in_sync("orders") and rig.replica(follower, "orders").log_end_offset == 2)


def test_damaged_log_that_cannot_be_truncated_is_copied_again_and_others_continue(rig):
    rig.create_topic("payments")
    for value in (b"a", b"b", b"c"):
        rig.produce("orders", [value, value])
    node = rig.nodes[rig.followers("orders")[0] - 1]
    content = node.disk.contents()["/data/orders-0/00000000000000000000.log"]
    (_first, (second, _header), *_others) = iterate_headers(content.sound())
    content.damage(second + 23, b"\0\0\1\0")
    partition = rig.replica(node.node_id, "orders")
    truncate(node.broker, partition, DivergingEpoch(0, 5))
    assert partition.log is None
    rig.run_until(lambda: "replica-resync-started" in rig.events(node.node_id))
    rig.run_until(lambda: rig.is_in_sync("orders") and partition.log_end_offset == 6)
    assert {"log-damaged", "log-directory-offline"} & set(rig.events(node.node_id)) == {"log-damaged"}
    assert rig.replica(node.node_id, "payments").log is not None
    assert [name for name in node.disk.names("/data") if name.endswith("-stray")]
    assert rig.produce("orders", [b"y"]).error_code == 0


def test_damaged_replica_that_leaves_its_isr_twice_is_created_again_by_one_job(rig, monkeypatch):
    """Both requests may be under way. Of two jobs, one would set aside the log that the other created."""
    rig.produce("orders", [b"a"])
    node = rig.nodes[rig.followers("orders")[0] - 1]
    partition, offline_replicas = rig.replica(node.node_id, "orders"), node.broker.offline_replicas
    plans = note_calls(monkeypatch, LogStore, "creation_plan")
    node.broker.log_failures.log_damaged(partition, "damaged")
    offline_replicas.exits.send()
    offline_replicas.leave(partition)
    offline_replicas.exits.send()
    node._arm_timer()
    rig.run_until(lambda: partition.log is not None)
    rig.run_until(lambda: rig.is_in_sync("orders") and partition.log_end_offset == 1)
    assert len(plans) == 1


def test_a_leader_that_could_not_make_its_log_lets_another_lead(rig):
    victim = 1
    rig.nodes[victim - 1].disk.fail_next("open", errno.EIO, path_contains="late-0")
    rig.create_topic("late", replication_factor=3)
    assert "log-directory-offline" in rig.events(victim)
    rig.run_until(lambda: rig.leader("late") not in (victim, -1))
    assert rig.produce("late", [b"a"]).error_code == 0
    rig.nodes[victim - 1].kill()
    rig.nodes[victim - 1].start()
    rig.run_until(lambda: rig.is_in_sync("late"))
    assert rig.replica(victim, "late").log_end_offset == 1


def test_a_repeat_of_a_batch_that_is_in_the_log_is_known_though_its_successor_was_refused(rig):
    leader = rig.leader("orders")
    for node in rig.followers("orders"):
        rig.nodes[node - 1].pause()
    first = rig.begin_produce("orders", [b"a"], producer_id=7, epoch=0, sequence=0)
    rig.run_until(lambda: rig.replica(leader, "orders").isr == (leader,))
    refused = rig.produce("orders", [b"b"], producer_id=7, epoch=0, sequence=1)
    assert refused.error_code == ErrorCode.not_enough_replicas
    for node in rig.followers("orders"):
        rig.nodes[node - 1].resume()
    rig.run_until(lambda: rig.is_in_sync("orders") and first.is_done)
    for sequence in (0, 1, 0, 2):
        answer = rig.produce("orders", [b"a"], producer_id=7, epoch=0, sequence=sequence)
        assert (answer.error_code, answer.base_offset) == (0, sequence)


def reassign(rig: ClusterRig, *replicas: int, asked_of: int = 1) -> None:
    asked = {"name": "orders", "partitions": [{"partition_index": 0, "replicas": list(replicas)}]}
    answer = rig.ask(asked_of, 45, 0, timeout=dt.timedelta(seconds=10), topics=[asked])
    assert answer.responses[0].partitions[0].error_code == 0


def test_offset_of_a_replica_before_its_removal_does_not_count_after_its_return():
    rig = ClusterRig()
    rig.create_topic("orders")
    reassign(rig, 1, 3)
    rig.run_until(lambda: rig.info("orders").replicas == (1, 3) and rig.is_in_sync("orders"))
    assert rig.produce("orders", [b"a"]).error_code == 0
    rig.cluster.cut("n3", "n1", both=False)
    late = rig.begin_produce("orders", [b"b"])
    rig.run_until(lambda: rig.replica(3, "orders").log_end_offset == 2)
    where = TopicPartition("orders", 0)
    reassign(rig, 1)
    rig.run_until(lambda: where not in rig.nodes[2].broker.partitions and late.is_done)
    assert late.answer.responses[0].partition_responses[0].error_code == 0
    reassign(rig, 1, 3)
    rig.run_until(lambda: where in rig.nodes[2].broker.partitions and 3 in rig.replica(1, "orders").replica_states)
    rig.cluster.cut("n1", "n3", both=False)
    rig.cluster.reconnect("n3", "n1", both=False)
    rig.run_for(50)
    assert rig.replica(3, "orders").log_end_offset == 0
    assert rig.info("orders").isr == (1,)
    rig.cluster.reconnect("n1", "n3", both=False)
    rig.run_until(lambda: rig.is_in_sync("orders"))


def restart_throttled_follower(rig: ClusterRig) -> None:
    """A follower misses records, and copies them too slowly to be in sync 2 s later."""
    slow = rig.followers("orders")[0]
    rig.nodes[slow - 1].kill()
    rig.run_until(lambda: slow not in rig.info("orders").isr)
    for _ in range(5):
        assert rig.produce("orders", [b"x" * 20_000]).error_code == 0
    rig.nodes[slow - 1].start()
    rig.run_until(lambda: rig.nodes[slow - 1].is_ready)
    rig.run_for(2_000)
    assert not rig.is_in_sync("orders")


def test_throttle_that_is_removed_delays_no_follower_any_more():
    rig = ClusterRig(settings={RATE: "100"})
    rig.create_topic("orders", follower_replication_throttled_replicas="*")
    restart_throttled_follower(rig)
    assert alter(rig, BROKER, "", {RATE: "100000000"}).error_code == 0
    rig.run_for(1_000)
    assert rig.is_in_sync("orders")


def test_throttle_that_was_set_while_the_broker_ran_holds_after_its_restart():
    rig = ClusterRig()
    rig.create_topic("orders", follower_replication_throttled_replicas="*")
    assert alter(rig, BROKER, "", {RATE: "100"}).error_code == 0
    rig.run_for(1_000)
    restart_throttled_follower(rig)


def test_throttled_follower_waits_on_when_the_configs_of_a_group_change():
    rig = ClusterRig(settings={RATE: "100"})
    rig.create_topic("orders", follower_replication_throttled_replicas="*")
    restart_throttled_follower(rig)
    assert alter(rig, GROUP, "g", {"consumer.session.timeout.ms": "50000"}).error_code == 0
    rig.run_for(1_000)
    assert not rig.is_in_sync("orders")


def test_a_smaller_minimum_commits_what_waited_for_it(rig):
    leader = rig.leader("orders")
    for node in rig.followers("orders"):
        rig.nodes[node - 1].kill()
    rig.run_until(lambda: rig.replica(leader, "orders").isr == (leader,))
    assert rig.produce("orders", [b"a"], acks=1).error_code == 0
    assert rig.replica(leader, "orders").high_watermark == 0
    assert alter(rig, TOPIC, "orders", {"min.insync.replicas": "1"}).error_code == 0
    rig.run_for(100)
    assert rig.replica(leader, "orders").high_watermark == 1


def test_produces_whose_time_is_over_do_not_pile_up_while_nothing_is_committed():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "60000"})
    rig.create_topic("orders")
    leader = rig.leader("orders")
    rig.produce("orders", [b"a"])
    rig.cluster.cut(f"n{leader}", f"n{rig.followers('orders')[0]}")
    for _ in range(10):
        sent = [rig.begin_produce("orders", [b"a"]) for _ in range(10)]
        rig.run_until(lambda sent=sent: all(each.is_done for each in sent))
    assert len(rig.replica(leader, "orders").waiting_produces) <= 10


def test_leader_that_is_reassigned_away_answers_a_waiting_produce_with_not_leader():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "60000"})
    rig.create_topic("orders", replication_factor=2)
    leader, slow = rig.leader("orders"), rig.followers("orders")[0]
    third = next(node for node in (1, 2, 3) if node not in (leader, slow))
    rig.produce("orders", [b"a"])
    rig.nodes[slow - 1].pause()
    late = rig.begin_produce("orders", [b"b"])
    reassign(rig, slow, third, asked_of=third)
    rig.run_until(lambda: rig.leader("orders") == third)
    rig.run_until(lambda: late.is_done)
    assert late.answer.responses[0].partition_responses[0].error_code == ErrorCode.not_leader_or_follower


def test_replica_fetches_again_if_its_next_records_were_removed_during_the_read(rig):
    leader, slow = rig.leader("orders"), rig.followers("orders")[0]
    rig.nodes[slow - 1].kill()
    rig.run_until(lambda: slow not in rig.info("orders").isr)
    assert rig.produce("orders", [b"a" * 5000]).error_code == 0
    disk = rig.nodes[leader - 1].disk
    disk.cached_bytes = 0
    disk.fail_next("read", errno.ENOENT, path_contains="/orders-0/")
    rig.nodes[slow - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert not disk._failures["read"]


def test_follower_reconnects_to_a_leader_whose_machine_crashed_without_a_close():
    rig = ClusterRig(settings={RATE: "100"})
    rig.create_topic("orders", replication_factor=2, follower_replication_throttled_replicas="*")
    leader, slow = rig.leader("orders"), rig.followers("orders")[0]
    rig.nodes[slow - 1].kill()
    rig.run_until(lambda: rig.info("orders").isr == (leader,))
    assert rig.produce("orders", [b"x" * 10_000]).error_code == 0
    rig.nodes[slow - 1].start()
    rig.run_until(lambda: rig.nodes[slow - 1].is_ready and rig.replica(slow, "orders").log_end_offset == 1)
    fetcher = rig.nodes[slow - 1].broker.replica_fetchers._fetchers[leader]
    boot_id, peer_id = rig.nodes[leader - 1].broker.identity.boot_id, fetcher._channel._peer_id
    rig.nodes[leader - 1].crash()
    rig.run_for(50)
    rig.nodes[leader - 1].start()
    rig.run_until(lambda: rig.nodes[slow - 1].broker.image.brokers[leader].boot_id != boot_id)
    assert rig.nodes[slow - 1].broker.replica_fetchers._fetchers[leader] is fetcher
    assert fetcher._channel._peer_id != peer_id


@pytest.mark.parametrize("place", [(-1, -5), (0, -1), (5, -(2**63)), (2**31 - 1, 2**63 - 1), (0, 3)])
def test_a_place_where_logs_cannot_part_is_refused(rig, place):
    rig.produce("orders", [b"a", b"b", b"c"])
    node_id = rig.followers("orders")[0]
    partition = rig.replica(node_id, "orders")
    with pytest.raises(ProtocolViolation, match="logs diverge"):
        truncate(rig.nodes[node_id - 1].broker, partition, DivergingEpoch(*place))
    assert partition.log_end_offset == 3


def test_a_follower_that_is_said_to_have_left_late_comes_in_again_though_nothing_is_written(rig):
    """A call of it to leave was executed late: it is in sync, fetches on, and would say nothing more of this partition."""
    leader, gone = rig.leader("orders"), rig.followers("orders")[0]
    rig.produce("orders", [b"a"])
    rig.run_for(1_000)
    topic_id = str(rig.alive().broker.image.topics["orders"].topic_id)
    partitions = [{"topic_id": topic_id, "partition": 0, "lost": True}]
    assert call_store(rig, "leave_isr", gone, partitions=partitions).value["codes"] == ["OK"]
    for node in rig.nodes:
        node.store_line.store_moved()
    rig.run_until(lambda: gone not in rig.replica(leader, "orders").isr)
    rig.run_until(lambda: rig.is_in_sync("orders"))


def test_an_empty_log_from_before_its_brokers_metadata_has_the_topics_config(rig):
    """The broker made the log, and ended before its copy of the metadata knew of the topic."""
    behind = rig.followers("orders")[0]
    node = rig.nodes[behind - 1]
    node.kill()
    rig.create_topic("flushed", flush_messages="1")
    topic_id = rig.alive().broker.image.topics["flushed"].topic_id
    store = LogStore.open(node.disk, node.directories, behind, SeededRandom(1).uuid4, 0, lambda _topic: LogConfig())
    store.create(TopicPartition("flushed", 0), topic_id, LogConfig())
    store.release()
    node.start()
    rig.run_until(lambda: node.is_ready and TopicPartition("flushed", 0) in node.broker.partitions)
    assert rig.replica(behind, "flushed").log.config.flush_messages == 1


def base_offsets(rig: ClusterRig, node_id: int) -> list[int]:
    log, disk = rig.replica(node_id, "orders").log, rig.nodes[node_id - 1].disk
    assert log is not None
    data = b"".join(disk.peek(segment.path(".log"), 0) for segment in log.segments)
    return [header.base_offset for _, header in iterate_headers(data)]


def test_gap_is_believed_only_when_it_is_answered_twice_in_one_session(rig):
    # in another session the leader does not know that it is asked again, and answers without a check
    leader, follower = rig.leader("orders"), rig.followers("orders")[0]
    rig.run_until(lambda: rig.is_in_sync("orders"))
    partition = rig.replica(follower, "orders")
    end = partition.log.log_end_offset
    behind_a_gap = (end + 5).to_bytes(8, "big") + record_batch([b"x"], 0)[8:]
    with pytest.raises(ProtocolViolation):
        partition.may_follow(behind_a_gap, end)
    rig.nodes[follower - 1].broker.replica_fetchers._fetchers[leader].restart()
    with pytest.raises(ProtocolViolation):
        partition.may_follow(behind_a_gap, end)
    assert partition.may_follow(behind_a_gap, end)


def test_follower_copies_what_compaction_left_of_a_topic_that_is_not_compacted_any_more():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000", "log.cleaner.backoff.ms": "20"}, hands_back=False)
    configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0", "segment_bytes": "700"}
    rig.create_topic("orders", **configs)
    rig.run_until(lambda: rig.is_in_sync("orders"))
    leader, behind = rig.leader("orders"), rig.followers("orders")[0]
    rig.nodes[behind - 1].kill()
    for _ in range(30):
        rig.produce("orders", [b"v" * 50], keys=[b"k"])
    rig.run_until(lambda: len(base_offsets(rig, leader)) < 15)
    assert alter(rig, TOPIC, "orders", {"cleanup.policy": "delete"}).error_code == 0
    rig.run_until(lambda: rig.replica(leader, "orders").log.config.cleanup_policy == "delete")
    rig.nodes[behind - 1].disk.remove_tree("/data/orders-0")
    rig.nodes[behind - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert base_offsets(rig, behind) == base_offsets(rig, leader)
    rig.run_for(1_500)
    assert rig.events(behind).count("replica-append-refused") == 2, "inside an answer, and then at the begin of one"
    rig.nodes[behind - 1].kill()
    rig.nodes[behind - 1].start()
    rig.run_until(lambda: rig.nodes[behind - 1].is_ready)
    assert base_offsets(rig, behind) == base_offsets(rig, leader)
    assert not {"log-tail-truncated", "log-damaged"} & set(rig.events(behind))
