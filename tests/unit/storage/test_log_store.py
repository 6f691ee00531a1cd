"""All logs of a node: whose directories they are, and what happens to one that fails."""

import errno
import uuid

import pytest

from tests.unit.storage.conftest import (
    KeepsNothing,
    append_batch,
    checkpoint_plan,
    end_checkpoint,
    set_cluster_id,
    write_checkpoint,
)
from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure, StartRefused
from yak.ids import TopicPartition
from yak.sim.disk import SimDisk
from yak.storage.checkpoints import format_clean_shutdown
from yak.storage.log_creation import CreationRunning
from yak.storage.log_store import LogStore

CONFIG = LogConfig()
TOPIC = uuid.UUID(int=5)


class Node:
    def __init__(self, *directories, node_id=1):
        self.disk = SimDisk()
        self.directories = directories or ("/data",)
        self.node_id = node_id
        self.ids = 0
        self.store = None

    def make_uuid(self):
        self.ids += 1
        return uuid.UUID(int=self.ids)

    def open(self, **arguments):
        node_id = arguments.pop("node_id", self.node_id)
        directories = arguments.pop("directories", self.directories)
        self.store = LogStore.open(
            self.disk, directories, node_id, self.make_uuid, 0, lambda _topic: CONFIG, **arguments
        )
        return self.store

    def tree(self):
        return {path: bytes(content.data) for path, content in self.disk.contents().items()}


def log_with_records(store, topic_id, high_watermark=None):
    """A new log with two records; with a high watermark, a checkpoint has it."""
    log = store.create(TopicPartition("t", 0), topic_id, CONFIG)
    append_batch(log, [b"x", b"y"])
    if high_watermark is not None:
        write_checkpoint(store, {log.topic_partition: high_watermark})
    return log


def two_directories(node, logs):
    """Open a store of two directories, and create these partitions of one topic in them, in turn."""
    node.directories = ("/a", "/b")
    store = node.open()
    for number in range(logs):
        store.create(TopicPartition("t", number), TOPIC, CONFIG)
    return store


@pytest.fixture
def node():
    return Node()


def refusal(node, **arguments):
    before = node.tree()
    with pytest.raises(StartRefused) as caught:
        node.open(**arguments)
    assert node.tree() == before, "nothing was touched"
    assert caught.value.message
    assert caught.value.try_
    return caught.value


def test_a_fresh_directory_is_marked_and_locked(node):
    store = node.open()
    assert node.disk.read_file("/data/meta.properties") == (
        b"#\nversion=1\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    assert store.cluster_id is None
    set_cluster_id(store, "AbCdEfGhIjKlMnOpQrStUw")
    assert node.disk.read_file("/data/meta.properties").endswith(b"cluster.id=AbCdEfGhIjKlMnOpQrStUw\n")
    assert store.directory_ids() == [uuid.UUID(int=1)]
    node.disk.kill()
    assert node.open().cluster_id == "AbCdEfGhIjKlMnOpQrStUw"


def test_a_locked_directory_is_refused(node):
    node.open()
    error = refusal(node)
    assert error.code == "data-dir-locked"
    assert "/data" in error.message


def test_another_nodes_directory_is_refused(node):
    node.open().release()
    error = refusal(node, node_id=2)
    assert error.code == "data-dir-other-node"
    assert "node 1" in error.message


def test_another_clusters_directory_is_refused(node):
    set_cluster_id(node.open(), "cluster-a")
    node.store.release()
    assert refusal(node, cluster_id="cluster-b").code == "data-dir-other-cluster"
    store = node.open()
    with pytest.raises(StartRefused) as caught:
        set_cluster_id(store, "cluster-b")
    assert caught.value.code == "data-dir-other-cluster"


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (
            b"#\n#Mon Jan 01 2024\nnode.id=3\nversion=1\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
            "data-dir-other-node",
        ),
        (b"version=0\nbroker.id=1\ncluster.id=x\n", "data-dir-version"),
        (b"version=2\nnode.id=1\n", "data-dir-version"),
        (b"version=1\nnode.id=1\ndirectory.id=nonsense\n", "data-dir-bad-meta"),
        (b"\xff\x00garbage", "data-dir-version"),
    ],
)
def test_meta_properties_of_another_node_or_version_or_with_garbage_are_refused(node, properties, code):
    node.disk.make_directory("/data")
    node.disk.write_file("/data/meta.properties", properties)
    assert refusal(node).code == code


