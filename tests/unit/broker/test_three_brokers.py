"""Three brokers: what a leader commits, who stays in sync, and what happens when one of them is away."""

import errno
import uuid

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.unit.broker.replicated import call_store
from tests.unit.broker.requests import BROKER, delete_topic, describe
from tests.unit.lost_store import restore_lost_store
from tests.unit.noted_calls import note_calls
from yak.broker.delayed_leader_requests import DECISION_MS_MAX
from yak.lifecycle.failure_watch import PROBE_MS_MAX
from yak.lifecycle.liveness import LISTED_MS, serving_brokers
from yak.partitions.store_outage import HEARTBEAT_WAIT_MS
from yak.replication import isr
from yak.sim.request_fields import create_fields


@pytest.fixture
def rig() -> ClusterRig:
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", min_insync_replicas="2")
    return rig


def test_an_ack_means_that_every_member_has_it_and_all_come_to_see_it(rig):
    answer = rig.produce("orders", [b"a", b"b"])
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert {rig.replica(node, "orders").log_end_offset for node in (1, 2, 3)} == {2}
    assert rig.replica(rig.leader("orders"), "orders").high_watermark == 2
    rig.run_for(200)
    assert {rig.replica(node, "orders").high_watermark for node in (1, 2, 3)} == {2}


def test_records_are_not_committed_while_an_isr_member_does_not_fetch(rig):
    slow = rig.followers("orders")[0]
    rig.nodes[slow - 1].pause()
    pending = rig.begin_produce("orders", [b"a"])
    rig.run_for(500)
    assert not pending.is_done
    assert rig.fetch("orders", 0).high_watermark == 0
    rig.nodes[slow - 1].resume()
    rig.run_until(lambda: pending.is_done)
    assert pending.answer.responses[0].partition_responses[0].error_code == 0


def test_a_member_that_lags_too_long_leaves_and_comes_back(rig):
    slow = rig.followers("orders")[0]
    rig.nodes[slow - 1].pause()
    rig.begin_produce("orders", [b"a"])
    rig.run_until(lambda: slow not in rig.info("orders").isr)
    rig.nodes[slow - 1].resume()
    rig.run_until(lambda: rig.is_in_sync("orders"))


def test_isr_changes_are_not_computed_again_and_again_while_the_store_is_away(rig, monkeypatch):
    """Nothing can be proposed before the store is back, and a broker may lead thousands of partitions."""
    leader = rig.leader("orders")
    rig.produce("orders", [b"a"])
    for node in rig.nodes:
        node.store_line.block()
    dead = rig.followers("orders")[0]
    rig.nodes[dead - 1].kill()
    rig.begin_produce("orders", [b"b"], acks=1)
    rig.run_for(8_000)
    computed = note_calls(monkeypatch, isr, "wanted_isr")
    rig.run_for(10_000)
    assert computed == []
    for node in rig.nodes:
        node.store_line.unblock()
    rig.run_until(lambda: dead not in rig.info("orders").isr)
    rig.nodes[dead - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.leader("orders") == leader


def test_leader_below_min_isr_refuses_acks_all_and_does_not_expose_acks_1_records(rig):
    leader = rig.leader("orders")
    for node in rig.followers("orders"):
        rig.nodes[node - 1].kill()
    rig.run_until(lambda: rig.info("orders").isr == (leader,))
    rig.run_until(lambda: rig.replica(leader, "orders").isr == (leader,))
    assert rig.produce("orders", [b"a"]).error_code == ErrorCode.not_enough_replicas
    assert rig.produce("orders", [b"a"], acks=1).error_code == 0
    assert rig.fetch("orders", 0).high_watermark == 0


def test_the_leaders_death_is_noticed_at_once_and_another_takes_over(rig):
    leader = rig.leader("orders")
    rig.produce("orders", [b"a"])
    before_ms = rig.world.now_ms
    rig.nodes[leader - 1].kill()
    rig.run_until(lambda: rig.leader("orders") not in (leader, -1))
    assert rig.world.now_ms - before_ms < 300
    rig.run_until(lambda: rig.replica(rig.leader("orders"), "orders").is_leader)
    assert rig.produce("orders", [b"b"]).base_offset == 1
    rig.nodes[leader - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))


