"""What threads and the step do to the same files at the same time, on a real file system."""

import uuid

import pytest

from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.protocol.record_batch import read_header
from yak.server.disk import RealDisk
from yak.storage.log_store import LogStore

TOPIC = uuid.UUID(int=5)
PARTITION = TopicPartition("t", 0)


@pytest.fixture
def disk():
    disk = RealDisk(max_open_files=16)
    yield disk
    disk.close()


@pytest.fixture
def store(tmp_path, disk):
    store = LogStore.open(disk, [str(tmp_path)], 1, uuid.uuid4, 0, lambda _topic: LogConfig())
    yield store
    store.release()


def filled(store, build, topic_id=TOPIC, count=3):
    log = store.create(PARTITION, topic_id, LogConfig())
    for _ in range(count):
        batch = build([b"x" * 20])
        log.append(read_header(batch), batch, 0, 0)
    return log


def test_a_flush_that_runs_after_retention_took_its_segment_fails_nothing(store, build):
    log = filled(store, build)
    plan = log.flush_plan()
    log.remove_segments(list(log.segments))()
    plan.run()
    log.flushed(plan)
    assert log.recovery_point == log.log_end_offset == 3


def test_a_flush_misses_a_segment_that_nobody_took(store, build, disk, tmp_path):
    log = filled(store, build)
    plan = log.flush_plan()
    disk.pool.close_all()
    (tmp_path / "t-0" / "00000000000000000000.log").unlink()
    with pytest.raises(LogDirectoryFailure):
        plan.run()


def test_a_late_flush_of_a_deleted_topic_leaves_its_heir_alone(store, build, tmp_path):
    log = filled(store, build)
    log.assign_epoch(7)
    plan = log.flush_plan()
    remove = store.delete(log)
    heir = filled(store, build, topic_id=uuid.UUID(int=6))
    plan.run()
    remove()
    assert not (tmp_path / "t-0" / "leader-epoch-checkpoint").exists()
    assert heir.log_end_offset == 3
