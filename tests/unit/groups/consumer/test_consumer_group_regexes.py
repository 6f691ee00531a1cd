import contextlib
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.regexes import LENGTH_MAX, STEPS_MAX, compiled

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
        ("(a+)+", ["a", "aaaa"]),
        ("[[:alpha:]]+", ["a", "aaaa", "orders", "payments"]),
        (r"\Qdev.app\E\..*", ["dev.app.logs"]),
        (r"\pL{4}", ["aaaa"]),
        ("ä|a", ["a"]),
        ("^((orders|payments)(-eu)?)$", ["orders", "orders-eu", "payments"]),
    ],
)
def test_expression_of_re2_matches_whole_names(expression: str, names: list[str]) -> None:
    assert list(compiled(expression).matching(NAMES)) == names


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(", "missing )"),
        ("a)", "unexpected )"),
        ("[a", "missing ]"),
        ("*a", "no argument for repetition operator"),
        ("a{2,1}", "invalid repetition size"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?P<x>a)(?P=x)", "invalid perl operator"),
        ("(?=a)a", "invalid perl operator"),
        ("^((?!internal).)*$", "invalid perl operator"),
        ("(?<!a)b", "invalid"),
        ("(?>a)", "invalid perl operator"),
        ("(?(1)a|b)", "invalid perl operator"),
        ("(?#x)a", "invalid perl operator"),
        ("a*+", "bad repetition operator"),
        ("a{2}+", "bad repetition operator"),
        (r"a\Z", "invalid escape sequence"),
        ("a{1,1001}", "invalid repetition size"),
        ("((a{100}){100}){100}", "invalid repetition size"),
        ("((a?){999}){900}", "invalid repetition size"),
        ("(a?){999}(b?){999}(c?){999}", "too large"),
        ("a" * (LENGTH_MAX + 1), "characters"),
        ("\\", "trailing"),
        ("\ud800", "Unicode"),
    ],
)
def test_expression_that_re2_refuses_is_an_invalid_regular_expression(expression: str, why: str) -> None:
    with pytest.raises(PeerError, match="is not a valid regular expression") as refused:
        compiled(expression)
    assert refused.value.error_code is ErrorCode.invalid_regular_expression
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "expression", ["a*a*a*a*!", "(a+)+!", "(a|aa)+!", "(a|a)" * 40 + "!", "a?" * 300 + "!", ".*a.*a.*a.*a.*a!"]
)
def test_expression_that_backtracks_elsewhere_takes_few_steps_here(expression: str) -> None:
    names = [f"{number:a>249}" for number in range(20)]
    assert compiled(expression).steps(names) < STEPS_MAX / 10
    assert compiled(expression).matching(names) == ()


def test_expression_with_too_many_steps_for_all_names_is_refused_unmatched() -> None:
    names = [f"{number:a>249}" for number in range(400)]
    with pytest.raises(PeerError, match="too large to be compared with 400 topics") as refused:
        compiled("(a?){999}!").matching(names)
    assert refused.value.error_code is ErrorCode.invalid_regular_expression


PIECES = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", "(", ")", "(?:", "|", "*", "+", "?", "{2}", "{1,3}", "{2,}", "-", r"\."]
)


@given(st.lists(PIECES, max_size=14).map("".join), st.text("ab-.", max_size=12))
def test_expression_means_what_re_says(expression: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            taken, expected = compiled(expression), re.fullmatch(expression, name, re.ASCII)
        except (PeerError, re.error):
            return
    assert bool(taken.matching([name])) == bool(expected)


@given(st.text(max_size=30))
def test_any_text_is_compiled_or_refused(expression: str) -> None:
    with contextlib.suppress(PeerError):
        compiled(expression).matching(NAMES)
