"""The metadata store of a chaos run: a start that fails for a moment, and faults that find it down."""

import socket
from pathlib import Path

import pytest

from yak.errors import StartRefused, Unreachable
from yak.local import redis_child
from yak.local.chaos.cluster import ChaosCluster, ClusterSettings


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
