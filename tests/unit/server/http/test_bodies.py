"""JSON within bounds: what the standard library takes and is no JSON is refused."""

import json
import re
from types import SimpleNamespace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from trio.testing import MockClock

from yak.server.http.bodies import body_pieces, outside_strings, parse_json
from yak.server.http.context import HttpLimits
from yak.server.http.problems import Problem

LIMITS = HttpLimits(json_depth_max=4)


@pytest.mark.parametrize(
    "text", ["[[[[1]]]]", '[{"a":[{}]}]', '["]]]]]]", "[[[[[["]', '["\\"[[[[[[\\""]', '{"[[[[[[":1}']
)
def test_brackets_in_texts_do_not_count(text):
    assert parse_json(text.encode(), LIMITS, "") == json.loads(text)


@pytest.mark.parametrize("text", ["[[[[[1]]]]]", '[{"a":[{"b":[]}]}]', '["]","]",[[[["["]]]],"]"]', "[" * 100_000])
def test_json_nested_deeper_than_the_limit_is_refused(text):
    with pytest.raises(Problem, match=r"nested deeper|not JSON"):
        parse_json(text.encode(), LIMITS, "")


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", "1e999", '"\\ud800"', '{"\\udfff":1}', "", "{", "[}", "\x00"])
def test_body_that_is_not_json_is_refused(text):
    with pytest.raises(Problem) as refused:
        parse_json(text.encode(), LIMITS, "send JSON")
    assert (refused.value.status, refused.value.error, refused.value.hint) == (400, "not-json", "send JSON")


values = st.recursive(
    st.none() | st.text('a[]{}"\\'), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("[}"), inner)
)


def depth(value):
    if isinstance(value, list | dict):
        return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


@given(values)
def test_the_depth_is_that_of_the_value(value):
    text = json.dumps(value).encode()
    if depth(value) <= LIMITS.json_depth_max:
        assert parse_json(text, LIMITS, "") == value
    else:
        with pytest.raises(Problem):
            parse_json(text, LIMITS, "")


@given(values, st.integers(1, 7))
def test_strings_are_left_out_wherever_the_pieces_end(value, piece):
    text = json.dumps(value)
    found = b"".join(outside_strings(text.encode(), piece))
    assert found.decode() == re.sub(r'"(?:[^"\\]|\\.)*"', "", text)


def test_json_of_too_many_values_is_refused_before_it_is_parsed():
    limits = HttpLimits(json_values_max=10)
    assert len(parse_json(json.dumps({f"k{number}": "a,b" for number in range(10)}).encode(), limits, "")) == 10
    with pytest.raises(Problem, match="more than 10 values") as refused:
        parse_json(json.dumps({f"k{number}": 1 for number in range(11)}).encode(), limits, "")
    assert (refused.value.status, refused.value.error) == (413, "body-too-large")


def pieces_read(count, *, client_s=0.0, broker_s=0.0):
    """The number of pieces of a body that were read, with a deadline of 1 s for the client."""

    async def receive():
        await trio.sleep(client_s)
        nonlocal count
        count -= 1
        return {"type": "http.request", "body": b"x", "more_body": count > 0}

    async def main():
        context = SimpleNamespace(limits=HttpLimits(body_deadline_ms=1_000))
        request = Request({"type": "http", "method": "POST", "headers": []}, receive)
        found = 0
        async for piece in body_pieces(context, request, bytes_max=None):
            found += len(piece)
            await trio.sleep(broker_s)
        return found

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def test_time_that_the_broker_takes_for_a_body_is_not_the_clients():
    assert pieces_read(5, broker_s=10.0) == 5


def test_client_that_sends_its_body_too_slowly_is_refused():
    assert pieces_read(5, client_s=0.1) == 5
    with pytest.raises(Problem, match="of the body came in 1 s") as refused:
        pieces_read(50, client_s=0.1)
    assert (refused.value.status, refused.value.error) == (408, "body-too-slow")
