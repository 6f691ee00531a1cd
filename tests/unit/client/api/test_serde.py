"""Values become bytes and the same values again, or an error that says which and why."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.api.message import BYTES, JSON, TEXT, Serde, to_bytes
from yak.errors import UsageError

texts = st.text(st.characters(exclude_categories=["Cs"]))  # a lone surrogate is no text in UTF-8
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
documents = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)


@given(documents.filter(lambda value: value is not None))
def test_json_documents_are_decoded_unchanged(value):
    assert JSON.decode(to_bytes(JSON, "value", value)) == value


@given(texts)
def test_text_comes_back_as_it_was_and_json_keeps_it_apart_from_numbers(text):
    assert TEXT.decode(to_bytes(TEXT, "key", text)) == text
    assert JSON.decode(to_bytes(JSON, "value", text)) == text


@given(st.binary())
def test_bytes_are_left_alone_by_all_three(raw):
    assert to_bytes(BYTES, "value", raw) == to_bytes(TEXT, "value", raw) == to_bytes(JSON, "value", raw) == raw
    assert BYTES.decode(raw) == raw
    assert to_bytes(BYTES, "value", memoryview(raw)) == raw


@pytest.mark.parametrize("serde", [JSON, TEXT, BYTES])
def test_python_none_is_written_as_kafka_null(serde):
    assert to_bytes(serde, "value", None) is None


@pytest.mark.parametrize(
    ("serde", "what", "value", "why"),
    [
        (JSON, "value", {1, 2}, "set is not JSON serializable"),
        (JSON, "value", float("nan"), "not json compliant"),
        (TEXT, "key", 7, "text is a str"),
        (BYTES, "value", "text", "only bytes"),
        (TEXT, "key", "\ud800", "surrogates not allowed"),
    ],
)
def test_value_that_cannot_be_encoded_is_reported_with_the_reason_and_a_remedy(serde, what, value, why):
    with pytest.raises(UsageError) as refused:
        to_bytes(serde, what, value)
    error = refused.value
    assert error.code == "not-encoded"
    assert f"the {what}, of type {type(value).__name__}, cannot be written as {serde.name}" in error.message
    assert "nothing was sent" in error.message
    assert why.lower() in error.why.lower()
    assert f"{what}s=yak." in error.try_[0]


def test_a_value_that_contains_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        to_bytes(JSON, "value", value)


def test_custom_serde_that_returns_no_bytes_is_refused_with_the_reason():
    with pytest.raises(UsageError) as refused:
        to_bytes(Serde("stars", lambda value: "*" * value, len), "value", 3)
    assert "gave str, not bytes" in refused.value.why


def test_a_serde_of_ones_own_also_gets_bytes():
    reverse = Serde("reverse", lambda value: value[::-1], lambda raw: raw[::-1])
    assert to_bytes(reverse, "value", b"abc") == b"cba"


def test_json_is_compact_and_not_escaped():
    assert to_bytes(JSON, "value", {"a": [1, "ü"]}) == '{"a":[1,"ü"]}'.encode()
    assert json.loads(to_bytes(JSON, "value", b'{"made": "elsewhere"}')) == {"made": "elsewhere"}
