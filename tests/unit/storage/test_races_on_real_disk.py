"""What threads and the step do to the same files at the same time, on a real file system."""

import uuid

import pytest

from tests.unit.storage.compaction.rounds import pieces
from tests.unit.storage.conftest import append_batch, finished
from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.protocol.record_batch import read_header
from yak.server.disk import RealDisk
from yak.storage.compaction import Compaction, Replacement, cleanable
from yak.storage.log_store import LogStore
from yak.storage.reader import PendingRead

TOPIC = uuid.UUID(int=5)
PARTITION = TopicPartition("t", 0)


@pytest.fixture
def disk():
    disk = RealDisk(max_open_files=16)
    yield disk
    disk.pool.close_all()


@pytest.fixture
def store(tmp_path, disk):
    store = LogStore.open(disk, [str(tmp_path)], 1, uuid.uuid4, 0, lambda _topic: LogConfig())
    yield store
    store.release()


def filled(store, topic_id=TOPIC):
    log = store.create(PARTITION, topic_id, LogConfig())
    for _ in range(3):
        append_batch(log)
    return log


def test_a_flush_that_runs_after_retention_took_its_segment_fails_nothing(store):
    log = filled(store)
    plan = log.flush_plan()
    log.remove_segments(list(log.segments)).run(log.disk)
    log.flushed(plan, plan.run(log.disk))
    assert log.recovery_point == log.log_end_offset == 3


def test_flush_fails_for_a_missing_segment_that_the_broker_did_not_remove(store, disk, tmp_path):
    log = filled(store)
    plan = log.flush_plan()
    disk.pool.close_all()
    (tmp_path / "t-0" / "00000000000000000000.log").unlink()
    missing = plan.run(log.disk)
    with pytest.raises(LogDirectoryFailure):
        log.flushed(plan, missing)


def test_a_late_flush_of_a_deleted_topic_leaves_its_heir_alone(store, tmp_path):
    log = filled(store)
    log.assign_epoch(7)
    plan = log.flush_plan()
    remove = store.delete(log)
    heir = filled(store, topic_id=uuid.UUID(int=6))
    plan.run(log.disk)
    remove.run(log.disk)
    assert not (tmp_path / "t-0" / "leader-epoch-checkpoint").exists()
    assert heir.log_end_offset == 3


def test_reader_of_a_replaced_segment_continues_until_its_files_are_removed(store, disk):
    log = store.create(PARTITION, TOPIC, LogConfig(cleanup_policy="compact"))
    for number in range(1000):
        append_batch(log, [b"x" * 100], keys=[b"%d" % (number % 3)])
    log.roll(0)
    append_batch(log, [b"last"], keys=[b"last"])
    plan = log.flush_plan()
    log.flushed(plan, plan.run(log.disk))
    old = log.segments[0]
    whole = old.open().read(old.size, 0)
    cold = PendingRead(log, log.plan_read(500, 50_000, 1001, at_least_one=True))
    part = log.slice(0, 100_000, 1001)
    by_time = log.timestamp_search(1000)
    deletes = [
        log.replace_segments(done.replaced, done.cleaned)
        for done in pieces(Compaction(log, cleanable(log, 1001, 0), 10**6, 0), disk)
        if isinstance(done, Replacement)
    ]
    disk.pool.close_all()
    assert bytes(finished(cold)) in whole
    assert read_header(finished(cold)).base_offset == 500
    assert part is None or bytes(part) == whole[: len(part)]
    assert by_time.run(log.disk).offset == 0
    assert [read_header(bytes(log.read(offset, 1, 1001, at_least_one=True))).base_offset for offset in (1, 998)] == [
        997,
        998,
    ]
    for delete in deletes:
        delete.run(disk)
    disk.pool.close_all()
    assert bytes(finished(cold)) == b""
    assert by_time.run(log.disk).offset == 1000
