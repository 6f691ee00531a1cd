"""A log under any order of appends, rolls, flushes, truncations, deletes and power losses, against a list."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.unit.storage.conftest import Bench, retain, write_checkpoint
from yak.protocol.record_batch import compute_crc, iterate_headers, read_header
from yak.sim.seeded_random import SeededRandom


class LogMachine(RuleBasedStateMachine):
    """`model` is one (base offset, batch bytes, leader epoch) for each batch that must be in the log."""

    def __init__(self):
        super().__init__()
        self.bench = Bench(segment_bytes=600, index_interval_bytes=120, segment_ms=10**9)
        self.model = []
        self.flushed = 0
        self.start = 0
        self.epoch = 0
        self.serial = 0

    @property
    def log(self):
        return self.bench.log

    @property
    def end(self):
        return self.log.log_end_offset

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 120),
        producer=st.sampled_from([None, 1, 2]),
        time=st.integers(0, 99),
    )
    def append(self, count, size, producer, time):
        self.serial += 1
        values = [b"%06d" % self.serial + b"x" * size] * count
        fields = {}
        if producer is not None:
            # what this producer sent last, by the model, so that a loss is a known step back
            last = self.last_sequence(producer)
            fields = {"producer_id": producer, "producer_epoch": 0, "sequence": last + 1}
        batch = self.bench.build(values, timestamps=[time] * count, **fields)
        header = read_header(batch)
        assert self.log.producers.check(header) is None
        base = self.log.append(header, batch, self.epoch, 0)
        self.model.append((base, batch, self.epoch))
        if producer is not None:
            repeated = self.log.producers.check(header)
            assert (repeated.base_offset, repeated.last_offset) == (base, base + count - 1)

    def last_sequence(self, producer):
        for _, batch, _ in reversed(self.model):
            header = read_header(batch)
            if header.producer_id == producer:
                return header.last_sequence
        return -1

    @rule()
    def next_epoch(self):
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule()
    def kill(self):
        end = self.end
        self.bench.reopen(checkpoint=False)
        assert self.end == end

    @rule()
    def roll(self):
        self.log.roll(0)

    @rule()
    def flush(self):
        self.bench.flush()
        self.flushed = self.end

    @rule()
    def write_checkpoint(self):
        write_checkpoint(self.bench.store)

    @precondition(lambda self: self.model)
    @rule(share=st.floats(0, 1))
    def truncate(self, share):
        offset = self.start + int((self.end - self.start) * share)
        self.bench.truncate(offset)
        self.model = [
            item for item in self.model if read_header(item[1])._replace(base_offset=item[0]).next_offset <= offset
        ]
        self.flushed = min(self.flushed, self.end)

    @precondition(lambda self: self.end > self.start)
    @rule(share=st.floats(0, 1))
    def delete_records(self, share):
        self.start += int((self.end - self.start) * share)
        self.log.advance_log_start(self.start)
        # the checkpoint makes a deletion final; without it a crash may bring records back, as in Kafka
        retain(self.log, 0, self.end)
        write_checkpoint(self.bench.store)

    @rule(clean=st.booleans())
    def restart(self, clean):
        self.bench.reopen(clean=clean, checkpoint=False)
        if clean:
            assert not [path for path in self.bench.disk.reads if path.endswith(".log")]
            self.flushed = self.end

    @rule(seed=st.integers(0, 2**16))
    def lose_power(self, seed):
        self.bench.random_source = SeededRandom(seed)
        end = self.end
        self.bench.reopen(crash=True, checkpoint=False)
        assert self.flushed <= self.end <= end
        assert not [event for event in self.bench.store.report.events if event.level == "error"]
        self.model = [item for item in self.model if item[0] + read_header(item[1]).last_offset_delta < self.end]

    @invariant()
    def offsets_follow_each_other_and_bytes_are_what_was_appended(self):
        start = self.log.log_start_offset
        assert start == self.start
        expected_end = self.start
        for base, batch, epoch in self.model:
            header = read_header(batch)
            if base + header.last_offset_delta < start:
                continue
            data = bytes(self.log.read(max(base, start), 1, self.end, at_least_one=True))
            assert data[16:] == batch[16:]
            found = read_header(data)
            assert (found.base_offset, found.partition_leader_epoch) == (base, epoch)
            expected_end = found.next_offset
        assert self.end == max(expected_end, start)

    @invariant()
    def indexes_point_at_batches(self):
        for segment in self.log.segments:
            segment.load_indexes()
            data = segment.open().read(segment.size, 0)
            assert len(data) == segment.size
            ends, last_epoch, newest = {}, -1, -1
            for position, header in iterate_headers(data):
                assert header.crc == compute_crc(data, position, header.size_bytes)
                assert header.partition_leader_epoch >= last_epoch
                last_epoch = header.partition_leader_epoch
                newest = max(newest, header.max_timestamp)
                ends[header.last_offset] = position
            entries = bytes(segment.offset_index.entries)
            for at in range(0, len(entries), 8):
                offset = segment.base_offset + int.from_bytes(entries[at : at + 4], "big")
                assert ends[offset] == int.from_bytes(entries[at + 4 : at + 8], "big")
            assert segment.max_timestamp == newest
            assert segment.time_index.last_timestamp <= newest

    @invariant()
    def producers_are_those_of_the_batches(self):
        described = {producer.producer_id: producer.last_sequence for producer in self.log.producers.describe()}
        for producer in (1, 2):
            last = self.last_sequence(producer)
            if last >= 0 and any(
                read_header(batch).producer_id == producer for base, batch, _ in self.model if base >= self.start
            ):
                assert described[producer] == last
        assert self.log.size_bytes == sum(segment.size for segment in self.log.segments)
        assert self.log.recovery_point <= self.end

    @invariant()
    def epochs_name_where_each_began(self):
        first = {}
        for base, _, epoch in self.model:
            first.setdefault(epoch, base)
        entries = dict(self.log.epochs.entries)
        for epoch, base in first.items():
            if base >= self.start:
                assert entries[epoch] <= base


@pytest.mark.timeout(60)
def test_a_log_keeps_what_it_promised_whatever_happens():
    run_state_machine_as_test(
        LogMachine,
        settings=settings(max_examples=60, stateful_step_count=30, suppress_health_check=list(HealthCheck)),
    )
