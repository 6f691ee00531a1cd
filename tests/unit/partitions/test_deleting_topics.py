"""Deleting topics with many partitions: what one turn does is bounded, and does not grow with the other partitions."""

import errno

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker.requests import delete_topic
from tests.unit.noted_calls import note_calls_by_step
from yak.ids import TopicPartition
from yak.partitions.local_replicas import RELEASED_A_SLICE, LocalReplicas
from yak.storage.log_store import LogStore

MANY = 3 * RELEASED_A_SLICE + 20
CHECKPOINT_MS = 60_000


@pytest.fixture
def rig() -> Rig:
    return Rig()


def folders(rig: Rig, name: str) -> list[str]:
    return [each for each in rig.node.disk.names("/data") if each.startswith(f"{name}-")]


class NeverWalked(dict):
    def __iter__(self):
        raise AssertionError("all partitions of the broker are walked")


def test_topic_is_deleted_where_its_folder_finds_no_room_for_another_name():
    rig = Rig()
    rig.create_topic("gone")
    rig.produce("gone", [b"x" * 1_000])
    rig.node.disk.fail_next("rename", errno.ENOSPC, path_contains="gone-0")
    delete_topic(rig, "gone")
    rig.run_for(1_000)
    assert folders(rig, "gone") == []
    assert "log-directory-offline" not in [notice.event for notice in rig.node.notices]


def test_topic_deletion_of_many_partitions_moves_a_bounded_number_of_folders_in_a_step(rig, monkeypatch):
    rig.create_topic("orders", partitions=MANY)
    moved = note_calls_by_step(monkeypatch, rig.node.broker, LogStore, "delete")
    delete_topic(rig, "orders")
    assert not rig.node.broker.partitions
    assert "orders" not in rig.node.broker.counters.topics
    rig.run_for(1_000)
    assert not folders(rig, "orders")
    assert sum(map(len, moved)) == MANY
    assert max(map(len, moved)) <= RELEASED_A_SLICE


def test_topic_deletion_reads_only_the_partitions_of_that_topic(rig):
    rig.create_topic("kept", partitions=3)
    rig.create_topic("orders", partitions=3)
    broker = rig.node.broker
    image = broker.image
    broker.partitions = broker.local_replicas._partitions = NeverWalked(broker.partitions)
    list(broker.local_replicas._drop(image.topics["orders"], keep=False))
    assert len(broker.partitions) == 3
    assert set(broker.counters.topics) == {"kept"}


def test_topic_that_is_made_again_while_its_folders_are_moved_aside_begins_empty(rig):
    rig.create_topic("orders", partitions=MANY)
    rig.produce("orders", [b"old"], partition=MANY - 1)
    delete_topic(rig, "orders")
    assert folders(rig, "orders")
    rig.create_topic("orders", partitions=MANY)
    assert rig.produce("orders", [b"new"], partition=MANY - 1).base_offset == 0
    rig.run_for(1_000)
    assert len(rig.node.broker.log_store.logs) == MANY


def test_stop_while_folders_are_moved_aside_leaves_no_strays(rig):
    rig.create_topic("orders", partitions=MANY)
    delete_topic(rig, "orders")
    rig.restart(orderly=True)
    left = [each for each in rig.node.disk.names("/data") if each.startswith("orders")]
    assert all(each.endswith("-delete") for each in left)  # which a start removes
    assert not [notice for notice in rig.node.notices if notice.event == "stray-log-kept"]


def test_kill_while_folders_are_moved_aside_leaves_none_after_the_next_start(rig):
    rig.create_topic("kept")
    rig.create_topic("orders", partitions=MANY)
    delete_topic(rig, "orders")
    assert folders(rig, "orders")
    rig.restart()
    rig.run_for(1_000)
    assert all(each.endswith("-delete") for each in folders(rig, "orders"))  # which a start removes
    assert len(rig.node.broker.log_store.logs) == 1
    assert rig.produce("kept", [b"value"]).error_code == 0


