"""The merged results of all clients: totals, their spread, and whether the clients were the bottleneck."""

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yak.client.bench.histogram import PERCENTILES, Histogram, percentile_name
from yak.client.bench.load import ClientResult, Load
from yak.client.bench.machine import usable_cores

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
        """Clients and consumers."""
        return [*self.clients, *self.readers]

    @property
    def records(self) -> int:
        """Records acknowledged, or read, by all clients."""
        return sum(each.records for each in self.clients)

    @property
    def bytes(self) -> int:
        """Bytes of the records' values."""
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
        """The reason of one of the failures."""
        words = next((each.first_error for each in self.processes if each.first_error), "")
        return words or (f"{self.missing} records are not in the topic" if self.missing else "")

    @property
    def seconds(self) -> float:
        """Wall time of the whole run."""
        return max(each.ended_s for each in self.clients) - min(each.started_s for each in self.clients)

    @property
    def records_per_s(self) -> float:
        """Records per second, all clients."""
        return self.records / self.seconds

    @property
    def mb_per_s(self) -> float:
        """Megabytes (10^6) of values per second, all clients."""
        return self.bytes / self.seconds / 1e6

    @property
    def latency(self) -> Histogram:
        """All clients' latencies."""
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
