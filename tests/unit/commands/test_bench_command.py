"""`yak bench` from its flags to its exit code, on librdkafka's own mock cluster where one is needed."""

import json

import pytest

from yak.client.bench.load import ClientResult, Load
from yak.client.bench.result import Result
from yak.commands import bench_run
from yak.commands.units import key_values
from yak.errors import UsageError


def canned(load: Load, _partitions: int | None = None, **_hooks: object) -> Result:
    """A run of two clients without a cluster."""
    clients = [ClientResult(number, 500, 50_000, ended_s=1.0, cpu_s=0.1) for number in range(2)]
    for each in clients:
        each.latency.record(2_000_000)
    return Result(load, clients, 1000)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_run, "run_benchmark", canned)


def test_the_table_has_the_total_each_client_and_the_spread(yak):
    ran = yak("bench", "produce", "--clients", "2")
    assert ran.code == 0
    assert "1 000 records/s, 0.1 MB/s" in ran.out
    assert "[1] 500 records/s" in ran.out
    assert "min 500 | avg 500 | max 500 | stddev 0 records/s" in ran.out
    assert "p99.9 2.000" in ran.out
    assert "librdkafka" in ran.out


def test_bench_json_has_figures_histogram_and_assertion_results(yak):
    ran = yak("bench", "latency", "-o", "json", "--assert", "p99<20ms")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert found["benchmark"] == "latency"
    assert found["rate"] == 1000.0
    assert found["histogram"]
    assert found["asserts"] == [{"assert": "p99<20ms", "value": 2.0, "baseline": None, "held": True}]


def test_an_assertion_that_does_not_hold_ends_with_4(yak):
    ran = yak("bench", "e2e", "--assert", "p99<1ms", "--assert", "errors==0")
    assert ran.code == 4
    assert "FAIL  p99<1ms" in ran.out
    assert "error[assert-failed]: does not hold: p99<1ms" in ran.err


def test_the_run_is_compared_with_its_baseline(yak, tmp_path):
    before = tmp_path / "before.json"
    before.write_text(yak("bench", "produce", "-o", "json").out)
    ran = yak("bench", "produce", "--baseline", str(before), "--assert", "rate>=0.9x")
    assert ran.code == 0
    assert "RATIO" in ran.out
    assert yak("bench", "produce", "--baseline", str(before), "--assert", "rate>=1.5x").code == 4


def test_the_csv_file_is_written(yak, tmp_path):
    assert yak("bench", "produce", "--csv", str(tmp_path / "o.csv")).code == 0
    assert (tmp_path / "o.csv").read_text().splitlines()[-1].startswith("total,1000,")


def test_failed_records_end_with_1(yak, monkeypatch):
    lossy = Result(Load("produce", "x:1", "t"), [ClientResult(0, 10, 1000, ended_s=1.0)], stored=4)
    monkeypatch.setattr(bench_run, "run_benchmark", lambda *_a, **_k: lossy)
    ran = yak("bench", "produce")
    assert ran.code == 1
    assert "error[bench-errors]: 6 records failed" in ran.err


@pytest.mark.parametrize(
    "flags",
    [("--assert", "fast"), ("--assert", "p50<2x"), ("-X", "linger"), ("--size", "big"), ("--baseline", "none.json")],
)
def test_invalid_bench_options_are_refused_before_the_benchmark_runs(yak, flags):
    assert yak("bench", "produce", *flags).code == 2


def test_read_only_mode_allows_reading_only(yak, monkeypatch):
    monkeypatch.setenv("YAK_READONLY", "1")
    assert yak("bench", "produce").code == 2
    assert yak("bench", "consume").code == 0


def test_client_properties_are_split_at_the_first_equals_sign():
    assert key_values(["a.b=c=d", "e="]) == {"a.b": "c=d", "e": ""}
    with pytest.raises(UsageError, match="=x"):
        key_values(["=x"], code="bad-property")


def test_a_workload_is_named_as_a_command_or_as_an_option(yak):
    for args in (("workload", "1-topic-1-partition-1kb"), ("--workload=1-topic-1-partition-1kb",)):
        found = json.loads(yak("bench", *args, "-o", "json").out)
        assert (found["benchmark"], found["topic"]) == ("workload", "yak-bench-1-topic-1-partition-1kb")
        assert (found["rate"], found["size_bytes"], found["linger_ms"]) == (50_000, 1024, 1)


def test_workloads_are_listed_with_what_their_names_stand_for(yak):
    rows = {row["name"]: row for row in json.loads(yak("bench", "--workload", "list", "-o", "json").out)}
    assert rows["max-rate-1-topic-1-partition-4p-1c-1kb"] == {
        "name": "max-rate-1-topic-1-partition-4p-1c-1kb",
        "partitions": 1,
        "size_bytes": 1024,
        "producers": 4,
        "consumers": 1,
        "rate": None,
    }


def test_an_unknown_workload_is_refused(yak):
    ran = yak("bench", "--workload", "1-topic-1-partition-1k")
    assert ran.code == 2
    assert "error[bench-workload]" in ran.err
