"""Kafka's rules for idempotent producers (ProducerAppendInfo.java)."""

import pytest

from yak.errors import ErrorCode, PeerError
from yak.protocol.record_batch import SEQUENCE_MAX, read_header
from yak.storage import producer_state
from yak.storage.producer_state import EarlierUnread, ProducerState, _Producer, parse_snapshot


@pytest.fixture
def send(build):
    """Check and update as the leader does; returns the Duplicate or the base offset."""
    state = ProducerState()
    ends = [0]

    def run(sequence, count=1, producer_id=1, epoch=0, now_ms=0):
        header = read_header(build([b"v"] * count, producer_id=producer_id, producer_epoch=epoch, sequence=sequence))
        repeated = state.check(header)
        if repeated is not None:
            return repeated
        base, ends[0] = ends[0], ends[0] + count
        state.update(header, base, base + count - 1, now_ms)
        return base

    run.state = state
    return run


def refused(send, code, *args, **kwargs):
    with pytest.raises(PeerError) as caught:
        send(*args, **kwargs)
    assert caught.value.error_code is code


def test_a_repeated_batch_gets_its_first_offsets(send):
    assert send(0, 3) == 0
    assert send(3, 2) == 3
    repeated = send(0, 3)
    assert (repeated.base_offset, repeated.last_offset) == (0, 2)


def test_only_the_last_five_batches_are_remembered(send):
    for sequence in range(6):
        send(sequence)
    assert send(1).base_offset == 1
    refused(send, ErrorCode.out_of_order_sequence_number, 0)


def test_a_gap_is_refused_and_changes_nothing(send):
    send(0)
    refused(send, ErrorCode.out_of_order_sequence_number, 2)
    assert send(1) == 1


def test_a_batch_that_overlaps_a_known_one_is_out_of_order(send):
    send(0, 3)
    refused(send, ErrorCode.out_of_order_sequence_number, 0, 2)


def test_an_unknown_producer_may_begin_anywhere(send):
    assert send(77) == 0
    assert send(78) == 1


def test_a_new_epoch_begins_at_zero_and_an_old_one_is_fenced(send):
    send(0, epoch=3)
    refused(send, ErrorCode.out_of_order_sequence_number, 5, epoch=4)
    assert send(0, epoch=4) == 1
    refused(send, ErrorCode.invalid_producer_epoch, 1, epoch=3)


def test_sequences_wrap_after_the_largest_int32(send):
    send(SEQUENCE_MAX - 1, 2)
    assert send(0) == 2
    send(SEQUENCE_MAX, 1, producer_id=2)
    refused(send, ErrorCode.out_of_order_sequence_number, 1, producer_id=2)


def test_a_batch_over_the_wrap_is_one_batch(send):
    send(SEQUENCE_MAX, 3)
    assert send(SEQUENCE_MAX, 3).last_offset == 2
    assert send(2) == 3


def test_silent_producers_expire(send):
    send(0, producer_id=1, now_ms=0)
    send(0, producer_id=2, now_ms=500)
    assert send.state.expire(1000, 1000) == 1
    assert [producer.producer_id for producer in send.state.describe()] == [2]


def test_the_number_of_producers_is_bounded_and_the_most_silent_go_first(build):
    state = ProducerState(limit=20)
    for producer_id in range(50):
        header = read_header(build([b"v"], producer_id=producer_id, producer_epoch=0, sequence=0))
        state.update(header, producer_id, producer_id, now_ms=producer_id)
    assert len(state) <= 20
    assert [producer.producer_id for producer in state.describe()][-1] == 49
    assert min(producer.producer_id for producer in state.describe()) >= 30


@pytest.mark.parametrize("order", [1, -1])
def test_eviction_of_some_of_many_producers_sorts_a_sample_and_drops_a_bounded_number(build, monkeypatch, order):
    limit = 50_000
    state = ProducerState(limit=limit)
    state._producers = {number: _Producer(0, number, limit + order * number) for number in range(limit)}
    lengths = []

    def counted(items):
        found = sorted(items)
        lengths.append(len(found))
        return found

    monkeypatch.setattr(producer_state, "sorted", counted, raising=False)
    header = read_header(build([b"v"], producer_id=limit, producer_epoch=0, sequence=0))
    state.update(header, limit, limit, now_ms=3 * limit)
    assert lengths == [1_000]
    assert len(state) == limit - 1_000 + 1
    dropped = set(range(limit)) - state._producers.keys()
    assert dropped <= set(range(5_000) if order > 0 else range(45_000, limit))


def test_eviction_leaves_producers_with_an_open_transaction(build):
    state = ProducerState(limit=20)
    for producer_id in range(20):
        header = read_header(build([b"v"], producer_id=producer_id, producer_epoch=0, sequence=0, attributes=0x10))
        state.update(header, producer_id, producer_id, now_ms=producer_id)
    header = read_header(build([b"v"], producer_id=20, producer_epoch=0, sequence=0))
    state.update(header, 20, 20, now_ms=20)
    assert len(state) == 21


