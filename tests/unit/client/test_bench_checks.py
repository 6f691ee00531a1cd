"""Assertions and baselines."""

import json
from pathlib import Path

import pytest

from tests.errors import raises_error
from yak.client.bench.result import check_against_baseline, comparison, figure, outcomes, parse_check, read_baseline
from yak.errors import UsageError

RUN = {
    "benchmark": "latency",
    "records_per_s": 1000.0,
    "mb_per_s": 0.1,
    "errors": 0,
    "latency_ms": {"min": 0.1, "mean": 0.5, "stddev": 0.2, "p50": 0.4, "p99": 4.0, "p99.9": 8.0, "max": 9.0},
    "histogram": [{"upto_ms": 0.4, "count": 970}, {"upto_ms": 5.0, "count": 30}],
}


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("p99<20ms", True),
        ("p99 <= 4ms", True),
        ("p99<4ms", False),
        ("p99<4000us", False),
        ("max<0.01s", True),
        ("p98<5ms", False),
        ("p97<=400us", True),
        ("mean>=0.5ms", True),
        ("rate>=1k", True),
        ("rate>1k", False),
        ("mb/s>0.05", True),
        ("errors==0", True),
    ],
)
def test_an_assertion_compares_the_figure_with_its_limit(text: str, held: bool) -> None:
    assert outcomes([parse_check(text)], RUN, None)[0]["held"] is held


@pytest.mark.parametrize(
    "text", ["p99", "p99<20", "p101<1ms", "speed>1", "rate>1ms", "p99=<1ms", "", "p99<", "errors==0ms", "p99<-1ms"]
)
def test_text_that_is_no_assertion_is_refused(text: str) -> None:
    with raises_error(UsageError, "bad-assert"):
        parse_check(text)


def test_a_figure_that_was_not_measured_does_not_hold() -> None:
    verdict = outcomes([parse_check("p99<20ms")], {"records_per_s": 5.0, "latency_ms": None}, None)[0]
    assert verdict["value"] is None
    assert verdict["held"] is False


def test_a_limit_in_x_is_a_multiple_of_the_baseline() -> None:
    before = RUN | {"records_per_s": 900.0}
    checks = [parse_check("rate>=1.1x"), parse_check("rate>=1.2x")]
    assert [verdict["held"] for verdict in outcomes(checks, RUN, before)] == [True, False]


def test_a_limit_in_x_needs_a_baseline_that_has_the_figure() -> None:
    check = parse_check("p50<=1x")
    with pytest.raises(UsageError, match="p50"):
        check_against_baseline([check], None)
    with pytest.raises(UsageError):
        check_against_baseline([check], {"benchmark": "consume", "latency_ms": None})
    check_against_baseline([check], RUN)


def test_a_baseline_is_read_from_the_json_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text(json.dumps(RUN))
    assert figure(read_baseline(path), "p50") == 0.4


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_a_file_that_is_no_run_is_refused_as_baseline(tmp_path: Path, text: str) -> None:
    path = tmp_path / "before.json"
    path.write_text(text)
    with raises_error(UsageError, "bad-baseline"):
        read_baseline(path)


def test_a_baseline_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_baseline(tmp_path / "none.json")


def test_the_comparison_lists_what_both_runs_have() -> None:
    rows = comparison(RUN, {"records_per_s": 500.0, "latency_ms": None})
    assert rows == [{"figure": "rate", "before": 500.0, "now": 1000.0, "ratio": 2.0}]
