"""The broker compacts logs while it serves, each replica its own."""

from __future__ import annotations

import errno
import gc
import weakref
from typing import Any

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker import requests
from tests.unit.broker.requests import BROKER, alter, delete_records, delete_topic
from yak.core import events
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.ports.disk import Disk
from yak.protocol.compression import compress
from yak.protocol.record_batch import CODECS, HEADER_BYTES, compute_crc, iterate_headers, read_header, with_records
from yak.protocol.record_walk import walk_records
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import record_batch
from yak.storage.compaction import CleanedSegment, CompactionDiscard, CompactionPiece

TOPIC = "ledger"
"""What clients may write to internal topics is not of interest here: any topic may be compacted in these tests."""
PLACE = TopicPartition(TOPIC, 0)
SETTINGS = {"log.cleaner.backoff.ms": "1000", "log.segment.delete.delay.ms": "5000"}
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "2000"}


def compacted_rig(**settings: str) -> Rig:
    rig = Rig(settings=SETTINGS | {name.replace("_", "."): value for name, value in settings.items()})
    rig.create_topic(TOPIC, **COMPACTED)
    return rig


def commit(rig: Any, numbers: range, keys: int = 3) -> None:
    for number in numbers:
        answer = rig.produce(TOPIC, [b"%d" % number + b"x" * 50], keys=[b"k%d" % (number % keys)])
        assert answer.error_code == 0, answer


def notices(rig: Rig, event: str) -> list[dict[str, object]]:
    return [notice.fields for notice in rig.node.notices if notice.event == event]


def consumed(fetch: Any, end: int) -> list[int]:
    """Offsets of the records that a consumer gets that begins at 0."""
    offset, found = 0, []
    while offset < end:
        data = bytes(fetch(TOPIC, offset).records)
        assert data
        for place, header in iterate_headers(data):
            batch = data[place : place + header.size_bytes]
            found += [record.offset for record in walk_records(batch) if record.offset >= offset]
            offset = max(offset, header.next_offset)
    return found


def run_until_compacting(rig: Rig) -> None:
    folder = rig.node.broker.partitions[PLACE].log.path
    rig.world.run(
        lambda: any(name.endswith(".cleaned") for name in rig.node.disk.names(folder)),
        events_max=50_000,
    )


def test_no_second_round_begins_while_a_slow_one_is_under_way():
    """Seed 926520 of three brokers: the timer for a log that was not worth it yet ended the round of another."""
    rig = compacted_rig()
    rig.create_topic("later", **COMPACTED, min_compaction_lag_ms="2500")
    jobs = rig.node.broker.jobs
    run, held = jobs.run, []
    jobs.run = lambda kind, *rest: held.append((kind, *rest)) if kind == "compact" else run(kind, *rest)  # type: ignore[method-assign]
    for topic in (TOPIC, "later"):
        for number in range(60):
            rig.produce(topic, [b"%d" % number + b"x" * 50], keys=[b"k%d" % (number % 3)])
    broker = rig.node.broker
    for partition in broker.partitions.values():
        broker.log_cleaner._schedule(partition, rig.world.now_ms)  # both in the same examination
    rig.run_for(10_000)
    assert len(held) == 1
    jobs.run = run  # type: ignore[method-assign]
    run(*held[0])
    rig.run_for(10_000)
    assert {notice["partition"] for notice in notices(rig, "log-compacted")} == {f"{TOPIC}-0", "later-0"}


def test_record_is_compacted_when_its_lag_is_over_by_a_wall_clock_that_moved_ahead():
    """A virtual machine that was suspended for five hours: timers follow the clock that stood still meanwhile."""
    ahead_ms = 5 * 3_600_000
    rig = Rig(settings=SETTINGS)
    rig.node.post(events.WallClockMoved(ahead_ms))
    rig.create_topic(TOPIC, **COMPACTED, min_compaction_lag_ms="60000")
    for number in range(60):
        stamped = {"timestamp_ms": rig.world.now_ms + ahead_ms}
        assert rig.produce(TOPIC, [b"%d" % number + b"x" * 50], keys=[b"k"], **stamped).error_code == 0
    rig.run_for(55_000)
    assert not notices(rig, "log-compacted")
    rig.run_for(10_000)
    assert notices(rig, "log-compacted")