@pytest.mark.parametrize("returns", [False, True])
def test_kill_before_a_moved_replica_is_removed_removes_it_unless_it_moved_back(monkeypatch, returns):
    rig = ClusterRig()
    rig.create_topic("orders", replication_factor=2)
    rig.produce("orders", [b"value"])
    leader, (follower,) = rig.leader("orders"), rig.followers("orders")

    def move(replicas):
        topics = [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": replicas}]}]
        rig.ask(leader, 45, 0, topics=topics)
        rig.run_until(lambda: rig.info("orders").replicas == replicas)

    def held():
        return [name for name in rig.nodes[follower - 1].disk.names("/data") if name.startswith("orders-")]

    with monkeypatch.context() as patched:
        patched.setattr(LocalReplicas, "_release_moved", lambda *_: None)
        move((leader,))
        rig.run_for(1_000)
        rig.nodes[follower - 1].kill()
    if returns:
        move((leader, follower))
    rig.nodes[follower - 1].start()
    rig.run_until(lambda: rig.nodes[follower - 1].is_ready)
    rig.run_for(1_000)
    assert held() == (["orders-0"] if returns else [])
    if returns:
        rig.run_until(lambda: rig.is_in_sync("orders"))
        assert rig.replica(follower, "orders").log_end_offset == 1


@pytest.mark.parametrize("is_down", [False, True])
def test_damaged_log_of_a_deleted_topic_is_removed_and_the_next_stop_is_clean(is_down):
    """An operator who deletes the topic of a log that cannot be repaired: its folder stayed, and was checked at each start."""
    rig = ClusterRig(settings={"log.flush.offset.checkpoint.interval.ms": "500"})
    rig.create_topic("orders", replication_factor=1, flush_messages="1")
    rig.produce("orders", [b"a"])
    rig.run_for(2_000)
    node = rig.nodes[rig.leader("orders") - 1]
    node.kill()
    node.disk.corrupt(f"/data/orders-0/{0:020d}.log", 16, 99)
    if not is_down:
        node.start()
        rig.run_until(lambda: node.is_ready)
        assert rig.replica(node.node_id, "orders").log is None
    delete_topic(rig, "orders")
    if is_down:
        node.start()
        rig.run_until(lambda: node.is_ready)
    rig.run_for(2_000)
    assert not [name for name in node.disk.names("/data") if name.startswith("orders-")]
    node.stop()
    rig.run_until(lambda: node.broker is None)
    assert node.disk.exists("/data/.kafka_cleanshutdown")


def test_log_of_a_deleted_topic_in_a_directory_that_comes_back_is_removed():
    """Its topic was created again meanwhile, in another directory: the old log stayed until the new topic was deleted."""
    rig = Rig(directories=("/data", "/more"))
    rig.create_topic("filler")
    rig.create_topic("orders")
    broker = rig.node.broker
    old = broker.partitions[TopicPartition("orders", 0)].log
    assert old.directory == "/more"
    rig.node.disk.fail_next("append", path_contains="/more")
    rig.produce("orders", [b"a"])
    delete_topic(rig, "orders")
    rig.create_topic("orders")
    assert rig.produce("orders", [b"b"]).error_code == 0
    rig.restart()
    rig.run_for(2_000)
    assert not rig.node.disk.exists("/more/orders-0")
    assert rig.fetch("orders", 0).high_watermark == 1


def test_high_watermark_of_a_deleted_topic_is_not_that_of_the_next_of_its_name_after_a_kill():
    """It would expose records that only this replica has, and acknowledge a producer's retry of them."""
    rig = ClusterRig()
    rig.create_topic("orders", min_insync_replicas="2")
    rig.produce("orders", [b"old"] * 10)
    rig.run_for(CHECKPOINT_MS + 1_000)
    delete_topic(rig, "orders")
    rig.run_until(lambda: all("orders" not in node.broker.image.topics for node in rig.nodes))
    rig.create_topic("orders", min_insync_replicas="2")
    rig.run_until(lambda: rig.leader("orders") > 0 and rig.replica(rig.leader("orders"), "orders").is_leader)
    assert rig.produce("orders", [b"new"]).base_offset == 0
    leader, followers = rig.leader("orders"), rig.followers("orders")
    for node in followers:
        rig.cluster.cut(f"n{leader}", f"n{node}")
    rig.begin_produce("orders", [b"uncommitted"] * 4, acks=1)
    rig.run_until(lambda: rig.replica(leader, "orders").log_end_offset == 5)
    for node in rig.nodes:
        node.kill()
    rig.nodes[leader - 1].start()
    rig.run_until(lambda: rig.nodes[leader - 1].is_ready and rig.replica(leader, "orders").is_leader)
    assert rig.replica(leader, "orders").log_end_offset == 5
    assert rig.fetch("orders", 0).high_watermark <= 1


def test_failed_sync_of_a_deletion_takes_its_directory_offline(monkeypatch):
    """The name of a log that was created meanwhile may be lost, and its own sync does not report that."""
    rig = Rig(directories=("/data", "/more"))
    for topic in ("orders", "others"):
        rig.create_topic(topic)
    deleted, other = (rig.node.broker.partitions[topic, 0] for topic in ("orders", "others"))
    directory = deleted.log.directory
    assert other.log.directory != directory
    sync = rig.node.disk.sync_directory

    def fail(path):
        if path == directory:
            raise OSError(errno.EIO, "I/O error", path)
        sync(path)

    monkeypatch.setattr(rig.node.disk, "sync_directory", fail)
    delete_topic(rig, "orders")
    rig.run_for(1_000)
    assert [each.path for each in rig.node.broker.log_store.online()] == [other.log.directory]


def test_folder_that_cannot_be_removed_takes_no_directory_offline(rig, monkeypatch):
    def fail(path):
        raise OSError(errno.EACCES, "permission denied", path)

    rig.create_topic("orders")
    monkeypatch.setattr(rig.node.disk, "remove_tree", fail)
    delete_topic(rig, "orders")
    rig.run_for(1_000)
    assert rig.node.broker.log_store.online()
    assert "files-not-deleted" in [notice.event for notice in rig.node.notices]
