"""A broker that is led to another Redis, with a copy of the metadata: noticed when it comes back, and never merged by itself."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from support.fault_cluster import FaultCluster
from support.loads import SteadyLoad, check_complete
from support.waiting import wait_until

from yak.local import ports, redis_child
from yak.local.processes import kill
from yak.local.redis_child import RunningRedis


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FaultCluster]:
    if not sys.platform.startswith("linux"):
        pytest.skip("the fault proxy finds out who calls from /proc, which only Linux has")
    with closing(FaultCluster(tmp_path / "cluster")) as made:
        made.start()
        yield made


@pytest.fixture
def copy_of_redis(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Starts a second server on a copy of the first one's data; its address."""
    made: list[RunningRedis] = []

    def start() -> str:
        shutil.copytree(tmp_path / "cluster" / "redis", tmp_path / "other")
        port, log = ports.find_free("127.0.0.1"), str(tmp_path / "other.log")
        made.append(redis_child.start(str(tmp_path / "other"), port, log))
        return made[0].url

    yield start
    for running in made:
        kill(running.process)


def held_by(url: str) -> dict[str, str]:
    """The cluster's hash."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return client.hgetall("{y}:cluster")


def lead_to(cluster: FaultCluster, node_id: int, url: str) -> None:
    """From now on this is the Redis behind the broker's address for it."""
    proxy = cluster.nodes[node_id].redis
    proxy.target_port = int(url.rpartition(":")[2].partition("/")[0])
    proxy.reset()


def test_two_servers_with_one_cluster_are_noticed_and_a_person_decides(cluster, copy_of_redis, unique_topic, yak):
    cluster.create(unique_topic, [1, 2, 3])
    marks = cluster.marks()
    with SteadyLoad(cluster.bootstrap, unique_topic) as load:
        load.wait_for(50)
        other = copy_of_redis()
        copied = int(held_by(other)["mo"])
        lead_to(cluster, 3, other)
        # On either side the other brokers seem to be dead; the third may have been the controller all along.
        wait_until(
            lambda: (held := held_by(other))["ctl_id"] == "3" and int(held["mo"]) >= copied + 2,
            "the third fences the others there",
            20,
        )
        cluster.wait_isr(unique_topic, 1, 2)
        load.wait_for(50)
        lead_to(cluster, 3, cluster.redis_url)
        # The one history may have become longer than the other.
        frozen = marks[3].wait_for("metadata-frozen")
        assert "code=FORKED" in frozen or "code=REGRESSED" in frozen
        for mark in marks.values():
            mark.wait_for("metadata-restore-offered")
        assert held_by(cluster.redis_url)["incarnation"] == "1"
        load.wait_for(50)
        words = ("cluster", "restore", "--redis-url", cluster.redis_url)
        shown = yak.run(*words, "--yes")
        assert shown.code == 1
        assert "restore-unsafe" in shown.err
        assert "not known to be the beginning" in shown.out
        # The third one was wrong: without it the others go on as before.
        cluster.nodes[3].kill9()
        assert yak.run(*words, "--abort", "--yes").code == 0
        for node_id in (1, 2):
            marks[node_id].wait_for("metadata-unfrozen")
        load.wait_for(50)
        cluster.create(f"{unique_topic}-after", [1, 2])
    check_complete(load, cluster.bootstrap, unique_topic)
