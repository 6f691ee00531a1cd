"""Transactions in a log under appends, markers, rolls, truncations, deletes, stops and power losses, against a list."""

import contextlib
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.unit.storage.conftest import Bench, write_checkpoint
from yak.errors import ErrorCode, PeerError
from yak.protocol.control_batch import EndTransactionMarker, build_marker, read_marker
from yak.protocol.record_batch import TRANSACTIONAL_BIT, iterate_headers, read_header
from yak.sim.seeded_random import SeededRandom
from yak.storage import indexes
from yak.storage.indexes import AbortedTxn, TransactionIndex
from yak.storage.reader import aborted_transactions

PRODUCERS = (1, 2, 3)


def write(
    bench: Any, producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1, transactional: bool = True
) -> int:
    """Append records of a producer, after the checks of a leader."""
    batch = bench.build(
        [b"x" * 20] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        sequence=sequence,
        attributes=TRANSACTIONAL_BIT if transactional else 0,
    )
    header = read_header(batch)
    assert bench.log.producers.check(header) is None
    return bench.log.append(header, batch, 0, 0)


def end(
    bench: Any, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, at_ms: int = 1000
) -> int:
    """Append a marker."""
    batch = build_marker(producer_id, epoch, EndTransactionMarker(commit, coordinator_epoch), at_ms)
    return bench.log.append(read_header(batch), batch, 0, 0)


class Written(NamedTuple):
    """One batch of the model: `commit` is None for data."""

    base: int
    last: int
    producer_id: int
    sequence: int
    commit: bool | None


