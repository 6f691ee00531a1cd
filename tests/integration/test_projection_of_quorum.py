"""`yak serve --metadata raft --project-redis`: the quorum's leader writes the keys that `yak isr --from-redis` reads."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from support.own_redis import OwnRedis
from support.raft_cluster import RaftCluster
from support.waiting import wait_until

from yak.client.admin import Admin
from yak.local.spawn import yak_argv


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    made = OwnRedis(tmp_path_factory.mktemp("projection"))
    yield made
    made.kill()


@pytest.fixture(scope="module")
def cluster(looked_at: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RaftCluster]:
    with closing(RaftCluster(tmp_path_factory.mktemp("raft"), flags=("--project-redis", looked_at.url))) as made:
        yield made.start()


def from_redis(url: str, topic: str) -> list[dict[str, Any]]:
    """What `yak isr --from-redis` prints; empty while it finds no such topic."""
    argv = yak_argv("isr", topic, "--from-redis", "--redis-url", url, "-o", "json")
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(run.stdout) if run.returncode in (0, 1) and run.stdout else []
    return found


def is_same(cluster: RaftCluster, url: str, topic: str, node: int = 1) -> bool:
    """Whether Redis shows what the brokers say."""
    names = ("partition", "leader", "leader_epoch", "partition_epoch", "isr", "high_watermark", "log_end_offsets")
    live = cluster.get(node, f"/api/isr?topic={topic}").json()
    shown = from_redis(url, topic)
    return [[each[name] for name in names] for each in live] == [[each[name] for name in names] for each in shown]


def write(cluster: RaftCluster, topic: str, count: int, node: int = 1) -> None:
    records = [{"key": str(number), "payload": number} for number in range(count)]
    assert cluster.post(node, "/produce", json={"topic": topic, "records": records}).status_code == 200


def test_isr_and_offsets_are_in_redis_and_follow_the_cluster(cluster: RaftCluster, looked_at: OwnRedis) -> None:
    url = looked_at.url
    Admin(cluster.bootstrap).create_topic("shown", partitions=3, replication_factor=3)
    wait_until(lambda: cluster.get(1, "/topics/shown").status_code == 200, "the topic")
    write(cluster, "shown", 20)
    wait_until(lambda: is_same(cluster, url, "shown"), "the projection")
    state = looked_at.client().hgetall("{y}:cluster")
    assert (state["state"], state["cluster_id"]) == ("PROJECTION", cluster.get(1, "/health").json()["cluster_id"])
    assert not looked_at.client().exists("{y}:secret", "{y}:log")

    leader = cluster.quorum_leader()
    other = 1 if leader != 1 else 2
    cluster.kill9(leader)
    wait_until(
        lambda: all(leader not in each["isr"] for each in from_redis(url, "shown")), "the ISR without the dead broker"
    )
    write(cluster, "shown", 5, other)
    wait_until(lambda: is_same(cluster, url, "shown", other), "the projection of the next leader")
    cluster.start(leader)
    wait_until(lambda: is_same(cluster, url, "shown"), "the projection after the return")

    assert cluster.ask(other, "DELETE", "/topics/shown").status_code == 200
    wait_until(lambda: not from_redis(url, "shown"), "the deletion")
    assert not list(looked_at.client().scan_iter("{y}:p:*"))
    assert not looked_at.client().hgetall("{y}:hw")


def test_redis_that_goes_away_or_is_emptied_is_written_again(cluster: RaftCluster, looked_at: OwnRedis) -> None:
    url = looked_at.url
    Admin(cluster.bootstrap).create_topic("again", partitions=1, replication_factor=3)
    wait_until(lambda: cluster.get(1, "/topics/again").status_code == 200, "the topic")
    write(cluster, "again", 3)
    wait_until(lambda: is_same(cluster, url, "again"), "the projection")
    looked_at.client().flushall()
    wait_until(lambda: is_same(cluster, url, "again"), "the projection in an emptied Redis")

    looked_at.kill()
    write(cluster, "again", 4)
    leader = cluster.quorum_leader()
    wait_until(lambda: "projection-lost" in cluster.log_path(leader).read_text(), "a log line")
    assert cluster.get(1, "/health").status_code == 200
    looked_at.start()
    wait_until(lambda: is_same(cluster, url, "again"), "the projection after the outage")
    outage = cluster.log_path(leader).read_text().rpartition("projection-lost")
    assert outage[2].count("projection-connected") == 1


def test_redis_with_another_cluster_is_not_touched(cluster: RaftCluster, looked_at: OwnRedis, tmp_path: Path) -> None:
    client = looked_at.client()
    other = looked_at.url.rpartition("/")[0] + "/5"
    elsewhere = redis_py.Redis.from_url(other, decode_responses=True)
    elsewhere.hset("{y}:cluster", mapping={"cluster_id": "another", "state": "LIVE"})
    with closing(RaftCluster(tmp_path, brokers=1, voters=1, flags=("--project-redis", other))) as made:
        made.start()
        wait_until(lambda: "projection-refused" in made.log_path(1).read_text(), "a refusal")
        assert list(elsewhere.scan_iter("*")) == ["{y}:cluster"]
        assert elsewhere.hgetall("{y}:cluster") == {"cluster_id": "another", "state": "LIVE"}
    assert client.hget("{y}:cluster", "cluster_id") == cluster.get(1, "/health").json()["cluster_id"]
