"""A live cluster whose metadata move from Redis to a quorum of its brokers, and back: real processes, under load."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from support.loads import SteadyLoad, check_complete

from tests.clusters import running_cluster
from yak.client.admin import Admin
from yak.client.quorum import describe_quorum
from yak.client.store_moves import BrokerStores, read_stores
from yak.local import migration
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.ports import find_lasting
from yak.local.seed_topics import make_topics, parse_seed_topic

pytestmark = pytest.mark.timeout(400)
TOPIC = "orders"
MOVE_SECONDS = 150
"""A move restarts each broker twice, beside other tests."""


@pytest.fixture
def cluster(yak: Any) -> Iterator[LocalCluster]:
    """Three brokers with the cluster's own Redis, and a topic with three replicas."""
    # outside the ephemeral range, so that no other test takes the port of a voter that is down
    lasting = tuple({find_lasting("127.0.0.1") for _ in range(9)})[:3]
    settings = UpSettings(ports=lasting, brokers=3, leaders=3, no_http=True)
    with running_cluster(yak.folder / "yak-data", settings) as made:
        make_topics(made.status().bootstrap, (parse_seed_topic(f"{TOPIC}:3"),), timeout_ms=20_000)
        yield made


def stores(cluster: LocalCluster) -> list[BrokerStores]:
    return read_stores({each.node_id: each.address for each in cluster.status().brokers})


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    consumer.commit(offsets=[Place(TOPIC, 1, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    [found] = consumer.committed([Place(TOPIC, 1)], timeout=20)
    consumer.close()
    return found.offset


def test_cluster_under_load_moves_to_a_quorum_and_back_and_loses_nothing(cluster, yak):
    before = cluster.status()
    Admin(before.bootstrap).alter_configs("topic", TOPIC, {"retention.ms": "123456789"})
    with SteadyLoad(before.bootstrap, TOPIC, partitions=3, acks="all", pause_seconds=0.005) as load:
        load.wait_for(50)
        commit(before.bootstrap, 7)
        ran = yak.run("cluster", "migrate", "--to", "raft", "-o", "json", timeout=MOVE_SECONDS)
        assert ran.code == 0, ran.err
        assert json.loads(ran.out) == {"cluster_id": before.cluster_id, "metadata": "raft", "moved": True}
        status = cluster.status()
        assert (status.cluster_id, status.bootstrap, status.redis_url) == (before.cluster_id, before.bootstrap, None)
        assert (status.metadata, status.voters, cluster.redis_pid()) == ("raft", (1, 2, 3), None)
        assert {(each.stores, each.store) for each in stores(cluster)} == {("raft", "quorum")}
        configs = {each.name: each.value for each in Admin(before.bootstrap).configs("topic", TOPIC)}
        assert configs["retention.ms"] == "123456789"
        assert committed(before.bootstrap) == 7
        load.wait_for(50)
        ran = yak.run("cluster", "migrate", "--to", "raft")
        assert (ran.code, "already" in ran.err) == (0, True)
        ran = yak.run("cluster", "migrate", "--to", "redis", timeout=MOVE_SECONDS)
        assert ran.code == 0, ran.err
        status = cluster.status()
        assert (status.cluster_id, status.bootstrap, status.metadata) == (before.cluster_id, before.bootstrap, "redis")
        assert {(each.stores, each.uses("redis")) for each in stores(cluster)} == {("redis", True)}
        assert committed(before.bootstrap) == 7
        load.wait_for(50)
    assert load.failed == []
    check_complete(load, before.bootstrap, TOPIC)


def test_interrupted_move_of_metadata_continues_after_the_quorum_leader_was_killed(cluster, yak, monkeypatch):
    bootstrap = cluster.status().bootstrap
    set_target = migration.set_target

    def interrupted(*arguments: Any, **more: Any) -> None:
        set_target(*arguments, **more)
        cluster.kill(describe_quorum(bootstrap.split(",")[0], timeout_s=10).leader_id)
        raise KeyboardInterrupt

    with SteadyLoad(bootstrap, TOPIC, partitions=3, acks="all", pause_seconds=0.005) as load:
        load.wait_for(50)
        monkeypatch.setattr(migration, "set_target", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.migrate("raft")
        monkeypatch.undo()
        assert (cluster.status().metadata, cluster.status().moving_to) == ("redis", "raft")
        assert len(cluster.up(UpSettings()).started) == 1
        ran = yak.run("cluster", "migrate", "--to", "raft", timeout=MOVE_SECONDS)
        assert ran.code == 0, ran.err
        assert (cluster.status().metadata, cluster.status().moving_to) == ("raft", None)
        load.wait_for(50)
    assert load.failed == []
    check_complete(load, bootstrap, TOPIC)
    assert not os.path.exists(cluster.data_dir + "/redis/redis.sock")
