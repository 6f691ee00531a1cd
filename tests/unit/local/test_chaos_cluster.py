"""The processes of a chaos run: a start of Redis that fails, faults that find it down, and a broker that ends by itself."""

import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from yak.errors import StartRefused, Unreachable
from yak.local import redis_child
from yak.local.chaos.cluster import ChaosCluster, ClusterSettings
from yak.local.chaos.nemesis import Nemesis
from yak.local.processes import identify


@pytest.fixture
def cluster(tmp_path: Path) -> ChaosCluster:
    return ChaosCluster(tmp_path / "cluster", ClusterSettings(brokers=1))


def test_redis_start_while_its_port_is_still_held_is_repeated(cluster, tmp_path):
    held = socket.create_server(("127.0.0.1", cluster._redis_port))
    starts = []
    start = redis_child.start

    def release_then_start(*args, **kwargs):
        starts.append(args)
        if len(starts) == 2:
            held.close()
        return start(*args, **kwargs)

    redis_child.start = release_then_start
    try:
        cluster.start_redis()
    finally:
        redis_child.start = start
        cluster.kill_redis()
        held.close()
    assert len(starts) >= 2


def test_redis_start_whose_port_stays_held_raises_start_refused(cluster, monkeypatch):
    monkeypatch.setattr("yak.local.chaos.cluster._REDIS_START_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", cluster._redis_port)), pytest.raises(StartRefused):
        cluster.start_redis()


def test_emptying_redis_while_it_is_down_raises_unreachable(cluster):
    with pytest.raises(Unreachable, match="cannot be emptied"):
        cluster.empty_redis(by_restart=False)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("sleep 0.1; exit 3", "node-1 ended by itself with code 3 at"),
        ("exec sleep 60", "node-1 is stopping by itself at"),
    ],
)
def test_broker_that_ends_by_itself_is_noted_with_the_code_of_its_last_thread(cluster, monkeypatch, script, text):
    """Its process exists no more for the node, and has no code yet."""
    monkeypatch.setattr("yak.local.chaos.nemesis.ENDING_SECONDS", 60.0 if "exit" in script else 0.1)
    node = cluster.nodes[1]
    node.is_wanted = True
    nemesis = Nemesis(cluster, SimpleNamespace(), SimpleNamespace(now=lambda: 1.0))
    with subprocess.Popen(["/bin/sh", "-c", script]) as node._child:
        nemesis.check()
        node._child.kill()
    assert nemesis.ended_by_themselves[0].startswith(text)


def test_broker_that_does_not_stop_in_order_is_noted_with_the_end_of_its_log(cluster, monkeypatch):
    monkeypatch.setattr("yak.local.chaos.node.STOP_SECONDS", 0.1)
    node = cluster.nodes[1]
    node.log_path.write_text("started\n" + "x" * 5_000 + "\nstopping\n")
    with subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; echo; exec sleep 60"], stdout=-1) as child:
        child.stdout.readline()
        node._child, node.process = child, identify(child.pid)
        (late,) = cluster.stop()
    assert late == "node-1 did not stop in time and was killed; its log ends with: stopping"


def test_exit_code_of_a_running_broker_is_read_without_waiting(cluster):
    """The start of a cluster asks each broker for it again and again; it waited a second for each."""
    node = cluster.nodes[1]

    class Child(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            assert timeout == 0 or self.returncode is not None
            return super().wait(timeout)

    child = Child(["/bin/sh", "-c", "sleep 60"])
    try:
        node._child = child
        assert node.end_code() is None
    finally:
        child.kill()
        subprocess.Popen.wait(child)
