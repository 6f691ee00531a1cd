"""Records as answers have them."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.ids import TopicPartition
from yak.server.http.consumers.kafka_consumer import Fetched
from yak.server.http.consumers.records import NotJson, render

PARTITION = TopicPartition("t", 0)


def record(offset: int = 0, value: bytes | None = b"1", key: bytes | None = None) -> Fetched:
    return Fetched(PARTITION, offset, key, value, 3)


def test_size_is_that_of_key_and_value():
    assert [record(0, *each).size_bytes for each in ((b"12345", b"k"), (None, None), (b"1", None))] == [6, 0, 1]


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
