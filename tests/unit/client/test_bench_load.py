"""Loads divided among clients, and slices of topics."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.bench.clients import shares_of
from yak.client.bench.load import ClientResult, Load, Slice, Stop, in_flight_records, payloads
from yak.client.bench.topics import divide
from yak.errors import UsageError

SLICES = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 500)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    min_size=1,
    max_size=10,
).map(lambda pairs: tuple(Slice(number, *pair) for number, pair in enumerate(pairs)))


def load(**values: object) -> Load:
    return Load(**({"kind": "produce", "bootstrap_servers": "x:1", "topic": "t"} | values))  # type: ignore[arg-type]


@given(st.integers(0, 10_000), st.integers(1, 50))
def test_the_shares_of_all_clients_are_the_whole_and_differ_by_at_most_one(messages: int, clients: int) -> None:
    whole = load(messages=messages, clients=clients)
    shares = [whole.share(client) or 0 for client in range(clients)]
    assert sum(shares) == messages
    assert max(shares) - min(shares) <= 1


@given(SLICES, st.integers(1, 30))
def test_every_record_is_read_by_exactly_one_client(slices: tuple[Slice, ...], clients: int) -> None:
    read = [(each.partition, at) for share in divide(slices, clients) for each in share for at in offsets(each)]
    assert sorted(read) == sorted((each.partition, at) for each in slices for at in offsets(each))


@given(SLICES, st.integers(1, 30), st.integers(0, 6000))
def test_a_number_of_records_is_taken_from_the_front(slices: tuple[Slice, ...], clients: int, records: int) -> None:
    shares = divide(slices, clients, records)
    sizes = [sum(each.records for each in share) for share in shares]
    assert sum(sizes) == min(records, sum(each.records for each in slices))
    assert max(sizes) - min(sizes) <= 1


@given(SLICES, st.integers(1, 30))
def test_a_share_names_a_partition_at_most_once(slices: tuple[Slice, ...], clients: int) -> None:
    for share in divide(slices, clients):
        assert len({each.partition for each in share}) == len(share)


def offsets(slice_: Slice) -> range:
    return range(slice_.begin, slice_.end)


def test_end_to_end_clients_share_the_partitions_in_turn() -> None:
    slices = (Slice(0, 0, 5), Slice(1, 0, 9))
    shares = shares_of(load(kind="e2e", clients=3), slices)
    assert shares == [(slices[0],), (slices[1],), (slices[0],)]


def test_reading_more_than_the_topic_holds_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        shares_of(load(kind="consume", messages=11), (Slice(0, 0, 10),))
    assert refused.value.code == "bench-empty"


def test_reading_an_empty_topic_is_refused() -> None:
    with pytest.raises(UsageError, match="0 records"):
        shares_of(load(kind="consume"), (Slice(0, 7, 7),))


def test_a_stop_by_number_is_reached_at_that_number() -> None:
    stop = Stop(10, None)
    assert not stop.reached(9)
    assert stop.reached(10)
    assert stop.left(4) == 6


def test_a_stop_by_time_is_reached_when_the_time_has_passed() -> None:
    stop = Stop(None, 0.01)
    assert not stop.reached(10**9)
    time.sleep(0.02)
    assert stop.reached(0)


def test_only_the_text_of_the_first_error_of_a_client_is_stored() -> None:
    result = ClientResult(0)
    result.failed("first")
    result.failed("second", 3)
    assert (result.errors, result.first_error) == (4, "first")


def test_values_have_the_requested_size_and_are_the_same_in_every_run() -> None:
    assert payloads(100, 3) == payloads(100, 3)
    assert [len(value) for value in payloads(17, 4)] == [17] * 4


def test_a_client_keeps_fewer_large_records_in_flight_than_small_ones() -> None:
    assert in_flight_records(load(size_bytes=100), 500) > in_flight_records(load(size_bytes=1_000_000), 500)


def test_a_smaller_librdkafka_queue_is_never_overfilled_by_a_batch() -> None:
    properties = {"queue.buffering.max.messages": "1000"}
    assert in_flight_records(load(properties=properties), 500) == 500
