"""Kafka tests as a Python project has them. KAFKA_BOOTSTRAP_SERVERS is the only thing that changes with the cluster."""

import json
import os
import urllib.request
import uuid

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
YAK_HTTP = os.environ.get("YAK_HTTP", "http://localhost:8080")


@pytest.fixture
def topic():
    name = f"orders-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_topics([NewTopic(name, 1)])[name].result(30)
    return name


@pytest.fixture
def send(topic):
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "acks": "all"})

    def send_all(*values):
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(30) == 0

    return send_all


def consume(topic, group, count):
    """Values that a group consumes, and commits."""
    settings = {"bootstrap.servers": BOOTSTRAP, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.subscribe([topic])
    values = [message.value().decode() for message in consumer.consume(count, timeout=30)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def failover(topic):
    """Move the leadership of a topic's partitions to other brokers, in one call."""
    urllib.request.urlopen(f"{YAK_HTTP}/api/failover", json.dumps({"topic": topic}).encode()).close()


def test_produced_records_are_read_back(topic, send):
    send("one", "two", "three")
    assert consume(topic, topic, 3) == ["one", "two", "three"]


def test_group_continues_after_its_commit(topic, send):
    send("one", "two")
    assert consume(topic, topic, 2) == ["one", "two"]
    send("three")
    assert consume(topic, topic, 1) == ["three"]


def test_nothing_is_lost_in_a_failover(topic, send):
    send("before")
    failover(topic)
    send("after")
    assert consume(topic, topic, 2) == ["before", "after"]
