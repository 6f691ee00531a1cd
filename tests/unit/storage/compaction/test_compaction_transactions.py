"""Compaction of logs with transactions: what readers of committed records see stays the same."""

import contextlib
import heapq
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.unit.storage.compaction.rounds import MAP_BYTES, batches, run_round
from tests.unit.storage.conftest import Bench, write_checkpoint
from yak.protocol.control_batch import EndTransactionMarker, build_marker, read_marker
from yak.protocol.record_batch import TRANSACTIONAL_BIT, iterate_headers, read_header
from yak.protocol.record_walk import walk_records
from yak.storage.compaction import cleanable
from yak.storage.reader import aborted_transactions

RETENTION_MS = 50


def put(bench: Any, producer_id: int, sequence: int, pairs: list[tuple[bytes, bytes | None]]) -> int:
    keys, values = zip(*pairs, strict=True)
    batch = bench.build(
        list(values),
        keys=list(keys),
        producer_id=producer_id,
        producer_epoch=0,
        sequence=sequence,
        attributes=TRANSACTIONAL_BIT,
    )
    return bench.log.append(read_header(batch), batch, 0, 0)


def end(bench: Any, producer_id: int, *, commit: bool) -> int:
    batch = build_marker(producer_id, 0, EndTransactionMarker(commit, 0), 1000)
    return bench.log.append(read_header(batch), batch, 0, 0)


def compact(bench: Any, now_ms: int = 0) -> Any:
    """One round up to the last stable offset."""
    bench.flush()
    log = bench.log
    stable = log.producers.first_unstable_offset(log.log_end_offset)
    return run_round(log, cleanable(log, log.log_end_offset if stable is None else stable, now_ms), MAP_BYTES, now_ms)


class Killed(Exception):
    """The process ends."""


def compact_until_kill(bench: Any, now_ms: int, ends_before: Callable[[str, str], bool]) -> None:
    """A round that a kill ends before such a disk call, if there is one; then a start."""

    def called(call: str, path: str) -> None:
        if ends_before(call, path):
            raise Killed

    bench.flush()
    write_checkpoint(bench.store)
    bench.disk.on_call = called
    with contextlib.suppress(Killed):
        compact(bench, now_ms)
    bench.disk.on_call = None
    bench.reopen(checkpoint=False)


def committed(bench: Any) -> dict[int, tuple[bytes | None, bytes | None]]:
    """The records by offset that a client with read_committed keeps of all that it reads (Kafka's CompletedFetch)."""
    log = bench.log
    found, dropped = {}, set()
    aborted = [
        (each.first_offset, each.producer_id) for each in aborted_transactions(log.segments, 0, log.log_end_offset)
    ]
    heapq.heapify(aborted)
    data = bench.read_all()
    for position, header in iterate_headers(data):
        batch = data[position : position + header.size_bytes]
        while aborted and aborted[0][0] <= header.last_offset:
            dropped.add(heapq.heappop(aborted)[1])
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.is_commit:
                dropped.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in dropped:
            found |= {record.offset: (record.key, record.value) for record in walk_records(batch)}
    return found


class Sent(NamedTuple):
    """A record of the model; `commit` is None until its transaction ends."""

    producer_id: int
    key: bytes
    value: bytes | None
    commit: bool | None


