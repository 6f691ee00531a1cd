"""After a power loss that undoes all that was not synced: names, truncations and bytes are as they were before."""

import uuid

import pytest

from tests.unit.storage.conftest import checkpoint_plan, end_checkpoint, lower, retain, write_checkpoint


@pytest.fixture
def bench(make_bench):
    bench = make_bench(segment_bytes=600, index_interval_bytes=120)
    bench.lose = lambda: lose(bench)
    return bench


def lose(bench):
    kept, bench.random_source = bench.random_source, bench.KEEPS_NOTHING
    bench.disk.crash(bench.random_source)
    bench.random_source = kept
    return bench.reopen(checkpoint=False)


def serious(bench):
    return [event for event in bench.store.report.events if event.level == "error"]


def test_a_snapshot_of_a_tail_that_was_cut_is_not_believed_when_it_is_back(bench):
    bench.append()
    bench.reopen(clean=True, checkpoint=False)
    bench.truncate(0)
    assert bench.lose().log_end_offset == 0
    bench.append(producer_id=2, producer_epoch=0, sequence=0)
    bench.reopen(clean=True, checkpoint=False)
    assert [known.producer_id for known in bench.log.producers.describe()] == [2]


def test_truncated_synced_records_do_not_return_after_a_crash(bench):
    bench.append()
    bench.append()
    bench.flush()
    bench.truncate(1)
    assert bench.lose().log_end_offset == 1


def test_log_after_full_resync_does_not_find_its_old_records(bench):
    for _ in range(3):
        bench.append()
    bench.flush()
    bench.truncate_fully(0)
    assert bench.lose().log_end_offset == 0


def test_segments_that_were_deleted_stay_deleted_when_their_files_are_back(bench):
    for _ in range(3):
        bench.append([b"x" * 300])
    bench.flush()
    bench.log.advance_log_start(2)
    retain(bench.log, 0, 3)
    log = checkpointed(bench)
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert [segment.base_offset for segment in log.segments] == [2]
    assert not serious(bench)


def checkpointed(bench):
    write_checkpoint(bench.store)
    return bench.lose()


def test_deleted_records_that_never_reached_the_device_are_no_damage(bench):
    bench.append()
    bench.append([b"x" * 300, b"y" * 300])
    bench.log.advance_log_start(1)
    retain(bench.log, 0, 3)
    log = checkpointed(bench)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    assert not serious(bench)


def test_mark_of_a_log_whose_checkpoints_count_does_not_come_back(bench):
    bench.append()
    write_checkpoint(bench.store)
    bench.store.delete(bench.log).run(bench.disk)
    bench.log = bench.store.create(bench.partition, uuid.UUID(int=8), bench.config)
    assert bench.log.has_stale_checkpoints
    for _ in range(3):
        bench.append()
    bench.flush()
    write_checkpoint(bench.store)
    bench.log.advance_log_start(2)
    assert checkpointed(bench).log_start_offset == 2


def test_lowered_recovery_point_of_a_deleted_log_is_not_that_of_the_next_one(bench):
    """No checkpoint has the log: it was flushed, truncated, deleted and created again between two of them."""
    bench.store.delete(bench.log).run(bench.disk)
    write_checkpoint(bench.store)
    for topic_id in (8, 9):
        bench.log = bench.store.create(bench.partition, uuid.UUID(int=topic_id), bench.config)
        for _ in range(12):
            bench.append()
        if topic_id == 8:
            bench.flush()
            bench.log.lower_recovery_point(11)
            lower(bench.store, bench.log)
            bench.store.delete(bench.log).run(bench.disk)
    bench.disk.corrupt(f"{bench.log.path}/{0:020}.log", 70, 0xFF)
    assert bench.reopen(checkpoint=False).log_end_offset == 0, "all of it is checked"


def resync_to(bench, offset):
    bench.truncate_fully(offset)
    bench.append()
    bench.flush()


def test_resync_during_a_checkpoint_keeps_the_mark_that_an_earlier_one_wrote(bench):
    for offset in (10, 5):
        resync_to(bench, offset)
    plan = checkpoint_plan(bench.store)
    resync_to(bench, 2)
    end_checkpoint(bench.store, plan)
    log = bench.lose()
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    write_checkpoint(bench.store)
    assert not bench.log.has_stale_checkpoints


def test_snapshot_of_a_roll_right_behind_a_flush_is_synced_by_the_next_flush(bench):
    """With flush.messages=1 each roll is such a one. Retention removes the batches from which a start would know producers."""
    bench.append([b"x" * 300], producer_id=2, producer_epoch=1, sequence=0)
    bench.flush()
    bench.log.roll(0)
    bench.append()
    bench.flush()
    bench.log.remove_segments(bench.log.segments[:1]).run(bench.disk)
    log = checkpointed(bench)
    assert [(known.producer_id, known.producer_epoch) for known in log.producers.describe()] == [(2, 1)]
