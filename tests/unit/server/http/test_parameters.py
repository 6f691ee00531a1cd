"""Parameters of the query: what is no number within its bounds, given twice, or unknown, is refused with a hint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.server.http.rig import make_request
from yak.server.http.bodies import (
    INT64_MAX,
    checked_integer,
    fields_of,
    query_integer,
    query_text,
    refuse_unknown_query,
)
from yak.server.http.problems import Problem


def refusal(call) -> str:
    with pytest.raises(Problem) as raised:
        call()
    assert raised.value.status == 400
    return raised.value.message


@given(st.integers())
def test_a_number_within_its_bounds_is_itself_and_no_other_is_taken(number):
    if 0 <= number <= INT64_MAX:
        assert checked_integer("n", str(number)) == number
    else:
        assert "is not a whole number from 0 to 9223372036854775807" in refusal(
            lambda: checked_integer("n", str(number))
        )


@given(st.text())
def test_a_text_is_a_number_or_refused(text):
    try:
        found = checked_integer("n", text, minimum=-5, maximum=5)
    except Problem:
        return
    assert found in range(-5, 6)
    assert text.isascii()


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+1", "1.0", "1e3", "0x1", "--1", "\u0661", "1_0", "nan", "9" * 21, "9" * 5000]
)
def test_text_that_only_python_might_read_as_a_number_is_refused(text):
    assert len(refusal(lambda: checked_integer("n", text))) < 200


def test_a_parameter_comes_once_or_has_a_default():
    assert query_integer(make_request("n=7"), "n") == 7
    assert query_integer(make_request(""), "n", 3) == 3
    assert refusal(lambda: query_integer(make_request(""), "n")) == "n is missing"
    assert refusal(lambda: query_integer(make_request("n="), "n", 3)).startswith("n=''")
    assert refusal(lambda: query_text(make_request("n=1&n=2"), "n")) == "n appears 2 times"
    assert query_text(make_request("n=%00%ff"), "n") == "\0\ufffd"


def test_unknown_parameters_and_fields_are_refused():
    refuse_unknown_query(make_request("a=1&b=2"), ("a", "b"))
    assert refusal(lambda: refuse_unknown_query(make_request("a=1&evil=2"), ("a",))) == "unknown parameter 'evil'"
    assert fields_of({"a": 1}, ("a",), hint="") == {"a": 1}
    assert "unknown field 'b'" in refusal(lambda: fields_of({"a": 1, "b": 2}, ("a",), hint=""))
    for body in (None, [], "a", 1, 1.5, True):
        assert "not an object" in refusal(lambda body=body: fields_of(body, ("a",), hint=""))
