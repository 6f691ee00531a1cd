"""`--assert 'p99<20ms'` and `--baseline FILE`: checks a run's figures against limits, or an earlier run."""

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yak.errors import UsageError

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
UNITS_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
RATES = {"rate": "records_per_s", "msgs/s": "records_per_s", "mb/s": "mb_per_s", "errors": "errors"}
LATENCIES = ("min", "mean", "stddev", "max")
CHECK = re.compile(r"\s*([a-z/]+|p\d+(?:\.\d+)?)\s*(<=|>=|==|<|>)\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Check:
    """One limit, as written and as compared."""

    text: str
    metric: str
    compare: str
    limit: float
    of_baseline: bool
    """The limit is a multiple of the baseline's figure (`p99<=1.2x`)."""

    def holds(self, value: float, baseline: float | None) -> bool:
        """Whether the figure satisfies the limit."""
        limit = self.limit
        if self.of_baseline:
            assert baseline is not None
            limit *= baseline
        return OPERATORS[self.compare](value, limit)


def parse_check(text: str) -> Check:
    """A limit such as `p99<20ms`, `rate>=500k`, `mb/s>100`, `errors==0`, `p50<=1.1x`.

    Raises UsageError (`bad-assert`).
    """
    match = CHECK.fullmatch(text)
    if match is None:
        raise bad_check(text, "an assertion is METRIC, one of < <= > >= ==, and a value")
    metric, compare, number, unit = match.groups()
    metric, unit = metric.lower(), unit.lower()
    is_latency = metric in LATENCIES or (metric.startswith("p") and metric[1:2].isdigit())
    if not is_latency and metric not in RATES:
        raise bad_check(text, f'there is no figure "{metric}"')
    if metric.startswith("p") and metric[1:2].isdigit() and float(metric[1:]) > 100:
        raise bad_check(text, "a percentile is at most 100")
    if unit == "x":
        return Check(text, metric, compare, float(number), of_baseline=True)
    units = UNITS_MS if is_latency else FACTORS
    if unit not in units:
        raise bad_check(text, "a latency needs a unit: us, ms or s" if is_latency else f'"{unit}" is no unit of a rate')
    return Check(text, metric, compare, float(number) * units[unit], of_baseline=False)


def bad_check(text: str, why: str) -> UsageError:
    """The error for an invalid assertion."""
    return UsageError(
        "bad-assert",
        f'"{text}" is not an assertion',
        why=why,
        try_=("--assert 'p99<20ms'", "--assert 'rate>=500k'", "--assert 'p50<=1.1x' --baseline before.json"),
    )


def figure(document: Mapping[str, Any], metric: str) -> float | None:
    """A figure of a run's JSON; other percentiles are computed from the histogram. None: not measured."""
    if metric in RATES:
        value = document.get(RATES[metric])
        return None if value is None else float(value)
    summary = document.get("latency_ms")
    if not summary:
        return None
    if metric in summary:
        return float(summary[metric])
    if not metric.startswith("p"):
        return None
    buckets = document.get("histogram") or []
    wanted = sum(bucket["count"] for bucket in buckets) * float(metric[1:]) / 100
    seen = 0
    for bucket in buckets:
        seen += bucket["count"]
        if seen >= wanted:
            return min(float(bucket["upto_ms"]), float(summary["max"]))
    return None


def read_baseline(path: Path) -> dict[str, Any]:
    """The JSON of an earlier run. Raises UsageError (`bad-baseline`)."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise bad_baseline(path, str(error)) from None
    if not isinstance(found, dict) or "benchmark" not in found:
        raise bad_baseline(path, "it is not the JSON of a benchmark")
    return found


def bad_baseline(path: Path, why: str) -> UsageError:
    """The error for an unreadable baseline."""
    return UsageError("bad-baseline", f"{path} is no baseline", why=why, try_=(f"yak bench produce -o json > {path}",))


def check_against_baseline(checks: list[Check], baseline: Mapping[str, Any] | None) -> None:
    """Refuse checks that need a baseline when there is none. Raises UsageError (`bad-assert`)."""
    for check in checks:
        if check.of_baseline and (baseline is None or figure(baseline, check.metric) is None):
            raise bad_check(check.text, f"the baseline has no {check.metric}" if baseline else "it needs --baseline")


def verdicts(
    checks: list[Check], document: Mapping[str, Any], baseline: Mapping[str, Any] | None
) -> list[dict[str, object]]:
    """Each check with its figure and whether it held; a figure that was not measured does not hold."""
    rows: list[dict[str, object]] = []
    for check in checks:
        value = figure(document, check.metric)
        before = figure(baseline, check.metric) if baseline else None
        held = value is not None and check.holds(value, before)
        rows.append({"assert": check.text, "value": value, "baseline": before, "held": held})
    return rows


def comparison(document: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[dict[str, object]]:
    """The figures that both runs have, side by side, with now / before."""
    rows: list[dict[str, object]] = []
    for metric in ("rate", "mb/s", "p50", "p99", "p99.9", "max"):
        now, before = figure(document, metric), figure(baseline, metric)
        if now is not None and before:
            rows.append({"figure": metric, "before": before, "now": now, "ratio": round(now / before, 3)})
    return rows
