"""`yak bench failover` and `yak bench replication` from their flags to their exit codes, without a cluster."""

import json

import pytest

from yak.commands import bench_failover, bench_replication
from yak.local.bench.failover import FailoverResult, FailoverSettings, Kill
from yak.local.bench.replication import Figure, ReplicationSettings
from yak.local.demo.delivery import Delivery

GOOD = Delivery("t", 100, 100, 0, 0, 0, 0, 0)


def failover(monkeypatch: pytest.MonkeyPatch, verdict: Delivery = GOOD, **more: object) -> list[FailoverSettings]:
    """Have the command get this result; gives what it asked for."""
    requests: list[FailoverSettings] = []
    kills = [
        Kill(number, 1, True, (0,), 1.0, 2.0, 2.5, 3.0, pause, 0.3, 0.1, 0.02)
        for number, pause in enumerate((0.12, 0.2, 0.4), 1)
    ]

    def canned(_g: object, settings: FailoverSettings, *, progress_json: bool) -> FailoverResult:
        requests.append(settings)
        client = {"writer": {"retry.backoff.ms": 5}}
        return FailoverResult(settings, kills, verdict, client=client, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(bench_failover, "run_on_own", canned)
    return requests


def test_a_clean_failover_shows_each_kill_and_the_pauses(yak, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = failover(monkeypatch)
    ran = yak("bench", "failover", "--kills", "3", "--throughput", "500", "--assert", "p50<250ms")
    assert ran.code == 0
    assert (requests[0].kills, requests[0].mode, requests[0].rate) == (3, "kill", 500.0)
    assert "3 of 3 were the controller" in ran.out
    assert "100 acknowledged, 0 lost, 0 duplicated, 0 reordered" in ran.out
    assert "writes to what it led" in ran.out
    assert "retry.backoff.ms=5" in ran.out
    assert "ok  p50<250ms  (measured 200.0" in ran.out


def test_the_json_has_every_kill(yak, monkeypatch: pytest.MonkeyPatch) -> None:
    failover(monkeypatch)
    ran = yak("bench", "failover", "-o", "json", "--mode", "pause")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert (found["benchmark"], found["mode"], found["lost"]) == ("failover", "pause", 0)
    assert [kill["writes_ms"] for kill in found["per_kill"]] == [120.0, 200.0, 400.0]
    assert found["pauses_ms"]["writes"]["max"] == 400.0


@pytest.mark.parametrize("field", ["lost", "duplicated", "moved", "out_of_order"])
def test_a_record_that_is_lost_or_out_of_place_ends_with_4(yak, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    counts = {"lost": 0, "duplicated": 0, "moved": 0, "out_of_order": 0} | {field: 1}
    failover(monkeypatch, Delivery("t", 100, 100, **counts, unconfirmed=0))
    ran = yak("bench", "failover")
    assert ran.code == 4
    assert "error[records-lost]" in ran.err


def test_a_limit_that_does_not_hold_ends_with_4_and_a_failed_write_with_1(yak, monkeypatch: pytest.MonkeyPatch) -> None:
    failover(monkeypatch)
    assert yak("bench", "failover", "--assert", "p99<300ms").code == 4
    failover(monkeypatch, failed=1, first_error="Local: Message timed out")
    assert yak("bench", "failover").code == 1


def test_bench_failover_fails_when_a_record_that_a_reader_saw_vanishes(yak, monkeypatch: pytest.MonkeyPatch) -> None:
    failover(monkeypatch, seen_and_gone=1)
    assert yak("bench", "failover").code == 4


def test_cluster_benchmarks_do_not_start_in_read_only_mode(yak, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YAK_READONLY", "1")
    assert yak("bench", "failover").code == 2
    assert yak("bench", "replication").code == 2


def test_only_brokers_of_its_own_are_killed(yak, monkeypatch: pytest.MonkeyPatch) -> None:
    failover(monkeypatch)
    assert yak("bench", "failover", "-b", "127.0.0.1:9092").code == 2


class CannedBench:
    """Gives two figures."""

    def __init__(self, _cluster: object, _settings: ReplicationSettings, on_figure: object) -> None:
        assert callable(on_figure)
        self._on_figure = on_figure

    def run(self, _fleet: object) -> list[Figure]:
        """Two figures."""
        found = [Figure("produce 100 B", 1_234_567.0, "records/s", limited=True), Figure("ack: median", 0.4567, "ms")]
        for figure in found:
            self._on_figure(figure)
        return found


class NoCluster:
    """A cluster whose processes run elsewhere."""

    bootstrap = "x:1"

    def __init__(self, _bootstrap: str) -> None:
        pass

    def cpu_seconds(self) -> dict[str, float]:
        """Nothing to see."""
        return {}


@pytest.fixture
def no_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_replication, "ReplicationBench", CannedBench)
    monkeypatch.setattr(bench_replication, "RunningCluster", NoCluster)


@pytest.mark.usefixtures("no_brokers")
def test_replication_figures_of_a_cluster_that_runs(yak) -> None:
    ran = yak("bench", "replication", "-b", "x:1")
    assert ran.code == 0
    assert "1 234 567" in ran.out
    assert "CPU is not measured" in ran.err
    found = json.loads(yak("bench", "replication", "-b", "x:1", "-o", "json", "-q").out)
    assert found["figures"][1] == {"name": "ack: median", "value": 0.4567, "unit": "ms", "client_limited": False}


@pytest.mark.usefixtures("no_brokers")
def test_csv_has_plain_numbers_and_the_names_of_json(yak) -> None:
    assert yak("bench", "replication", "-b", "x:1", "-o", "csv").out.splitlines() == [
        "name,value,unit,client_limited",
        "produce 100 B,1234567.0,records/s,true",
        "ack: median,0.4567,ms,false",
    ]


def test_a_quick_run_is_a_tenth_and_parts_can_be_left_out() -> None:
    quick = bench_replication.make_settings(quick=True, idle_partitions=0, away_bytes=10**9, ack_s=10.0, idle_s=0.0)
    assert (quick.away_bytes, quick.ack_s, quick.idle_s) == (10**8, 1.0, 0.0)
    full = bench_replication.make_settings(quick=False, idle_partitions=1000, away_bytes=10**9, ack_s=10.0, idle_s=10.0)
    assert full.shapes[0].records == 10 * quick.shapes[0].records
    assert {(shape.size_bytes, shape.partitions) for shape in full.shapes} == {
        (100, 1),
        (100, 16),
        (1000, 1),
        (1000, 16),
    }
