"""The same store on a real file system: what the simulated one cannot show."""

import os
import time
import uuid

import pytest

from tests.unit.storage.conftest import append_batch, build_batch, lower
from yak.config.log_config import LogConfig
from yak.errors import StartRefused
from yak.ids import TopicPartition
from yak.protocol.record_batch import read_header
from yak.server.disk import RealDisk
from yak.storage.log_store import LogStore

PARTITION = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def open_store(path):
    return LogStore.open(RealDisk(), [str(path)], 1, uuid.uuid4, int(time.time() * 1000), lambda _topic: CONFIG)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_everything(tmp_path, clean):
    store = open_store(tmp_path)
    log = store.create(PARTITION, uuid.uuid4(), CONFIG)
    for number in range(100):
        batch = build_batch([b"x" * 50], timestamps=[number], producer_id=1, producer_epoch=0, sequence=number)
        log.append(read_header(batch), memoryview(batch), 0, 0)
    bytes_before = log.read(90, 10**6, 100, at_least_one=True)
    if clean:
        store.close_plan(4).run(store.disk)
    store.release()
    again = open_store(tmp_path)
    assert again.report.was_clean is clean
    log = again.logs[PARTITION]
    assert log.log_end_offset == 100
    assert log.read(90, 10**6, 100, at_least_one=True) == bytes_before
    assert next(log.producers.describe()).last_sequence == 99
    expired = log.segments[:2]
    remove = log.remove_segments(expired)
    remove.run(log.disk)
    log.lower_recovery_point(60)
    lower(again, log)
    log.truncate_to(60)
    assert append_batch(log, epoch=1) == 60
    again.delete(log).run(again.disk)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == []
    again.release()


def test_log_without_timestamps_ages_from_its_last_write_over_restarts(tmp_path):
    store = open_store(tmp_path)
    log = store.create(PARTITION, uuid.uuid4(), CONFIG)
    append_batch(log, [b"x"], timestamps=[-1])
    path = log.active.path(".log")
    store.close_plan(4).run(store.disk)
    store.release()
    day_ms = 86_400_000
    written_ms = int(time.time() * 1000) - 8 * day_ms
    os.utime(path, (written_ms / 1000, written_ms / 1000))
    again = open_store(tmp_path)
    log = again.logs[PARTITION]
    assert log.expired_segment(written_ms + CONFIG.retention_ms - 1_000, 1) is None
    assert log.expired_segment(written_ms + CONFIG.retention_ms + 1_000, 1) is log.active
    again.release()


def test_the_lock_is_held_against_a_second_store(tmp_path):
    store = open_store(tmp_path)
    with pytest.raises(StartRefused) as caught:
        open_store(tmp_path)
    assert caught.value.code == "data-dir-locked"
    store.release()
    open_store(tmp_path).release()
