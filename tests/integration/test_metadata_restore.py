"""Three brokers whose Redis lost the cluster's metadata: they go on serving, and an operator restores it."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from support.loads import SteadyLoad, check_complete
from support.own_redis import OwnRedis
from support.waiting import wait_until

from yak.errors import StartRefused
from yak.local.cluster import LocalCluster, UpSettings

NODES = (1, 2, 3)
RESTORED_IN_SECONDS = 30.0
BUSY = """local function now() local t = redis.call('TIME') return t[1] + t[2] / 1000000 end
local until_ = now() + 2
while now() < until_ do end"""
"""A script that holds the server for two seconds."""


class Cluster:
    """The brokers as an administrator sees them."""

    def __init__(self, folder: Path) -> None:
        self.redis = OwnRedis(folder)
        self.local = LocalCluster(str(folder / "cluster"))
        configs = ("min.insync.replicas=2", "default.replication.factor=3", "replica.lag.time.max.ms=3000")
        self.local.up(UpSettings(brokers=3, leaders=3, port=0, redis_url=self.redis.url, configs=configs))
        self.bootstrap = ",".join(broker.address for broker in self.local.status().brokers)

    @property
    def admin(self) -> AdminClient:
        """A new client: one that knows a broker that was gone waits longer and longer before it connects again."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def close(self) -> None:
        try:
            self.local.discard()
        finally:
            self.redis.kill()

    def create(self, topic: str, partitions: int = 1, replicas: int = 3) -> None:
        admin = self.admin
        admin.create_topics([NewTopic(topic, partitions, replicas)], operation_timeout=10)[topic].result(20)

    def states(self, nodes: Sequence[int] = NODES) -> dict[int, str]:
        """How each of these brokers stands with the metadata store."""
        found = {}
        admin = self.admin
        for node in nodes:
            resource = ConfigResource(ConfigResource.Type.BROKER, str(node))
            # A client that asks while the broker is fenced for a moment waits for it in vain.
            with contextlib.suppress(KafkaException):
                described = admin.describe_configs([resource], request_timeout=3)[resource].result(20)
                found[node] = str(described["yak.metadata.state"].value)
        return found

    def partition(self, topic: str, number: int = 0) -> Any:
        """The partition as a broker knows it, which may learn of a topic after the one that was asked to create it."""
        return wait_until(
            lambda: self.admin.list_topics(topic, timeout=10).topics[topic].partitions.get(number),
            f"a broker knows {topic}-{number}",
            10,
        )

    def wait_states(self, wanted: str, seconds: float = RESTORED_IN_SECONDS) -> None:
        wait_until(lambda: list(self.states().values()) == [wanted] * len(NODES), f"all are {wanted}", seconds)

    def secret(self) -> str | None:
        """The cluster's secret as the store holds it; None when it has none."""
        with self.redis.client() as client:
            return client.get("{y}:secret")

    def secret_files(self) -> list[Path]:
        """Each broker's copy of the cluster's secret, by node id."""
        return sorted(Path(self.local.data_dir).rglob("cluster-secret"))

    def log(self, node_id: int) -> str:
        return Path(self.local.log_path(f"node-{node_id}")).read_text("utf-8", "replace")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("restore"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """All brokers are there and in good standing."""
    shared.wait_states("ACTIVE")
    return shared


def emptied(cluster: Cluster, folder: Path) -> None:
    del folder
    cluster.redis.empty()


def without_its_last_second(cluster: Cluster, folder: Path) -> None:
    """The append-only file is cut where it was before the newest topic."""
    del folder
    files = (cluster.redis.folder / "appendonlydir").glob("*.incr.aof")
    newest = max(files, key=lambda path: path.stat().st_mtime)
    size = newest.stat().st_size
    cluster.create(f"lost-{size}")
    cluster.redis.kill()
    os.truncate(newest, size)
    cluster.redis.start()


def put_back_to_an_old_copy(cluster: Cluster, folder: Path) -> None:
    cluster.redis.kill()
    cluster.redis.copy_to(folder / "old")
    cluster.redis.start()
    cluster.wait_states("ACTIVE")
    for number in range(3):
        cluster.create(f"newer-{folder.name}-{number}")
    cluster.redis.put_back(folder / "old")


def planned(yak: Any, cluster: Cluster, nodes: Sequence[int] = NODES) -> Any:
    """The plan of a restore, once all of these brokers have offered."""
    ran = yak.run("cluster", "restore", "--redis-url", cluster.redis.url, "--dry-run", "-o", "json")
    is_complete = ran.code == 0 and ran.out and [each["id"] for each in ran.json["answered"]] == list(nodes)
    return ran.json if is_complete else None


def restore(yak: Any, cluster: Cluster) -> None:
    """Restore by hand once all brokers have offered."""
    plan = wait_until(lambda: planned(yak, cluster), "all brokers have offered", 20)
    assert plan["safe"], plan
    done = yak.run("cluster", "restore", "--redis-url", cluster.redis.url, "--yes")
    assert done.code == 0, done.err


def lose_a_leader_and_have_it_back(cluster: Cluster, topic: str, load: SteadyLoad) -> None:
    """Leaders are elected and in-sync sets change in the new incarnation."""
    dead = cluster.partition(topic).leader
    cluster.local.kill(dead)
    wait_until(lambda: cluster.partition(topic).leader not in (dead, -1), "another leads", 10)
    load.wait_for(100)
    cluster.local.restart(dead)
    wait_until(lambda: len(cluster.partition(topic).isrs) == 3, "it is in sync again", 20)


@pytest.mark.parametrize("lose", [emptied, without_its_last_second, put_back_to_an_old_copy])
def test_lost_metadata_are_restored_manually_while_brokers_continue(cluster, unique_topic, tmp_path, yak, lose):
    cluster.create(unique_topic, 3)
    incarnation, secret = cluster.redis.incarnation(), cluster.secret()
    with SteadyLoad(cluster.bootstrap, unique_topic, partitions=3) as load:
        load.wait_for(100)
        before = set(cluster.admin.list_topics(timeout=10).topics)
        lose(cluster, tmp_path)
        before |= set(cluster.admin.list_topics(timeout=10).topics)
        cluster.wait_states("FROZEN")
        load.wait_for(100)
        restore(yak, cluster)
        cluster.wait_states("ACTIVE")
        load.wait_for(100)
        assert cluster.redis.incarnation() == incarnation + 1
        assert secret
        assert cluster.secret() == secret
        assert set(cluster.admin.list_topics(timeout=10).topics) == before
        cluster.create(f"{unique_topic}-after")
        if lose in (emptied, put_back_to_an_old_copy):
            lose_a_leader_and_have_it_back(cluster, unique_topic, load)
    check_complete(load, cluster.bootstrap, unique_topic)
    assert load.slowest_ack_seconds < 10


def test_broker_without_its_copy_of_the_secret_joins_after_a_restore(cluster, unique_topic, yak):
    cluster.create(unique_topic)
    secret = cluster.secret()
    emptied(cluster, Path())
    assert cluster.secret() is None
    restore(yak, cluster)
    cluster.wait_states("ACTIVE")
    follower = next(node for node in NODES if node != cluster.partition(unique_topic).leader)
    cluster.local.kill(follower)
    copy = cluster.secret_files()[NODES.index(follower)]
    copy.unlink()
    wait_until(lambda: follower not in cluster.partition(unique_topic).isrs, "it is out of sync", 20)
    cluster.local.restart(follower)
    wait_until(lambda: len(cluster.partition(unique_topic).isrs) == 3, "it is in sync again", 20)
    assert {path.read_text().strip() for path in cluster.secret_files()} == {secret}
    assert cluster.secret() == secret


def test_restore_without_a_broker_is_refused_until_it_answers(cluster, unique_topic, yak):
    cluster.create(unique_topic)
    incarnation = cluster.redis.incarnation()
    words = ("cluster", "restore", "--redis-url", cluster.redis.url)
    assert "nothing to restore" in yak.run(*words).err
    with SteadyLoad(cluster.bootstrap, unique_topic) as load:
        load.wait_for(50)
        missing = next(node for node in NODES if node != cluster.partition(unique_topic).leader)
        cluster.local.kill(missing)
        wait_until(lambda: missing not in cluster.partition(unique_topic).isrs, "it is out of sync", 20)
        emptied(cluster, Path())
        others = [node for node in NODES if node != missing]
        plan = wait_until(lambda: planned(yak, cluster, others), "both have offered", 20)
        load.wait_for(50)
        assert [each["id"] for each in plan["unknown"]] == [missing]
        assert {"topic": unique_topic, "partition": 0} in plan["at_risk"]
        assert not plan["safe"]
        refused = yak.run(*words, "--yes")
        assert refused.code == 1
        assert "restore-unsafe" in refused.err
        assert f"broker {missing}: it did not answer" in refused.err
        assert cluster.redis.incarnation() == 0
        load.wait_for(50)
        start_frozen(cluster, missing)
        restore(yak, cluster)
        cluster.local.restart(missing)
        cluster.wait_states("ACTIVE")
        assert cluster.redis.incarnation() == incarnation + 1
        wait_until(lambda: len(cluster.partition(unique_topic).isrs) == 3, "it is in sync again", 20)
        load.wait_for(50)
    check_complete(load, cluster.bootstrap, unique_topic)


def start_frozen(cluster: Cluster, node_id: int) -> None:
    """A start waits for the metadata in vain, and leaves an offer."""
    with pytest.raises(StartRefused) as refused:
        cluster.local.restart(node_id)
    assert refused.value.code == "broker-frozen"


def test_accepted_loss_is_restored_and_in_every_log(cluster, unique_topic, yak):
    cluster.create(unique_topic)
    missing = next(node for node in NODES if node != cluster.partition(unique_topic).leader)
    others = [node for node in NODES if node != missing]
    cluster.local.kill(missing)
    emptied(cluster, Path())
    words = ("cluster", "restore", "--redis-url", cluster.redis.url, "--accept-loss")
    wait_until(lambda: planned(yak, cluster, others), "both have offered", 20)
    refused = yak.run(*words)
    assert refused.code == 2
    assert "not-confirmed" in refused.err
    done = yak.run(*words, "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert {"topic": unique_topic, "partition": 0} in done.json["at_risk"]
    wait_until(lambda: list(cluster.states(others).values()) == ["ACTIVE"] * 2, "the others go on", 20)
    assert "metadata-restore-unclean" in cluster.log(others[0])
    cluster.local.restart(missing)
    cluster.wait_states("ACTIVE")
    wait_until(lambda: len(cluster.partition(unique_topic).isrs) == 3, "it is in sync again", 20)


def test_slow_or_absent_redis_stops_no_client_and_freezes_no_broker(cluster, unique_topic):
    cluster.create(unique_topic, 3)
    incarnation = cluster.redis.incarnation()
    with SteadyLoad(cluster.bootstrap, unique_topic, partitions=3) as load:
        load.wait_for(100)
        with redis.Redis.from_url(cluster.redis.url, socket_timeout=10) as client:
            client.eval(BUSY, 0)
        load.wait_for(100)
        started = time.monotonic()
        os.kill(cluster.redis.running.process.pid, signal.SIGKILL)
        while time.monotonic() < started + 5:
            load.wait_for(100)
        cluster.redis.start()
        cluster.wait_states("ACTIVE")
        cluster.create(f"{unique_topic}-after")
        load.wait_for(100)
    check_complete(load, cluster.bootstrap, unique_topic)
    assert load.slowest_ack_seconds < 5
    assert cluster.redis.incarnation() == incarnation