def test_a_snapshot_brings_back_the_last_batch_of_each_producer(send):
    send(0, 3)
    send(3, 2)
    state = ProducerState()
    state.load_snapshot(parse_snapshot(send.state.to_snapshot()), now_ms=9)
    assert list(state.describe()) == list(send.state.describe())
    assert state.to_snapshot() == send.state.to_snapshot()


def test_truncation_forgets_what_was_truncated(send):
    send(0)
    send(1)
    send(0, producer_id=2)
    assert send.state.truncate_to(1)
    assert [(p.producer_id, p.last_sequence) for p in send.state.describe()] == [(1, 0)]
    restored = ProducerState()
    restored.load_snapshot(parse_snapshot(send.state.to_snapshot()), 0)
    assert not restored.truncate_to(0), "what was before a snapshot must be read from the log"


@pytest.mark.parametrize("end_offset", [8, 10])
def test_truncated_log_recognizes_the_last_five_batches_of_a_producer_that_are_left(bench, build, end_offset):
    """The follower may lead next, and the producer may repeat all batches that it has in flight."""
    for sequence in range(11):
        bench.append(producer_id=1, producer_epoch=0, sequence=sequence)
    bench.truncate(end_offset)
    producers = bench.log.producers

    def check(sequence):
        return producers.check(read_header(build([b"v"], producer_id=1, producer_epoch=0, sequence=sequence)))

    with pytest.raises(EarlierUnread):
        check(end_offset - 5)
    producers.earlier_read(producers.search_plan(bench.log.segments, producers.unread_before).run(bench.disk))
    for sequence in range(end_offset - 5, end_offset):
        assert check(sequence).base_offset == sequence
    assert check(end_offset) is None


def test_truncation_of_a_producer_with_few_batches_needs_no_search(bench):
    for sequence in range(5):
        bench.append(producer_id=1, producer_epoch=0, sequence=sequence)
    bench.truncate(3)
    assert bench.log.producers.unread_before is None


# What a start knows of producers when their snapshot and the log are both damaged: nothing is better than a part.

LOG = "/data/t-0/00000000000000000000.log"


def fill(bench, count=10):
    for number in range(count):
        bench.append([b"x" * 30], producer_id=number, producer_epoch=0, sequence=0)


def damage(bench, path, position, data):
    content = bytearray(bench.disk.read_file(path))
    content[position : position + len(data)] = data
    bench.disk.write_file(path, bytes(content))


def stop_and_damage_the_snapshot(bench):
    bench.store.close_plan(3).run(bench.disk)
    (snapshot,) = [name for name in bench.files() if name.endswith(".snapshot")]
    damage(bench, f"/data/t-0/{snapshot}", 40, b"\xff")
    return snapshot


@pytest.mark.parametrize(
    ("position", "data", "why"),
    [
        (0, b"\0" * 100, "not a valid batch for this position"),
        (43, b"\1", "the CRC-32C does not match its bytes"),
    ],
    ids=["zeros", "another producer id"],
)
def test_log_whose_producer_state_cannot_be_rebuilt_is_not_served(bench, position, data, why):
    fill(bench)
    snapshot = stop_and_damage_the_snapshot(bench)
    damage(bench, LOG, position, data)
    bench.disk.kill()
    store = bench.open()
    assert bench.partition not in store.logs
    assert (
        f"{why}; the segment was replayed because {snapshot} is damaged too"
        in store.unavailable[bench.partition].reason
    )


def test_without_its_snapshot_a_log_with_a_batch_that_a_checksum_refuses_is_served_again(bench):
    """What docs/operations.md says of the only replica there is."""
    fill(bench)
    snapshot = stop_and_damage_the_snapshot(bench)
    damage(bench, LOG, 43, b"\1")
    bench.disk.remove(f"/data/t-0/{snapshot}")
    bench.disk.kill()
    assert bench.open().logs[bench.partition].log_end_offset == 10


def test_a_snapshot_alone_that_is_damaged_is_read_back_from_the_log(bench):
    fill(bench)
    stop_and_damage_the_snapshot(bench)
    bench.disk.kill()
    store = bench.open()
    found = store.logs[bench.partition].producers.describe()
    assert sorted(each.producer_id for each in found) == list(range(10))


def test_a_damaged_log_whose_snapshot_is_good_is_served_as_before(bench):
    fill(bench)
    bench.store.close_plan(3).run(bench.disk)
    damage(bench, LOG, 43, b"\1")
    bench.disk.kill()
    store = bench.open()
    found = store.logs[bench.partition].producers.describe()
    assert sorted(each.producer_id for each in found) == list(range(10))


def test_producers_of_a_truncated_log_count_as_active_from_then_on(bench):
    """They counted as idle since the log's last flush, and the next check for idle producers forgot them."""
    day_ms = 86_400_000
    for epoch in (0, 1, 2):
        bench.append(producer_id=7, producer_epoch=epoch, sequence=0, now_ms=9 * day_ms)
    bench.log.truncate_to(2, 9 * day_ms)
    bench.log.producers.expire(9 * day_ms + 1, day_ms)
    assert [(known.producer_id, known.producer_epoch) for known in bench.log.producers.describe()] == [(7, 1)]