def test_closed_segment_is_compacted_soon_and_consumers_continue():
    rig = compacted_rig()
    commit(rig, range(60))
    assert consumed(rig.fetch, 60) == list(range(60))
    rig.run_for(3_000)
    log = rig.node.broker.partitions[PLACE].log
    (done,) = notices(rig, "log-compacted")
    assert done["up_to_offset"] == log.active.base_offset == log.cleaned_offset
    assert int(str(done["bytes_after"])) < int(str(done["bytes_before"]))
    left = consumed(rig.fetch, 60)
    assert len(left) < 30
    assert left[-1] == 59
    assert rig.fetch(TOPIC, 0).log_start_offset == 0
    commit(rig, range(60, 70))
    assert consumed(rig.fetch, 70)[-1] == 69
    # the old files go after their delay, and the checkpoint knows how far it was
    rig.run_for(10_000)
    names = rig.node.disk.names(log.path)
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".swap"))]
    assert rig.node.disk.read_file(f"{log.directory}/cleaner-offset-checkpoint").startswith(b"0\n1\nledger 0 ")


def test_log_cleaner_has_no_timer_when_no_log_changes():
    rig = compacted_rig()
    commit(rig, range(60))
    rig.run_for(10_000)
    assert rig.node.broker.log_cleaner not in rig.node.broker.timers
    assert len(notices(rig, "log-compacted")) == 1
    rig.create_topic("plain")
    rig.produce("plain", [b"x"])
    rig.run_for(5_000)
    assert rig.node.broker.log_cleaner not in rig.node.broker.timers


def test_shorter_backoff_counts_for_logs_that_wait_for_the_former_one():
    rig = compacted_rig(log_cleaner_backoff_ms="3600000")
    commit(rig, range(60))
    rig.run_for(10_000)
    assert not notices(rig, "log-compacted")
    assert alter(rig, BROKER, "", {"log.cleaner.backoff.ms": "1000"}).error_code == ErrorCode.none
    rig.run_for(3_000)
    assert len(notices(rig, "log-compacted")) == 1


def test_log_cleaner_can_be_disabled():
    rig = compacted_rig(log_cleaner_enable="false")
    commit(rig, range(60))
    rig.run_for(10_000)
    assert consumed(rig.fetch, 60) == list(range(60))


@pytest.mark.parametrize("how", [{}, {"power_loss": True}, {"orderly": True}])
def test_a_restart_knows_what_is_clean(how):
    rig = compacted_rig()
    commit(rig, range(60))
    rig.run_for(10_000)
    before = consumed(rig.fetch, 60)
    rig.restart(**how)
    end = rig.node.broker.partitions[PLACE].log_end_offset
    assert consumed(rig.fetch, end) == [offset for offset in before if offset < end]
    rig.run_for(5_000)
    assert len(notices(rig, "log-compacted")) == 1
    assert not notices(rig, "log-damaged")
    assert rig.node.broker.log_cleaner not in rig.node.broker.timers


def test_a_stop_in_the_middle_leaves_no_trace():
    rig = compacted_rig()
    commit(rig, range(60))
    run_until_compacting(rig)
    rig.restart()
    assert consumed(rig.fetch, 60) == list(range(60))
    folder = rig.node.broker.partitions[PLACE].log.path
    assert not [name for name in rig.node.disk.names(folder) if name.endswith(".cleaned")]
    # what a crash left counts as flushed again with the next flush
    commit(rig, range(60, 62))
    rig.run_for(5_000)
    assert len(consumed(rig.fetch, 62)) < 30


def test_a_topic_that_is_deleted_meanwhile_takes_the_round_with_it():
    rig = compacted_rig()
    commit(rig, range(60))
    run_until_compacting(rig)
    delete_topic(rig, TOPIC)
    rig.create_topic(TOPIC, **COMPACTED)
    commit(rig, range(60))
    rig.run_for(10_000)
    assert len(consumed(rig.fetch, 60)) < 30
    assert not [notice for notice in rig.node.notices if notice.level == "error"]


def test_round_ends_when_its_topic_is_compacted_no_more():
    rig = compacted_rig()
    jobs = rig.node.broker.jobs
    run, held = jobs.run, []
    jobs.run = lambda kind, *rest: held.append((kind, *rest)) if kind == "compact" else run(kind, *rest)  # type: ignore[method-assign]
    commit(rig, range(60))
    rig.run_for(10_000)
    assert len(held) == 1
    alter(rig, requests.TOPIC, TOPIC, {"cleanup.policy": "delete"})
    jobs.run = run  # type: ignore[method-assign]
    run(*held[0])
    rig.run_for(10_000)
    assert consumed(rig.fetch, 60) == list(range(60))
    assert not notices(rig, "log-compacted")
    folder = rig.node.broker.partitions[PLACE].log.path
    assert not [name for name in rig.node.disk.names(folder) if name.endswith(".cleaned")]