class TransactionMachine(RuleBasedStateMachine):
    """`model` is every batch that must be in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(segment_bytes=700, index_interval_bytes=120, segment_ms=10**9)
        self.model: list[Written] = []
        self.flushed = 0
        self.start = 0

    @property
    def log(self) -> Any:
        return self.bench.log

    def next_sequence(self, producer_id: int) -> int:
        for each in reversed(self.model):
            if each.producer_id == producer_id and each.commit is None:
                return each.sequence + each.last - each.base + 1
        return 0

    @rule(producer_id=st.sampled_from(PRODUCERS), count=st.integers(1, 3))
    def send(self, producer_id: int, count: int) -> None:
        sequence = self.next_sequence(producer_id)
        base = write(self.bench, producer_id, sequence, count=count)
        self.model.append(Written(base, base + count - 1, producer_id, sequence, None))

    @rule(producer_id=st.sampled_from(PRODUCERS), commit=st.booleans())
    def finish(self, producer_id: int, commit: bool) -> None:
        offset = end(self.bench, producer_id, commit=commit)
        self.model.append(Written(offset, offset, producer_id, -1, commit))

    @rule()
    def roll(self) -> None:
        self.log.roll(0)

    @rule()
    def flush(self) -> None:
        self.bench.flush()
        self.flushed = self.log.log_end_offset

    @precondition(lambda self: self.model)
    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self.start + int((self.log.log_end_offset - self.start) * share)
        self.bench.truncate(offset)
        self.model = [each for each in self.model if each.last < offset]
        self.flushed = min(self.flushed, self.log.log_end_offset)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.bench.reopen(clean=clean, checkpoint=False)
        if clean:
            self.flushed = self.log.log_end_offset

    @rule(seed=st.integers(0, 2**16))
    def lose_power(self, seed: int) -> None:
        self.bench.random_source = SeededRandom(seed)
        self.bench.reopen(crash=True, checkpoint=False)
        assert self.flushed <= self.log.log_end_offset
        assert not [event for event in self.bench.store.report.events if event.level == "error"]
        self.model = [each for each in self.model if each.last < self.log.log_end_offset]

    @rule()
    def write_checkpoint(self) -> None:
        write_checkpoint(self.bench.store)

    def expected(self) -> tuple[dict[int, int], list[AbortedTxn]]:
        """The first offsets of the open transactions, and the aborted ones."""
        opened: dict[int, int] = {}
        aborted = []
        for each in self.model:
            if each.commit is None:
                opened.setdefault(each.producer_id, each.base)
                continue
            first = opened.pop(each.producer_id, None)
            if first is not None and not each.commit:
                stable = min(opened.values(), default=each.base + 1)
                aborted.append(AbortedTxn(each.producer_id, first, each.base, stable))
        return opened, aborted

    @invariant()
    def open_and_aborted_transactions_are_those_of_the_batches(self) -> None:
        opened, aborted = self.expected()
        end_offset = self.log.log_end_offset
        described = {each.producer_id: each.current_txn_start_offset for each in self.log.producers.describe()}
        assert {producer: first for producer, first in described.items() if first >= 0} == opened
        assert self.log.producers.first_unstable_offset(end_offset) == min(opened.values(), default=None)
        assert aborted_transactions(self.log.segments, 0, end_offset) == aborted

    @invariant()
    def a_reader_learns_of_every_aborted_transaction_in_its_range(self) -> None:
        _opened, aborted = self.expected()
        end_offset = self.log.log_end_offset
        for start in range(0, end_offset, 3):
            for stop in (start + 1, (start + end_offset) // 2 + 1, end_offset):
                found = aborted_transactions(self.log.segments, start, stop)
                needed = [each for each in aborted if each.last_offset >= start and each.first_offset < stop]
                assert found == needed


@pytest.mark.timeout(60)
def test_transactions_survive_whatever_happens_to_the_log():
    run_state_machine_as_test(
        TransactionMachine,
        settings=settings(max_examples=60, stateful_step_count=30, suppress_health_check=list(HealthCheck)),
    )


def test_a_marker_is_what_kafka_writes():
    batch = build_marker(9, 3, EndTransactionMarker(True, 7), 1000)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, -1)
    assert header.is_control
    assert header.is_transactional
    # the record: length, attributes, two deltas, key of 4 bytes, value of 6 bytes, no headers
    assert batch[61:] == bytes([32, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 7, 0])
    assert read_marker(batch) == EndTransactionMarker(True, 7)


def test_the_first_unstable_offset_waits_for_the_markers_commit(bench):
    write(bench, 1, 0)
    write(bench, 2, 0)
    producers = bench.log.producers
    assert producers.first_unstable_offset(2) == 0
    end(bench, 1, commit=True)
    assert producers.first_unstable_offset(2) == 0, "the marker at offset 2 is not committed"
    assert producers.first_unstable_offset(3) == 1
    end(bench, 2, commit=False)
    assert producers.first_unstable_offset(4) is None


def test_records_outside_of_an_open_transaction_are_refused(bench):
    write(bench, 1, 0)
    with pytest.raises(PeerError) as refused:
        write(bench, 1, 1, transactional=False)
    assert refused.value.error_code == ErrorCode.invalid_txn_state
    end(bench, 1, commit=True)
    write(bench, 1, 1, transactional=False)


@pytest.mark.parametrize(
    ("epoch", "sequence", "code"),
    [
        (0, 0, ErrorCode.invalid_producer_epoch),
        (1, 5, ErrorCode.out_of_order_sequence_number),
        (2, 5, ErrorCode.out_of_order_sequence_number),
        (1, 1, ErrorCode.invalid_txn_state),
        (2, 0, ErrorCode.invalid_txn_state),
    ],
)
def test_batch_outside_of_an_open_transaction_is_checked_for_its_epoch_and_sequence_first(bench, epoch, sequence, code):
    write(bench, 1, 0, epoch=1)
    with pytest.raises(PeerError) as refused:
        write(bench, 1, sequence, epoch=epoch, transactional=False)
    assert refused.value.error_code == code


@pytest.mark.parametrize("is_next_begun", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_sequence_of_an_earlier_transaction_is_refused_and_of_the_open_one_a_duplicate(bench, commit, is_next_begun):
    """librdkafka uses the sequence of an aborted record again that it does not know to be in the log."""
    write(bench, 1, 0)
    write(bench, 1, 1)
    again = {
        sequence: read_header(
            bench.build([b"y"], producer_id=1, producer_epoch=0, sequence=sequence, attributes=TRANSACTIONAL_BIT)
        )
        for sequence in (0, 1, 2)
    }
    assert bench.log.producers.check(again[0]).base_offset == 0
    end(bench, 1, commit=commit)
    if is_next_begun:
        write(bench, 1, 2)
        assert bench.log.producers.check(again[2]).base_offset == 3
    for is_reopened in (False, True):
        if is_reopened:
            bench.reopen(clean=False)
        with pytest.raises(PeerError) as refused:
            bench.log.producers.check(again[1])
        assert refused.value.error_code is ErrorCode.unknown_producer_id


def test_a_marker_with_a_higher_epoch_begins_a_new_sequence(bench):
    write(bench, 1, 0)
    end(bench, 1, commit=True, epoch=1)
    for epoch, sequence, code in (
        (0, 1, ErrorCode.invalid_producer_epoch),
        (1, 1, ErrorCode.out_of_order_sequence_number),
    ):
        with pytest.raises(PeerError) as refused:
            write(bench, 1, sequence, epoch=epoch)
        assert refused.value.error_code == code
    write(bench, 1, 0, epoch=1)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "code"),
    [
        (2, 5, 1, None),
        (3, 5, 2, None),
        (1, 5, 1, ErrorCode.invalid_producer_epoch),
        (2, 5, 2, ErrorCode.invalid_producer_epoch),
        (3, 4, 2, ErrorCode.transaction_coordinator_fenced),
    ],
)
def test_zombies_write_no_markers(bench, epoch, coordinator_epoch, version, code):
    write(bench, 1, 0, epoch=2)
    end(bench, 1, commit=True, epoch=2, coordinator_epoch=5)
    write(bench, 1, 1, epoch=2)
    check = bench.log.producers.check_marker
    if code is None:
        check(1, epoch, coordinator_epoch, version)
        return
    with pytest.raises(PeerError) as refused:
        check(1, epoch, coordinator_epoch, version)
    assert refused.value.error_code == code


def test_a_repeated_marker_of_version_2_is_let_pass(bench):
    write(bench, 1, 0)
    end(bench, 1, commit=True, epoch=1)
    bench.log.producers.check_marker(1, 1, 0, 2)
    end(bench, 1, commit=True, epoch=1)
    assert bench.log.producers.first_unstable_offset(3) is None


def test_producers_with_an_open_transaction_are_never_forgotten(bench):
    write(bench, 1, 0)
    write(bench, 2, 0)
    end(bench, 2, commit=True)
    assert bench.log.producers.expire(10**9, 1) == 1
    assert [each.producer_id for each in bench.log.producers.describe()] == [1]


def test_a_transaction_index_that_cannot_be_is_built_again(make_bench):
    bench = make_bench(segment_bytes=300)
    write(bench, 1, 0, count=5)
    bench.log.roll(0)
    write(bench, 2, 0)
    end(bench, 1, commit=False)
    bench.log.roll(0)
    write(bench, 3, 0)
    before = aborted_transactions(bench.log.segments, 0, 99)
    assert before == [AbortedTxn(1, 0, 6, 5)]
    name = next(name for name in bench.files() if name.endswith(".txnindex"))
    good = bench.content(name)
    for wrong in (good[:-1], good[:2] + good[10:] + good[2:10], good + good):
        bench.reopen(clean=True)
        bench.disk.write_file(f"/data/{bench.partition}/{name}", wrong)
        bench.reopen(clean=True)
        bench.reopen(clean=True)
        assert aborted_transactions(bench.log.segments, 0, 99) == before
        assert bench.content(name) == good


@pytest.mark.parametrize("clean", [True, False])
def test_transaction_index_of_zeros_is_built_again(bench, clean):
    write(bench, 1, 0)
    end(bench, 1, commit=False)
    bench.log.roll(0)
    write(bench, 3, 0)
    bench.flush()
    bench.reopen(clean=True)
    name = f"/data/{bench.partition}/{0:020d}.txnindex"
    good = bench.disk.read_file(name)
    assert len(good) == 34
    bench.disk.write_file(name, bytes(34))
    if not clean:
        write(bench, 3, 1)
    bench.reopen(clean=clean)
    assert aborted_transactions(bench.log.segments, 0, 99) == [AbortedTxn(1, 0, 1, 2)]
    assert bench.disk.read_file(name) == good


def test_an_index_holds_what_kafka_writes():
    index = TransactionIndex(10)
    index.append(AbortedTxn(1, 8, 12, 13))
    index.append(AbortedTxn(2, 11, 20, 15))
    assert bytes(index.entries)[:34].hex() == "0000" + "".join(f"{number:016x}" for number in (1, 8, 12, 13))
    again = TransactionIndex(10, index.count)
    assert again.load(bytes(index.entries))
    assert list(again.since(13)) == [AbortedTxn(2, 11, 20, 15)]
    again.truncate_to(20)
    assert list(again.since(0)) == [AbortedTxn(1, 8, 12, 13)]
    assert not TransactionIndex(13, index.count).load(bytes(index.entries))


def test_fetch_reads_no_more_of_an_index_than_the_aborted_transactions_that_it_names(bench, monkeypatch):
    for sequence in range(50):
        write(bench, 1, sequence)
        end(bench, 1, commit=False)
    made = []
    monkeypatch.setattr(indexes, "AbortedTxn", lambda *fields: made.append(fields) or AbortedTxn(*fields))
    assert [each.first_offset for each in aborted_transactions(bench.log.segments, 20, 24)] == [20, 22]
    assert len(made) <= 3


def test_a_roll_after_the_aborted_transactions_were_truncated_removes_no_file(make_bench, monkeypatch):
    """A roll is in a step of the broker, and a removed name may wait for the device."""
    bench = make_bench(index_interval_bytes=120)
    write(bench, 1, 0)
    marker = end(bench, 1, commit=False)
    bench.reopen(clean=True)
    assert aborted_transactions(bench.log.segments, 0, 2)
    bench.truncate(marker)
    monkeypatch.setattr(bench.disk, "remove", lambda path: pytest.fail(f"{path} removed"))
    bench.log.roll(0)
    monkeypatch.undo()
    bench.reopen(clean=True)
    assert not aborted_transactions(bench.log.segments, 0, 2)


@pytest.mark.parametrize("kills", [1, 2])
def test_aborted_transactions_of_a_segment_that_was_emptied_before_a_kill_are_not_believed_later(bench, kills):
    write(bench, 1, 0)
    bench.log.roll(0)
    first = write(bench, 1, 1)
    end(bench, 1, commit=False)
    bench.log.roll(0)
    bench.truncate(first)
    for _ in range(kills):
        bench.reopen(checkpoint=False)
    assert write(bench, 1, 1) == first
    end(bench, 1, commit=True)
    bench.reopen(clean=True)
    assert not aborted_transactions(bench.log.segments, 0, 9)
    bench.log.roll(0)
    bench.reopen(clean=True)
    assert not aborted_transactions(bench.log.segments, 0, 9)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("step", ["append", "roll", "stop", "truncate"])
def test_index_of_the_active_segment_that_is_damaged_on_the_disk_costs_no_aborted_transaction(make_bench, suffix, step):
    bench = make_bench(index_interval_bytes=120)
    for sequence in range(4):
        write(bench, 1, sequence)
    end(bench, 1, commit=False)
    write(bench, 2, 0, transactional=False)
    bench.reopen(clean=True)
    name = f"{bench.log.path}/{0:020d}{suffix}"
    damaged = bytearray(bench.disk.read_file(name))
    damaged[:8] = b"\xff" * 8  # the offset index does not ascend
    bench.disk.write_file(name, bytes(damaged))
    write(bench, 2, 1)
    end(bench, 2, commit=False)
    expected = [AbortedTxn(1, 0, 4, 5), AbortedTxn(2, 6, 7, 8)]
    bench.append(timestamps=[5000])
    if step == "append":
        for _ in range(5):
            bench.append()
    elif step == "roll":
        bench.log.roll(0)
    elif step == "truncate":
        bench.truncate(8)
    end_offset = bench.log.log_end_offset
    assert aborted_transactions(bench.log.segments, 0, end_offset) == expected
    for _ in range(2):
        bench.reopen(clean=True)
        assert aborted_transactions(bench.log.segments, 0, end_offset) == expected
        assert [header.base_offset for _, header in iterate_headers(bench.read_all())] == list(range(end_offset))


class Killed(Exception):
    """The process ends."""


def end_before_rename(bench, number):
    """Let the process end before the rename of this number, counted from 0."""
    left = [number]

    def called(call, _path):
        if call == "rename":
            if not left[0]:
                raise Killed
            left[0] -= 1

    bench.disk.on_call = called


def fill_aborted_segment(bench):
    for sequence in range(4):
        write(bench, 1, sequence)
    end(bench, 1, commit=False)
    bench.log.roll(0)
    write(bench, 2, 0, transactional=False)
    bench.flush()
    return aborted_transactions(bench.log.segments, 0, 9)


@pytest.mark.parametrize("renames", range(5))
def test_segment_whose_removal_a_kill_interrupts_keeps_its_aborted_transactions_or_goes(make_bench, renames):
    bench = make_bench(index_interval_bytes=120)
    expected = fill_aborted_segment(bench)
    write_checkpoint(bench.store)
    end_before_rename(bench, renames)
    with contextlib.suppress(Killed):
        bench.log.remove_segments(bench.log.segments[:1], 0)
    bench.disk.on_call = None
    bench.reopen(checkpoint=False)
    is_there = bench.log.segments[0].base_offset == 0
    assert aborted_transactions(bench.log.segments, 0, 9) == (expected if is_there else [])


@pytest.mark.parametrize("renames", range(4))
def test_swap_of_a_cleaned_segment_that_two_kills_interrupt_keeps_the_aborted_transactions(make_bench, renames):
    bench = make_bench(index_interval_bytes=120)
    expected = fill_aborted_segment(bench)
    write_checkpoint(bench.store)
    for name in [name for name in bench.files() if name.startswith(f"{0:020d}") and not name.endswith(".snapshot")]:
        bench.disk.rename(f"{bench.log.path}/{name}", f"{bench.log.path}/{name}.swap")
    bench.disk.kill()
    end_before_rename(bench, renames)
    with contextlib.suppress(Killed):
        bench.open()
    bench.disk.on_call = None
    bench.reopen(checkpoint=False)
    assert aborted_transactions(bench.log.segments, 0, 9) == expected
    assert [header.base_offset for _, header in iterate_headers(bench.read_all())] == list(range(6))


@pytest.mark.parametrize("marker_epoch", [0, 1])
def test_last_timestamp_of_a_producer_is_that_of_its_marker_until_it_writes_again(bench, marker_epoch):
    def timestamps() -> list[int]:
        return [each.last_timestamp for each in bench.log.producers.describe()]

    write(bench, 1, 0)
    (written,) = timestamps()
    end(bench, 1, commit=True, epoch=marker_epoch, at_ms=written + 7)
    assert timestamps() == [written + 7]
    for clean in (True, False):
        bench.flush()
        bench.reopen(clean=clean, checkpoint=False)
        assert timestamps() == [written + 7]
    write(bench, 1, 1 - marker_epoch, epoch=marker_epoch)
    assert timestamps() == [written]
