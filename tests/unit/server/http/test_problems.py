"""Every Kafka error has a status and a name; problems are JSON for people."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import ErrorCode
from yak.server.http import problems
from yak.server.http.problems import Problem, body_of, json_bytes, kafka_problem


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.none])
def test_every_kafka_error_is_a_problem(code: ErrorCode) -> None:
    found = kafka_problem(code, "topic t")
    assert 400 <= found.status < 600
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", found.error)
    assert found.message.startswith("topic t: ")
    assert "_" not in found.message
    assert found.as_json()["hint"] == found.hint


def test_client_errors_are_400_and_only_unknown_server_error_is_500() -> None:
    statuses = {code: kafka_problem(code, "it").status for code in ErrorCode}
    assert statuses[ErrorCode.invalid_topic_exception] == 400
    assert statuses[ErrorCode.unknown_topic_or_partition] == 404
    assert [code for code, status in statuses.items() if status == 500] == [ErrorCode.unknown_server_error]


def test_the_tables_name_errors_that_kafka_has() -> None:
    names = {code.name for code in ErrorCode}
    assert set(problems._STATUS) <= names
    assert set(problems._HINTS) <= names


def test_the_brokers_message_is_in_the_problem() -> None:
    found = kafka_problem(ErrorCode.invalid_config, "topic t", "no such config: x.")
    assert (found.error, found.message) == ("invalid-config", "topic t: no such config: x")


def test_more_fields_and_headers_go_with_it() -> None:
    found = Problem(409, "taken", "it is taken", "take another", headers={"x-who": "me"}, more={"rows": [1, 2]})
    body, headers = body_of(found)
    assert json.loads(body) == {"error": "taken", "message": "it is taken", "hint": "take another", "rows": [1, 2]}
    assert dict(headers)["x-who"] == "me"
    assert dict(headers)["content-type"] == "application/json"
    assert dict(headers)["x-content-type-options"] == "nosniff"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=7)
        | st.lists(inner, max_size=7).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=30,
)


@given(json_values)
def test_json_in_slices_is_the_same_json(value: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problems, "_ITEMS_AT_ONCE", 2)
        assert problems.large_json_bytes(value) == json_bytes(value)


def test_no_call_of_the_encoder_has_a_whole_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call keeps the GIL, and the event loop waits for it: 190 ms for the rows of 10,000 partitions."""
    lengths: list[int] = []

    def encoded(content: object) -> bytes:
        lengths.append(len(content) if isinstance(content, list) else 0)
        return json_bytes(content)

    monkeypatch.setattr(problems, "json_bytes", encoded)
    assert json.loads(problems.large_json_bytes({"a": list(range(10_000))})) == {"a": list(range(10_000))}
    assert max(lengths) == 200
