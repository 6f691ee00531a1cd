"""Topics made while one of three registered brokers is down: all replicas are placed, and the dead broker joins later."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from support.waiting import wait_until

from tests.clusters import running_cluster
from yak.local.cluster import LocalCluster, UpSettings

OFFSETS = "__consumer_offsets"
CONFIGS = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "num.partitions=3",
    "offsets.topic.num.partitions=4",
    "group.initial.rebalance.delay.ms=0",
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three brokers that have no topic yet, of which the third was killed and is fenced."""
    settings = UpSettings(port=0, brokers=3, leaders=3, configs=CONFIGS)
    with running_cluster(tmp_path / "cluster", settings) as made:
        bootstrap = made.status().bootstrap
        made.kill(3)
        wait_until(lambda: set(admin(bootstrap).list_topics(timeout=10).brokers) == {1, 2}, "broker 3 is fenced")
        yield made


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def in_sync(bootstrap: str) -> dict[str, set[tuple[int, ...]]]:
    """Of each topic the in-sync sets that its partitions have."""
    topics = admin(bootstrap).list_topics(timeout=10).topics
    return {
        name: {tuple(sorted(each.isrs)) for each in topic.partitions.values() if len(each.replicas) == 3}
        for name, topic in topics.items()
    }


def test_topics_and_groups_with_a_broker_down_are_made_and_the_broker_joins_them_later(cluster: LocalCluster) -> None:
    bootstrap = cluster.status().bootstrap
    asked = admin(bootstrap)
    asked.create_topics([NewTopic("orders", 2, 3)])["orders"].result(20)
    asked.create_partitions([NewPartitions("orders", 4)])["orders"].result(20)

    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in range(40):
        producer.produce("orders", f"{number}", partition=number % 4, on_delivery=lambda e, _: failed.append(e))
    producer.produce("made-by-its-name", "x", on_delivery=lambda e, _: failed.append(e))
    assert producer.flush(30) == 0
    assert failed == [None] * 41

    assert consumed(bootstrap) == {f"{number}" for number in range(40)}
    assert in_sync(bootstrap) == {name: {(1, 2)} for name in ("orders", "made-by-its-name", OFFSETS)}

    cluster.restart(3)
    whole = {name: {(1, 2, 3)} for name in ("orders", "made-by-its-name", OFFSETS)}
    wait_until(lambda: in_sync(bootstrap) == whole, "broker 3 has all its replicas")
    cluster.kill(1)
    wait_until(lambda: in_sync(bootstrap)["orders"] == {(2, 3)}, "the others go on")
    assert consumed(bootstrap) == set(), "the group's offsets are on broker 2 and 3"


def consumed(bootstrap: str) -> set[str]:
    """What a member of the group reads until nothing more comes, and commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    found: set[str] = set()
    ended: set[int] = set()
    deadline = time.monotonic() + 40
    while len(ended) < 4:
        assert time.monotonic() < deadline, f"read {len(found)} records, ends of {sorted(ended)}"
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            found.add(message.value().decode())
        elif message.error().name() == "_PARTITION_EOF":
            ended.add(message.partition())
    if found:
        consumer.commit(asynchronous=False)
    consumer.close()
    return found
