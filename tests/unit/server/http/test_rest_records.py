"""Records as answers have them, and the inbox that they wait in."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.consumer import Inbox
from yak.ids import TopicPartition
from yak.server.http.consumers.kafka_consumer import Fetched
from yak.server.http.consumers.records import NotJson, render

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def record(offset: int = 0, value: bytes | None = b"1", key: bytes | None = None, partition=ZERO) -> Fetched:
    return Fetched(partition, offset, key, value, 3)


@given(st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary())))
def test_bytes_come_back_from_base64(pairs):
    body, count = render([record(n, value, key) for n, (key, value) in enumerate(pairs)], "binary")
    assert count == len(pairs)
    found = json.loads(body)
    as_bytes = [
        tuple(None if each[f] is None else base64.b64decode(each[f]) for f in ("key", "value")) for each in found
    ]
    assert as_bytes == pairs
    assert [(each["topic"], each["partition"], each["offset"]) for each in found] == [("t", 0, n) for n in range(count)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=10), st.booleans())
def test_json_is_embedded_as_it_is(values, ascii_only):
    raws = [json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") for value in values]
    body, count = render([record(n, raw, raw) for n, raw in enumerate(raws)], "json")
    assert count == len(values)
    assert [each["value"] for each in json.loads(body)] == values
    assert [each["key"] for each in json.loads(body)] == values


def test_numbers_keep_all_their_digits():
    raw = b'{"b": 0.10000000000000000000001, "a": ' + b"9" * 5_000 + b"}"
    body, _ = render([record(value=raw)], "json")
    assert raw in body


@pytest.mark.parametrize(
    "raw",
    [b"", b"hello", b"NaN", b"[Infinity]", b'{"a":1}x', b"\xff", b'"\xed\xa0\x80"', b"[" * 100_000, b"\xef\xbb\xbf1"],
)
def test_non_json_record_ends_the_response_before_that_record(raw):
    body, count = render([record(0), record(1, raw), record(2)], "json")
    assert (count, [each["offset"] for each in json.loads(body)]) == (1, [0])
    with pytest.raises(NotJson):
        render([record(1, raw), record(2)], "json")
    with pytest.raises(NotJson):
        render([record(1, b"1", key=raw)], "json")


def test_no_records_are_an_empty_list():
    assert render([], "json") == render([], "binary") == (b"[]\n", 0)


# ------------------------------------------------------------------------------------------------------ the inbox


def full_inbox(*records: Fetched) -> Inbox[Fetched]:
    inbox = Inbox(lambda each: each.size_bytes)
    for each in records:
        inbox.put(each)
    return inbox


def test_records_are_taken_within_bytes_but_never_none():
    inbox = full_inbox(record(0, b"12345"), record(1, b"12345", b"k"), record(2, None))
    assert [each.offset for each in inbox.draw(4, 10)] == [0]
    assert [each.offset for each in inbox.draw(6, 10)] == [1, 2]
    assert (len(inbox), inbox.bytes_held, inbox.draw(6, 10)) == (0, 0, [])


def test_records_are_taken_within_a_count():
    inbox = full_inbox(*(record(n, None) for n in range(5)))
    assert len(inbox.draw(100, 3)) == 3


def test_records_put_back_are_drawn_again_in_order():
    inbox = full_inbox(*(record(n) for n in range(3)))
    taken = inbox.draw(2, 2)
    inbox.put_back(taken)
    assert inbox.bytes_held == 3
    assert [each.offset for each in inbox.draw(10, 10)] == [0, 1, 2]
    assert inbox.uncommitted() == {}


def test_only_delivered_records_can_be_committed():
    inbox = full_inbox(record(4), record(5), record(9, partition=ONE))
    inbox.given(inbox.draw(1, 1))
    assert inbox.uncommitted() == {ZERO: 5}
    inbox.committed({ZERO: 5})
    assert inbox.uncommitted() == {}
    inbox.given(inbox.draw(10, 10))
    assert inbox.uncommitted() == {ZERO: 6, ONE: 10}


def test_a_seek_drops_what_was_fetched_and_is_a_position():
    inbox = full_inbox(record(0), record(0, partition=ONE))
    inbox.seek(ZERO, 7)
    assert inbox.uncommitted() == {ZERO: 7}
    assert [each.topic_partition for each in inbox.draw(10, 10)] == [ONE]


def test_partitions_that_went_away_leave_nothing():
    inbox = full_inbox(record(0), record(0, b"xy", partition=ONE))
    inbox.given([record(8), record(8, partition=ONE)])
    inbox.forget([ONE])
    assert (len(inbox), inbox.bytes_held, inbox.uncommitted()) == (1, 1, {ZERO: 9})
    inbox.forget_all()
    assert (len(inbox), inbox.bytes_held, inbox.uncommitted()) == (0, 0, {})