def test_gaps_of_an_unfinished_round_are_no_damage_after_a_change_of_the_policy_and_a_kill():
    rig = compacted_rig()
    commit(rig, range(60))
    log = rig.node.broker.partitions[PLACE].log
    rig.world.run(lambda: log.swaps > 0, events_max=50_000)
    alter(rig, requests.TOPIC, TOPIC, {"cleanup.policy": "delete"})
    rig.run_for(1_500)
    rig.restart()
    assert len(consumed(rig.fetch, 60)) < 60
    assert not notices(rig, "log-damaged")


def test_next_round_begins_after_the_files_of_a_discarded_one_are_removed(monkeypatch):
    seen: list[object] = []
    real_run, real_discard = CompactionPiece.run, CompactionDiscard.run

    def run(self: CompactionPiece, disk: Disk) -> object:
        seen.append(self.compaction)
        return real_run(self, disk)

    def discard(self: CompactionDiscard, disk: Disk) -> None:
        seen.append("discarded")
        real_discard(self, disk)

    monkeypatch.setattr(CompactionPiece, "run", run)
    monkeypatch.setattr(CompactionDiscard, "run", discard)
    rig = compacted_rig()
    commit(rig, range(60))
    run_until_compacting(rig)
    rig.node.jobs.delays_us = {"delete": 20_000_000}
    delete_topic(rig, TOPIC)
    rig.create_topic(TOPIC, **COMPACTED)
    commit(rig, range(60))
    rig.run_for(60_000)
    discarded = seen.index("discarded")
    assert all(each is seen[0] for each in seen[:discarded])
    assert seen[discarded + 1] is not seen[0]


def test_a_full_disk_puts_it_off_and_the_directory_stays_online(monkeypatch):
    rig = compacted_rig()
    commit(rig, range(60))
    rig.node.disk.fail_next("append", errno.ENOSPC, path_contains=".cleaned")
    rig.run_for(5_000)
    (delayed,) = notices(rig, "compaction-delayed")
    assert "ENOSPC" in str(delayed["reason"])
    assert consumed(rig.fetch, 60) == list(range(60))
    rig.run_for(70_000)
    assert len(consumed(rig.fetch, 60)) < 30


@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOSPC])
def test_failed_sync_of_the_cleaner_takes_its_directory_offline(error_number):
    rig = compacted_rig()
    commit(rig, range(60))
    rig.node.disk.fail_next("sync", error_number, path_contains=".cleaned")
    rig.run_for(5_000)
    assert notices(rig, "log-directory-offline")
    assert rig.fetch(TOPIC, 0).error_code == ErrorCode.kafka_storage_error


def test_directory_that_fails_during_the_examination_of_its_logs_ends_no_broker():
    """The log that was found to be the dirtiest so far was in the same directory."""
    rig = Rig(settings=SETTINGS, directories=("/data", "/more"))
    for topic in ("first", "elsewhere", "second"):
        rig.create_topic(topic, **COMPACTED, max_compaction_lag_ms="1000000")
    for number in range(60):
        for topic in ("first", "second"):
            rig.produce(topic, [b"%d" % number + b"x" * 50], keys=[b"k"])
    rig.restart(orderly=True)
    logs = {where.topic: partition.log for where, partition in rig.node.broker.partitions.items()}
    assert logs["first"].directory == logs["second"].directory != logs["elsewhere"].directory
    rig.node.disk.fail_next("read", path_contains=logs["second"].segments[0].path(".log"))
    rig.run_for(5_000)
    assert len(notices(rig, "log-directory-offline")) == 1
    assert rig.produce("elsewhere", [b"x"], keys=[b"k"]).error_code == 0


def test_log_is_compacted_again_when_what_could_not_be_checked_is_gone():
    rig = Rig(settings=SETTINGS)
    rig.create_topic(TOPIC, **COMPACTED | {"cleanup_policy": "compact,delete"})
    commit(rig, range(60))
    log = rig.node.broker.partitions[PLACE].log
    rig.node.disk.corrupt(log.segments[0].path(".log"), 8, 255)
    rig.run_for(5_000)
    assert rig.node.broker.log_cleaner.uncleanable_logs == 1
    start = log.segments[1].base_offset
    delete_records(rig, TOPIC, start)
    rig.run_for(5_000)
    assert log.segments[0].base_offset == start
    commit(rig, range(60, 120))
    rig.run_for(5_000)
    assert rig.node.broker.log_cleaner.uncleanable_logs == 0
    assert log.cleaned_offset > 60