def test_kafkas_own_directory_of_this_node_is_taken(node):
    node.disk.make_directory("/data/t-0")
    node.disk.write_file(
        "/data/meta.properties", b"#\n#Mon\nnode.id=1\nversion=1\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    node.disk.write_file("/data/t-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    store = node.open()
    assert store.logs[TopicPartition("t", 0)].topic_id == TOPIC
    assert store.cluster_id == "x"


def test_partitions_without_meta_properties_are_refused(node):
    node.disk.make_directory("/data/t-0")
    node.disk.write_file("/data/t-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    assert refusal(node).code == "data-dir-unmarked"


def test_directory_of_a_local_cluster_is_refused_and_not_touched(node):
    node.disk.make_directory("/data/node-1")
    node.disk.write_file("/data/cluster.json", b"{}")
    assert refusal(node).code == "data-dir-of-a-cluster"
    assert sorted(node.disk.names("/data")) == ["cluster.json", "node-1"]


def test_a_file_in_place_of_the_directory_is_refused(node):
    node.disk.write_file("/data", b"")
    assert refusal(node).code == "data-dir-not-a-directory"


def test_a_directory_that_cannot_be_written_is_refused(node):
    node.disk.make_directory("/data")
    node.disk.fail_next("write_file", errno.EACCES)
    with pytest.raises(StartRefused) as caught:
        node.open()
    assert caught.value.code == "data-dir-not-usable"
    assert node.disk.locks == {}


def test_directories_must_agree(node):
    node.directories = ("/a", "/b")
    set_cluster_id(node.open(), "x")
    node.store.create(TopicPartition("t", 0), TOPIC, CONFIG)
    node.store.release()
    meta = node.disk.read_file("/b/meta.properties")
    node.disk.write_file("/b/meta.properties", meta.replace(b"cluster.id=x", b"cluster.id=y"))
    assert refusal(node).code == "data-dir-other-cluster"
    node.disk.write_file("/b/meta.properties", node.disk.read_file("/a/meta.properties"))
    assert refusal(node).code == "data-dir-copied"
    node.disk.write_file("/b/meta.properties", meta)
    node.disk.make_directory("/b/t-0")
    node.disk.write_file(f"/b/t-0/{0:020d}.log", b"of some topic")
    assert refusal(node).code == "data-dir-duplicate-partition"


def test_a_new_log_goes_where_the_fewest_are(node):
    node.directories = ("/a", "/b")
    store = node.open()
    logs = [store.create(TopicPartition("t", number), TOPIC, CONFIG) for number in range(4)]
    assert sorted(log.directory for log in logs) == ["/a", "/a", "/b", "/b"]
    assert node.disk.names("/a/t-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "partition.metadata",
    ]
    assert node.disk.read_file("/a/t-0/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ"
    assert store.create(TopicPartition("t", 0), TOPIC, CONFIG) is logs[0]


def test_log_that_is_created_in_the_folder_of_a_damaged_one_is_not_deleted_in_its_place(node):
    """The removal of the damaged log, of a deleted topic, came between the job of its successor and the job's answer."""
    store, where = node.open(), TopicPartition("t", 0)
    store.make_unavailable(store.create(where, TOPIC, CONFIG), "damaged")
    plan, _decided = store.creation_plan([(where, uuid.UUID(int=6), CONFIG)])
    result = plan.run(node.disk)
    assert store.delete_unserved(where, TOPIC) is None
    log = store.adopt_created(plan, result)[where]
    assert (log.topic_id, node.disk.exists(log.active.path(".log"))) == (uuid.UUID(int=6), True)
    assert where not in store.unavailable


def test_store_is_unchanged_while_a_creation_plan_runs(node):
    store = node.open()
    new = TopicPartition("t", 0), TOPIC, CONFIG
    plan, _decided = store.creation_plan([new])
    result = plan.run(node.disk)
    assert store.logs == {}
    created = store.adopt_created(plan, result)
    assert created == {new[0]: store.logs[new[0]]}
    assert store.logs[new[0]].path == "/data/t-0"


def test_second_creation_of_a_log_that_is_being_created_is_refused_and_may_be_repeated(node):
    store = node.open()
    first, _decided = store.creation_plan([(TopicPartition("t", 0), TOPIC, CONFIG)])
    _plan, decided = store.creation_plan([(TopicPartition("t", 0), uuid.UUID(int=6), CONFIG)])
    assert isinstance(decided[TopicPartition("t", 0)].error, CreationRunning)
    store.adopt_created(first, first.run(node.disk))
    assert store.create(TopicPartition("t", 0), uuid.UUID(int=6), CONFIG).topic_id == uuid.UUID(int=6)


def test_log_found_in_a_directory_that_fails_before_the_other_one_is_displaced_is_offline(node):
    for directory, topic_id in (("/a", TOPIC), ("/b", uuid.UUID(int=6))):
        store = node.open(directories=(directory,))
        store.create(TopicPartition("t", 0), topic_id, CONFIG)
        node.disk.kill()
    store = node.open(directories=("/a", "/b"))
    plan, _decided = store.creation_plan([(TopicPartition("t", 0), uuid.UUID(int=6), CONFIG)])
    result = plan.run(node.disk)
    store.directory_failed("/b")
    failure = store.adopt_created(plan, result)[TopicPartition("t", 0)]
    assert isinstance(failure, LogDirectoryFailure)
    assert failure.directory == "/b"
    assert store.unavailable[TopicPartition("t", 0)].directory == "/b"


def test_folder_that_cannot_be_renamed_fails_its_creation(node):
    store = node.open()
    store.create(TopicPartition("t", 0), TOPIC, CONFIG)
    node.disk.fail_next("rename", errno.EIO, path_contains="t-0")
    plan, _decided = store.creation_plan([(TopicPartition("t", 0), uuid.UUID(int=6), CONFIG)])
    result = plan.run(node.disk)
    failure = store.adopt_created(plan, result)[TopicPartition("t", 0)]
    assert isinstance(failure, LogDirectoryFailure)
    assert failure.directory == "/data"


def test_a_deleted_log_leaves_in_two_steps_and_a_restart_finishes_it(node):
    store = node.open()
    log = store.create(TopicPartition("t", 0), TOPIC, CONFIG)
    remove = store.delete(log)
    (name,) = [name for name in node.disk.names("/data") if name.startswith("t-0")]
    assert name.endswith("-delete")
    again = store.create(TopicPartition("t", 0), uuid.UUID(int=6), CONFIG)
    assert again.log_end_offset == 0
    node.disk.kill()
    reopened = node.open()
    assert list(reopened.logs) == [TopicPartition("t", 0)]
    for leftover in reopened.report.leftovers:
        store.disk.remove_tree(leftover)
    assert name not in node.disk.names("/data")
    remove.run(store.disk)


def test_log_that_is_dropped_but_retained_is_set_aside_permanently(node):
    store = node.open()
    log = store.create(TopicPartition("t", 0), TOPIC, CONFIG)
    store.delete(log, keep=True).run(node.disk)
    (name,) = [name for name in node.disk.names("/data") if name.startswith("t-0")]
    assert name.endswith("-stray")
    node.disk.kill()
    reopened = node.open()
    assert reopened.logs == {}
    for leftover in reopened.report.leftovers:
        store.disk.remove_tree(leftover)
    assert name in node.disk.names("/data")


def test_data_of_another_topic_is_set_aside(node):
    store = node.open()
    log = store.create(TopicPartition("t", 0), TOPIC, CONFIG)
    append_batch(log, [b"old"])
    other = store.create(TopicPartition("t", 0), uuid.UUID(int=6), CONFIG)
    assert (other.log_end_offset, other.topic_id) == (0, uuid.UUID(int=6))
    (stray,) = [name for name in node.disk.names("/data") if name.endswith("-stray")]
    assert b"old" in node.disk.read_file(f"/data/{stray}/00000000000000000000.log")
    assert store.report.events[-1].event == "stray-log-kept"
    node.disk.kill()
    assert list(node.open().logs) == [TopicPartition("t", 0)]


def test_other_folders_are_left_alone_with_a_warning(node):
    node.disk.make_directory("/data/lost+found")
    node.disk.make_directory("/data/__yak_metadata")
    store = node.open()
    assert [(event.event, event.fields["folder"]) for event in store.report.events] == [
        ("folder-ignored", "lost+found")
    ]
    assert node.disk.exists("/data/lost+found")


def test_a_failed_directory_goes_offline_alone(node):
    store = two_directories(node, logs=4)
    lost = store.directory_failed("/a")
    assert [str(log.topic_partition) for log in lost] == ["t-0", "t-2"]
    assert store.directory_failed("/a") == []
    assert sorted(tp.partition for tp in store.logs) == [1, 3]
    with pytest.raises(LogDirectoryFailure):
        store.create(TopicPartition("t", 0), TOPIC, CONFIG)
    assert store.create(TopicPartition("t", 9), TOPIC, CONFIG).directory == "/b"
    usage = store.usage()
    assert [(each.path, each.failure is None, len(each.logs)) for each in usage] == [("/a", False, 0), ("/b", True, 3)]
    store.close_plan(5).run(store.disk)
    assert not node.disk.exists("/a/.kafka_cleanshutdown")
    assert node.disk.read_file("/b/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":5}'


def test_a_directory_that_cannot_be_read_at_start_goes_offline(node):
    store = two_directories(node, logs=2)
    node.disk.kill()
    node.disk.fail_next("read", errno.EIO, path_contains="/a/t-0")
    store = node.open()
    assert [tp.partition for tp in store.logs] == [1]
    assert store.directories[0].failure is not None
    with pytest.raises(LogDirectoryFailure):
        store.create(TopicPartition("t", 0), TOPIC, CONFIG)
    node.disk.kill()
    for path in ("/a/t-0", "/b/t-1"):
        node.disk.fail_next("read", errno.EIO, path_contains=path)
    with pytest.raises(StartRefused) as caught:
        node.open()
    assert caught.value.code == "data-dir-failed"
    assert node.disk.locks == {}


def refuse():
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("is_read_only", [True, False])
def test_directory_that_cannot_be_claimed_goes_offline_and_the_others_are_served(node, monkeypatch, is_read_only):
    store = two_directories(node, logs=4)
    store.close_plan(5).run(store.disk)
    node.disk.kill()
    with monkeypatch.context() as patch:
        if is_read_only:
            take_lock = node.disk.lock
            patch.setattr(node.disk, "lock", lambda path: refuse() if path == "/b/.lock" else take_lock(path))
        else:
            node.disk.fail_next("read", errno.EIO, path_contains="/b/meta.properties")
        store = node.open()
    assert sorted(tp.partition for tp in store.logs) == [0, 2]
    offline = [event.fields["directory"] for event in store.report.events if event.event == "log-directory-offline"]
    assert offline == ["/b"]
    with pytest.raises(LogDirectoryFailure):
        store.create(TopicPartition("t", 1), TOPIC, CONFIG, is_new=False)
    store.close_plan(6).run(store.disk)
    node.disk.kill()
    assert sorted(tp.partition for tp in node.open().logs) == [0, 1, 2, 3]


@pytest.mark.parametrize("is_listed", [True, False])
def test_log_that_may_be_in_a_failed_directory_is_not_created_in_another_one(node, monkeypatch, is_listed):
    store = two_directories(node, logs=2)
    node.disk.kill()
    hidden = TopicPartition("t", 1)
    with monkeypatch.context() as patch:
        node.disk.fail_next("read", errno.EIO, path_contains="/b/meta.properties")
        if not is_listed:
            list_names = node.disk.names
            patch.setattr(node.disk, "names", lambda path: refuse() if path == "/b" else list_names(path))
        store = node.open()
    assert store.may_hold(hidden)
    assert not store.is_lost(hidden)
    plan, decided = store.creation_plan([(hidden, TOPIC, CONFIG)], replaces_lost=True)
    assert isinstance(decided[hidden], LogDirectoryFailure)
    assert store.adopt_created(plan, plan.run(node.disk)) == {}
    # a new topic's log is in no directory yet
    assert store.create(TopicPartition("new", 0), uuid.UUID(int=9), CONFIG).directory == "/a"
    node.disk.kill()
    assert sorted(tp.partition for tp in node.open().logs if tp.topic == "t") == [0, 1]


def test_start_without_the_first_directory_is_refused(node):
    node.directories = ("/a", "/b")
    node.open()
    node.disk.kill()
    node.disk.fail_next("read", errno.EIO, path_contains="/a/meta.properties")
    with pytest.raises(StartRefused) as caught:
        node.open()
    assert caught.value.code == "data-dir-not-usable"
    assert node.disk.locks == {}


def test_a_failed_close_leaves_no_clean_mark(node):
    store = node.open()
    log_with_records(store, TOPIC)
    node.disk.fail_next("sync", errno.EIO, path_contains=".log")
    with pytest.raises(LogDirectoryFailure):
        store.close_plan(5).run(store.disk)
    assert not node.disk.exists("/data/.kafka_cleanshutdown")


def many_logs(store, count=100):
    """More logs than a stop syncs one by one, every second one with a record."""
    for number in range(count):
        log = store.create(TopicPartition("t", number), TOPIC, CONFIG)
        log.assign_epoch(4)
        if number % 2:
            append_batch(log, [b"x"], epoch=4, producer_id=1, producer_epoch=0, sequence=0)
    return list(store.logs.values())


def test_clean_stop_of_many_logs_takes_few_syncs_and_keeps_everything_over_a_power_loss(node):
    store = node.open()
    many_logs(store)
    before = node.disk.syncs
    store.close_plan(5).run(store.disk)
    assert node.disk.syncs - before < 10
    node.disk.crash(KeepsNothing())
    again = node.open()
    assert again.report.was_clean
    assert again.report.events == []
    for number in range(100):
        log = again.logs[TopicPartition("t", number)]
        assert log.epochs.entries == [(4, 0)] * (number % 2)
        assert log.log_end_offset == number % 2
        assert len(log.producers) == number % 2


def test_clean_stop_writes_nothing_for_logs_without_new_records(node):
    store = node.open()
    many_logs(store)
    store.close_plan(5).run(store.disk)
    node.disk.kill()
    again, before = node.open(), node.tree()
    for log in again.logs.values():
        # the leader epoch of a broker that only restarted
        log.assign_epoch(6)
    (plan,) = again.close_plan(6).directories
    assert plan.logs == ()
    plan.run(node.disk)
    changed = {path for path, data in node.tree().items() if before.get(path) != data}
    assert {path.rpartition("/")[0] for path in changed} == {"/data"}
    node.disk.kill()
    third = node.open()
    assert [log.epochs.entries for log in third.logs.values()].count([(4, 0)]) == 50
    assert third.report.events == []


@pytest.mark.parametrize("failing", ["/data", "/t-51/00000000000000000000.log"])
def test_failed_sync_of_many_logs_leaves_no_clean_mark(node, failing):
    store = node.open()
    many_logs(store)
    node.disk.fail_next("sync", errno.EIO, path_contains=failing)
    with pytest.raises(LogDirectoryFailure):
        store.close_plan(5).run(store.disk)
    assert not node.disk.exists("/data/.kafka_cleanshutdown")


def test_lost_segment_of_one_of_many_logs_leaves_no_clean_mark(node):
    store = node.open()
    log = many_logs(store)[51]
    node.disk.remove(log.active.path(".log"))
    with pytest.raises(LogDirectoryFailure):
        store.close_plan(5).run(store.disk)
    assert not node.disk.exists("/data/.kafka_cleanshutdown")


def test_high_watermarks_come_back(node):
    store = node.open()
    log = log_with_records(store, TOPIC)
    store.close_plan(5, {log.topic_partition: 2}).run(store.disk)
    node.disk.kill()
    seen = []
    store = node.open(progress=lambda done, total: seen.append((done, total)))
    assert store.high_watermarks == {TopicPartition("t", 0): 2}
    assert seen == [(1, 1)]


def test_checkpoint_of_a_damaged_log_does_not_count_for_the_log_that_is_created_in_its_place(node):
    """A checkpoint has the offsets of a damaged log too, perhaps for the first time during the job of the creation."""
    store = node.open()
    damaged = log_with_records(store, TOPIC)
    damaged.advance_log_start(2)
    store.make_unavailable(damaged, "damaged")
    creation, _decided = store.creation_plan([(damaged.topic_partition, uuid.UUID(int=8), CONFIG)])
    late = checkpoint_plan(store)
    log = store.adopt_created(creation, creation.run(store.disk))[damaged.topic_partition]
    end_checkpoint(store, late)
    append_batch(log, [b"new"])
    node.disk.kill()
    found = node.open().logs[damaged.topic_partition]
    assert (found.log_start_offset, found.log_end_offset) == (0, 1)


@pytest.mark.parametrize("is_clean", [False, True])
def test_log_with_a_mark_has_no_high_watermark_of_an_earlier_log_of_its_name(node, is_clean):
    """A clean stop removes the mark, and writes the log's own high watermark."""
    store = node.open()
    store.delete(log_with_records(store, TOPIC, high_watermark=2)).run(store.disk)
    log = log_with_records(store, uuid.UUID(int=8))
    if is_clean:
        store.close_plan(5, {log.topic_partition: 1}).run(store.disk)
    node.disk.kill()
    assert node.open().high_watermarks == {log.topic_partition: int(is_clean)}


def test_a_broken_checkpoint_costs_a_recovery_not_the_data(node):
    store = node.open()
    log_with_records(store, TOPIC)
    store.close_plan(5).run(store.disk)
    node.disk.kill()
    node.disk.write_file("/data/recovery-point-offset-checkpoint", b"garbage")
    store = node.open()
    assert store.logs[TopicPartition("t", 0)].log_end_offset == 2
    assert [event.event for event in store.report.events] == ["checkpoint-damaged"]


def test_known_log_is_not_created_while_a_directory_that_may_hold_it_is_offline(node):
    store = two_directories(node, logs=1)
    store.directory_failed("/a")
    store.unavailable.clear()
    with pytest.raises(LogDirectoryFailure):
        store.create(TopicPartition("t", 0), TOPIC, CONFIG, is_new=False)
    assert store.create(TopicPartition("new", 0), TOPIC, CONFIG).directory == "/b"


def test_a_log_that_a_thread_made_while_its_directory_failed_is_not_used(node):
    store = node.open()
    log = store.create(TopicPartition("t", 0), TOPIC, CONFIG)
    assert store.settle(log)
    store.directories[0].failure = OSError(errno.EIO, "EIO")
    assert not store.settle(log)
    assert TopicPartition("t", 0) not in store.logs
    assert "offline" in store.unavailable[TopicPartition("t", 0)].reason


def test_directory_that_was_added_later_receives_the_cluster_id_too(node):
    store = node.open()
    assert list(store.cluster_id_plan("AbCdEfGhIjKlMnOpQrStUw").files) == ["/data"]
    set_cluster_id(store, "AbCdEfGhIjKlMnOpQrStUw")
    assert not store.cluster_id_plan("AbCdEfGhIjKlMnOpQrStUw").files
    node.disk.kill()
    store = node.open(directories=("/data", "/more"))
    assert list(store.cluster_id_plan("AbCdEfGhIjKlMnOpQrStUw").files) == ["/more"]
    set_cluster_id(store, "AbCdEfGhIjKlMnOpQrStUw")
    assert b"cluster.id=AbCdEfGhIjKlMnOpQrStUw" in node.disk.read_file("/more/meta.properties")


OLD_TOPIC, NEW_TOPIC = uuid.UUID(int=5), uuid.UUID(int=6)


@pytest.fixture
def made_again(node):
    """The node whose topic was made again while /a, with the old log, was offline; the new log in /b has a record."""

    def make(*directories: str):
        node.directories = directories
        store = node.open()
        store.create(TopicPartition("t", 0), OLD_TOPIC, CONFIG)
        store.directory_failed("/a")
        log = store.create(TopicPartition("t", 0), NEW_TOPIC, CONFIG)
        assert log.directory == "/b"
        append_batch(log, [b"new"])
        return node

    return make


@pytest.mark.parametrize("order", [("/a", "/b"), ("/b", "/a")])
def test_topic_recreated_with_its_directory_offline_is_distinguished_from_the_old(made_again, order):
    node = made_again("/a", "/b")
    node.disk.kill()
    store = node.open(directories=order)
    found = store.create(TopicPartition("t", 0), NEW_TOPIC, CONFIG, is_new=False)
    assert (found.directory, found.log_end_offset) == ("/b", 1)
    assert store.logs[TopicPartition("t", 0)] is found


@pytest.mark.parametrize("order", [("/a", "/b", "/c"), ("/c", "/b", "/a"), ("/b", "/c", "/a"), ("/c", "/a", "/b")])
def test_a_creation_that_a_kill_cut_short_does_not_hide_a_log_nor_refuse_the_start(made_again, order):
    node = made_again("/a", "/b", "/c")
    node.disk.make_directory("/c/t-0")
    node.disk.write_file(f"/c/t-0/{0:020d}.log", b"")
    node.disk.kill()
    store = node.open(directories=order)
    found = store.create(TopicPartition("t", 0), NEW_TOPIC, CONFIG, is_new=False)
    assert (found.directory, found.log_end_offset) == ("/b", 1)


def test_two_folders_of_one_topic_are_refused(node):
    two_directories(node, logs=1)
    node.disk.make_directory("/b/t-0")
    node.disk.write_file("/b/t-0/partition.metadata", node.disk.read_file("/a/t-0/partition.metadata"))
    node.store.release()
    assert refusal(node).code == "data-dir-duplicate-partition"


@pytest.mark.parametrize(
    ("epochs", "older"), [((3, 5), "/a"), ((5, 3), "/b"), ((3, None), "/a"), ((3, 3), None), ((None, None), None)]
)
def test_refusal_of_two_folders_names_the_one_that_the_last_start_did_not_use(node, epochs, older):
    two_directories(node, logs=1)
    node.disk.make_directory("/b/t-0")
    node.disk.write_file("/b/t-0/partition.metadata", node.disk.read_file("/a/t-0/partition.metadata"))
    node.store.release()
    for directory, epoch in zip(("/a", "/b"), epochs, strict=True):
        if epoch is not None:
            node.disk.write_file(f"{directory}/.kafka_cleanshutdown", format_clean_shutdown(epoch))
    error = refusal(node)
    assert error.code == "data-dir-duplicate-partition"
    if older is None:
        assert error.why.startswith("it is not known which copy is right")
        assert error.try_ == ("move one of the two folders t-0 out of its data directory",)
    else:
        assert error.why.startswith(f"the copy in {older} is older")
        assert error.try_ == (f"move {older}/t-0 out of this directory",)


@pytest.mark.parametrize("order", [("/a", "/b"), ("/b", "/a")])
def test_topic_recreated_with_its_directory_offline_has_no_high_watermark_of_the_old(node, order):
    node.directories = ("/a", "/b")
    store = node.open()
    old = log_with_records(store, OLD_TOPIC, high_watermark=2)
    store.directory_failed(old.directory)
    new = log_with_records(store, NEW_TOPIC)
    assert new.directory != old.directory
    node.disk.kill()
    assert node.open(directories=order).high_watermarks[new.topic_partition] == 0
