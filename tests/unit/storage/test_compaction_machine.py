"""Compaction among appends, rolls, truncations, restarts, and crashes at each of its own writes, against a list of all records."""

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.unit.storage.compaction.rounds import run_round
from tests.unit.storage.conftest import Bench, write_checkpoint
from yak.protocol.record_batch import compute_crc, iterate_headers, read_header
from yak.protocol.record_walk import walk_records
from yak.sim.seeded_random import SeededRandom
from yak.storage.compaction import cleanable

KEYS = [b"a", b"b", b"c", b"d", b"a key of more than thirty-two bytes"]
RETENTION_MS = 50
PRODUCER = 7


class Crash(BaseException):
    """The process ended in the middle of something."""


def run_until_crash(log, scope, now_ms, calls):
    """What a round returns; None if the process ended, before call number `calls` of the disk. Reads do not count."""
    left = itertools.count(calls, -1)

    def called(call, _path):
        if call != "read" and next(left) <= 0:
            raise Crash

    log.disk.on_call = called
    try:
        return run_round(log, scope, 10**6, now_ms)
    except Crash:
        return None
    finally:
        log.disk.on_call = None


def found_in(log):
    """(offset -> (key, value), batch headers) of what is in the files of a log."""
    found, headers = {}, []
    for segment in log.segments:
        data = segment.open().read(segment.size, 0)
        assert len(data) == segment.size
        for position, header in iterate_headers(data):
            assert header.crc == compute_crc(data, position, header.size_bytes)
            headers.append(header)
            for record in walk_records(data[position : position + header.size_bytes]):
                found[record.offset] = (record.key, record.value)
    return found, headers


class CompactionMachine(RuleBasedStateMachine):
    """`model` is (key, value) for every offset that was appended and not lost; `touched` up to where it was compacted."""

    def __init__(self):
        super().__init__()
        self.bench = Bench(
            cleanup_policy="compact", segment_bytes=700, index_interval_bytes=100, delete_retention_ms=RETENTION_MS
        )
        self.model = {}
        self.touched = 0
        self.cleaned = 0
        self.now_ms = 0
        self.epoch = 0
        self.sequence = {}

    @property
    def log(self):
        return self.bench.log

    @rule(
        pairs=st.lists(
            st.tuples(st.sampled_from([*KEYS, None]), st.sampled_from([None, b"", b"v", b"w" * 90])),
            min_size=1,
            max_size=5,
        ),
        codec=st.sampled_from([0, 0, 1, 4]),
        produces=st.booleans(),
    )
    def append(self, pairs, codec, produces):
        fields = {}
        if produces:
            last = max((at for at in self.sequence if at < self.log.log_end_offset), default=None)
            fields = {
                "producer_id": PRODUCER,
                "producer_epoch": 0,
                "sequence": 0 if last is None else self.sequence[last] + 1,
            }
        keys, values = zip(*pairs, strict=True)
        stamps = [self.now_ms + at for at in range(len(pairs))]
        batch = self.bench.build(list(values), keys=list(keys), codec=codec, timestamps=stamps, **fields)
        header = read_header(batch)
        assert self.log.producers.check(header) is None
        base = self.log.append(header, batch, self.epoch, self.now_ms)
        self.model |= {base + at: pair for at, pair in enumerate(pairs)}
        if produces:
            self.sequence[self.log.log_end_offset - 1] = header.last_sequence

    @rule()
    def next_epoch(self):
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule()
    def roll(self):
        self.log.roll(self.now_ms)

    @rule()
    def flush(self):
        self.bench.flush()

    @rule(by_ms=st.sampled_from([1, RETENTION_MS]))
    def wait(self, by_ms):
        self.now_ms += by_ms

    @rule()
    def write_checkpoint(self):
        write_checkpoint(self.bench.store)

    def scope(self, lag):
        self.bench.flush()
        return cleanable(self.log, max(0, self.log.log_end_offset - lag), self.now_ms)

    @rule(lag=st.integers(0, 6), map_bytes=st.sampled_from([1, 500, 10**6]))
    def compact(self, lag, map_bytes):
        scope = self.scope(lag)
        if not scope.dirty_bytes:
            return
        self.touched = max(self.touched, scope.end_offset)
        result = run_round(self.log, scope, map_bytes, self.now_ms)
        assert scope.first_dirty_offset < result.end_offset <= scope.end_offset
        self.cleaned = max(self.cleaned, result.end_offset)
        found, _ = found_in(self.log)
        keys = [key for offset, (key, _) in sorted(found.items()) if offset < result.end_offset]
        assert None not in keys
        assert len(set(keys)) == len(keys)

    @rule(lag=st.integers(0, 6), calls=st.integers(0, 55), power=st.booleans(), seed=st.integers(0, 2**16))
    def compact_and_crash(self, lag, calls, power, seed):
        scope = self.scope(lag)
        if not scope.dirty_bytes:
            return
        self.touched = max(self.touched, scope.end_offset)
        result = run_until_crash(self.log, scope, self.now_ms, calls)
        if result is not None:
            self.cleaned = max(self.cleaned, result.end_offset)
        self.restart(power=power, seed=seed)

    @rule(power=st.booleans(), seed=st.integers(0, 2**16))
    def restart(self, power, seed):
        end, flushed = self.log.log_end_offset, self.log.recovery_point
        self.bench.random_source = SeededRandom(seed)
        self.bench.reopen(crash=power, checkpoint=False, now_ms=self.now_ms)
        assert flushed <= self.log.log_end_offset <= end
        assert power or self.log.log_end_offset == end
        assert not [event for event in self.bench.store.report.events if event.level == "error"]
        self.forget_lost()

    @rule()
    def restart_cleanly(self):
        end = self.log.log_end_offset
        self.bench.reopen(clean=True, now_ms=self.now_ms)
        assert self.log.log_end_offset == end

    @precondition(lambda self: self.log.log_end_offset > self.touched)
    @rule(share=st.floats(0, 1))
    def truncate(self, share):
        self.bench.truncate(self.touched + int((self.log.log_end_offset - self.touched) * share))
        self.forget_lost()

    def forget_lost(self):
        end = self.log.log_end_offset
        self.model = {offset: pair for offset, pair in self.model.items() if offset < end}
        self.sequence = {offset: number for offset, number in self.sequence.items() if offset < end}
        self.epoch = max(self.epoch, self.log.epochs.latest)

    @invariant()
    def what_is_there_was_appended_there_and_nothing_above_the_compacted_part_is_missing(self):
        found, _ = found_in(self.log)
        assert {offset: self.model[offset] for offset in found} == found
        for offset in self.model:
            assert offset in found or offset < self.touched

    @invariant()
    def the_last_record_of_every_key_is_there(self):
        found, _ = found_in(self.log)
        for below in (self.cleaned, self.log.log_end_offset):
            last = {}
            for offset, (key, _) in sorted(self.model.items()):
                if offset < below and key is not None:
                    last[key] = offset
            for key, offset in last.items():
                if self.model[offset][1] is None:
                    # a tombstone may go, but nothing may come back with it
                    assert offset in found or not [at for at, pair in found.items() if pair[0] == key and at < offset]
                else:
                    assert offset in found or below == self.cleaned
                    assert offset in found or [at for at, pair in self.model.items() if pair[0] == key and at > offset]

    @invariant()
    def every_offset_can_be_read_from(self):
        log = self.log
        headers = found_in(log)[1]
        assert all(one.next_offset <= following.base_offset for one, following in itertools.pairwise(headers))
        for offset in range(log.log_start_offset, log.log_end_offset):
            data = bytes(log.read(offset, 1, log.log_end_offset, at_least_one=True))
            header = read_header(data)
            expected = next(header for header in headers if header.last_offset >= offset)
            assert header == expected
        assert log.log_start_offset == 0
        assert log.size_bytes == sum(segment.size for segment in log.segments)

    @invariant()
    def the_producer_is_known_by_its_last_sequence(self):
        if self.sequence:
            described = {one.producer_id: one.last_sequence for one in self.log.producers.describe()}
            assert described[PRODUCER] == self.sequence[max(self.sequence)]

    @invariant()
    def indexes_point_at_batches(self):
        for segment in self.log.segments:
            segment.load_indexes()
            data = segment.open().read(segment.size, 0)
            ends = {header.last_offset: position for position, header in iterate_headers(data)}
            entries = bytes(segment.offset_index.entries)
            for at in range(0, len(entries), 8):
                offset = segment.base_offset + int.from_bytes(entries[at : at + 4], "big")
                assert ends[offset] == int.from_bytes(entries[at + 4 : at + 8], "big")
            newest = max((header.max_timestamp for _, header in iterate_headers(data)), default=-1)
            assert segment.max_timestamp == newest