def test_log_that_cannot_be_checked_is_reported_once_and_left_alone():
    rig = compacted_rig()
    commit(rig, range(60))
    log = rig.node.broker.partitions[PLACE].log
    rig.node.disk.corrupt(log.segments[0].path(".log"), 8, 255)
    rig.run_for(60_000)
    assert len(notices(rig, "log-not-compacted")) == 1
    assert not notices(rig, "log-compacted")


def test_round_whose_segments_are_deleted_meanwhile_is_repeated_and_the_directory_stays_online(monkeypatch):
    """DeleteRecords and retention delete files `file.delete.delay.ms` later, which may be before a round reads them."""
    monkeypatch.setattr("yak.storage.compaction.PIECE_BYTES", 200)
    rig = Rig(settings=SETTINGS | {"log.segment.delete.delay.ms": "0"})
    rig.create_topic(TOPIC, **COMPACTED | {"cleanup_policy": "compact,delete"})
    commit(rig, range(60))
    log = rig.node.broker.partitions[PLACE].log
    run_until_compacting(rig)
    start = log.segments[1].base_offset
    delete_records(rig, TOPIC, start)
    rig.run_for(10_000)
    assert not [notice for notice in rig.node.notices if notice.level == "error"]
    assert notices(rig, "log-compacted")
    names = rig.node.disk.names(log.path)
    assert not [name for name in names if name.endswith(".cleaned")]


def test_records_without_a_key_are_refused_each_by_its_index():
    rig = compacted_rig()
    answer = rig.produce(TOPIC, [b"1", b"2", b"3"], keys=[b"k", None, None])
    assert answer.error_code == ErrorCode.invalid_record
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert "key" in answer.record_errors[0].batch_index_error_message
    assert "compacted" in answer.error_message
    assert rig.node.broker.partitions[PLACE].log_end_offset == 0
    assert rig.produce(TOPIC, [b"1", None], keys=[b"k", b""]).error_code == 0


@pytest.mark.parametrize("codec", range(5))
def test_keys_of_large_and_of_compressed_batches_are_checked_in_a_job(codec):
    rig = compacted_rig()

    def batch(missing: int | None) -> bytes:
        keys = [None if number == missing else b"k%d" % number for number in range(30)]
        plain = record_batch([b"v"] * 30, rig.world.now_ms, keys=keys)
        return with_records(plain, compress(codec, plain[HEADER_BYTES:]), codec)

    taken = rig.produce_raw(TOPIC, batch(None))
    assert (taken.error_code, taken.base_offset) == (0, 0)
    refused = rig.produce_raw(TOPIC, batch(17))
    assert (refused.error_code, refused.base_offset) == (ErrorCode.invalid_record, -1)
    assert [error.batch_index for error in refused.record_errors] == [17]
    after = rig.produce_raw(TOPIC, batch(None))
    assert (after.error_code, after.base_offset) == (0, 30)
    assert CODECS[read_header(bytes(rig.fetch(TOPIC, 0).records)).codec] == CODECS[codec]


def test_replicas_all_compact_and_a_rejoining_replica_copies_the_remaining_records():
    rig = ClusterRig(settings=SETTINGS)
    rig.create_topic(TOPIC, min_insync_replicas="2", **COMPACTED)
    rig.run_until(lambda: rig.is_in_sync(TOPIC))
    away = next(node for node in rig.nodes if node.node_id != rig.leader(TOPIC))
    commit(rig, range(20))
    away.kill()
    rig.run_until(lambda: away.node_id not in rig.info(TOPIC).isr)
    commit(rig, range(20, 80))
    rig.run_for(5_000)
    alive = [node for node in rig.nodes if node is not away]
    for node in alive:
        assert rig.replica(node.node_id, TOPIC).log.cleaned_offset > 60
        assert len(consumed(rig.fetch, 80)) < 30
    # who comes back copies from behind its own end, across the gaps
    away.start()
    rig.run_until(lambda: rig.is_in_sync(TOPIC))
    rig.run_for(5_000)
    assert rig.replica(away.node_id, TOPIC).log_end_offset == 80
    leader = rig.leader(TOPIC)
    commit(rig, range(80, 90))
    next(node for node in rig.nodes if node.node_id == leader).kill()
    rig.run_until(lambda: rig.leader(TOPIC) not in (leader, -1))
    left = consumed(rig.fetch, 90)
    assert left[-10:] == list(range(80, 90))
    assert len(left) < 40
    # a leader may refuse fetches of an incarnation that its image lacks yet; that is logged at level debug
    events = [notice.event for notice in away.notices if notice.level != "debug"]
    assert not [event for event in events if "refused" in event or "truncated-below" in event]


