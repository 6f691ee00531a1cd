"""JSON within bounds: what the standard library takes and is no JSON is refused."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.server.http.bodies import outside_strings, parse_json
from yak.server.http.context import HttpLimits
from yak.server.http.problems import Problem

LIMITS = HttpLimits(json_depth_max=4)


@pytest.mark.parametrize(
    "text", ["[[[[1]]]]", '[{"a":[{}]}]', '["]]]]]]", "[[[[[["]', '["\\"[[[[[[\\""]', '{"[[[[[[":1}']
)
def test_brackets_in_texts_do_not_count(text):
    assert parse_json(text.encode(), LIMITS, "") == json.loads(text)


@pytest.mark.parametrize("text", ["[[[[[1]]]]]", '[{"a":[{"b":[]}]}]', '["]","]",[[[["["]]]],"]"]', "[" * 100_000])
def test_what_is_deeper_is_refused(text):
    with pytest.raises(Problem, match=r"nested deeper|not JSON"):
        parse_json(text.encode(), LIMITS, "")


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", "1e999", '"\\ud800"', '{"\\udfff":1}', "", "{", "[}", "\x00"])
def test_what_is_no_json_is_refused(text):
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
