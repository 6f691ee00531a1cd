"""The controller is killed in the middle of something: the next one finishes it or takes it back, within seconds.

"In the middle" is made certain by the proxy before Redis, which holds the controller's calls from a certain byte on.
"""

import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from support.fault_cluster import NODES, FaultCluster, Node
from support.loads import check_complete
from support.one_record import wait_written
from support.waiting import wait_until

from yak.cluster.image import PartitionInfo
from yak.local.chaos.proxy import CLIENTS, Flow

MANY = 1_000
SLICES = 5
SECONDS_MAX = 20.0
"""For what is to happen "within seconds" on a machine that does other things too."""


def answers_to(node: Node) -> Flow:
    return node.redis.route(CLIENTS).to_source


def begin(ask: Any) -> threading.Thread:
    """Ask for a change in a thread; how it ends is of no interest, for who would answer dies."""

    def run() -> None:
        try:
            ask()
        except Exception as error:
            print(f"as expected: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def create(cluster: FaultCluster, topic: str, partitions: int) -> Any:
    admin = cluster.new_admin()
    return lambda: admin.create_topics([NewTopic(topic, partitions, 3)], request_timeout=10.0)[topic].result(15.0)


def others(node: Node) -> tuple[int, ...]:
    return tuple(each for each in NODES if each != node.node_id)


def wait_next_controller(cluster: FaultCluster, killed: Node) -> Node:
    wait_until(lambda: cluster.image.controller_id != killed.node_id, "another has the office")
    cluster.wait_known_controller()
    return cluster.controller


@pytest.mark.parametrize("done", [1, SLICES - 1])
def test_a_topic_that_was_being_made_is_taken_back_and_can_be_made_again(cluster, unique_topic, done):
    controller = cluster.controller
    controller.calls.hold_before(b'"total":%d' % MANY, count=done + 1)
    begin(create(cluster, unique_topic, MANY))
    wait_until(controller.calls.stopped.is_set, "the calls are held")
    wait_until(lambda: [each for each in cluster.image.pending.values() if each.name == unique_topic], "a part is made")
    marks = cluster.marks()
    controller.kill9()
    successor = wait_next_controller(cluster, controller)
    began = time.monotonic()
    marks[successor.node_id].wait_for("incomplete-topic-removed", topic=unique_topic)
    assert time.monotonic() - began < SECONDS_MAX
    assert not cluster.image.pending
    assert unique_topic not in cluster.image.topics
    for node_id in others(controller):
        data_dir = cluster.nodes[node_id].data_dir
        wait_until(lambda data_dir=data_dir: not list(data_dir.glob(f"{unique_topic}-*[0-9]")), "no folder is left")
    cluster.create(unique_topic, *[others(controller)] * 3)
    wait_written(cluster, unique_topic, b"one")
    cluster.heal()
    controller.start()
    assert not list(controller.data_dir.glob(f"{unique_topic}-*[0-9]"))


def test_topic_whose_last_slice_was_stored_exists_although_no_client_got_an_answer(cluster, unique_topic):
    controller = cluster.controller
    # Hold the answers, not the calls: everything is done, and the one who asked dies without knowing.
    answers_to(controller).hold()
    begin(create(cluster, unique_topic, 400))
    wait_until(lambda: unique_topic in cluster.image.topics, "the topic is in the store")
    controller.kill9()
    wait_next_controller(cluster, controller)
    wait_until(lambda: all(info.leader in others(controller) for info in partitions(cluster, unique_topic)), "led")
    with pytest.raises(KafkaException) as again:
        create(cluster, unique_topic, 400)()
    assert again.value.args[0].name() == "TOPIC_ALREADY_EXISTS"
    cluster.heal()
    controller.start()
    wait_until(lambda: all(len(each.isr) == 3 for each in partitions(cluster, unique_topic)), "all are in sync")
    wait_written(cluster, unique_topic, b"one")


def partitions(cluster: FaultCluster, topic: str) -> tuple[PartitionInfo, ...]:
    return cluster.image.topics[topic].partitions


def test_a_topic_that_was_being_grown_is_grown_by_the_next_controller(cluster, unique_topic):
    cluster.create(unique_topic, [1, 2, 3])
    wait_written(cluster, unique_topic, b"one")
    controller = cluster.controller
    controller.calls.hold_before(b'"total":%d' % 500, count=2)
    admin = cluster.new_admin()
    begin(lambda: admin.create_partitions([NewPartitions(unique_topic, 500)])[unique_topic].result(15.0))
    wait_until(controller.calls.stopped.is_set, "the calls are held")
    wait_until(lambda: cluster.image.pending, "a part is made")
    marks = cluster.marks()
    controller.kill9()
    successor = wait_next_controller(cluster, controller)
    marks[successor.node_id].wait_for("incomplete-partitions-created", topic=unique_topic)
    wait_until(lambda: len(partitions(cluster, unique_topic)) == 500, "it has all its partitions", SECONDS_MAX)
    wait_until(lambda: all(each.leader >= 0 for each in partitions(cluster, unique_topic)), "each has a leader")


@pytest.mark.parametrize("is_done", [False, True])
def test_a_deletion_happened_or_it_did_not(cluster, unique_topic, is_done):
    cluster.create(unique_topic, *[[1, 2, 3]] * 20)
    wait_written(cluster, unique_topic, b"one")
    topic_id = cluster.image.topics[unique_topic].topic_id
    controller = cluster.controller
    if is_done:
        answers_to(controller).hold()
    else:
        # Its high watermark is reported with its id too: five times a second, and only when it moved.
        time.sleep(0.5)
        controller.calls.hold_before(str(topic_id).encode())
    admin = cluster.new_admin()
    begin(lambda: admin.delete_topics([unique_topic], request_timeout=10.0)[unique_topic].result(15.0))
    if is_done:
        wait_until(lambda: unique_topic not in cluster.image.topics, "it is deleted in the store")
    else:
        wait_until(controller.calls.stopped.is_set, "the call is held")
    controller.kill9()
    wait_next_controller(cluster, controller)
    if not is_done:
        assert cluster.image.topics[unique_topic].topic_id == topic_id
        wait_until(lambda: all(each.leader in others(controller) for each in partitions(cluster, unique_topic)), "led")
        wait_written(cluster, unique_topic, b"two")
        cluster.delete(unique_topic)
    wait_until(lambda: unique_topic not in cluster.image.topics, "it is deleted")
    for node_id in others(controller):
        data_dir = cluster.nodes[node_id].data_dir
        wait_until(lambda data_dir=data_dir: not list(data_dir.glob(f"{unique_topic}-*[0-9]")), "no folder is left")
    cluster.heal()
    controller.start()
    wait_until(lambda: not list(controller.data_dir.glob(f"{unique_topic}-*[0-9]")), "nor where it was killed")
    cluster.create(unique_topic, [1, 2, 3])
    wait_written(cluster, unique_topic, b"new")


def test_reassignment_continues_under_the_next_controller_and_leader(cluster, unique_topic):
    controller = cluster.controller
    stays, comes = others(controller)
    cluster.create(unique_topic, *[[controller.node_id, stays]] * 4)
    with cluster.load(unique_topic, partitions=4) as load:
        load.wait_for(100)
        # The one that is to come cannot copy yet, so all four moves are under way when the controller dies.
        controller.proxy.hold(cluster.nodes[comes].name)
        cluster.nodes[stays].proxy.hold(cluster.nodes[comes].name)
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
        try:
            admin.alter_partition_reassignments({TopicPartition(unique_topic, n): [stays, comes] for n in range(4)})
        finally:
            admin.close()
        wait_until(lambda: all(comes in each.adding_replicas for each in partitions(cluster, unique_topic)), "begun")
        controller.kill9()
        wait_next_controller(cluster, controller)
        cluster.heal()
        wait_until(lambda: all(is_moved(each, stays, comes) for each in partitions(cluster, unique_topic)), "finished")
        load.wait_for(50)
        controller.start()
        wait_until(lambda: not list(controller.data_dir.glob(f"{unique_topic}-*[0-9]")), "it gives its copies up")
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)


def is_moved(info: PartitionInfo, *replicas: int) -> bool:
    under_way = info.adding_replicas or info.removing_replicas
    return (
        not under_way and info.replicas == replicas and sorted(info.isr) == sorted(replicas) and info.leader in replicas
    )
