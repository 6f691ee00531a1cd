"""The merged results of all clients: totals, their spread, and whether the clients were the bottleneck."""

import csv
import json
import operator
import os
import platform
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

from yak.client.bench.histogram import PERCENTILES, Histogram, percentile_name
from yak.client.bench.load import ClientResult, Load
from yak.errors import UsageError


def cpu_model() -> str:
    """The processor's name, if the system reports it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> dict[str, object]:
    """Machine and versions, for a stored result."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "python": platform.python_version(),
        "executable": bool(getattr(sys, "frozen", False)),
        "yak": package_version("yak-broker"),
        "confluent_kafka": package_version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
    }


def package_version(name: str) -> str:
    """An installed package's version; `unknown` when its metadata is not bundled."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def machine_line(facts: dict[str, object]) -> str:
    """The machine facts in one line for people."""
    memory = int(str(facts["memory_bytes"])) / 2**30
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {memory:.0f} GiB, {facts['system']}; Python {facts['python']}, "
        f"yak {facts['yak']}, confluent-kafka {facts['confluent_kafka']}, librdkafka {facts['librdkafka']}"
    )


BUSY_CORES = 0.95
"""A client process that uses this much of a core could not have gone faster."""
CSV_COLUMNS = (
    *("client", "records", "bytes", "seconds", "records_per_s", "mb_per_s", "errors", "cpu_s"),
    *("min_ms", "mean_ms", "stddev_ms", *(percentile_name(p) + "_ms" for p in PERCENTILES), "max_ms"),
)


@dataclass(slots=True)
class Result:
    """The result of one load. Times are from the first client's start to the last client's end."""

    load: Load
    clients: list[ClientResult]
    stored: int | None = None
    """Produce: the growth of the topic since the start, by the broker's offsets. Other producers' records count too."""
    readers: list[ClientResult] = field(default_factory=list)
    """A workload's consumers, which count in none of the totals."""

    @property
    def processes(self) -> list[ClientResult]:
        return [*self.clients, *self.readers]

    @property
    def records(self) -> int:
        """Records acknowledged, or read, by all clients."""
        return sum(each.records for each in self.clients)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.clients)

    @property
    def errors(self) -> int:
        """Failed records, and acknowledged ones that the broker does not have.

        At full speed only sampled records report their outcome; the broker's count finds the others.
        """
        return sum(each.errors for each in self.processes) + self.missing

    @property
    def missing(self) -> int:
        """Records that clients count as acknowledged and the broker does not have."""
        return 0 if self.stored is None else max(0, self.records - self.stored)

    @property
    def first_error(self) -> str:
        first_error = next((each.first_error for each in self.processes if each.first_error), "")
        return first_error or (f"{self.missing} records are not in the topic" if self.missing else "")

    @property
    def seconds(self) -> float:
        return max(each.ended_s for each in self.clients) - min(each.started_s for each in self.clients)

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def mb_per_s(self) -> float:
        """Megabytes (10^6) of values per second, all clients."""
        return self.bytes / self.seconds / 1e6

    @property
    def latency(self) -> Histogram:
        merged = Histogram()
        for each in self.clients:
            merged.add(each.latency)
        return merged

    def client_limit(self) -> str:
        """Why the clients were the bottleneck; empty if they were not."""
        busy = sum(1 for each in self.processes if each.cores >= BUSY_CORES)
        cores = sum(each.cores for each in self.processes)
        if busy == len(self.processes):
            advice = "more --clients may go faster" if cores < usable_cores() - 0.5 else "the machine has no more cores"
            return f"each of {busy} clients kept {BUSY_CORES:.0%} of a core or more busy: {advice}"
        if cores >= BUSY_CORES * usable_cores():
            return f"the clients kept {cores:.1f} of {usable_cores()} cores busy"
        return ""


