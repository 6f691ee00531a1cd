"""The check on compaction finds each thing that must not go, and lets go what may."""

import uuid
from types import SimpleNamespace

import pytest

from yak.config.log_config import LogConfig
from yak.ids import TopicPartition
from yak.protocol.control_batch import EndTransactionMarker, build_marker
from yak.protocol.record_batch import iterate_headers, read_header
from yak.protocol.record_writer import build_batch
from yak.sim.checks.compaction_keeps_last import CompactionKeepsLast
from yak.sim.compacted_records import COMPACT
from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Copy, History, Key
from yak.sim.originals import Originals
from yak.storage.batch_filter import BatchFilter

EPOCH = 3
A, B = b"a", b"b"


class Newest(dict):
    """What compaction believes to be the newest offset of each key, right or wrong."""

    latest_offset = 1_000

    def get(self, key):
        return super().get(key, -1)


class Bench:
    """One copy whose closed segment is a list of batches."""

    def __init__(self, **config):
        self.key = Key(str(uuid.UUID(int=1)), 0)
        self.history = History([])
        self.originals = Originals(self.history.committed, self.key)
        self.check = CompactionKeepsLast(self.history)
        self.batches = []
        self.now_ms = 10_000
        segment = SimpleNamespace(base_offset=0, path=lambda _suffix: "0.log")
        self.log = SimpleNamespace(
            segments=[segment],
            active=SimpleNamespace(base_offset=100),
            recovery_point=100,
            log_end_offset=0,
            config=LogConfig(cleanup_policy="compact", **config),
        )
        self.copy = self.new_copy()

    def new_copy(self):
        disk = SimpleNamespace(peek=lambda _path, position: b"".join(self.batches)[position:])
        clock = {"skew_ms": 0, "wall_ms": self.now_ms, "is_clock_steady": True}
        node = SimpleNamespace(disk=disk, node_id=1, world=SimpleNamespace(now_us=7), **clock)
        copy = Copy(node, self.key, TopicPartition(COMPACT, 0), self.originals)
        copy.partition, copy.log = SimpleNamespace(high_watermark=100), self.log
        return copy

    def write(self, *records):
        """One batch, which the copy's broker takes as the leader, and commits."""
        self.append(build_batch(records, self.now_ms), len(records))

    def write_in_transaction(self, *records):
        """One batch of producer 7's transaction."""
        self.append(build_batch(records, self.now_ms, attributes=16, producer_id=7, producer_epoch=0), len(records))

    def end(self, *, is_commit, is_committed=True):
        """The marker of producer 7's transaction."""
        marker = build_marker(7, 0, EndTransactionMarker(is_commit, 0), self.now_ms)
        self.append(marker, 1, is_committed=is_committed)

    def append(self, data, count, *, is_committed=True):
        batch = bytearray(data)
        batch[:8] = self.log.log_end_offset.to_bytes(8, "big")
        batch[12:16] = EPOCH.to_bytes(4, "big")
        self.batches.append(bytes(batch))
        self.log.log_end_offset += count
        self.check.appended(self.copy, self.copy.read_on())
        if is_committed:
            committed = self.history.committed.setdefault(self.key, Chain())
            committed.take(self.copy.chain, self.copy.end)

    def remove(self, *indexes):
        """Remove whole batches, right or wrong."""
        self.batches = [batch for index, batch in enumerate(self.batches) if index not in indexes]
        self.check.swapped(self.copy)

    def compact(self, newest, *, retention_ms=0):
        """Rewrite all, by what is said to be newest."""
        self.copy.node.wall_ms = self.now_ms
        cleaner = BatchFilter(Newest(newest), (), self.now_ms, retention_ms)
        left = [cleaner.filter(read_header(batch), batch) for batch in self.batches]
        self.batches = [bytes(batch) for batch in left if batch is not None]
        self.check.swapped(self.copy)


@pytest.fixture
def bench():
    return Bench()


def test_replaced_record_may_be_removed_and_is_reported(bench):
    bench.write((A, b"1"), (B, b"2"))
    bench.write((A, b"3"))
    bench.compact({A: 2, B: 1})
    assert bench.originals.taken == {0: 7}
    assert bench.history.counts["records compacted away"] == 1


