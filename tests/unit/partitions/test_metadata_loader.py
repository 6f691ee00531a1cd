"""Metadata changes of many partitions: what one turn does of them is bounded, and requests are served between the turns."""

import datetime as dt
import errno

import pytest

from tests.rig import Pending, Rig
from tests.unit.broker.requests import BROKER, alter, delete_topic
from tests.unit.noted_calls import note_calls, note_calls_by_step
from yak.cluster.image_log import ImageLog
from yak.cluster.metadata_delta import MetadataDelta
from yak.cluster.payload import BadRecord
from yak.cluster.records import Kind
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.partitions import metadata_loader
from yak.partitions.local_replicas import LocalReplicas
from yak.sim.request_fields import topic_fields
from yak.storage.log import Log
from yak.storage.log_store import LogStore

SLICE = 10
ROUND = 300
MANY = 20 * SLICE + 5
DEADLINE = dt.timedelta(seconds=30)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(metadata_loader, "ROUND_WEIGHT_MAX", ROUND)
    rig = Rig()
    rig.node.broker.metadata_loader.partitions_a_slice = SLICE
    rig.create_topic("other")
    return rig


def begin_creation(rig: Rig, name: str = "orders", partitions: int = MANY) -> Pending:
    # answers of one connection come in order: the rig's own is for the other requests
    return rig.begin(19, 5, client=rig.new_client(), topics=[topic_fields(name, {}, partitions)], timeout=DEADLINE)


def held(rig: Rig, name: str = "orders") -> int:
    return sum(topic_partition.topic == name for topic_partition in rig.node.broker.partitions)


def run_until_partial(rig: Rig, name: str = "orders") -> None:
    for _ in range(5_000):
        if 0 < held(rig, name) < MANY:
            return
        rig.run_for(1)
    raise AssertionError("there was no moment with a part of the partitions")


def test_topic_creation_of_many_partitions_hosts_a_bounded_number_in_a_step(rig, monkeypatch):
    steps = note_calls_by_step(monkeypatch, rig.node.broker, LocalReplicas, "_assign")
    creation = begin_creation(rig)
    rig.run_for(5_000)
    assert creation.answer.topics[0].error_code == ErrorCode.none
    assert sum(map(len, steps)) == MANY
    assert max(map(len, steps)) <= SLICE
    assert rig.produce("orders", [b"a"], partition=MANY - 1).error_code == ErrorCode.none


def test_topic_creation_is_answered_when_the_last_partition_is_hosted(rig):
    creation = begin_creation(rig)
    run_until_partial(rig)
    assert not creation.is_done
    rig.run_for(5_000)
    assert creation.is_done
    assert held(rig) == MANY


def test_produce_between_two_slices_is_answered(rig):
    begin_creation(rig)
    run_until_partial(rig)
    assert rig.produce("other", [b"a"]).error_code == ErrorCode.none
    assert held(rig) < MANY


def test_produce_to_a_partition_of_a_later_slice_returns_a_retriable_error(rig):
    begin_creation(rig)
    run_until_partial(rig)
    assert TopicPartition("orders", MANY - 1) not in rig.node.broker.partitions
    answer = rig.produce("orders", [b"a"], partition=MANY - 1)
    assert answer.error_code == ErrorCode.not_leader_or_follower


def test_topic_deletion_of_many_partitions_drops_a_bounded_number_in_a_step(rig, monkeypatch):
    begin_creation(rig)
    rig.run_for(5_000)
    steps = note_calls_by_step(monkeypatch, rig.node.broker, LocalReplicas, "_release")
    delete_topic(rig, "orders")
    assert sum(map(len, steps)) == MANY
    assert max(map(len, steps)) <= SLICE
    assert held(rig) == 0


def test_stop_between_two_slices_of_a_deletion_leaves_no_strays(rig):
    begin_creation(rig)
    rig.run_for(5_000)
    rig.begin(20, 4, topic_names=["orders"], timeout=DEADLINE)
    run_until_partial(rig)
    rig.restart(orderly=True)
    assert held(rig) == 0
    assert not [notice for notice in rig.node.notices if notice.event == "stray-log-kept"]


def test_broker_config_change_updates_a_bounded_number_of_logs_in_a_step(rig, monkeypatch):
    begin_creation(rig)
    rig.run_for(5_000)
    steps = note_calls_by_step(monkeypatch, rig.node.broker, Log, "update_config")
    alter(rig, BROKER, "", {"log.retention.ms": "123456789"})
    rig.run_for(1_000)
    assert max(map(len, steps)) <= SLICE
    assert {each.log.config.retention_ms for each in rig.node.broker.partitions.values()} == {123456789}


def test_metadata_records_of_many_partitions_are_applied_in_rounds(rig, monkeypatch):
    appends = note_calls(monkeypatch, ImageLog, "append")
    begin_creation(rig, partitions=4 * ROUND)
    rig.run_for(5_000)
    rounds = [
        sum(len(record.payload["partitions"]) for record in records if record.kind == Kind.PARTITION)
        for _log, records in appends
    ]
    assert sum(rounds) == 4 * ROUND
    assert max(rounds) < 2 * ROUND
    assert held(rig) == 4 * ROUND