def spread(values: Sequence[float]) -> dict[str, float]:
    """Minimum, average, maximum and standard deviation over the clients."""
    return {
        "min": min(values),
        "avg": statistics.fmean(values),
        "max": max(values),
        "stddev": statistics.pstdev(values),
    }


def client_row(name: str, one: ClientResult | Result) -> dict[str, Any]:
    """One line of the CSV, and one client of the JSON; latency columns are None where none was measured."""
    latency = one.latency
    figures = latency.summary_ms() if latency.count else {}
    row: dict[str, Any] = {
        "client": name,
        "records": one.records,
        "bytes": one.bytes,
        "seconds": round(one.seconds, 6),
        "records_per_s": round(one.records / one.seconds, 3),
        "mb_per_s": round(one.bytes / one.seconds / 1e6, 6),
        "errors": one.errors,
        "cpu_s": round(one.cpu_s if isinstance(one, ClientResult) else sum(each.cpu_s for each in one.clients), 3),
    }
    return row | {column: figures.get(column.removesuffix("_ms")) for column in CSV_COLUMNS if column not in row}


def document(result: Result, machine: dict[str, object]) -> dict[str, Any]:
    """The JSON of a run; `--baseline` reads it again."""
    load = result.load
    latency = result.latency
    consumed = {} if not result.readers else {"consumed": consumed_row(result)}
    return {
        "benchmark": load.kind,
        "topic": load.topic,
        "clients": len(result.clients),
        "size_bytes": load.size_bytes,
        "rate": load.rate,
        "acks": load.acks,
        "linger_ms": load.linger_ms,
        "compression": load.compression,
        "warm_up_s": load.warm_up_s,
        "properties": dict(load.properties),
        "records": result.records,
        "bytes": result.bytes,
        "errors": result.errors,
        "first_error": result.first_error,
        "stored": result.stored,
        "seconds": round(result.seconds, 6),
        "records_per_s": round(result.records_per_s, 3),
        "mb_per_s": round(result.mb_per_s, 6),
        "client_limit": result.client_limit(),
        "latency_ms": latency.summary_ms() if latency.count else None,
        "histogram": latency.buckets(),
        "records_per_s_by_client": spread([each.records / each.seconds for each in result.clients]),
        "per_client": [client_row(str(each.client), each) for each in result.clients],
        "machine": machine,
    } | consumed


def consumed_row(result: Result) -> dict[str, Any]:
    """What a workload's consumers received: latencies are from when a record was due, None at full speed."""
    consumed = Result(result.load, result.readers)
    latency = consumed.latency
    return {
        "consumers": len(result.readers),
        "records": consumed.records,
        "records_per_s": round(consumed.records_per_s, 3),
        "mb_per_s": round(consumed.mb_per_s, 6),
        "latency_ms": latency.summary_ms() if latency.count else None,
        "histogram": latency.buckets(),
    }


def write_csv(path: Path, result: Result) -> None:
    """One line for each client, then `total`. Raises OSError."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
        writer.writeheader()
        for each in result.clients:
            writer.writerow(client_row(str(each.client), each))
        writer.writerow(client_row("total", result))


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
        raise bad_baseline(path, getattr(error, "strerror", None) or str(error)) from None
    if not isinstance(found, dict) or "benchmark" not in found:
        raise bad_baseline(path, "it is not the JSON of a benchmark")
    return found


def bad_baseline(path: Path, why: str) -> UsageError:
    """The error for an unreadable baseline."""
    return UsageError(
        "bad-baseline", f"{path} cannot be read as a baseline", why=why, try_=(f"yak bench produce -o json > {path}",)
    )


def check_against_baseline(checks: list[Check], baseline: Mapping[str, Any] | None) -> None:
    """Refuse checks that need a baseline when there is none. Raises UsageError (`bad-assert`)."""
    for check in checks:
        if check.of_baseline and (baseline is None or figure(baseline, check.metric) is None):
            raise bad_check(check.text, f"the baseline has no {check.metric}" if baseline else "it needs --baseline")


def outcomes(
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
