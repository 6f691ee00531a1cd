"""A log directory without room: what is refused works again when there is room, and the last directory that fails ends the broker."""

import errno

import pytest
from kio.schema.errors import ErrorCode

from yak.broker import events
from yak.ids import TopicPartition
from yak.sim.rig import Rig, create_fields

NONE = ErrorCode.none


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    assert rig.produce("orders", [b"first"]).error_code == NONE
    return rig


def said(rig: Rig, event: str) -> int:
    return sum(notice.event == event for notice in rig.node.notices)


def test_append_without_room_is_refused_and_works_again_without_a_restart(rig):
    for _ in range(2):
        rig.node.disk.fail_next("append", errno.ENOSPC, path_contains="orders-0/")
        assert rig.produce("orders", [b"refused"]).error_code == ErrorCode.kafka_storage_error
    assert not said(rig, "log-directory-offline")
    assert said(rig, "log-directory-full") == 1
    assert rig.produce("orders", [b"second"]).base_offset == 1
    assert rig.node.broker.full_directories == {}


def test_flush_whose_epochs_find_no_room_is_repeated_with_the_next(rig):
    rig.create_topic("durable", flush_messages="1")
    rig.node.disk.fail_next("write_file", errno.ENOSPC, path_contains="durable-0/leader-epoch")
    rig.produce("durable", [b"a"])
    assert rig.produce("durable", [b"b"]).error_code == NONE
    log = rig.node.broker.partitions[TopicPartition("durable", 0)].log
    assert log.recovery_point == 2
    assert not log.epochs.dirty
    assert not said(rig, "log-directory-offline")


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


def test_create_topics_without_room_is_refused_and_nothing_is_made(rig, monkeypatch):
    monkeypatch.setattr(rig.node.disk, "free_bytes", lambda _path: 4096)
    answer = rig.ask(19, 5, **create_fields("none", {}, 1))
    assert answer.topics[0].error_code == ErrorCode.kafka_storage_error
    assert "none" not in rig.node.broker.image.topics


def test_create_topics_whose_log_could_not_be_made_does_not_answer_0(rig):
    rig.node.disk.fail_next("open", errno.ENOSPC, path_contains="half-0/")
    answer = rig.ask(19, 5, **create_fields("half", {}, 1))
    assert answer.topics[0].error_code == ErrorCode.kafka_storage_error


@pytest.mark.parametrize("operation", ["sync", "append"])
def test_last_directory_that_fails_ends_the_broker(rig, monkeypatch, operation):
    rig.create_topic("durable", flush_messages="1")
    effects = []
    carry_out = rig.node._carry_out
    monkeypatch.setattr(rig.node, "_carry_out", lambda effect: (effects.append(effect), carry_out(effect)))
    rig.node.disk.fail_next(operation, errno.EIO, path_contains="durable-0/")
    assert rig.produce("durable", [b"a"]).error_code == ErrorCode.kafka_storage_error
    [lost] = [effect for effect in effects if isinstance(effect, events.DisksLost)]
    assert lost.directory == "/data"


def test_one_directory_of_two_that_fails_ends_nothing():
    rig = Rig(directories=("/data", "/more"))
    rig.create_topic("orders", partitions=2)
    rig.node.disk.fail_next("append", errno.EIO, path_contains="/more/orders")
    codes = {rig.produce("orders", [b"a"], partition=index).error_code for index in range(2)}
    assert codes == {NONE, ErrorCode.kafka_storage_error}
    assert len(rig.node.broker.log_store.online()) == 1