def test_log_cleaner_does_not_persist_data_that_the_disk_misread_once(monkeypatch):
    rig = compacted_rig()
    commit(rig, range(60))
    disk, log = rig.node.disk, rig.node.broker.partitions[PLACE].log

    def begin_to_rewrite(*arguments: Any) -> CleanedSegment:
        disk.garble_next(SeededRandom(1), path_contains=TOPIC)
        return CleanedSegment(*arguments)

    monkeypatch.setattr("yak.storage.compaction.CleanedSegment", begin_to_rewrite)
    rig.run_for(3_000)
    assert len(notices(rig, "log-compacted")) == 1
    assert not notices(rig, "log-damaged")
    for segment in log.segments:
        data = disk.peek(segment.path(".log"), 0)
        for place, header in iterate_headers(data):
            assert compute_crc(data, place, header.size_bytes) == header.crc


def test_log_cleaner_defers_a_log_that_the_disk_keeps_misreading_despite_new_writes():
    rig = compacted_rig()
    commit(rig, range(60))
    disk, path = rig.node.disk, rig.node.broker.partitions[PLACE].log.segments[0].path(".log")
    at = len(disk.peek(path, 0)) - 2
    right = disk.peek(path, at)[0]
    disk.corrupt(path, at, right ^ 1)
    for number in range(4):
        commit(rig, range(60, 90))
        rig.run_for(60_000)
        (damaged,) = notices(rig, "log-damaged")
        assert "the CRC-32C does not match" in str(damaged["reason"]), number
    assert not notices(rig, "log-compacted")
    disk.corrupt(path, at, right)
    rig.run_for(120_000)
    assert notices(rig, "log-compacted")
    assert len(notices(rig, "log-damaged")) == 1
    assert len(consumed(rig.fetch, 180)) < 60


def test_leader_with_copied_compacted_log_gives_former_leader_the_truncation_offset():
    rig = ClusterRig(settings=SETTINGS)
    rig.create_topic(TOPIC, min_insync_replicas="2", min_cleanable_dirty_ratio="0", **COMPACTED)
    rig.run_until(lambda: rig.is_in_sync(TOPIC))
    commit(rig, range(10))
    deposed = rig.nodes[rig.leader(TOPIC) - 1]
    others = [node for node in rig.nodes if node is not deposed]
    for node in others:
        rig.cluster.cut(deposed.party, node.party)
    for number in range(8):
        rig.produce(TOPIC, [b"never committed"], keys=[b"lost %d" % number], acks=1)
    deposed.kill()
    rig.run_until(lambda: rig.leader(TOPIC) not in (deposed.node_id, -1))
    for node in others:
        rig.cluster.reconnect(deposed.party, node.party)
    rig.run_until(lambda: rig.replica(rig.leader(TOPIC), TOPIC).is_leader)
    leader = rig.nodes[rig.leader(TOPIC) - 1]
    copier = next(node for node in others if node is not leader)
    commit(rig, range(10, 80))
    rig.run_for(5_000)
    # a replica is copied from what compaction left, and leads then
    copier.kill()
    copier.wipe()
    rig.run_until(lambda: copier.node_id not in rig.info(TOPIC).isr)
    copier.start()
    rig.run_until(lambda: copier.node_id in rig.info(TOPIC).isr)
    epochs = [rig.replica(node.node_id, TOPIC).log.epochs.entries for node in (leader, copier)]
    assert epochs[0] == epochs[1]
    leader.kill()
    rig.run_until(lambda: rig.leader(TOPIC) == copier.node_id)
    deposed.start()
    rig.run_until(lambda: deposed.node_id in rig.info(TOPIC).isr)
    log = rig.replica(deposed.node_id, TOPIC).log
    epoch, start = log.epochs.entries[1]
    assert (epoch, start) == epochs[1][1]
    data = b"".join(deposed.disk.peek(segment.path(".log"), 0) for segment in log.segments)
    parts = {header.base_offset: header.partition_leader_epoch for _, header in iterate_headers(data)}
    assert max(offset for offset, its in parts.items() if its < epoch) < start


def test_deleted_partition_and_its_log_are_freed():
    rig = compacted_rig()
    broker = rig.node.broker
    assert broker is not None
    commit(rig, range(60))
    partition = broker.partitions[PLACE]
    assert partition.log is not None
    broker.log_cleaner._schedule(partition, broker.now_ms + 10**9)
    broker.log_cleaner._uncleanable[partition.log] = (0, 0)
    broker.log_cleaner._postponed[partition.log] = broker.now_ms + 10**9
    log = weakref.ref(partition.log)
    del partition
    delete_topic(rig, TOPIC)
    rig.run_for(60_000)
    gc.collect()
    assert log() is None
    assert not broker.log_cleaner._due
