"""A local cluster of several brokers: who leads, where they listen, how it grows, and what is done to one of them."""

import json
import os
import socket
import threading
import time
from dataclasses import replace

import pytest

from tests.errors import raises_error
from tests.unit.local.local_clusters import free_row, said_to, watch
from yak.errors import StartRefused, UsageError, YakError
from yak.local import ports, processes
from yak.local.checks.machine import check_local_cluster
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.cluster_plan import fault_configs, replication_configs
from yak.local.signal_event import SignalEvent
from yak.local.state import ListenerOptions, load, state_path


def states(cluster: LocalCluster) -> list[str]:
    return [broker.state for broker in cluster.status().brokers]


def roles(cluster: LocalCluster) -> str:
    return "".join(broker.role[0] for broker in cluster.status().brokers)


def test_the_first_ones_lead_and_each_has_its_own_directory_and_port(cluster):
    base = free_row(4)
    result = cluster.up(UpSettings(port=base, brokers=4, leaders=2))
    assert result.started == (1, 2, 3, 4)
    assert result.taken_ports == ()
    assert roles(cluster) == "llff"
    assert [broker.address for broker in result.status.brokers] == [f"127.0.0.1:{base + index}" for index in range(4)]
    assert result.status.bootstrap.count(",") == 3
    assert "--role leader" in said_to(cluster, 2)
    assert "--role follower" in said_to(cluster, 3)
    assert f"--data-dir {cluster.data_dir}/node-4" in said_to(cluster, 4)


def test_ports_that_are_named_one_by_one_are_taken_as_named(cluster):
    first, second = ports.find_free("127.0.0.1"), free_row(1)
    result = cluster.up(UpSettings(port=0, brokers=2, ports=(first, second)))
    assert [broker.address for broker in result.status.brokers] == [f"127.0.0.1:{first}", f"127.0.0.1:{second}"]
    cluster.kill(1)
    assert cluster.restart(1).address == f"127.0.0.1:{first}"


def test_a_cluster_of_one_is_what_one_gets_unasked_and_three_when_leaders_are_named(tmp_path, stand_in):
    for settings, expected in ((UpSettings(port=0), "l"), (UpSettings(port=0, leaders=1), "lff")):
        cluster = LocalCluster(str(tmp_path / expected))
        try:
            cluster.up(settings)
            assert roles(cluster) == expected
        finally:
            cluster.discard()


@pytest.mark.parametrize(
    ("brokers", "given", "expected"),
    [
        (1, (), ()),
        (2, (), ("default.replication.factor=2", "min.insync.replicas=1")),
        (3, (), ("default.replication.factor=3", "min.insync.replicas=2")),
        (5, (), ("default.replication.factor=3", "min.insync.replicas=2")),
        (3, ("default.replication.factor=1",), ("min.insync.replicas=1",)),
        (4, ("default.replication.factor=4", "a=b"), ("min.insync.replicas=2",)),
        (3, ("min.insync.replicas=1",), ("default.replication.factor=3",)),
        (3, ("default.replication.factor=many",), ("min.insync.replicas=1",)),
    ],
)
def test_topics_of_many_brokers_are_replicated_unless_the_user_says_otherwise(brokers, given, expected):
    assert replication_configs(brokers, given) == expected


def test_every_broker_receives_the_configs_of_topic_replication(cluster):
    cluster.up(UpSettings(port=0, brokers=3, configs=("num.partitions=6",)))
    for node_id in (1, 2, 3):
        assert "-c default.replication.factor=3 -c min.insync.replicas=2 -c num.partitions=6" in said_to(
            cluster, node_id
        )


def test_brokers_that_only_this_machine_reaches_can_inject_faults_unless_the_user_says_otherwise(cluster):
    cluster.up(UpSettings(port=0, brokers=2))
    assert "-c yak.fault.injection.enable=true" in said_to(cluster, 2)
    known = load(cluster.data_dir)
    assert known is not None
    broker = known.brokers[0]
    assert fault_configs(known, broker) == ("yak.fault.injection.enable=true",)
    assert fault_configs(known, replace(broker, host="0.0.0.0")) == ()
    assert fault_configs(known, replace(broker, configs=("yak.fault.injection.enable=false",))) == ()
    known.exposed = ListenerOptions(listen=("EXTERNAL://0.0.0.0:19092",))
    assert fault_configs(known, broker) == ()


def test_port_of_another_process_is_left_alone_and_reported(cluster, monkeypatch):
    base = free_row(3)
    monkeypatch.setattr("yak.local.cluster_plan.DEFAULT_PORT", base)
    with socket.create_server(("127.0.0.1", base + 1)):
        result = cluster.up(UpSettings(brokers=3))
    assert result.taken_ports == (base + 1,)
    given = [int(broker.address.rpartition(":")[2]) for broker in result.status.brokers]
    assert given[0] == base
    assert given[2] == base + 2
    assert given[1] not in {base, base + 1, base + 2}


