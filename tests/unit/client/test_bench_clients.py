"""Client processes against librdkafka's own mock cluster, and what happens when one fails."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from yak.client.bench import clients
from yak.client.bench.clients import run_load
from yak.client.bench.load import ClientResult, Load, Session, Slice
from yak.errors import Unreachable, YakError


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A mock cluster inside librdkafka (`test.mock.num.brokers`); its address is in the metadata."""
    mock = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(mock.list_topics(timeout=5).brokers.values()))
    yield f"{broker.host}:{broker.port}"
    del mock


def use(monkeypatch: pytest.MonkeyPatch, program: clients.ClientProgram) -> None:
    """Have clients run `program`, in forked processes: others do not know the functions of a test."""
    monkeypatch.setitem(clients.PROGRAMS, "produce", program)
    monkeypatch.setattr(clients, "process_context", lambda: multiprocessing.get_context("fork"))


def counting(_load: Load, client: int, share: tuple[Slice, ...], session: Session) -> ClientResult:
    session.start()
    session.progress(len(share))
    return ClientResult(client, records=len(share))


def failing(_load: Load, client: int, _share: tuple[Slice, ...], session: Session) -> ClientResult:
    if client == 1:
        raise Unreachable("unreachable", "nobody there")
    session.start()
    return ClientResult(client)


def dying(_load: Load, _client: int, _share: tuple[Slice, ...], session: Session) -> ClientResult:
    session.start()
    os._exit(7)


def masked(_load: Load, client: int, _share: tuple[Slice, ...], session: Session) -> ClientResult:
    session.start()
    return ClientResult(client, records=int(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())))


def test_clients_start_with_ctrl_c_blocked_and_their_parent_gets_it_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, masked)
    results = run_load(Load("produce", "x:1", "t", clients=2), [(), ()])
    assert [each.records for each in results] == [1, 1]
    deferred = []

    def interrupted() -> None:
        with clients.interrupts_deferred():
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            deferred.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert deferred == [True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_each_client_gets_its_share_and_results_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, counting)
    started = []
    shares = [(Slice(0, 0, 1),), (), (Slice(0, 1, 2), Slice(1, 0, 9))]
    results = run_load(Load("produce", "x:1", "t", clients=3), shares, on_start=lambda: started.append(True))
    assert [(each.client, each.records) for each in results] == [(0, 1), (1, 0), (2, 2)]
    assert started == [True]


def test_client_that_fails_before_the_start_ends_all_clients_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, failing)
    with pytest.raises(Unreachable, match="nobody there"):
        run_load(Load("produce", "x:1", "t", clients=3), [(), (), ()])


def test_client_that_dies_is_reported_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, dying)
    with pytest.raises(YakError) as died:
        run_load(Load("produce", "x:1", "t"), [()])
    assert died.value.code == "bench-client"
    assert "7" in died.value.why


def test_two_clients_produce_the_requested_records_as_fast_as_they_can(bootstrap: str) -> None:
    load = Load("produce", bootstrap, "bulk", clients=2, messages=5001, warm_up_s=0)
    results = run_load(load, [(), ()])
    assert [each.records for each in results] == [2501, 2500]
    assert sum(each.bytes for each in results) == 500_100
    assert all(each.latency.count > 0 and each.errors == 0 for each in results)


def test_a_paced_client_times_every_acknowledgement_and_keeps_its_rate(bootstrap: str) -> None:
    load = Load("latency", bootstrap, "paced", messages=100, rate=500.0, linger_ms=0, warm_up_s=0)
    result = run_load(load, [()])[0]
    assert (result.records, result.latency.count) == (100, 100)
    assert result.seconds >= 0.19


def test_a_reader_reads_its_slice_and_no_more(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(3000):
        producer.produce("read", b"x" * 100, partition=0)
    producer.flush(10)
    load = Load("consume", bootstrap, "read", clients=2, warm_up_s=0)
    results = run_load(load, [(Slice(0, 0, 1500),), (Slice(0, 1500, 2000),)])
    assert [each.records for each in results] == [1500, 500]
    assert [each.bytes for each in results] == [150_000, 50_000]


def test_an_end_to_end_client_gets_all_its_records_back(bootstrap: str) -> None:
    Producer({"bootstrap.servers": bootstrap}).list_topics("round", timeout=5)
    load = Load("e2e", bootstrap, "round", messages=50, rate=200.0, linger_ms=0, warm_up_s=0)
    result = run_load(load, [(Slice(0, 0, 0),)])[0]
    assert (result.records, result.errors, result.latency.count) == (50, 0, 50)
    assert result.latency.min > 0
