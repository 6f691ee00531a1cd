"""A log directory without room: what is refused works again when there is room, and the last directory that fails ends the broker."""

import datetime as dt
import errno
import uuid

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.rig import Rig, create_fields, produce_fields
from tests.unit.broker.requests import delete_topic
from tests.unit.noted_calls import note_calls
from yak.cluster import image_log
from yak.core import events
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.sim.wire import record_batch
from yak.storage.checkpoints import format_partition_metadata
from yak.storage.names import UNCREATED_SUFFIX

NONE = ErrorCode.none


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    assert rig.produce("orders", [b"first"]).error_code == NONE
    return rig


def marks(rig: Rig) -> list[str]:
    return [name for name in rig.node.disk.names("/data") if name.endswith(UNCREATED_SUFFIX)]


def said(rig: Rig, event: str) -> int:
    return sum(notice.event == event for notice in rig.node.notices)


def test_append_without_room_is_refused_and_works_again_without_a_restart(rig):
    for _ in range(2):
        rig.node.disk.fail_next("append", errno.ENOSPC, path_contains="orders-0/")
        assert rig.produce("orders", [b"refused"]).error_code == ErrorCode.kafka_storage_error
    assert not said(rig, "log-directory-offline")
    assert said(rig, "log-directory-full") == 1
    assert not said(rig, "log-directory-freed")
    assert rig.produce("orders", [b"second"]).base_offset == 1
    assert rig.node.broker.log_failures.full_directories == {}
    assert said(rig, "log-directory-freed") == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_batch_behind_one_that_found_no_room_is_refused_for_now_and_both_are_taken_in_order(rig, is_known):
    """OUT_OF_ORDER_SEQUENCE_NUMBER would make librdkafka begin a new epoch, and send again under it what is stored elsewhere."""

    def send(sequence: int) -> int:
        return rig.produce("orders", [b"a"], producer_id=7, epoch=0, sequence=sequence).error_code

    first = 0
    if is_known:
        assert send(0) == NONE
        first = 1
    rig.node.disk.fail_next("append", errno.ENOSPC, path_contains="orders-0/")
    assert send(first) == ErrorCode.kafka_storage_error
    assert send(first + 1) == ErrorCode.not_enough_replicas
    assert [send(first), send(first + 1)] == [NONE, NONE]


def test_flush_whose_epochs_find_no_room_is_repeated_with_the_next(rig):
    rig.create_topic("durable", flush_messages="1")
    rig.node.disk.fail_next("write_file", errno.ENOSPC, path_contains="durable-0/leader-epoch")
    rig.produce("durable", [b"a"])
    assert rig.produce("durable", [b"b"]).error_code == NONE
    log = rig.node.broker.partitions[TopicPartition("durable", 0)].log
    assert log.recovery_point == 2
    assert not log.epochs.dirty
    assert not said(rig, "log-directory-offline")


def test_flush_whose_epochs_find_no_room_is_repeated_without_another_record(rig):
    rig.create_topic("durable", flush_messages="1")
    rig.node.disk.fail_next("write_file", errno.ENOSPC, path_contains="durable-0/leader-epoch")
    fields = produce_fields("durable", record_batch([b"a"], rig.world.now_ms)) | {"timeout": dt.timedelta(seconds=10)}
    pending = rig.begin(0, 9, **fields)
    rig.run_for(500)
    assert not pending.is_done
    rig.run_for(1_500)
    assert pending.answer.responses[0].partition_responses[0].error_code == NONE


@pytest.mark.parametrize("appends", [True, False])
def test_flush_at_a_start_whose_epochs_find_no_room_is_repeated(rig, monkeypatch, appends):
    """Without an append too: until then no consumer reads the record."""
    rig.create_topic("durable", flush_messages="1")
    rig.node.jobs.delays_us = {"flush": 5_000_000}
    rig.begin(0, 9, client=rig.new_client(), **produce_fields("durable", record_batch([b"a"], rig.world.now_ms)))
    rig.run_for(50)
    rig.node.jobs.delays_us = {}
    start = rig.node.start

    def start_without_room() -> None:
        rig.node.disk.fail_next("write_file", errno.ENOSPC, path_contains="durable-0/leader-epoch")
        start()

    monkeypatch.setattr(rig.node, "start", start_without_room)
    rig.restart()
    assert said(rig, "log-directory-full") == 1
    assert not said(rig, "log-directory-offline")
    if appends:
        assert rig.produce("durable", [b"b"]).base_offset == 1
    rig.run_for(2_000)
    partition = rig.node.broker.partitions[TopicPartition("durable", 0)]
    assert partition.log.recovery_point == partition.high_watermark == 1 + appends
    assert not (appends and partition.log.epochs.dirty)