@pytest.mark.timeout(120)
def test_compaction_loses_nothing_that_counts_whatever_happens():
    run_state_machine_as_test(
        CompactionMachine,
        settings=settings(max_examples=80, stateful_step_count=30, suppress_health_check=list(HealthCheck)),
    )


def fill(bench):
    """Five closed segments of overwritten keys and tombstones, and an active one."""
    for number in range(50):
        key = KEYS[number % 4]
        value = None if number % 9 == 8 else b"%d" % number + b"x" * 30
        bench.append([value, b"last"], keys=[key, KEYS[4]], producer_id=PRODUCER, producer_epoch=0, sequence=2 * number)
        if number % 10 == 9:
            bench.log.roll(0)
    bench.append([b"active"], keys=[b"z"])
    bench.flush()


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_write_leaves_the_old_segments_or_the_new(power):
    for calls in itertools.count():
        bench = Bench(cleanup_policy="compact", segment_bytes=2000, delete_retention_ms=0)
        fill(bench)
        scope = cleanable(bench.log, 101, 5)
        before, _ = found_in(bench.log)
        result = run_until_crash(bench.log, scope, 5, calls)
        bench.random_source = SeededRandom(calls)
        bench.reopen(crash=power, checkpoint=False)
        after, _ = found_in(bench.log)
        assert bench.log.log_end_offset == 101
        assert {offset: before[offset] for offset in after} == after
        newest = {key: offset for offset, (key, _) in sorted(before.items())}
        assert {newest[key] for key in newest} <= set(after)
        assert not [name for name in bench.files() if name.endswith((".cleaned", ".swap", ".deleted"))]
        # and the next round makes of it what an undisturbed one does
        bench.flush()
        run_round(bench.log, cleanable(bench.log, 101, 5), 10**6, 5)
        assert set(found_in(bench.log)[0]) == {newest[key] for key in newest}
        if result is not None:
            break
    assert calls > 20