def test_a_cluster_grows_while_it_runs_and_after_a_stop_and_never_shrinks(cluster):
    first = cluster.up(UpSettings(port=0)).status.brokers[0]
    assert cluster.up(UpSettings(brokers=2)).started == (2,)
    assert cluster.status().brokers[0] == first
    cluster.down()
    assert cluster.up(UpSettings(brokers=3, leaders=2)).started == (1, 2, 3)
    assert roles(cluster) == "llf"
    cluster.down()
    assert cluster.up(UpSettings()).started == (1, 2, 3), "as many as it has"
    assert roles(cluster) == "llf"
    with raises_error(UsageError, "cluster-shrink") as caught:
        cluster.up(UpSettings(brokers=2))
    assert "has 3 brokers" in caught.value.message


def test_roles_change_only_where_nothing_runs(cluster):
    cluster.up(UpSettings(port=0, brokers=2))
    with raises_error(UsageError, "cluster-running") as caught:
        cluster.up(UpSettings(leaders=2))
    assert caught.value.why == "node 2 has the role of a follower, not of a leader"
    for leaders in (0, 3):
        with raises_error(UsageError, "bad-leaders"):
            cluster.up(UpSettings(leaders=leaders))


def test_first_start_is_rolled_back_when_one_broker_cannot_start(cluster, monkeypatch):
    monkeypatch.setenv("STAND_IN", "2 refuses")
    with raises_error(StartRefused, "data-dir-locked"):
        cluster.up(UpSettings(port=0, brokers=3))
    assert set(states(cluster)) == {"dead"}
    monkeypatch.delenv("STAND_IN")
    assert cluster.up(UpSettings(port=0, brokers=2)).started == (1, 2), "no start had succeeded, so this is the first"


def test_broker_that_cannot_join_is_forgotten_and_the_others_keep_running(cluster, monkeypatch):
    cluster.up(UpSettings(port=0))
    monkeypatch.setenv("STAND_IN", "2 refuses")
    for join in (cluster.add, lambda: cluster.up(UpSettings(brokers=3))):
        with pytest.raises(StartRefused):
            join()
        assert states(cluster) == ["running"]
    monkeypatch.delenv("STAND_IN")
    assert cluster.add().node_id == 2


