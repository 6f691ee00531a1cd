import contextlib
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.regexes import LENGTH_MAX, compiled, matching

NAMES = ["orders", "orders-eu", "payments", "dev.app.logs", "prod.app.logs", "_internal", "a", "aaaa", "x1"]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (".*", sorted(NAMES)),
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-eu"]),
        ("^(orders|payments)$", ["orders", "payments"]),
        (r"(dev|prod)\.[a-z]+\.logs", ["dev.app.logs", "prod.app.logs"]),
        (r"(?:dev|prod)\..*", ["dev.app.logs", "prod.app.logs"]),
        ("(?i)ORDERS", ["orders"]),
        ("(?P<region>orders-[a-z]{2})", ["orders-eu"]),
        ("a{4}", ["aaaa"]),
        ("a{2,}", ["aaaa"]),
        ("a{1,3}?", ["a"]),
        (r"[a-z]\d", ["x1"]),
        (r"\w+-\w+", ["orders-eu"]),
        ("[^o].*", ["_internal", "a", "aaaa", "dev.app.logs", "payments", "prod.app.logs", "x1"]),
        (".*-.*|pay.*", ["orders-eu", "payments"]),
        ("[a-z]+-[a-z]+(-[a-z]+)?", ["orders-eu"]),
        ("[a-z]+-[a-z]+-[a-z]+-[a-z]+", []),
        ("", []),
    ],
)
def test_expressions_that_people_write(expression: str, names: list[str]) -> None:
    assert list(matching(expression, NAMES)) == names


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(", "no closing one"),
        ("a)", "no opening one"),
        ("[a", "no end"),
        ("*a", "nothing to repeat"),
        ("a{2,1}", "min repeat greater than max repeat"),
        (r"(a)\1", "references"),
        ("(?P<x>a)(?P=x)", "conditions"),
        ("(?=a)a", "looking ahead"),
        ("^((?!internal).)*$", "looking ahead"),
        ("(?<!a)b", "looking ahead or behind"),
        ("(?>a)", "atomic"),
        ("(?(1)a|b)", "conditions"),
        ("(?#x)a", "comments"),
        ("a*+", "repetition is repeated"),
        ("a{2}+", "repetition is repeated"),
        ("a{,3}", "how often at least"),
        ("[[:alpha:]]", "named classes"),
        (r"\Qa\E", "bad escape"),
        (r"a\Z", "Z is not known"),
        ("a{1,1001}", "more than 1000"),
        ("(a+)+", "repeats a group"),
        ("(a|aa)+", "repeats a group"),
        ("(a?){50}", "repeats a group"),
        ("(.*){3}", "repeats a group"),
        (".*a.*a.*a.*a.*b", "too many repetitions"),
        ("a?" * 40 + "a" * 40, "too many repetitions"),
        ("(a|a)" * 40 + "b", "too many repetitions"),
        ("a{0,9}" * 9 + "b", "too many repetitions"),
        ("(" * 60 + "a" + ")" * 60, "nested"),
        ("a" * (LENGTH_MAX + 1), "characters"),
        ("\\", "bad escape"),
    ],
)
def test_expressions_that_are_refused(expression: str, why: str) -> None:
    with pytest.raises(PeerError, match="is not a valid regular expression") as refused:
        compiled(expression)
    assert refused.value.error_code is ErrorCode.invalid_regular_expression
    assert why in str(refused.value)


PIECES = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", "(", ")", "(?:", "|", "*", "+", "?", "{2}", "{1,3}", "{2,}", "-", r"\."]
)


@given(st.lists(PIECES, max_size=14).map("".join), st.text("ab-.", max_size=24))
def test_what_is_taken_means_what_re_says_and_takes_no_time(expression: str, name: str) -> None:
    try:
        taken = compiled(expression)
    except PeerError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert bool(taken.fullmatch(name)) == bool(re.fullmatch(expression, name, re.ASCII))


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_refused(expression: str) -> None:
    with warnings.catch_warnings(), contextlib.suppress(PeerError):
        warnings.simplefilter("ignore", FutureWarning)
        assert compiled(expression).pattern == expression
