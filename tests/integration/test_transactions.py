"""Transactions of unmodified clients: commit, abort, a fenced zombie, offsets, and a coordinator that is killed."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from tests.clusters import running_cluster
from yak.local.cluster import LocalCluster, UpSettings

CONFIGS = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "group.initial.rebalance.delay.ms=0",
)


def transactional(bootstrap: str, name: str = "tx", **configs: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 20_000,
            "log_level": 0,
            **configs,
        }
    )


def values(bootstrap: str, topic: str, count: int, *, isolation: str = "read_committed") -> list[str]:
    """The topic's values, at least `count` of them, and what comes within a second after these."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{time.monotonic_ns()}",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    found: list[str] = []
    deadline = time.monotonic() + 30
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None and len(found) >= count:
                break
            if message is not None and not message.error():
                found.append(message.value().decode())
    finally:
        consumer.close()
    return found


def create(bootstrap: str, *topics: str, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, 2, replicas) for topic in topics]).values():
        future.result(20)


@pytest.mark.parametrize("padding_bytes", [0, 90_000])  # the second are so large that the kernel sends them
def test_committed_records_are_read_and_aborted_ones_are_not(module_broker, unique_topic, padding_bytes):
    padding = "." * padding_bytes
    bootstrap = module_broker.bootstrap
    create(bootstrap, unique_topic)
    producer = transactional(bootstrap, unique_topic)
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(unique_topic, f"{number}-{partition}{padding}", partition=partition)
        producer.flush(10)
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    committed = sorted(f"{number}-{partition}{padding}" for number in (0, 2, 4) for partition in (0, 1))
    assert sorted(values(bootstrap, unique_topic, 6)) == committed
    assert len(values(bootstrap, unique_topic, 12, isolation="read_uncommitted")) == 12


def test_a_zombie_is_fenced_and_its_open_transaction_is_aborted(module_broker, unique_topic):
    bootstrap = module_broker.bootstrap
    create(bootstrap, unique_topic)
    zombie = transactional(bootstrap, unique_topic)
    zombie.init_transactions(20)
    zombie.begin_transaction()
    zombie.produce(unique_topic, "zombie", partition=0)
    zombie.flush(10)
    successor = transactional(bootstrap, unique_topic)
    successor.init_transactions(20)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(20)
    assert fenced.value.args[0].fatal()
    successor.begin_transaction()
    successor.produce(unique_topic, "successor", partition=0)
    successor.commit_transaction(20)
    assert values(bootstrap, unique_topic, 1) == ["successor"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(module_broker, unique_topic):
    bootstrap, output = module_broker.bootstrap, f"{unique_topic}-out"
    create(bootstrap, unique_topic, output)
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        plain.produce(unique_topic, f"{number}", partition=0)
    plain.flush(10)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique_topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([unique_topic])
    producer = transactional(bootstrap, unique_topic)
    producer.init_transactions(20)
    try:
        for end in (producer.abort_transaction, producer.commit_transaction):
            messages = consumer.consume(5, 20)
            assert len(messages) == 5
            producer.begin_transaction()
            for message in messages:
                producer.produce(output, message.value(), partition=0)
            place = TopicPartition(unique_topic, 0, messages[-1].offset() + 1)
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 20)
            end(20)
        (committed,) = consumer.committed([TopicPartition(unique_topic, 0)], 20)
        assert committed.offset == 10
    finally:
        consumer.close()
    assert values(bootstrap, output, 5) == ["5", "6", "7", "8", "9"]


def test_aiokafka_commits_a_transaction(module_broker, unique_topic):
    create(module_broker.bootstrap, unique_topic)

    async def commit() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=module_broker.bootstrap, transactional_id=unique_topic)
        await producer.start()
        try:
            for number in range(3):
                async with producer.transaction():
                    await producer.send_and_wait(unique_topic, f"{number}".encode(), partition=0)
        finally:
            await producer.stop()

    asyncio.run(commit())
    assert values(module_broker.bootstrap, unique_topic, 3) == ["0", "1", "2"]


def test_kafka_python_commits_and_aborts(module_broker, unique_topic):
    create(module_broker.bootstrap, unique_topic)
    producer = KafkaProducer(bootstrap_servers=module_broker.bootstrap, transactional_id=unique_topic)
    try:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send(unique_topic, f"{number}".encode(), partition=0).get(10)
            if number == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    finally:
        producer.close(timeout=10)
    assert values(module_broker.bootstrap, unique_topic, 3) == ["0", "2", "3"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    settings = UpSettings(port=0, brokers=3, leaders=3, configs=CONFIGS)
    with running_cluster(tmp_path / "cluster", settings) as made:
        yield made


def test_transactions_survive_kills_of_the_coordinator_and_of_leaders(cluster):
    bootstrap = cluster.status().bootstrap
    create(bootstrap, "a", "b", replicas=3)
    producer = transactional(bootstrap)
    producer.init_transactions(30)
    committed: list[str] = []
    for number in range(30):
        if number in (8, 16, 24):
            cluster.kill(number // 8)
        if number in (12, 20, 28):
            cluster.restart(number // 8)
        producer.begin_transaction()
        try:
            for topic, partition in (("a", 0), ("a", 1), ("b", 0)):
                producer.produce(topic, f"{number}", partition=partition)
            producer.commit_transaction(60)
            committed.append(f"{number}")
        except KafkaException:
            producer.abort_transaction(60)
    assert len(committed) >= 25
    expected = sorted([*committed, *committed])
    assert sorted(values(bootstrap, "a", len(expected))) == expected
    assert sorted(values(bootstrap, "b", len(committed))) == sorted(committed)


def test_a_transaction_whose_coordinator_forgot_it_hangs_until_it_is_aborted(broker, yak):
    broker.start()
    create(broker.bootstrap, "orders")
    producer = transactional(broker.bootstrap)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"never committed", partition=1)
    assert producer.flush(20) == 0
    plain = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    plain.produce("orders", b"behind it", partition=1)
    assert plain.flush(20) == 0
    address = ("-b", broker.bootstrap)

    def hanging() -> list[dict[str, Any]]:
        return json.loads(yak.run("transactions", "hanging", "--idle", "0s", "-o", "json", *address).out)

    assert hanging() == []
    broker.stop()
    for log in broker.data_dir.glob("**/__transaction_state-*"):
        shutil.rmtree(log)
    broker.restart()
    (found,) = hanging()
    assert (found["topic"], found["partition"], found["start_offset"]) == ("orders", 1, 0)
    assert values(broker.bootstrap, "orders", 0) == []

    where = ("--topic", "orders", "--partition", "1", "--start-offset", "0")
    assert yak.run("transactions", "abort", *where, "--yes", *address).code == 0
    assert values(broker.bootstrap, "orders", 1) == ["behind it"]
    assert hanging() == []