def test_purge_deletes_the_data_of_a_broker_that_did_not_join(cluster, monkeypatch):
    cluster.up(UpSettings(port=0))
    monkeypatch.setattr(
        "yak.local.cluster_start.wait_all_ready", lambda starting, _: starting[0].wait_ready() and 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        cluster.up(UpSettings(brokers=2))
    assert (states(cluster), os.listdir(f"{cluster.data_dir}/node-2")) == (["running"], ["meta.properties"])
    os.mkdir(f"{cluster.data_dir}/node-red")
    cluster.down(purge=True)
    assert os.listdir(cluster.data_dir) == ["node-red"]


def test_redis_that_a_failed_start_brought_back_stays_for_the_running_brokers(cluster, monkeypatch):
    cluster.up(UpSettings(port=0, brokers=2))
    cluster.kill(2)
    cluster.stop_redis()
    monkeypatch.setenv("STAND_IN", "2 refuses")
    with pytest.raises(StartRefused):
        cluster.up(UpSettings())
    assert (states(cluster), cluster.status().redis_running) == (["running", "dead"], True)
    cluster.kill(1)
    cluster.stop_redis()
    with pytest.raises(StartRefused):
        cluster.restart(2)
    assert cluster.status().redis_running is False, "no broker uses it"


def test_an_added_broker_gets_the_next_number_and_the_configs_of_the_first(cluster):
    cluster.up(UpSettings(port=0, brokers=2, configs=("a=b",)))
    added = cluster.add("leader")
    assert (added.node_id, added.role, added.state) == (3, "leader", "running")
    assert "default.replication.factor=3" in said_to(cluster, 3)
    assert "-c a=b" in said_to(cluster, 3)
    cluster.add(configs=("c=d",))
    assert "-c c=d" in said_to(cluster, 4)
    cluster.down()
    with raises_error(YakError, "cluster-not-running"):
        cluster.add()


def test_paused_broker_is_reported_and_resumed(cluster):
    cluster.up(UpSettings(port=0, brokers=2))
    with raises_error(YakError, "node-not-paused"):
        cluster.resume(2)
    process = cluster.pause(2)
    assert processes.is_paused(process)
    assert states(cluster) == ["running", "paused"]
    with raises_error(YakError, "node-paused"):
        cluster.pause(2)
    assert cluster.up(UpSettings()).started == (), "it is there"
    cluster.resume(2)
    assert states(cluster) == ["running", "running"]


def test_a_paused_broker_can_be_killed_restarted_and_stopped(cluster):
    cluster.up(UpSettings(port=0, brokers=3))
    for node_id in (1, 2, 3):
        cluster.pause(node_id)
    cluster.kill(1)
    assert cluster.restart(2).state == "running"
    assert states(cluster) == ["dead", "running", "paused"]
    assert cluster.down() == (), "none of them had to be killed"
    assert states(cluster) == ["stopped"] * 3


@pytest.mark.parametrize("action", ["kill", "pause", "resume"])
def test_action_on_a_node_that_does_not_exist_or_does_not_run_is_refused(cluster, action):
    with raises_error(UsageError, "no-cluster"):
        getattr(cluster, action)(1)
    cluster.up(UpSettings(port=0))
    with raises_error(UsageError, "unknown-node"):
        getattr(cluster, action)(2)
    cluster.kill(1)
    with raises_error(YakError, "node-not-running"):
        getattr(cluster, action)(1)


def test_followers_stop_before_leaders(cluster, monkeypatch):
    cluster.up(UpSettings(port=0, brokers=3))
    known = load(cluster.data_dir)
    assert known is not None
    node_of = {broker.process: broker.node_id for broker in known.brokers}
    waves: list[list[int]] = []
    stop_all = processes.stop_all

    def noting(group: list[processes.ProcessId], *, patience_seconds: float) -> list[bool]:
        waves.append([node_of[process] for process in group if process in node_of])
        return stop_all(group, patience_seconds=patience_seconds)

    monkeypatch.setattr(processes, "stop_all", noting)
    cluster.down()
    assert waves[:2] == [[2, 3], [1]]


def test_keep_ends_that_a_cluster_is_ephemeral(cluster):
    cluster.up(UpSettings(port=0, ephemeral=True))
    cluster.down(keep=True)
    assert os.path.exists(cluster.data_dir)
    cluster.up(UpSettings(ephemeral=True))
    cluster.up(UpSettings(keep=True))
    cluster.down()
    assert os.path.exists(cluster.data_dir)


def test_a_state_written_before_there_were_many_is_understood(cluster):
    cluster.up(UpSettings(port=0))
    cluster.down()
    path = state_path(cluster.data_dir)
    written = json.loads(path.read_text())
    assert set(written["brokers"][0]) == {
        "node_id", "role", "host", "port", "data_dir", "configs", "process", "epoch", "is_ready", "wanted", "http_port",
            "http_tls",
    }  # fmt: skip
    for broker in written["brokers"]:
        del broker["http_port"]  # of before there was HTTP: any port will do
    path.write_text(json.dumps(written))
    assert cluster.up(UpSettings(brokers=3)).started == (1, 2, 3)


def test_the_supervisor_shows_a_broker_that_was_added_and_one_that_is_paused(cluster):
    cluster.up(UpSettings(port=0, supervised=True))
    lines: list[tuple[str, str]] = []
    changes: list[tuple[int, str]] = []
    watches = threading.Event()

    class StopRequested(SignalEvent):
        def wait(self, timeout_s: float | None = None) -> bool:
            watches.set()  # the supervisor has seen the cluster as it is, and watches for changes
            return super().wait(timeout_s)

    stop_requested = StopRequested()

    def changed(node_id: int, condition: str) -> None:
        changes.append((node_id, condition))
        if (node_id, condition) == (1, "paused"):
            stop_requested.set()

    def act() -> None:
        watches.wait(20)
        cluster.add()
        while (2, "running") not in changes and not stop_requested.is_set():
            time.sleep(0.05)
        cluster.pause(1)

    acting = threading.Thread(target=act)
    acting.start()
    give_up = threading.Timer(20, stop_requested.set)
    give_up.start()
    watch(cluster, stop_requested, on_line=lambda *line: lines.append(line), on_change=changed)
    give_up.cancel()
    acting.join()
    assert (2, "running") in changes
    assert (1, "paused") in changes
    assert any(name == "node-2" and "started with" in line for name, line in lines)


def test_doctor_reports_paused_and_dead_nodes(cluster):
    cluster.up(UpSettings(port=0, brokers=2))
    assert check_local_cluster(cluster.data_dir).state == "ok"
    cluster.pause(2)
    found = check_local_cluster(cluster.data_dir)
    assert (found.state, found.detail) == ("warn", "node 2 is paused")
    cluster.kill(1)
    assert check_local_cluster(cluster.data_dir).state == "FAIL"
