"""From rows of JSON to records, and from records back to JSON."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.protocol.record_walk import walk_records
from yak.protocol.record_writer import build_batch
from yak.server.http.bodies import parse_json
from yak.server.http.context import HttpLimits
from yak.server.http.record_json import BadRow, read_row, read_rows, record_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def parsed(key, value, headers=(), form="json"):
    (record,) = walk_records(build_batch([(key, value)], 7, headers={0: headers}), with_headers=True)
    text = record_json(record, form)
    assert "\n" not in text
    return json.loads(text)


@given(json_values, st.none() | st.text())
def test_a_payload_comes_back_as_it_went_in(payload, key):
    row = read_row({"topic": "a", "key": key, "payload": payload}, None)
    found = parsed(row.key, row.value)
    assert found["key"] == key
    assert found["payload"] == payload
    assert type(found["payload"]) is type(payload)


@pytest.mark.parametrize("payload", ["1.10", "-0.0", "1E5", "12345678901234567890.123", '{"a":[0.1000,2.5]}'])
def test_number_in_a_payload_keeps_its_digits(payload):
    body = parse_json(f'{{"topic": "a", "payload": {payload}}}'.encode(), HttpLimits(), "", is_exact=True)
    assert read_row(body, None).value == payload.encode()


@pytest.mark.parametrize(
    "field", ['"partition": 1.50', '"key": 1.50', '"headers": 1.50', '"payload_text": 1.50', '"topic": 1.50']
)
def test_number_where_none_belongs_is_refused_with_its_kind(field):
    body = parse_json(f'{{"topic": "a", {field}}}'.encode(), HttpLimits(), "", is_exact=True)
    with pytest.raises(BadRow, match="a number"):
        read_row(body | ({} if "payload" in field else {"payload": 1}), None)


@given(st.none() | st.binary(), st.none() | st.binary(), st.lists(st.tuples(st.text().map(str.encode), st.binary())))
def test_all_bytes_come_back_through_the_very_fields_that_show_them(key, value, headers):
    for form in ("json", "text", "base64"):
        found = parsed(key, value, headers, form)
        fields = {name: each for name, each in found.items() if name not in ("offset", "timestamp_ms")}
        row = read_row(fields, "a")
        assert row.key == key
        assert list(row.headers) == headers
        if "payload" not in fields:
            assert row.value == value
        elif value is not None:
            assert json.loads(row.value) == json.loads(value)


@pytest.mark.parametrize(
    "value",
    [
        b"null",
        b" null",
        b"\n\tnull ",
        b"",
        b"NaN",
        b"[1e999]",
        b'"\\ud800"',
        b"\xef\xbb\xbf1",
        b"[" * 65 + b"]" * 65,
        b"word",
        b"{a:1}",
        b"-",
    ],
)
def test_value_that_is_not_json_or_would_be_changed_as_json_is_payload_text(value):
    assert parsed(None, value)["payload_text"] == value.decode()


def test_numbers_keep_their_digits_and_lines_become_one():
    (record,) = walk_records(build_batch([(None, b'{\n"a":\r\n1.10}')], 7))
    assert '"payload":{ "a": 1.10}' in record_json(record)


def test_null_value_and_other_bytes_have_fields_of_their_own():
    assert parsed(None, None)["payload"] is None
    assert parsed(b"\xff", b"\xff") == {
        "offset": 0,
        "timestamp_ms": 7,
        "key_base64": base64.b64encode(b"\xff").decode(),
        "payload_base64": base64.b64encode(b"\xff").decode(),
        "headers": [],
    }


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ([], "an object, not a list"),
        ({"payload": 1, "key": [1]}, "key is a list"),
        ({"payload": 1, "key": 1}, "key is a number"),
        ({"payload": 1, "key": "a", "key_base64": "YQ=="}, "both"),
        ({}, "payload is missing"),
        ({"payload": 1, "payload_text": "a"}, "not several"),
        ({"payload_text": 1}, "payload_text is a number"),
        ({"payload_base64": "?"}, "not base64"),
        ({"payload": 1, "partition": -1}, "partition is -1"),
        ({"payload": 1, "partition": True}, "partition is true or false"),
        ({"payload": 1, "partition": 2**31}, "partition is 2147483648"),
        ({"payload": 1, "headers": 1}, "headers is a number"),
        ({"payload": 1, "headers": {"a": 1}}, "header 'a' is a number"),
        ({"payload": 1, "headers": [{"value": "a"}]}, "a header is"),
        ({"payload": 1, "headers": [{"key": "a", "value": "b", "value_base64": "YQ=="}]}, "and value_base64"),
        ({"payload": 1, "headers": {str(n): "" for n in range(101)}}, "at most 100"),
        ({"payload": 1, "pay": 2}, "unknown field 'pay'"),
        ({"payload": 1, "topic": "b"}, "name the topic once"),
    ],
)
def test_rows_that_cannot_be_say_why(row, what):
    with pytest.raises(BadRow, match=what):
        read_row(row, "a")


def test_only_the_first_faults_are_named_and_all_are_counted():
    read, failed, faults = read_rows([{"payload": 1}, *[{}] * 30], "a", 20)
    assert (len(read), failed, len(faults)) == (1, 30, 20)
    assert faults[0] == {
        "row": 1,
        "error": "bad-record",
        "message": "payload is missing; send null for a record without a value",
    }


def test_the_size_of_a_row_is_never_too_small():
    row = read_row({"key": "k" * 100, "payload": "v" * 1000, "headers": {"h": "x" * 50}}, "a")
    batch = build_batch([(row.key, row.value)], 1, headers={0: row.headers})
    assert len(batch) - 61 <= row.size_bytes_max <= len(batch) - 61 + 28