def test_the_last_record_of_a_key_may_not(bench):
    bench.write((A, b"1"), (B, b"2"))
    with pytest.raises(Violation, match="@1, the last record of b'b', is gone"):
        bench.compact({A: 0, B: 2})


@pytest.mark.parametrize("limit", ["watermark", "active segment", "recovery point"])
def test_record_compacted_away_before_its_replacement_is_safe_is_a_violation(bench, limit):
    bench.write((A, b"1"), (A, b"2"))
    match limit:
        case "watermark":
            bench.copy.partition.high_watermark = 1
        case "active segment":
            bench.log.active.base_offset = 1
        case _:
            bench.log.recovery_point = 1
    with pytest.raises(Violation, match="@0 was compacted away, and nothing below 1 that is old enough replaced it"):
        bench.compact({A: 1})


def test_record_in_a_segment_not_yet_closed_must_not_be_compacted_away(bench):
    bench.write((A, b"1"), (A, b"2"))
    bench.log.active.base_offset = 0
    with pytest.raises(Violation, match="only what is below 0 may be"):
        bench.compact({A: 1})


def test_record_that_replaces_another_must_be_old_enough():
    bench = Bench(min_compaction_lag_ms=500)
    bench.write((A, b"1"), (A, b"2"))
    bench.now_ms += 499
    with pytest.raises(Violation, match="nothing below 100 that is old enough"):
        bench.compact({A: 1})


def test_a_tombstone_outlives_the_first_compaction_and_its_horizon():
    bench = Bench(delete_retention_ms=1_000)
    bench.write((A, b"1"), (A, None))
    bench.compact({A: 1}, retention_ms=1_000)
    assert list(bench.originals.taken) == [0]
    bench.now_ms += 1_000
    bench.compact({A: 1})
    assert list(bench.originals.taken) == [0, 1]
    assert bench.history.counts["tombstones removed"] == 1


def test_tombstone_removed_by_the_first_compaction_is_detected(bench):
    bench.write((A, b"1"), (A, None))
    with pytest.raises(Violation, match="was removed by the first compaction"):
        bench.compact({A: 2})


def test_tombstone_removed_too_early_is_detected():
    bench = Bench(delete_retention_ms=1_000)
    bench.write((A, None))
    bench.compact({A: 0}, retention_ms=1_000)
    bench.now_ms += 600
    with pytest.raises(Violation, match="was removed 400 ms too early"):
        bench.compact({A: 1})


def test_tombstone_with_a_delete_horizon_that_is_too_early_is_detected():
    bench = Bench(delete_retention_ms=1_000)
    bench.write((A, None))
    with pytest.raises(Violation, match="may go 1000 ms too early"):
        bench.compact({A: 0}, retention_ms=0)


def test_a_deleted_key_does_not_come_back(bench):
    bench.write((A, b"1"))
    bench.write((A, None))
    del bench.batches[1]
    with pytest.raises(Violation, match="the tombstone of b'a', is gone, and 0 is not"):
        bench.check.reopened(bench.copy, Chain())


def test_another_record_in_its_place_is_found(bench):
    bench.write((A, b"1"), (B, b"2"))
    other = bytearray(build_batch([(A, b"x"), (B, b"2")], bench.now_ms))
    other[12:16] = EPOCH.to_bytes(4, "big")
    bench.batches = [bytes(other)]
    with pytest.raises(Violation, match="the batch is not what was written there"):
        bench.check.swapped(bench.copy)


def test_uncommitted_record_must_not_be_compacted_away(bench):
    bench.write((A, b"1"), (A, b"2"))
    bench.history.committed.clear()
    with pytest.raises(Violation, match="@0 is gone, and was not committed"):
        bench.compact({A: 1})


def test_a_compacted_log_is_compared_as_it_was_written(bench):
    bench.write((A, b"1"))
    bench.write((A, b"2"), (B, b"3"))
    bench.write((B, b"4"))
    written = bench.copy.chain
    bench.compact({A: 1, B: 3})
    assert [read_header(batch).base_offset for batch in bench.batches] == [1, 3]
    fresh_copy = bench.new_copy()
    fresh_copy.reread(None, 0)
    assert fresh_copy.chain.at(4) == written.at(4)
    assert not fresh_copy.is_whole


