"""Totals, spread and files of a benchmark's result."""

import csv
import json
from pathlib import Path

from yak.client.bench.histogram import Histogram
from yak.client.bench.load import ClientResult, Load
from yak.client.bench.result import (
    CSV_COLUMNS,
    Result,
    document,
    machine,
    machine_line,
    spread,
    usable_cores,
    write_csv,
)


def client(number: int, records: int, started_s: float, ended_s: float, cpu_s: float = 0.1) -> ClientResult:
    latency = Histogram()
    latency.record(1_000_000 * (number + 1))
    return ClientResult(
        number, records, records * 100, started_s=started_s, ended_s=ended_s, cpu_s=cpu_s, latency=latency
    )


def result(*clients: ClientResult, stored: int | None = None) -> Result:
    return Result(Load("produce", "x:1", "t", clients=len(clients)), list(clients), stored)


def test_the_rate_is_over_the_time_from_the_first_start_to_the_last_end() -> None:
    both = result(client(0, 300, 10.0, 12.0), client(1, 100, 11.0, 14.0))
    assert both.seconds == 4.0
    assert both.records_per_s == 100.0
    assert both.mb_per_s == 0.01
    assert both.latency.count == 2


def test_acknowledged_records_that_the_broker_does_not_have_are_errors() -> None:
    lossy = result(client(0, 300, 0.0, 1.0), stored=298)
    assert lossy.errors == 2
    assert "2 records" in lossy.first_error


def test_records_of_other_producers_are_no_errors() -> None:
    assert result(client(0, 300, 0.0, 1.0), stored=900).errors == 0


def test_busy_clients_are_named_as_the_limit() -> None:
    assert result(client(0, 1, 0.0, 1.0, cpu_s=0.2)).client_limit() == ""
    assert "95%" in result(client(0, 1, 0.0, 1.0, cpu_s=0.96)).client_limit()


def test_clients_that_fill_all_cores_together_are_the_limit() -> None:
    many = [client(number, 1, 0.0, 1.0, cpu_s=0.9) for number in range(usable_cores() * 2)]
    assert "cores busy" in result(*many).client_limit()


def test_the_spread_over_the_clients_has_the_four_figures_of_nats_bench() -> None:
    assert spread([1.0, 3.0]) == {"min": 1.0, "avg": 2.0, "max": 3.0, "stddev": 1.0}


def test_the_json_survives_being_written_and_read() -> None:
    found = document(result(client(0, 300, 0.0, 2.0)), machine())
    assert json.loads(json.dumps(found)) == found
    assert found["latency_ms"]["p50"] == 1.0
    assert sum(bucket["count"] for bucket in found["histogram"]) == 1
    assert found["per_client"][0]["records"] == 300
    assert found["machine"]["cores"] == usable_cores()


def test_a_run_without_latencies_says_none(tmp_path: Path) -> None:
    plain = result(ClientResult(0, 10, 1000, ended_s=1.0))
    assert document(plain, {})["latency_ms"] is None
    write_csv(tmp_path / "o.csv", plain)
    assert (tmp_path / "o.csv").read_text().splitlines()[1].endswith(",,")


def test_the_csv_has_a_line_for_each_client_and_the_total(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    write_csv(path, result(client(0, 300, 0.0, 2.0), client(1, 100, 0.0, 2.0)))
    rows = list(csv.DictReader(path.open()))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [row["client"] for row in rows] == ["0", "1", "total"]
    assert rows[2]["records"] == "400"
    assert rows[2]["max_ms"] == "2.0"


def test_the_machine_line_names_processor_and_library() -> None:
    facts = machine()
    line = machine_line(facts)
    assert str(facts["cpu"]) in line
    assert f"librdkafka {facts['librdkafka']}" in line
