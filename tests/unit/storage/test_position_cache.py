"""A log answers each read as it does without its position cache, under any order of changes and reads."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.unit.storage.conftest import Bench, finished
from yak.protocol.record_batch import iterate_headers
from yak.storage import log as log_module
from yak.storage import reader
from yak.storage.log_move import switch
from yak.storage.names import CLEANED_SUFFIX, LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from yak.storage.position_cache import CURSORS_MAX, NEWEST_BYTES_MAX, RECENT_MAX, PositionCache
from yak.storage.reader import Read
from yak.storage.segment import Segment


class PositionMachine(RuleBasedStateMachine):
    policy = ("delete",)

    def __init__(self):
        super().__init__()
        self.bench = Bench(segment_bytes=9000, index_interval_bytes=300, cleanup_policy=self.policy)

    @property
    def log(self):
        return self.bench.log

    @staticmethod
    def batches(segment):
        """(offset, position, end position) of each batch in the segment, by its bytes."""
        data = segment.open().read(segment.size, 0) if segment.size else b""
        return [(header.base_offset, at, at + header.size_bytes) for at, header in iterate_headers(data)]

    @rule(count=st.integers(1, 40), records=st.integers(1, 3), size=st.integers(0, 60))
    def append(self, count, records, size):
        for _ in range(count):
            self.bench.append([b"x" * size] * records)

    @rule(size=st.integers(NEWEST_BYTES_MAX + 100, 3000))
    def append_large(self, size):
        self.bench.append([b"x" * size])

    @rule(count=st.integers(1, 3), ahead=st.integers(0, 3))
    def append_as_follower(self, count, ahead):
        offset = self.log.log_end_offset + (ahead if self.log.may_have_gaps else 0)
        fetched = b"".join(self.bench.build([b"y"] * 2, base_offset=offset + 2 * number) for number in range(count))
        self.log.append_as_follower(fetched, 0)

    @rule(back=st.integers(0, 30))
    def truncate(self, back):
        self.bench.truncate(max(self.log.log_start_offset, self.log.log_end_offset - back))

    @rule(ahead=st.integers(0, 5))
    def truncate_fully(self, ahead):
        self.bench.truncate_fully(self.log.log_end_offset + ahead)

    @rule()
    def roll(self):
        self.log.roll(0)

    @precondition(lambda self: len(self.log.segments) > 1)
    @rule()
    def remove_oldest_segment(self):
        self.log.remove_segments(self.log.segments[:1])

    @precondition(lambda self: len(self.log.segments) > 1 and self.log.segments[0].size)
    @rule(removed=st.sets(st.integers(0, 9)))
    def swap(self, removed):
        """Replace the oldest segment by one without some of its batches, but with its last one, as compaction does."""
        log, old = self.log, self.log.segments[0]
        data, batches = old.open().read(old.size, 0), self.batches(old)
        stays = [not log.config.is_compacted or number % 10 not in removed for number in range(len(batches) - 1)]
        cleaned = Segment(log.disk, log.path, old.base_offset, 0)
        cleaned.aside = CLEANED_SUFFIX
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            cleaned.file = log.disk.open(cleaned.path(suffix), create=True)
        for (_, at, end), is_kept in zip(batches, [*stays, True], strict=True):
            if is_kept:
                cleaned.open().append((data[at:end],))
                cleaned.size += end - at
        log.replace_segments([old], cleaned)

    @rule()
    def move(self):
        """Continue with other segments over the same files."""
        switch(self.log, self.log.directory, self.log.path)

    @rule(
        share=st.floats(0, 1),
        back=st.one_of(st.none(), st.integers(0, 40)),
        behind=st.integers(0, 5),
        max_bytes=st.integers(1, 4000),
        at_least_one=st.booleans(),
        steps=st.integers(1, 4),
    )
    def read(self, share, back, behind, max_bytes, at_least_one, steps):
        log = self.log
        starts = [offset for segment in log.segments for offset, _, _ in self.batches(segment)]
        ends = [*(offset for offset in starts if offset > log.log_start_offset), log.log_end_offset]
        up_to = ends[max(0, len(ends) - 1 - behind)]
        offset = log.log_start_offset + int((log.log_end_offset - log.log_start_offset) * share)
        if back is not None:
            offset = max(log.log_start_offset, log.log_end_offset - back)
        for _ in range(steps):
            found = self.answers(offset, max_bytes, up_to, at_least_one=at_least_one)
            known, log.positions = log.positions, PositionCache()
            expected = self.answers(offset, max_bytes, up_to, at_least_one=at_least_one)
            log.positions = known
            assert found == expected
            if not found[1]:
                return
            offset = known.read_end
            if not log.may_have_gaps:
                assert [header.next_offset for _, header in iterate_headers(found[1])][-1] == offset

    def answers(self, offset, max_bytes, up_to, *, at_least_one):
        """What the log answers: a slice and its end, a read and its end."""
        log = self.log
        part = log.slice(offset, max_bytes, up_to)
        sliced = None if part is None else (bytes(part), log.positions.read_end)
        data = bytes(finished(log.read(offset, max_bytes, up_to, at_least_one=at_least_one)))
        return sliced, data, log.positions.read_end if data else None

    @invariant()
    def positions_are_those_of_the_batches(self):
        log = self.log
        for segment in log.segments:
            data = segment.open().read(segment.size, 0) if segment.size else b""
            right = {segment.base_offset: {0}}
            for position, header in iterate_headers(data):
                right.setdefault(header.base_offset, set()).add(position)
                right.setdefault(header.next_offset, set()).add(position + header.size_bytes)
            for offset in range(segment.base_offset, max(right) + 1):
                known = log.positions.find(offset, offset, segment, is_active=segment is log.active)
                assert set(known) <= {-1} | right.get(offset, set())


@pytest.mark.parametrize("policy", [("delete",), ("compact",)])
def test_log_with_cached_positions_answers_reads_as_without(monkeypatch, policy):
    for module in (reader, log_module):
        monkeypatch.setattr(module, "SLICE_BYTES_MIN", 700)
    monkeypatch.setattr(PositionMachine, "policy", policy)
    run_state_machine_as_test(
        PositionMachine,
        settings=settings(max_examples=25, stateful_step_count=20, suppress_health_check=list(HealthCheck)),
    )


def test_many_readers_evict_no_recent_append_and_appends_evict_no_reader(bench):
    bench.append()
    positions, segment = bench.log.positions, bench.log.active
    for reader_offset in range(1000):
        read = Read([segment], -1, 1, 1, segment_end=1, at_least_one=True)
        positions.note_read(read, reader_offset, reader_offset, segment)
    assert positions.recent[1] == segment.size

    def known_readers():
        found = [positions.find(offset, offset, segment, is_active=False)[0] for offset in range(1000)]
        return [offset for offset, position in enumerate(found) if position >= 0]

    assert known_readers() == list(range(1000 - CURSORS_MAX, 1000))
    for _ in range(2 * RECENT_MAX):
        bench.append()
    assert known_readers() == list(range(1000 - CURSORS_MAX, 1000))


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_recent_appends_are_bounded_and_include_the_last_ones(bench, role):
    log = bench.log
    for offset in range(3 * RECENT_MAX):
        if role == "leader":
            bench.append()
        else:
            log.append_as_follower(bench.build([b"x" * 20], base_offset=offset), 0)
        assert len(log.positions.recent) <= RECENT_MAX
        first = max(1, offset - RECENT_MAX // 3)
        assert set(range(first, offset + 2)) <= set(log.positions.recent)


def test_newest_batch_is_the_last_small_one_until_the_cache_is_cleared(bench):
    bench.append([b"x"] * 2)
    positions = bench.log.positions
    batch = bench.content("00000000000000000000.log")
    assert positions.newest_batch(0, 2, len(batch)) == batch
    assert positions.newest_batch(0, 2, len(batch) - 1) is None
    assert positions.newest_batch(0, 1, len(batch)) is None
    assert positions.newest_batch(1, 2, len(batch)) is None
    bench.log.roll(0)
    assert positions.newest_batch(0, 2, len(batch)) == batch
    positions.clear()
    assert positions.newest_batch(0, 2, len(batch)) is None