def test_uncommitted_records_of_a_replaced_leader_are_truncated_from_its_log(rig):
    leader = rig.leader("orders")
    rig.produce("orders", [b"a"])
    others = rig.followers("orders")
    for node in others:
        rig.cluster.cut(f"n{leader}", f"n{node}")
    lost = rig.begin_produce("orders", [b"x", b"y"])
    rig.run_until(lambda: rig.replica(leader, "orders").log_end_offset == 3)
    rig.nodes[leader - 1].kill()
    rig.run_until(lambda: rig.leader("orders") in others)
    rig.run_until(lambda: rig.replica(rig.leader("orders"), "orders").is_leader)
    for node in others:
        rig.cluster.reconnect(f"n{leader}", f"n{node}")
    assert rig.produce("orders", [b"b"]).base_offset == 1
    rig.nodes[leader - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(leader, "orders").log_end_offset == 2
    assert "log-truncated" in rig.events(leader)
    assert "truncated-below-high-watermark" not in rig.events(leader)
    assert lost.answer is None or lost.answer.responses[0].partition_responses[0].error_code != 0


def test_hung_leader_is_fenced_within_the_session_and_registers_again(rig):
    leader = rig.leader("orders")
    epoch = rig.nodes[leader - 1].broker.metadata.lifecycle.broker_epoch
    before_ms = rig.world.now_ms
    rig.nodes[leader - 1].pause()
    rig.run_until(lambda: rig.leader("orders") not in (leader, -1))
    assert rig.world.now_ms - before_ms <= 6_500
    rig.nodes[leader - 1].resume()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.nodes[leader - 1].broker.metadata.lifecycle.broker_epoch > epoch


def test_an_orderly_stop_moves_leaderships_first(rig):
    leader = rig.leader("orders")
    rig.produce("orders", [b"a"])
    stopped = []
    rig.nodes[leader - 1].on_stopped = lambda: stopped.append(rig.leader("orders"))
    rig.nodes[leader - 1].stop()
    rig.run_until(lambda: bool(stopped))
    assert stopped[0] in (1, 2, 3)
    assert stopped[0] != leader
    assert "controlled-shutdown-timed-out" not in rig.events(leader)


def test_broker_that_was_stopped_in_order_is_described_as_fenced_until_it_is_unregistered(rig):
    """As in Kafka, where its registration lasts. Which of the fenced brokers those are is a config of each broker."""
    killed, stopped, asked = rig.followers("orders")[0], rig.leader("orders"), rig.followers("orders")[1]
    rig.nodes[killed - 1].kill()
    rig.nodes[stopped - 1].stop()
    broker = rig.nodes[asked - 1].broker
    rig.run_until(lambda: [broker.image.brokers[node].state for node in (killed, stopped)] == ["FENCED", "CLOSED"])

    def described():
        answer = rig.ask(asked, 60, 2, include_fenced_brokers=True)
        (config,) = describe(rig, BROKER, str(asked), ["yak.stopped.brokers"], node_id=asked).configs
        return {each.broker_id: each.is_fenced for each in answer.brokers}, config.value

    assert described() == ({killed: True, stopped: True, asked: False}, str(stopped))
    assert rig.ask(asked, 64, 0, broker_id=stopped).error_code == 0
    assert described() == ({killed: True, asked: False}, "")


def test_follower_whose_log_ends_before_the_leaders_log_start_resyncs_fully(rig):
    slow = rig.followers("orders")[0]
    rig.produce("orders", [b"a"])
    rig.nodes[slow - 1].kill()
    leader = rig.leader("orders")
    rig.run_until(lambda: slow not in rig.info("orders").isr)
    for _ in range(4):
        assert rig.produce("orders", [b"b"]).error_code == 0
    rig.replica(leader, "orders").log.advance_log_start(4)
    rig.nodes[slow - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(slow, "orders").log_start_offset == 4
    assert "replica-fully-truncated" in rig.events(slow)


NAMED, ALL = [{"name": "orders"}], None


def question(topics) -> dict:
    return {"topics": topics, "allow_auto_topic_creation": False}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("is_noticed", [True, False])
@pytest.mark.parametrize("topics", [NAMED, ALL])
def test_a_question_for_the_leader_waits_while_it_dies(is_noticed, topics, seed):
    rig = ClusterRig(seed=seed)
    rig.create_topic("orders")
    leader = rig.leader("orders")
    asked = rig.followers("orders")[0]
    fields = question(topics)
    rig.nodes[leader - 1].kill()
    assert not rig.nodes[asked - 1].broker.suspected_brokers.has(leader)
    if is_noticed:
        rig.run_until(lambda: rig.nodes[asked - 1].broker.suspected_brokers.has(leader))
    before_ms = rig.world.now_ms
    answer = rig.ask(asked, 3, 12, **fields)
    assert rig.world.now_ms - before_ms < DECISION_MS_MAX, "it was told of the decision"
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (0, rig.leader("orders"))
    assert partition.leader_id != leader


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("slow", [1, 2, 3])
def test_new_leader_named_by_a_metadata_answer_knows_that_it_leads(seed, slow):
    rig = ClusterRig(seed=seed)
    rig.create_topic("orders")
    leader = rig.leader("orders")
    rig.nodes[slow - 1].jobs.delays_us = {"image": 30_000}
    rig.nodes[leader - 1].kill()
    told = [rig.begin(node, 3, 12, **question(NAMED)) for node in rig.followers("orders")]
    rig.run_until(lambda: any(each.is_done for each in told))
    (answer,) = [each.answer for each in told if each.is_done]
    named = answer.topics[0].partitions[0].leader_id
    assert named not in (leader, -1)
    assert rig.produce("orders", [b"a"], node_id=named).error_code == 0


def twice(rig: ClusterRig, asked: int) -> tuple[int, int]:
    """How long two questions take, one after the other, in ms."""
    took_ms = []
    for _ in range(2):
        before_ms = rig.world.now_ms
        answer = rig.ask(asked, 3, 12, **question(NAMED))
        assert answer.topics[0].partitions[0].leader_id == rig.leader("orders")
        took_ms.append(rig.world.now_ms - before_ms)
    return took_ms[0], took_ms[1]


def test_a_hung_leader_is_waited_for_once(rig):
    leader = rig.leader("orders")
    rig.nodes[leader - 1].pause()
    first_ms, second_ms = twice(rig, rig.followers("orders")[0])
    assert PROBE_MS_MAX <= first_ms <= PROBE_MS_MAX + 5
    assert second_ms < 5
    rig.nodes[leader - 1].resume()


def test_a_leader_that_is_cut_off_from_the_metadata_is_waited_for_once(rig):
    leader, asked = rig.leader("orders"), rig.followers("orders")[0]
    assert max(twice(rig, asked)) < 5
    rig.cluster.cut(f"n{leader}", "store")
    assert rig.ask(asked, 19, 5, **create_fields("more", {}, 1)).topics[0].error_code == 0
    first_ms, second_ms = twice(rig, asked)
    assert PROBE_MS_MAX <= first_ms <= PROBE_MS_MAX + 5
    assert second_ms < 5
    rig.cluster.reconnect(f"n{leader}", "store")
    rig.run_until(lambda: "more" in rig.nodes[leader - 1].broker.image.topics)
    assert max(twice(rig, asked)) < 5


@pytest.mark.parametrize(
    ("name", "version", "is_kept"),
    [
        ("librdkafka", "2.16.1", True),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", True),
        ("confluent-kafka-dotnet", "2.11.0", True),
        ("node-rdkafka", "3.4.0", True),
        ("apache-kafka-java", "4.3.0", False),
        ("kgo", "1.20.0", False),
    ],
)
def test_metadata_lists_a_dead_broker_for_a_moment_to_clients_on_librdkafka_only(rig, name, version, is_kept):
    """librdkafka loses its way when a broker is gone from the same answer that names the new leaders; Java's client looks
    at its bootstrap servers again when no broker that it knows answers (KIP-899)."""
    leader = rig.leader("orders")
    asked = rig.followers("orders")[0]

    def listed(topics) -> list[int]:
        return [each.node_id for each in rig.ask(asked, 3, 12, **question(topics)).brokers]

    assert listed(NAMED) == [1, 2, 3]
    rig._clients[asked, 18] = rig._clients[asked, 3]
    rig.ask(asked, 18, 3, client_software_name=name, client_software_version=version)
    rig.nodes[leader - 1].kill()
    rig.run_until(lambda: rig.leader("orders") not in (leader, -1))
    rig.run_until(lambda: rig.nodes[asked - 1].broker.image.topics["orders"].partitions[0].leader != leader)
    (partition,) = rig.ask(asked, 3, 12, **question(NAMED)).topics[0].partitions
    assert partition.leader_id != leader
    assert leader in partition.offline_replicas
    assert listed(NAMED) == ([1, 2, 3] if is_kept else followers_of(leader))
    assert listed(ALL) == listed([]) == followers_of(leader)
    rig.run_for(LISTED_MS)
    assert listed(NAMED) == followers_of(leader)
    rig.nodes[leader - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert listed(NAMED) == listed(ALL) == [1, 2, 3]


def test_broker_without_the_store_names_itself_when_the_controller_is_dead(rig):
    """No other controller is elected then, and librdkafka sends many requests to the controller alone."""
    controller = rig.nodes[0].broker.image.controller_id
    for node in rig.nodes:
        node.store_line.block()
    rig.run_for(1_000)
    assert {rig.ask(node_id, 3, 12, **question(ALL)).controller_id for node_id in (1, 2, 3)} == {controller}
    rig.nodes[controller - 1].kill()
    rig.run_for(1_000)
    for left in {1, 2, 3} - {controller}:
        assert rig.ask(left, 3, 12, **question(ALL)).controller_id == left


def restored_image_of_node_1(rig) -> None:
    """The store lost everything and was restored; in node 1's new image no broker serves yet. It asks as librdkafka."""
    rig.ask(1, 18, 3, client_software_name="librdkafka", client_software_version="2.16.1")
    rig._clients[1, 3] = rig._clients[1, 18]
    restore_lost_store(rig)
    rig.run_until(lambda: not serving_brokers(rig.nodes[0].broker.image))


@pytest.mark.parametrize("topics", [NAMED, ALL, []])
def test_metadata_lists_brokers_to_librdkafka_while_a_restored_image_is_put_in_force_in_slices(rig, topics):
    rig.create_topic("many", partitions=20)
    loader = rig.nodes[0].broker.metadata_loader
    loader.partitions_a_slice = 1
    restored_image_of_node_1(rig)
    answers = [rig.begin(1, 3, 12, **question(topics))]
    while loader._slices is not None:
        rig.run_for(1)
        answers.append(rig.begin(1, 3, 12, **question(topics)))
    assert len(answers) > 10
    rig.run_until(lambda: answers[-1].is_done)
    assert {tuple(broker.node_id for broker in each.answer.brokers) for each in answers} == {(1, 2, 3)}


@pytest.mark.parametrize("topics", [NAMED, ALL, []])
def test_metadata_lists_fenced_brokers_to_librdkafka_as_long_as_none_serves(rig, topics):
    restored_image_of_node_1(rig)
    rig.cluster.stop_store()
    rig.run_for(2 * LISTED_MS)
    assert not serving_brokers(rig.nodes[0].broker.image)
    assert [each.node_id for each in rig.ask(1, 3, 12, **question(topics)).brokers] == [1, 2, 3]
    rig.cluster.start_store()
    rig.run_until(lambda: len(serving_brokers(rig.nodes[0].broker.image)) == 3)


def followers_of(leader: int) -> list[int]:
    return [node for node in (1, 2, 3) if node != leader]


def catch_up_ms(throttled_replicas: str) -> int:
    """How long a follower needs for 40 kB from leader 1, which sends 20 kB a second to throttled replicas."""
    rig = ClusterRig(settings={"leader.replication.throttled.rate": "20000"})
    rig.create_topic("orders", leader_replication_throttled_replicas=throttled_replicas)
    assert rig.leader("orders") == 1
    slow = rig.followers("orders")[0]
    rig.nodes[slow - 1].kill()
    rig.run_until(lambda: slow not in rig.info("orders").isr)
    for _ in range(20):
        assert rig.produce("orders", [b"x" * 2_000]).error_code == 0
    rig.nodes[slow - 1].start()
    rig.run_until(lambda: rig.nodes[slow - 1].is_ready)
    before_ms = rig.world.now_ms
    rig.run_until(lambda: rig.is_in_sync("orders"))
    return rig.world.now_ms - before_ms


@pytest.mark.parametrize("throttled_replicas", ["*", "0:1"])
def test_a_throttled_replica_catches_up_slowly(throttled_replicas):
    """`kafka-reassign-partitions --throttle` names the brokers that send, and not the new replicas, in the leaders' list."""
    assert 800 < catch_up_ms(throttled_replicas) < 6_000


def test_leader_that_its_list_does_not_name_throttles_no_follower():
    assert catch_up_ms("0:2,0:3,1:1") <= 800


def test_replica_with_a_lost_folder_is_removed_and_copied_again(rig):
    rig.produce("orders", [b"a", b"b"])
    victim = rig.followers("orders")[0]
    rig.nodes[victim - 1].kill()
    rig.nodes[victim - 1].disk.remove_tree("/data/orders-0")
    rig.nodes[victim - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(victim, "orders").log_end_offset == 2
    assert "replica-resync-started" in rig.events(victim)


def test_last_isr_member_is_never_removed_from_the_isr():
    rig = ClusterRig()
    rig.create_topic("orders")
    leader = rig.leader("orders")
    rig.produce("orders", [b"a"])
    for node in rig.followers("orders"):
        rig.nodes[node - 1].kill()
    rig.run_until(lambda: rig.info("orders").isr == (leader,))
    rig.nodes[leader - 1].kill()
    rig.nodes[leader - 1].disk.remove_tree("/data/orders-0")
    rig.nodes[leader - 1].start()
    rig.run_until(lambda: "last-replica-offline" in rig.events(leader))
    replica, exits = rig.replica(leader, "orders"), rig.nodes[leader - 1].broker.offline_replicas.exits
    assert replica.log is None
    assert exits.was_last(replica)
    rig.run_until(lambda: rig.nodes[leader - 1].is_ready)
    delete_topic(rig, "orders", node_id=leader)
    rig.run_until(lambda: ("orders", 0) not in rig.nodes[leader - 1].broker.partitions)
    assert not exits.was_last(replica), "a deleted partition is not kept"


def test_a_failed_directory_moves_the_leadership(rig):
    leader = rig.leader("orders")
    rig.produce("orders", [b"a"])
    rig.nodes[leader - 1].disk.fail_next("append", 5, path_contains="/orders-0")
    rig.produce("orders", [b"b"])
    rig.run_until(lambda: rig.leader("orders") not in (leader, -1))
    rig.run_until(lambda: rig.replica(rig.leader("orders"), "orders").is_leader)
    assert rig.produce("orders", [b"c"]).base_offset == 1


def test_a_last_member_whose_log_is_offline_yields_to_an_eligible_follower(rig):
    """Its broker is alive, so no controller would elect another leader."""
    for node in rig.nodes:
        node.kill()
        node.directories = (*node.directories, "/data2")  # a broker without any directory ends
        node.start()
    rig.run_until(lambda: all(node.is_ready for node in rig.nodes) and rig.is_in_sync("orders"))
    rig.run_for(5_000)
    assert rig.produce("orders", [b"a"]).error_code == 0
    offline = rig.leader("orders")
    gone, restarted = rig.followers("orders")
    rig.nodes[gone - 1].kill()
    rig.run_until(lambda: rig.info("orders").isr == (offline, restarted))
    rig.nodes[offline - 1].disk.fail_next("append", 5, path_contains="/orders-0")
    rig.begin_produce("orders", [b"b"], acks=1)
    rig.run_until(lambda: (rig.leader("orders"), rig.info("orders").elr) == (restarted, (offline,)))
    rig.nodes[restarted - 1].kill()
    rig.run_until(lambda: "last-replica-offline" in rig.events(offline))
    rig.run_for(10_000)
    assert (rig.leader("orders"), rig.info("orders").elr) == (offline, (restarted,))
    assert rig.events(offline).count("last-replica-offline") == 1
    rig.nodes[restarted - 1].start()
    rig.run_until(lambda: rig.leader("orders") == restarted)
    assert rig.info("orders").elr == (offline,)
    rig.nodes[gone - 1].start()
    rig.run_until(lambda: set(rig.info("orders").isr) == {restarted, gone})
    rig.run_until(lambda: rig.replica(restarted, "orders").isr == rig.info("orders").isr)
    assert rig.produce("orders", [b"c"]).base_offset == 1
    assert "unclean-election" not in rig.events(offline) + rig.events(restarted)


def test_flushed_topics_are_acknowledged_when_every_member_flushed():
    rig = ClusterRig()
    rig.create_topic("orders", flush_messages="1")
    assert rig.produce("orders", [b"a"]).error_code == 0
    for node in (1, 2, 3):
        assert rig.replica(node, "orders").log.recovery_point == 1


def test_a_controller_and_another_that_die_together_are_both_noticed_at_once():
    rig = ClusterRig(size=5)
    rig.create_topic("orders", partitions=5, replication_factor=5)
    rig.run_for(1_000)
    controller = rig.alive().broker.image.controller_id
    other = next(node.node_id for node in rig.nodes if node.node_id != controller)
    before_ms = rig.world.now_ms
    rig.nodes[controller - 1].kill()
    rig.nodes[other - 1].kill()
    rig.run_until(lambda: all(rig.leader("orders", number) not in (controller, other, -1) for number in range(5)))
    assert rig.world.now_ms - before_ms < 1_000


def test_broker_without_its_log_is_not_elected_when_all_brokers_start_again(rig):
    rig.produce("orders", [b"a", b"b"])
    victim = rig.leader("orders")
    for node in rig.nodes:
        node.kill()
    rig.nodes[victim - 1].disk.remove_tree("/data/orders-0")
    rig.nodes[victim - 1].start()
    rig.run_until(lambda: rig.nodes[victim - 1].is_ready)
    assert rig.leader("orders") != victim
    for node in rig.nodes:
        if node.broker is None:
            node.start()
    rig.run_until(lambda: rig.leader("orders") >= 0 and rig.is_in_sync("orders"))
    assert rig.replica(victim, "orders").log_end_offset == 2
    assert "unclean-election" not in rig.events(1) + rig.events(2) + rig.events(3)


def test_the_store_knows_the_minimum_that_brokers_were_started_with():
    rig = ClusterRig(settings={"min.insync.replicas": "2"})
    rig.create_topic("orders")
    rig.produce("orders", [b"a"])
    leader = rig.leader("orders")
    others = rig.followers("orders")
    for node in others:
        rig.nodes[node - 1].kill()
    rig.run_until(lambda: rig.info("orders").isr == (leader,))
    (eligible,) = rig.info("orders").elr
    assert eligible in others
    rig.nodes[leader - 1].kill()
    for node in others:
        rig.nodes[node - 1].start()
    rig.run_until(lambda: rig.leader("orders") == eligible)
    assert not [event for node in others for event in rig.events(node) if event == "unclean-election"]


def test_fetch_beyond_the_log_end_is_out_of_range_once_a_heartbeat_confirmed_the_leader():
    rig = ClusterRig()
    rig.create_topic("orders")
    assert rig.produce("orders", [b"a"]).error_code == 0
    for _ in range(4):  # at several phases of the regular heartbeat
        rig.run_for(700)
        assert rig.fetch("orders", 100).error_code == ErrorCode.not_leader_or_follower
        rig.run_for(2 * HEARTBEAT_WAIT_MS)
        assert rig.fetch("orders", 100).error_code == ErrorCode.offset_out_of_range


@pytest.mark.parametrize("is_back", [False, True])
def test_leader_that_died_while_a_large_topic_was_created_is_replaced_when_the_topic_is_complete(rig, is_back):
    """A topic of more than 200 partitions takes several calls, and the image shows it after the last one."""
    store, topic_id = rig.cluster.store, str(uuid.UUID(int=77))

    def create(script, number, replicas, **more):
        partitions = [{"partition": number, "replicas": replicas}]
        about = {"topic_id": topic_id, "total": 2, "partitions": partitions}
        assert call_store(rig, script, **about, **more).code == "OK"
        for node in rig.nodes:
            node.store_line.store_moved()

    create("create_topic", 0, "3,1,2", name="large", configs={})
    rig.run_for(50)
    rig.nodes[2].kill()
    rig.run_until(lambda: rig.alive().broker.image.brokers[3].state == "FENCED")
    if is_back:
        rig.nodes[2].start()
        rig.run_until(lambda: rig.nodes[2].is_ready)
    rig.run_for(100)
    epoch = store.state.partitions[topic_id, 0]["leader_epoch"]
    create("create_partitions", 1, "1,2")
    rig.run_for(500)
    assert store.state.partitions[topic_id, 0]["leader_epoch"] == epoch + 1
    assert rig.leader("large") in ((1, 2, 3) if is_back else (1, 2))
    assert rig.produce("large", [b"a"]).error_code == ErrorCode.none


@pytest.mark.parametrize("metadata", ["redis", "raft"])
def test_controller_that_cannot_write_its_copy_of_the_metadata_halts_and_another_is_elected(metadata):
    rig = ClusterRig(metadata=metadata)
    controller = rig.alive().broker.image.controller_id
    node, other = rig.nodes[controller - 1], rig.nodes[controller % 3]
    node.on_disks_lost = node.kill
    node.disk.fail_next("append", errno.EIO, path_contains="__yak_metadata/0")
    rig.begin(other.node_id, 19, 5, **create_fields("orders", {}, 1))
    rig.run_until(lambda: node.broker is None)
    assert "metadata-log-failed" in rig.events(controller)
    other.kill()
    other.start()
    rig.run_until(lambda: other.is_ready)
    assert rig.alive().broker.image.controller_id != controller
