import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.consumer import ConsumerRecord
from yak.client.record_json import BadRecord, parse_record, record_document
from yak.commands.units import format_time

HEADER_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
"""librdkafka ends a name at a null character."""
MAYBE_BYTES = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


def received(**changes):
    base = {
        "topic": "t", "partition": 1, "offset": 5, "timestamp_ms": 1_795_176_000_123, "timestamp_type": "CreateTime",
        "key": b"k", "value": b"v", "headers": [("h", b"x")], "leader_epoch": 3,
    }  # fmt: skip
    return ConsumerRecord(**(base | changes))


def test_the_document_has_the_keys_that_were_promised_in_their_order():
    assert record_document(received(), format_time) == {
        "topic": "t", "partition": 1, "offset": 5, "timestamp": "2026-11-20T12:00:00.123Z",
        "timestamp_type": "CreateTime", "key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}],
        "leader_epoch": 3,
    }  # fmt: skip
    binary = record_document(received(value=b"\xff", key=b"\xfe"), format_time)
    assert list(binary)[-3:] == ["key_encoding", "value_encoding", "leader_epoch"]


def test_json_values_are_only_embedded_on_request():
    record = received(value=b'{"a": 1}')
    assert record_document(record, format_time)["value"] == '{"a": 1}'
    assert record_document(record, format_time, json_value=True)["value"] == {"a": 1}
    assert record_document(received(value=b"{"), format_time, json_value=True)["value"] == "{"


@given(
    MAYBE_BYTES,
    MAYBE_BYTES,
    st.lists(st.tuples(HEADER_NAMES, MAYBE_BYTES), max_size=3),
    st.integers(1, 4_102_444_800_000),
)
def test_record_json_of_consume_is_parsed_back_by_produce(key, value, headers, timestamp_ms):
    record = received(key=key, value=value, headers=headers, timestamp_ms=timestamp_ms)
    line = json.dumps(record_document(record, format_time), ensure_ascii=False)
    again = parse_record(line)
    assert (again.key, again.value, again.headers) == (key, value, headers)
    assert again.timestamp_ms == timestamp_ms
    assert again.partition == -1


def test_values_that_are_not_text_are_sent_as_json():
    assert parse_record('{"value": {"a": [1, "é"]}}').value == '{"a":[1,"é"]}'.encode()
    assert parse_record('{"value": null, "key": "k"}').value is None
    assert parse_record('{"value": "x", "headers": {"a": "b"}}').headers == [("a", b"b")]


@pytest.mark.parametrize(
    "value",
    [
        b"null",
        b" null",
        b"NaN",
        b"[1, Infinity]",
        b"1e999",
        b'{"a":-1e999}',
        rb'"\ud800"',
        rb'["\udfff"]',
        b"[" * 100_000,
    ],
)
def test_value_that_would_not_be_json_or_no_value_stays_text(value):
    document = record_document(received(value=value), format_time, json_value=True)
    assert document["value"] == value.decode()
    json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("value", ["1.10", "-0.0", "1E5", "1e400", "12345678901234567890.123", '{"a":[0.1000,2.5]}'])
def test_number_in_a_value_keeps_its_digits(value):
    assert parse_record(f'{{"value": {value}}}').value == value.encode()


def test_lone_surrogate_within_a_value_stays_an_escape():
    assert parse_record(r'{"value": {"é": "\ud800"}}').value == rb'{"\u00e9":"\ud800"}'


@pytest.mark.parametrize(
    "line",
    [
        "", "[]", "{}", '{"value": "x", "value_encoding": "rot13"}', '{"value": "x", "timestamp": "soon"}',
        '{"value": "x", "timestamp": "²"}', f'{{"value": "x", "timestamp": "{"9" * 5000}"}}', "[" * 100_000,
        '{"value": "x", "timestamp": [1]}', f'{{"value": "x", "timestamp": {2**63}}}', '{"value": "x", "headers": 3}',
        '{"value": "x", "headers": [1]}',
        '{"value": NaN}', '{"value": [-Infinity]}', r'{"value": "x", "headers": {"\ud800": "x"}}',
        r'{"value": "x", "headers": [{"key": "a\u0000b", "value": "x"}]}', f'{{"value": {"[" * 10**6}{"]" * 10**6}}}',
    ],
)  # fmt: skip
def test_line_that_is_not_a_record_is_refused_with_a_reason(line):
    with pytest.raises(BadRecord) as caught:
        parse_record(line)
    assert str(caught.value)