class CompactedTransactions(RuleBasedStateMachine):
    """`model` is every record that was sent, by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(
            cleanup_policy="compact", segment_bytes=500, index_interval_bytes=100, delete_retention_ms=RETENTION_MS
        )
        self.model: dict[int, Sent] = {}
        self.sequences: dict[int, int] = {}
        self.now_ms = 0

    @rule(
        producer_id=st.sampled_from([1, 2]),
        pairs=st.lists(
            st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from([None, b"v", b"w" * 40])),
            min_size=1,
            max_size=3,
        ),
    )
    def send(self, producer_id: int, pairs: list[tuple[bytes, bytes | None]]) -> None:
        base = put(self.bench, producer_id, self.sequences.get(producer_id, 0), pairs)
        self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(pairs)
        self.model |= {base + at: Sent(producer_id, *pair, None) for at, pair in enumerate(pairs)}

    @rule(producer_id=st.sampled_from([1, 2]), commit=st.booleans())
    def finish(self, producer_id: int, commit: bool) -> None:
        end(self.bench, producer_id, commit=commit)
        for offset, sent in self.model.items():
            if sent.producer_id == producer_id and sent.commit is None:
                self.model[offset] = sent._replace(commit=commit)

    @rule()
    def roll(self) -> None:
        self.bench.log.roll(0)

    @rule(by_ms=st.sampled_from([0, RETENTION_MS + 1]))
    def compact(self, by_ms: int) -> None:
        self.now_ms += by_ms
        compact(self.bench, self.now_ms)

    @rule(by_ms=st.sampled_from([0, RETENTION_MS + 1]), calls=st.integers(0, 60))
    def compact_until_kill(self, by_ms: int, calls: int) -> None:
        self.now_ms += by_ms
        left = itertools.count(calls, -1)
        compact_until_kill(self.bench, self.now_ms, lambda _call, _path: next(left) <= 0)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        before = self.bench.log.log_end_offset
        self.bench.reopen(clean=clean)
        assert self.bench.log.log_end_offset == before

    @invariant()
    def readers_see_the_last_committed_record_of_each_key_and_no_aborted_one(self) -> None:
        log = self.bench.log
        stable = log.producers.first_unstable_offset(log.log_end_offset)
        stable = log.log_end_offset if stable is None else stable
        seen = {offset: pair for offset, pair in committed(self.bench).items() if offset < stable}
        expected = {offset: sent for offset, sent in self.model.items() if offset < stable and sent.commit}
        assert {offset: (expected[offset].key, expected[offset].value) for offset in seen} == seen
        last = {sent.key: offset for offset, sent in sorted(expected.items())}
        for key, offset in last.items():
            assert offset in seen or expected[offset].value is None, key

    @invariant()
    def no_transaction_is_open_again(self) -> None:
        described = self.bench.log.producers.describe()
        opened = {each.producer_id for each in described if each.current_txn_start_offset >= 0}
        assert opened == {sent.producer_id for sent in self.model.values() if sent.commit is None}


@pytest.mark.timeout(60)
def test_readers_of_committed_records_notice_no_compaction():
    run_state_machine_as_test(
        CompactedTransactions,
        settings=settings(max_examples=80, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )


@pytest.fixture
def bench(make_bench: Any) -> Any:
    return make_bench(cleanup_policy="compact", delete_retention_ms=RETENTION_MS)


def test_aborted_records_go_at_once_and_never_replace_a_committed_one(bench):
    put(bench, 1, 0, [(b"k", b"committed")])
    end(bench, 1, commit=True)
    put(bench, 1, 1, [(b"k", b"aborted")])
    end(bench, 1, commit=False)
    bench.log.roll(0)
    put(bench, 2, 0, [(b"other", b"")])
    end(bench, 2, commit=True)
    compact(bench)
    records = walk_all(bench.read_all())
    assert (b"k", b"committed") in records
    assert (b"k", b"aborted") not in records


def walk_all(data: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (record.key, record.value)
        for position, header in iterate_headers(data)
        if not header.is_control
        for record in walk_records(data[position : position + header.size_bytes])
    ]


def test_a_marker_stays_for_the_retention_of_deletes_after_its_last_batch(bench):
    """No batch of the transaction is left, and none is remembered for its producer, who sent five later ones."""
    bench.append([b""], keys=[b"begins the leader epoch"])
    put(bench, 1, 0, [(b"k", b"0")])
    marker = end(bench, 1, commit=True)
    for number in range(1, 7):
        put(bench, 1, number, [(b"k", b"%d" % number)])
        end(bench, 1, commit=True)
    bench.log.roll(0)
    put(bench, 2, 0, [(b"other", b"")])

    def markers() -> list[int]:
        return [header.base_offset for header in batches(bench) if header.is_control]

    compact(bench, 0)
    assert marker in markers(), "its batch was there when this round began"
    bench.log.cleaned_offset = None
    compact(bench, 10)
    assert marker in markers(), "now it has a delete horizon"
    bench.log.cleaned_offset = None
    compact(bench, 10 + RETENTION_MS)
    assert marker not in markers()


def test_the_marker_that_began_its_producers_epoch_stays_after_the_retention_of_deletes(bench):
    """A marker with a higher epoch fences the producer (KIP-890). A replica that copies the log must learn of it."""
    bench.append([b""], keys=[b"begins the leader epoch"])
    put(bench, 1, 0, [(b"k", b"0")])
    fence = build_marker(1, 1, EndTransactionMarker(is_commit=False, coordinator_epoch=0), 1000)
    offset = bench.log.append(read_header(fence), fence, 0, 0)
    bench.append([b"new"], keys=[b"k"])
    bench.log.roll(0)
    bench.append([b""], keys=[b"other"])
    for now_ms in (0, 10, 10 + RETENTION_MS):
        bench.log.cleaned_offset = None
        compact(bench, now_ms)
    assert [(each.base_offset, each.producer_epoch) for each in batches(bench) if each.is_control] == [(offset, 1)]


def test_compaction_does_not_change_undecided_transactions(bench):
    put(bench, 1, 0, [(b"k", b"0")])
    bench.log.roll(0)
    put(bench, 2, 0, [(b"k", b"1")])
    bench.log.roll(0)
    end(bench, 2, commit=True)
    assert compact(bench).end_offset == 0
    end(bench, 1, commit=True)
    assert compact(bench).end_offset == 2


def last_committed(bench: Any) -> dict[bytes | None, int]:
    """The offset of the last record of each key that a client with read_committed keeps."""
    return {key: offset for offset, (key, _value) in sorted(committed(bench).items())}


def test_swap_interrupted_by_a_kill_removes_the_transaction_index_of_the_replaced_segment(bench):
    """The entry outlived its marker, and a read_committed reader dropped the later transactions of the producer."""
    put(bench, 2, 0, [(b"first", b"0")])
    end(bench, 2, commit=True)
    put(bench, 1, 0, [(b"a", b"0")])
    end(bench, 1, commit=False)

    def fill(number: int) -> None:
        for sequence in range(6 * number, 6 * number + 6):
            put(bench, 1, 1 + sequence, [(b"b", b"%d" % number)])
            end(bench, 1, commit=True)
        bench.log.roll(0)
        put(bench, 2, 1 + number, [(b"c", b"%d" % number)])
        end(bench, 2, commit=True)

    def is_rename_of_index(call: str, path: str) -> bool:
        return call == "rename" and path.endswith(f"{0:020d}.txnindex")

    fill(0)
    compact(bench)
    assert aborted_transactions(bench.log.segments, 0, bench.log.log_end_offset)
    for round_ in (1, 2):
        fill(round_)
        expected = last_committed(bench)
        compact_until_kill(bench, round_ * (RETENTION_MS + 1), is_rename_of_index)
        assert last_committed(bench) == expected