def copied(bench, count):
    """A replica that copies the first batches that are left."""
    bench.batches = bench.batches[:count]
    bench.log.log_end_offset = [header.next_offset for _, header in iterate_headers(b"".join(bench.batches))][-1]
    replica = bench.new_copy()
    bench.check.appended(replica, replica.read_on())
    return replica


def test_a_replica_that_is_behind_may_miss_what_a_record_to_come_replaced(bench):
    bench.write((A, b"1"), (B, b"2"))
    bench.write((A, b"3"))
    bench.compact({A: 2, B: 1})
    assert copied(bench, 1).end == 2
    assert bench.history.counts["records gone before they were copied"] == 1


def test_a_replica_that_copies_less_than_there_is_to_keep_is_found(bench):
    bench.write((A, b"1"), (B, b"2"))
    bench.write((B, b"3"))
    with pytest.raises(Violation, match="the last record of b'a', is gone"):
        bench.compact({A: 1, B: 2})
    with pytest.raises(Violation, match="the last record of b'a', is gone"):
        copied(bench, 2)


def test_a_forfeited_partition_is_left_alone(bench):
    bench.write((A, b"1"))
    bench.history.forfeit(bench.key, "lost")
    bench.compact({A: 1})
    assert not bench.originals.taken


def test_records_of_an_aborted_transaction_may_go_and_replace_nothing(bench):
    bench.write((A, b"1"))
    bench.write_in_transaction((A, b"2"))
    bench.end(is_commit=False)
    bench.remove(1)
    assert set(bench.originals.taken) == {1}
    with pytest.raises(Violation, match=r"@0 was compacted away, and nothing|@0, the last record of b'a', is gone"):
        bench.remove(0)


def test_records_of_an_open_transaction_stay(bench):
    bench.write_in_transaction((A, b"1"))
    bench.write((A, b"2"))
    with pytest.raises(Violation, match="@0 is gone, and its transaction is open"):
        bench.remove(0)


def test_records_of_a_committed_transaction_replace_earlier_ones(bench):
    bench.write((A, b"1"))
    bench.write_in_transaction((A, b"2"))
    bench.end(is_commit=True)
    bench.compact({A: 1})
    assert set(bench.originals.taken) == {0}
    with pytest.raises(Violation, match="@1, the last record of b'a', is gone"):
        bench.remove(0)


def test_a_marker_stays_while_records_of_its_transaction_do(bench):
    bench.write_in_transaction((A, b"1"))
    bench.end(is_commit=True)
    with pytest.raises(Violation, match="@1, a marker, is gone, and records of its transaction are not"):
        bench.remove(1)


def test_a_marker_does_not_go_at_once(bench):
    bench.write_in_transaction((A, b"1"))
    bench.end(is_commit=False)
    with pytest.raises(Violation, match="@1, a tombstone or marker, was removed by the first compaction"):
        bench.remove(0, 1)


def test_a_marker_has_the_time_of_the_broker_that_wrote_it():
    bench = Bench(delete_retention_ms=1_000)
    bench.write_in_transaction((A, b"1"))
    bench.now_ms += 300  # the coordinator's clock is ahead
    bench.end(is_commit=True)
    bench.now_ms -= 300
    bench.write((A, b"2"))
    for _ in ("the record", "a horizon for the marker"):
        bench.compact({A: 2}, retention_ms=1_000)
    assert set(bench.originals.taken) == {0}
    assert read_header(bench.batches[0]).delete_horizon_ms == bench.now_ms + 1_000


def test_marker_above_the_high_watermark_decides_on_a_broker_that_restarted(bench):
    bench.write((A, b"1"))
    bench.write_in_transaction((A, b"2"))
    bench.end(is_commit=True, is_committed=False)
    bench.copy.partition.high_watermark = 2
    bench.compact({A: 1})
    assert bench.originals.taken == {0: 7}


def test_abort_marker_above_the_high_watermark_replaces_nothing(bench):
    bench.write((A, b"1"))
    bench.write_in_transaction((A, b"2"))
    bench.end(is_commit=False, is_committed=False)
    bench.copy.partition.high_watermark = 2
    with pytest.raises(Violation, match="the last record of b'a', is gone"):
        bench.compact({A: 1})
