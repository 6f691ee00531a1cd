"""`yak node`: of which cluster the broker is."""

from types import SimpleNamespace

import pytest

from yak.errors import YakError
from yak.local.status import BrokerStatus, ClusterStatus

STATUS = ClusterStatus(
    "c", "/d", "redis://r", True, "127.0.0.1:9092", (BrokerStatus(1, "leader", 41, "127.0.0.1:9092", "running"),)
)


@pytest.fixture
def killed(monkeypatch):
    """The node ids that were killed in the cluster of `yak up`."""
    done = []
    cluster = SimpleNamespace(status=lambda: STATUS, kill=done.append)
    monkeypatch.setattr("yak.commands.local_cluster.local_cluster", lambda _g, _data_dir: cluster)
    monkeypatch.setattr("yak.commands.node.local_cluster", lambda _g, _data_dir: cluster)
    return done


@pytest.mark.parametrize("flags", [("-b", "prod.example.org:9092"), ("--context", "prod")])
def test_node_kill_of_another_cluster_kills_no_local_broker(yak, killed, flags):
    assert yak("context", "add", "prod", "-b", "prod.example.org:9092").code == 0
    ran = yak("node", "kill", "1", *flags)
    assert (ran.code, killed) == (2, []), ran.err
    assert "error[not-a-local-cluster]" in ran.err


@pytest.mark.parametrize("flags", [(), ("-b", "127.0.0.1:9092"), ("-b", "prod.example.org:9092", "--data-dir", "d")])
def test_node_kill_of_the_local_cluster_kills_its_broker(yak, killed, flags):
    assert (yak("node", "kill", "1", *flags).code, killed) == (0, [1])


@pytest.mark.parametrize(
    ("dead", "code", "ends"), [((1,), 0, [2]), ((2,), 0, [1]), ((1, 2), 1, [])], ids=["first", "second", "both"]
)
def test_kill_of_a_machine_kills_its_running_brokers(yak, monkeypatch, dead, code, ends):
    """It ended at the first broker that was dead already, and the others ran on."""
    done = []

    def kill(node_id):
        if node_id in dead:
            raise YakError("node-not-running", f"node {node_id} does not run")
        done.append(node_id)

    cluster = SimpleNamespace(status=lambda: STATUS, kill=kill, mates=lambda _node_id: (1, 2))
    monkeypatch.setattr("yak.commands.node.local_cluster", lambda _g, _data_dir: cluster)
    ran = yak("node", "kill", "1", "--machine")
    assert (ran.code, done) == (code, ends), ran.err