def test_creation_of_many_topics_checks_the_free_space_once(rig, monkeypatch):
    steps = note_calls_by_step(monkeypatch, rig.node.broker, LogStore, "has_room")
    creation = create_topics(rig, 20)
    rig.run_for(1_000)
    assert {topic.error_code for topic in creation.answer.topics} == {ErrorCode.none}
    assert max(map(len, steps)) == 1


def test_stop_that_comes_with_the_end_of_the_last_slice_finds_nothing_left(rig, monkeypatch):
    broker_metadata = rig.node.broker.metadata
    real = broker_metadata.lifecycle.on_image

    def on_image(*args, **kwargs):
        rig.node.broker.metadata_loader.finish_slices()
        return real(*args, **kwargs)

    monkeypatch.setattr(broker_metadata.lifecycle, "on_image", on_image)
    rig.create_topic("orders", partitions=MANY)
    assert held(rig) == MANY


def create_topics(rig: Rig, count: int) -> Pending:
    topics = [topic_fields(f"t{number}", {}) for number in range(count)]
    return rig.begin(19, 5, client=rig.new_client(), topics=topics, timeout=DEADLINE)


def test_records_of_a_round_are_replayed_in_several_turns(rig, monkeypatch):
    steps = note_calls_by_step(monkeypatch, rig.node.broker, MetadataDelta, "replay")
    creation = create_topics(rig, 2 * SLICE)
    rig.run_for(5_000)
    assert {topic.error_code for topic in creation.answer.topics} == {ErrorCode.none}
    assert SLICE // 2 < max(map(len, steps)) <= SLICE


def test_stop_between_two_turns_of_a_replay_applies_the_records_after_the_next_start(rig, monkeypatch):
    create_topics(rig, 2 * SLICE)
    loader = rig.node.broker.metadata_loader
    for _ in range(5_000):
        if loader._slices is not None and not loader._is_acting:
            break
        rig.run_for(1)
    assert loader._slices is not None
    before = rig.node.broker.image.offset
    rig.restart(orderly=True)
    rig.run_for(1_000)
    assert rig.node.broker.image.offset > before
    assert len(rig.node.broker.image.topics) == 2 * SLICE + 1
    assert len(rig.node.broker.partitions) == 2 * SLICE + 1


def test_stop_between_two_rounds_of_records_begins_no_other(rig, monkeypatch):
    """It would create logs, and move folders aside, while the logs are closed."""
    begin_creation(rig, partitions=4 * ROUND)
    broker = rig.node.broker
    loader = broker.metadata_loader
    rig.world.run(lambda: (loader, "next") in broker.context.timers and loader._queue, events_max=50_000)
    rig.node.jobs.delays_us = {"checkpoint": 2_000_000}
    begun = []
    monkeypatch.setattr(ImageLog, "append", lambda *_args: begun.append(broker.image.offset))
    broker.shutdown._on_left()
    rig.run_for(1_000)
    assert not begun
    assert not loader._busy


def test_stop_while_the_metadata_log_has_no_room_writes_no_more_records(rig):
    rig.node.disk.fail_next("append", errno.ENOSPC, path_contains="__yak_metadata")
    begin_creation(rig)
    loader = rig.node.broker.metadata_loader
    rig.world.run(lambda: (loader, "persist") in rig.node.broker.context.timers, events_max=50_000)
    before = rig.node.broker.image.offset
    rig.node.jobs.delays_us = {"checkpoint": 5_000_000}
    rig.node.broker.shutdown._on_left()
    rig.run_for(3_000)
    assert rig.node.broker.image.offset == before


def test_unreadable_record_behind_the_first_turn_of_a_replay_fails_the_metadata_log(rig, monkeypatch):
    replayed: list[int] = []
    replay = MetadataDelta.replay

    def refused(self, record):
        replayed.append(record.offset)
        if len(replayed) > SLICE:
            raise BadRecord("planted")
        replay(self, record)

    monkeypatch.setattr(MetadataDelta, "replay", refused)
    creation = create_topics(rig, 2 * SLICE)
    rig.run_for(5_000)
    assert "metadata-log-failed" in [notice.event for notice in rig.node.notices]
    assert ErrorCode.request_timed_out in {topic.error_code for topic in creation.answer.topics}
    assert rig.node.broker.image.offset < max(replayed) - 1


def test_folder_that_a_crash_left_in_the_place_of_a_new_log_is_set_aside_and_logged():
    rig = Rig()
    rig.node.disk.make_directory("/data/orders-0")
    rig.create_topic("orders")
    (logged,) = [notice for notice in rig.node.notices if notice.event == "stray-log-kept"]
    assert logged.fields["partition"] == "orders-0"
    assert rig.node.disk.exists(logged.fields["moved_to"])