def test_flush_requested_for_a_log_that_replaced_another_one_is_started_when_that_ones_flush_ends(rig):
    for topic in ("durable", "other"):
        rig.create_topic(topic, flush_messages="1")
    rig.node.jobs.delays_us = {"flush": 200_000}
    for topic in ("durable", "other"):
        rig.begin(0, 9, client=rig.new_client(), **produce_fields(topic, record_batch([b"a"], rig.world.now_ms)))
    rig.run_for(50)
    broker = rig.node.broker
    partition, other = (broker.partitions[TopicPartition(topic, 0)] for topic in ("durable", "other"))
    assert partition.flush_running
    partition.log = other.log
    broker.flusher.want(partition)
    rig.run_for(220)
    assert partition.flush_running
    assert not partition.flush_wanted


def test_checkpoint_without_room_leaves_the_directory_online(rig):
    rig.node.disk.fail_next("write_file", errno.ENOSPC, path_contains="checkpoint")
    rig.produce("orders", [b"second"])
    rig.run_for(120_000)
    assert said(rig, "log-directory-full") == 1
    assert rig.produce("orders", [b"third"]).error_code == NONE


def test_metadata_without_room_are_written_when_there_is(rig):
    rig.node.disk.fail_next("append", errno.ENOSPC, path_contains="__yak_metadata")
    rig.create_topic("late")
    assert said(rig, "metadata-log-full") == 1
    assert not said(rig, "metadata-log-failed")
    assert rig.produce("late", [b"a"]).error_code == NONE


def test_metadata_snapshot_without_room_is_written_later_and_no_old_file_remains(rig, monkeypatch):
    monkeypatch.setattr(image_log, "MAX_RECORDS", 3)
    rig.node.disk.fail_next("write_file", errno.ENOSPC, path_contains="__yak_metadata/snapshot")
    for number in range(8):
        rig.create_topic(f"topic{number}")
    assert said(rig, "metadata-log-not-compacted") == 1
    names = rig.node.disk.names("/data/__yak_metadata")
    assert "snapshot" in names
    assert len([name for name in names if name.endswith(".log")]) <= 1


def test_create_topics_without_room_is_refused_and_nothing_is_made(rig, monkeypatch):
    monkeypatch.setattr(rig.node.disk, "free_bytes", lambda _path: 4096)
    answer = rig.ask(19, 5, **create_fields("none", {}, 1))
    assert answer.topics[0].error_code == ErrorCode.kafka_storage_error
    assert "none" not in rig.node.broker.image.topics


def test_create_topics_whose_log_could_not_be_made_does_not_answer_0(rig):
    rig.node.disk.fail_next("open", errno.ENOSPC, path_contains="half-0/")
    answer = rig.ask(19, 5, **create_fields("half", {}, 1))
    assert answer.topics[0].error_code == ErrorCode.kafka_storage_error


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("open", ".log"),
        ("open", ".index"),
        ("open", ".timeindex"),
        ("write_file", ".snapshot"),
        ("write_file", ".index"),
    ],
)
def test_roll_without_room_is_repeated_by_the_next_append(rig, operation, name):
    rig.create_topic("rolled", segment_bytes="300", index_interval_bytes="1")
    while rig.produce("rolled", [bytes(60)]).base_offset < 1:
        pass
    log = rig.node.broker.partitions[TopicPartition("rolled", 0)].log
    segments = len(log.segments)
    rig.node.disk.fail_next(operation, errno.ENOSPC, path_contains=name)
    refused = 0
    while len(log.segments) == segments:
        refused += rig.produce("rolled", [bytes(60)]).error_code == ErrorCode.kafka_storage_error
        assert refused <= 1
        assert refused or len(rig.node.disk.names(log.path)) <= 3 * segments + 4
    assert refused == 1
    assert not said(rig, "log-directory-offline")
    end = log.log_end_offset
    rig.restart()
    assert rig.node.broker.partitions[TopicPartition("rolled", 0)].log.log_end_offset == end


def test_segment_without_room_leaves_no_file_behind(rig):
    log = rig.node.broker.partitions[TopicPartition("orders", 0)].log
    before = rig.node.disk.names(log.path)
    rig.node.disk.fail_next("open", errno.ENOSPC, path_contains=".timeindex")
    with pytest.raises(LogDirectoryFailure):
        log.roll(0)
    assert [name for name in rig.node.disk.names(log.path) if name.endswith("1.log")] == []
    assert set(before) <= set(rig.node.disk.names(log.path))


def test_log_that_found_no_room_is_created_when_there_is_without_a_restart(rig):
    rig.node.disk.fail_next("open", errno.ENOSPC, path_contains="half-0/")
    rig.ask(19, 5, **create_fields("half", {}, 1))
    assert rig.produce("half", [b"a"]).error_code == ErrorCode.kafka_storage_error
    rig.run_for(5_000)
    assert rig.produce("half", [b"a"]).error_code == NONE


