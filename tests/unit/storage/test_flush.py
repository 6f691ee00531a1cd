"""Flushes that run late: the folder of the log may belong to another one by then."""

import uuid

import pytest

from yak.storage import flush
from yak.storage.names import LEADER_EPOCH_CHECKPOINT


def delete_and_recreate(bench):
    bench.store.delete(bench.log)
    return bench.store.create(bench.partition, uuid.UUID(int=8), bench.config)


def epoch_file(bench):
    return f"/data/{bench.partition}/{LEADER_EPOCH_CHECKPOINT}"


@pytest.fixture
def bench(make_bench):
    """A log with a closed segment, a producer snapshot and an epoch that is not on the disk."""
    bench = make_bench()
    bench.append(producer_id=1, producer_epoch=0, sequence=0)
    bench.flush()
    bench.append(epoch=5)
    bench.log.roll(0)
    return bench


def test_flush_writes_no_epochs_into_the_folder_of_the_next_topic_of_that_name(bench):
    plan = bench.log.flush_plan()
    heir = delete_and_recreate(bench)
    plan.run(bench.disk)
    assert not bench.disk.exists(epoch_file(bench))
    assert heir.log_end_offset == 0


def test_flush_writes_no_epochs_when_the_topic_is_recreated_between_its_syncs(bench):
    plan = bench.log.flush_plan()

    def recreate_at_the_snapshot(call, path):
        if call == "synced" and path.endswith(".snapshot"):
            bench.disk.on_call = None
            delete_and_recreate(bench)

    bench.disk.on_call = recreate_at_the_snapshot
    plan.run(bench.disk)
    assert bench.disk.on_call is None, "the topic was recreated"
    assert not bench.disk.exists(epoch_file(bench))


def test_flush_of_a_log_without_topic_id_on_the_disk_writes_its_epochs(bench):
    bench.disk.remove(f"/data/{bench.partition}/partition.metadata")
    bench.flush()
    assert b"5 1" in bench.disk.read_file(epoch_file(bench))
    assert flush.topic_of_folder(bench.disk, bench.log.path) is None
