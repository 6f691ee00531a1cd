"""Clusters of a test run: who gets which one, and which are ended. The brokers are played by a few lines of Python."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.errors import raises_error
from yak.errors import StartRefused, UsageError, YakError
from yak.local import guardian
from yak.local.processes import ProcessId, identify, is_running, kill
from yak.local.state import load
from yak.testing import session as module
from yak.testing.cluster import Cluster
from yak.testing.running_cluster import run_cluster
from yak.testing.session import Session
from yak.testing.shape import ClusterShape

ONE, TWO, THREE = (
    ClusterShape.of(1),
    ClusterShape.of(1, {"num.partitions": 2}),
    ClusterShape.of(1, {"num.partitions": 3}),
)


@pytest.fixture
def session(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(Cluster, "_configs_are_untouched", lambda self: True)
    monkeypatch.setattr(Cluster, "_clients_are_untouched", lambda self: True)
    monkeypatch.setattr(Cluster, "_delete_topics", lambda self: True)
    monkeypatch.setattr(Cluster, "_end_faults", lambda self: None)
    made = Session()
    try:
        yield made
    finally:
        made.close()


def broker_of(cluster: Cluster) -> ProcessId:
    pid = cluster.brokers[0].pid
    assert pid is not None
    process = identify(pid)
    assert process is not None
    return process


def lend_and_give_back(session: Session, shape: ClusterShape) -> Cluster:
    cluster = session.lend(shape)
    session.give_back(cluster)
    return cluster


def test_tests_of_one_shape_take_turns_with_one_cluster(session):
    first = lend_and_give_back(session, ONE)
    other = lend_and_give_back(session, TWO)
    assert other is not first
    assert session.lend(ONE) is first
    assert session.lend(ONE) is not first


def test_fresh_cluster_is_lent_to_no_other_test_before_or_after(session):
    idle = lend_and_give_back(session, ONE)
    fresh = session.lend(ONE, fresh=True)
    assert fresh is not idle
    process = broker_of(fresh)
    session.give_back(fresh, fresh=True)
    assert not is_running(process)
    assert session.lend(ONE) is idle


@pytest.mark.parametrize("deed", ["kill", "pause", "restart"])
def test_lent_cluster_that_was_disturbed_is_ended_and_replaced(session, deed):
    cluster = session.lend(ONE)
    getattr(cluster, deed)(1)
    left = [broker.pid for broker in cluster.brokers if broker.pid is not None]
    session.give_back(cluster)
    assert [pid for pid in left if identify(pid) is not None] == []
    assert session.lend(ONE) is not cluster


def test_returned_cluster_that_lost_a_broker_by_itself_is_replaced(session):
    cluster = lend_and_give_back(session, ONE)
    kill(broker_of(cluster))
    assert session.lend(ONE) is not cluster


@pytest.mark.parametrize("check", ["_configs_are_untouched", "_clients_are_untouched"])
def test_returned_cluster_that_cannot_be_emptied_is_replaced(session, check, monkeypatch):
    cluster = lend_and_give_back(session, ONE)
    monkeypatch.setattr(Cluster, check, lambda self: False)
    assert session.lend(ONE) is not cluster


def test_only_a_few_stay_idle(session, monkeypatch):
    monkeypatch.setattr(module, "_IDLE_MAX", 1)
    first = lend_and_give_back(session, ONE)
    process = broker_of(first)
    second = lend_and_give_back(session, TWO)
    assert not is_running(process)
    assert session.lend(TWO) is second


def test_the_log_of_one_that_was_ended_can_be_read_until_the_next_is_lent(session):
    cluster = session.lend(ONE)
    session.give_back(cluster, fresh=True)
    assert "node 1 with unix://" in cluster.log(1)
    session.lend(TWO)
    assert not Path(cluster.data_dir).exists()


def test_cluster_lent_again_starts_with_an_empty_log(session):
    lend_and_give_back(session, ONE)
    assert session.lend(ONE).log(1) == ""


def test_each_has_a_database_of_its_own_and_they_come_round(session, monkeypatch):
    monkeypatch.setattr("yak.testing.session._DATABASES", 2)
    first, second = session.lend(ONE), session.lend(ONE)
    assert first.store_url != second.store_url
    session.give_back(second, fresh=True)
    assert session.lend(ONE).store_url == second.store_url
    third = session.lend(ONE)
    assert third.store_url.partition("?")[0] != first.store_url.partition("?")[0]


def test_a_port_stays_the_clusters_own_while_its_broker_is_dead(session):
    cluster = session.lend(ONE)
    port = cluster.brokers[0].port
    cluster.kill(1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    cluster.restart(1)
    assert cluster.brokers[0].port == port


def test_the_end_leaves_no_process_and_no_file(stand_in):
    session = Session()
    lent, idle = session.lend(ONE), session.lend(TWO)
    session.give_back(idle)
    processes = [broker_of(lent), broker_of(idle)]
    folder = Path(lent.data_dir).parent
    server = next(iter(folder.glob("redis-*")))
    assert server.exists()
    session.close()
    assert [each for each in processes if is_running(each)] == []
    assert not folder.exists()


def test_a_guardian_that_ends_late_fails_no_run(stand_in, monkeypatch):
    monkeypatch.setattr(guardian, "_END_SECONDS", 0.0)
    session = Session()
    session.lend(ONE)
    session.close()


def test_a_broker_that_does_not_start_says_why_and_leaves_nothing(session, monkeypatch):
    monkeypatch.setenv("STAND_IN", "refuses")
    with raises_error(StartRefused, "data-dir-locked", match="cannot open it"):
        session.lend(ONE)
    monkeypatch.setenv("STAND_IN", "well")
    cluster = session.lend(ONE)
    known = load(cluster.data_dir)
    assert known is not None
    assert [broker.is_ready for broker in known.brokers] == [True]


@pytest.mark.parametrize(("program", "code"), [("/no/such/server", "no-redis-server"), ("/bin/false", "redis-ended")])
def test_store_that_does_not_start_is_reported_each_time(session, program, code, monkeypatch):
    monkeypatch.setenv("YAK_REDIS_SERVER", program)
    for _ in range(2):
        with raises_error(YakError, code):
            session.lend(ONE)
    monkeypatch.delenv("YAK_REDIS_SERVER")
    assert session.lend(ONE).brokers[0].state == "running"


def test_a_path_too_long_for_a_socket_is_no_reason_to_fail(stand_in, tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    session = Session()
    try:
        url = session.lend(ONE).store_url
        assert url.startswith("unix:///")
        assert "x" * 100 not in url
    finally:
        session.close()
    assert list(long.iterdir()) == []


def test_cluster_for_one_block_is_removed_after_the_block(stand_in):
    with pytest.raises(ZeroDivisionError), run_cluster(brokers=1, configs={"num.partitions": 2}) as cluster:  # noqa: PT012
        processes = [identify(broker.pid or 0) for broker in cluster.brokers]
        _ = 1 / 0
    assert len(processes) == 1
    assert [each for each in processes if each is None or is_running(each)] == []
    assert not Path(cluster.data_dir).exists()
    for use in (lambda: cluster.bootstrap, lambda: cluster.kill(1), lambda: cluster.create_topic("late")):
        with pytest.raises(UsageError, match="the cluster has ended"):
            use()
    assert repr(cluster) == "<Cluster ended>"


def test_forked_child_that_ends_leaves_the_clusters_to_its_parent(session):
    fresh, shared = session.lend(ONE, fresh=True), session.lend(TWO)
    child = os.fork()
    if child == 0:
        try:
            session.give_back(fresh, fresh=True)
            session.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert [is_running(broker_of(each)) for each in (fresh, shared)] == [True, True]