@pytest.mark.parametrize("operation", ["open", "write_file"])
def test_log_that_found_no_room_before_a_restart_is_created_by_the_start(rig, operation):
    rig.node.disk.fail_next(operation, errno.ENOSPC, path_contains="half-0")
    rig.ask(19, 5, **create_fields("half", {}, 1))
    rig.restart()
    assert not said(rig, "log-missing")
    assert rig.produce("half", [b"a"]).error_code == NONE
    assert not marks(rig)


def test_log_that_found_no_room_and_was_created_is_missing_when_its_folder_is_gone(rig):
    """An empty log in its place would hide the loss."""
    rig.node.disk.fail_next("open", errno.ENOSPC, path_contains="half-0/")
    rig.ask(19, 5, **create_fields("half", {}, 1))
    rig.run_for(5_000)
    assert rig.produce("half", [b"a"]).error_code == NONE
    rig.node.disk.remove_tree("/data/half-0")
    rig.restart()
    assert said(rig, "log-missing") == 1
    assert rig.produce("half", [b"a"]).error_code == ErrorCode.kafka_storage_error


def test_mark_of_a_log_without_room_is_removed_by_the_start_after_its_topic_was_deleted(rig):
    for _ in range(3):
        rig.node.disk.fail_next("open", errno.ENOSPC, path_contains="half-0/")
    rig.ask(19, 5, **create_fields("half", {}, 1))
    assert marks(rig)
    delete_topic(rig, "half")
    rig.restart()
    assert not marks(rig)


def test_log_that_finds_no_room_at_a_start_is_created_when_there_is_without_a_restart(rig, monkeypatch):
    metadata, start = "/data/orders-0/partition.metadata", rig.node.start

    def start_without_room() -> None:
        rig.node.disk.fail_next("write_file", errno.ENOSPC, path_contains=metadata)
        start()

    rig.node.disk.write_file(metadata, format_partition_metadata(uuid.UUID(int=7)))  # an older topic of that name
    monkeypatch.setattr(rig.node, "start", start_without_room)
    rig.restart(orderly=True)
    assert said(rig, "log-not-created") == 1
    assert rig.produce("orders", [b"a"]).error_code == ErrorCode.kafka_storage_error
    rig.run_for(5_000)
    answer = rig.produce("orders", [b"a"])
    assert (answer.error_code, answer.base_offset) == (NONE, 0)


@pytest.mark.parametrize(
    ("operation", "name"),
    [("open", f"{0:020}.log"), ("open", f"{0:020}.timeindex"), ("write_file", "partition.metadata")],
)
def test_log_that_finds_no_room_repeatedly_leaves_no_folders_behind(rig, operation, name):
    for _ in range(3):
        rig.node.disk.fail_next(operation, errno.ENOSPC, path_contains=f"half-0/{name}")
    rig.ask(19, 5, **create_fields("half", {}, 1))
    rig.run_for(10_000)
    assert rig.produce("half", [b"a"]).error_code == NONE
    assert [each for each in rig.node.disk.names("/data") if each.startswith("half-0")] == ["half-0"]
    assert not said(rig, "stray-log-kept")


@pytest.mark.parametrize(
    ("operation", "error_number", "name"), [("open", errno.EIO, "half-0"), ("sync", errno.ENOSPC, "")]
)
def test_creation_of_a_log_that_fails_takes_its_directory_offline(operation, error_number, name):
    rig = Rig(directories=("/data", "/more"))
    rig.create_topic("orders", partitions=2)
    rig.node.disk.fail_next(operation, error_number, path_contains=name)
    rig.ask(19, 5, **create_fields("half", {}, 1))
    assert said(rig, "log-directory-offline") == 1
    assert len(rig.node.broker.log_store.online()) == 1
    codes = {rig.produce("orders", [b"a"], partition=index).error_code for index in range(2)}
    assert codes == {NONE, ErrorCode.kafka_storage_error}


def test_directory_that_fails_many_creations_at_once_goes_offline_once():
    rig = Rig(directories=("/data", "/more"))
    rig.node.disk.fail_next("sync", errno.EIO)
    rig.ask(19, 5, **create_fields("many", {}, 24))
    assert len(rig.node.broker.log_store.online()) == 1
    assert said(rig, "log-not-created") == 12
    assert said(rig, "log-directory-offline") == 1


