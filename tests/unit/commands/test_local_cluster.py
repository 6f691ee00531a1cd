"""Which brokers a command asks when none were named: those of `yak up` in the directory that run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from yak.client.reach import Probe
from yak.commands.local_cluster import bootstrap_servers, roles_note
from yak.commands.settings import Settings
from yak.local.processes import ProcessId, identify
from yak.local.state import BrokerState, ClusterState, RedisState, save

GONE = ProcessId(1, "of another boot")


@pytest.fixture
def remembered(tmp_path: Path) -> ClusterState:
    """A cluster in ./yak-data whose broker 1 is dead, while 2 and 3 run."""
    (tmp_path / "yak-data").mkdir()
    me = identify(os.getpid())
    brokers = [
        BrokerState(node, "leader", "127.0.0.1", 7000 + node, "", process=process, is_ready=True)
        for node, process in ((1, GONE), (2, me), (3, me))
    ]
    known = ClusterState(str(tmp_path / "yak-data"), RedisState("redis://r"), brokers=brokers)
    save(known)
    return known


def found(**environment: str) -> tuple[str, str]:
    resolved = bootstrap_servers(Settings.load({}, environment=environment))
    return resolved.value, resolved.origin


@pytest.mark.usefixtures("remembered")
def test_running_local_brokers_are_bootstrap_servers_and_the_dead_broker_is_not():
    assert found() == ("127.0.0.1:7002,127.0.0.1:7003", "yak up in ./yak-data")


@pytest.mark.usefixtures("remembered")
def test_configured_bootstrap_servers_take_precedence_over_the_local_cluster(tmp_path):
    assert found(YAK_BOOTSTRAP_SERVERS="k:1") == ("k:1", "env YAK_BOOTSTRAP_SERVERS")
    (tmp_path / "yak.toml").write_text('bootstrap_servers = "file:2"\n')
    assert found() == ("file:2", "./yak.toml")


def test_default_address_is_the_bootstrap_server_after_the_local_cluster_was_stopped(remembered):
    for broker in remembered.brokers:
        broker.process, broker.wanted = GONE, False
    save(remembered)
    assert found() == ("127.0.0.1:9092", "default")


def test_a_cluster_whose_brokers_all_died_is_not_swapped_for_another_one(remembered, yak, monkeypatch):
    for broker in remembered.brokers:
        broker.process = GONE
    remembered.brokers[2].wanted = False
    save(remembered)
    assert found() == ("127.0.0.1:7001,127.0.0.1:7002", "yak up in ./yak-data, where no broker runs")
    monkeypatch.setattr("yak.client.reach.probe", lambda address, _: Probe(address, "refused", "refused"))
    ran = yak("topics", "list", "--timeout", "1ms")
    assert ran.code == 3
    assert "127.0.0.1:9092" not in ran.err
    assert "try:  yak up -d" in ran.err


def test_without_a_cluster_or_with_one_that_cannot_be_read_it_is_the_usual_address(tmp_path):
    assert found() == ("127.0.0.1:9092", "default")
    (tmp_path / "yak-data").mkdir()
    (tmp_path / "yak-data" / "cluster.json").write_text("{")
    assert found() == ("127.0.0.1:9092", "default")


def test_the_directory_may_be_another_one(remembered, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert found()[1] == "default"
    assert found(YAK_DATA_DIR="../yak-data")[0] == "127.0.0.1:7002,127.0.0.1:7003"
    assert remembered.data_dir.endswith("yak-data")


def test_paused_broker_is_not_contacted_while_another_one_runs(remembered):
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        remembered.brokers[1].process = identify(child.pid)
        save(remembered)
        assert found()[0] == "127.0.0.1:7003"
    finally:
        child.kill()
        child.wait()


@pytest.mark.usefixtures("remembered")
def test_config_show_says_where_they_came_from(yak):
    ran = yak("config", "show", "--origin", "-o", "json")
    assert '"value": "127.0.0.1:7002,127.0.0.1:7003"' in ran.out
    assert '"origin": "yak up in ./yak-data"' in ran.out


@pytest.mark.parametrize(
    ("roles", "note"),
    [
        ({1: "leader", 2: "leader"}, ""),
        ({1: None, 2: "follower"}, ""),
        (
            {1: "leader", 2: "follower", 3: None},
            "node 1 leads all new partitions, node 2 (role follower) takes over when it dies",
        ),
        (
            {1: "leader", 2: "leader", 3: "follower", 4: "follower"},
            "nodes 1, 2 lead all new partitions, nodes 3, 4 (role follower) take over when they die",
        ),
    ],
)
def test_a_note_says_which_brokers_lead_by_their_roles(roles, note):
    assert roles_note(roles) == note


def test_a_note_promises_no_takeover_without_a_majority_of_the_voters():
    two = {1: "leader", 2: "follower"}
    missing = "no broker takes over when it dies, if the quorum's voters are still node 1"
    assert roles_note(two, (1,)) == f"node 1 leads all new partitions; {missing}"
    assert roles_note({**two, 3: "follower"}, (1, 2, 3)) == roles_note({**two, 3: "follower"})
    assert "no broker takes over when they die" in roles_note({1: "leader", 2: "leader", 3: "follower"}, (1, 2, 3))


@pytest.mark.parametrize(
    "words",
    [
        "node restart",
        "node stop 1",
        "node restart x",
        "node kill ²",
        "node add 2",
        "node add --role boss",
        "node kill 1 2",
        "node pause 1 --hard",
        "down --purge --keep",
        "up --purge",
        "up --role leader",
        "up --keep --ephemeral",
        "up --status --brokers 3",
        "up --status --keep",
    ],
)
def test_options_of_a_local_cluster_that_exclude_each_other_are_a_usage_error(yak, words):
    ran = yak(*words.split())
    assert ran.code == 2
    assert ran.err.startswith(("error[usage]", "error[unknown-command]"))


def test_down_without_a_cluster_is_refused(yak):
    ran = yak("down")
    assert ran.code == 2
    assert ran.err.startswith("error[no-cluster]")


def test_up_in_the_data_directory_of_a_broker_is_refused_and_changes_nothing(yak, tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    ran = yak("up", "-d", "--data-dir", str(folder))
    assert ran.code == 1
    assert ran.err.startswith("error[data-dir-of-a-broker]")
    assert [path.name for path in folder.iterdir()] == ["meta.properties"]