@pytest.mark.parametrize("operation", ["sync", "append"])
def test_last_directory_that_fails_ends_the_broker(rig, monkeypatch, operation):
    rig.create_topic("durable", flush_messages="1")
    effects = note_calls(monkeypatch, rig.node, "_carry_out")
    rig.node.disk.fail_next(operation, errno.EIO, path_contains="durable-0/")
    assert rig.produce("durable", [b"a"]).error_code == ErrorCode.kafka_storage_error
    [lost] = [effect for (effect,) in effects if isinstance(effect, events.DisksLost)]
    assert lost.directory == "/data"


def grow(rig, name, count, assignments=None):
    topic = {"name": name, "count": count, "assignments": assignments}
    fields = {"topics": [topic]}
    (result,) = rig.ask(1, 37, 3, **fields).results
    return result


def test_create_topics_leaves_out_another_broker_that_said_it_is_full(monkeypatch):
    rig = ClusterRig()
    monkeypatch.setattr(rig.nodes[2].disk, "free_bytes", lambda _path: 4096)
    rig.run_until(lambda: all(node.broker.metadata.lifecycle.heartbeats.full == {3} for node in rig.nodes))
    for number in range(4):
        rig.create_topic(f"spread{number}", replication_factor=2)
        assert 3 not in rig.info(f"spread{number}").replicas
    fields = create_fields("wide", {}, 1)
    fields["topics"][0]["replication_factor"] = 3
    answer = rig.ask(1, 19, 5, **fields)
    assert answer.topics[0].error_code == ErrorCode.kafka_storage_error
    assert "broker(s) 3" in answer.topics[0].error_message
    assert grow(rig, "spread0", 8).error_code == NONE
    assert all(3 not in rig.info("spread0", index).replicas for index in range(8))
    refused = grow(rig, "spread0", 9, [{"broker_ids": [1, 3]}])
    assert refused.error_code == ErrorCode.kafka_storage_error
    monkeypatch.undo()
    rig.run_until(lambda: not any(node.broker.metadata.lifecycle.heartbeats.full for node in rig.nodes))
    rig.create_topic("wide", replication_factor=3)


def test_append_without_room_notifies_the_other_brokers_within_a_second(monkeypatch):
    rig = ClusterRig()
    rig.create_topic("orders")
    leader = rig.leader("orders")
    disk = rig.nodes[leader - 1].disk
    monkeypatch.setattr(disk, "free_bytes", lambda _path: 4096)
    disk.fail_next("append", errno.ENOSPC, path_contains="orders-0/")
    rig.produce("orders", [b"refused"])
    rig.run_for(1_000)
    assert all(node.broker.metadata.lifecycle.heartbeats.full == {leader} for node in rig.nodes)


def test_reassignment_to_a_full_broker_returns_kafka_storage_error(monkeypatch):
    rig = ClusterRig()
    rig.create_topic("orders", replication_factor=2)
    [other] = {1, 2, 3} - set(rig.info("orders").replicas)
    monkeypatch.setattr(rig.nodes[other - 1].disk, "free_bytes", lambda _path: 4096)
    rig.run_until(lambda: all(node.broker.metadata.lifecycle.heartbeats.full == {other} for node in rig.nodes))
    kept = rig.info("orders").replicas
    asked = {"partition_index": 0, "replicas": [kept[0], other]}
    topics = [{"name": "orders", "partitions": [asked]}]
    answer = rig.ask(1, 45, 0, topics=topics)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.kafka_storage_error
    assert rig.info("orders").replicas == kept


def test_retention_of_an_active_segment_without_room_for_the_next_one_is_repeated():
    rig = Rig(settings={"log.retention.check.interval.ms": "10000"})
    rig.create_topic("old", retention_ms="1000")
    rig.produce("old", [b"expired"])
    log = rig.node.broker.partitions[TopicPartition("old", 0)].log
    rig.node.disk.fail_next("write_file", errno.ENOSPC, path_contains=".snapshot")
    rig.run_for(15_000)
    assert said(rig, "log-directory-full") == 1
    assert not said(rig, "log-directory-offline")
    assert log.log_start_offset == 0
    rig.run_for(15_000)
    assert log.log_start_offset == 1
    assert said(rig, "segments-removed") == 1


def test_each_time_without_room_is_said_by_a_broker_that_only_follows():
    rig = ClusterRig(hands_back=False)
    rig.create_topic("orders")
    follower = rig.followers("orders")[0]
    rig.run_until(lambda: rig.is_in_sync("orders"))
    for count in (1, 2):
        rig.nodes[follower - 1].disk.fail_next("append", errno.ENOSPC, path_contains="orders-0/")
        rig.produce("orders", [b"x"])
        rig.run_until(lambda count=count: rig.replica(follower, "orders").log_end_offset == count)
        assert rig.events(follower).count("log-directory-full") == count
        assert rig.nodes[follower - 1].broker.log_failures.full_directories == {}
