"""Hundreds of empty partitions: made, served, started again, with bounded file handles and memory."""

import psutil
from confluent_kafka import Producer
from support.client_kinds import Confluent, Message
from support.loads import read_all
from support.raw import assert_no_bugs

PARTITIONS = 500
HANDLES_MAX = 1024
RSS_BYTES_MAX = 200 * 1024 * 1024


def test_five_hundred_partitions_take_few_handles_over_a_stop_and_a_kill(broker, unique_topic):
    broker.start()
    client = Confluent(broker.bootstrap)
    client.create_topic(unique_topic, partitions=PARTITIONS, configs={"retention.ms": "-1"})
    check(broker, unique_topic, 0)
    broker.restart()
    check(broker, unique_topic, 1)
    broker.kill9()
    broker.restart()
    check(broker, unique_topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    for partition in range(PARTITIONS):
        producer.produce(unique_topic, b"all", partition=partition)
    assert producer.flush(60) == 0
    for partition in range(10, PARTITIONS, 50):
        assert read_all(broker.bootstrap, unique_topic, partition) == [b"all"]
    assert psutil.Process(broker.pid).num_fds() < 3 * PARTITIONS + HANDLES_MAX
    assert_no_bugs(broker)


def check(broker, topic: str, already: int) -> None:
    """All are there, the first, the last and one between take records, and the process is small."""
    client = Confluent(broker.bootstrap)
    assert client.topics()[topic] == PARTITIONS
    for partition in (0, 251, PARTITIONS - 1):
        assert client.produce(topic, [Message(b"%d" % already)], partition=partition) == [already]
        assert read_all(broker.bootstrap, topic, partition) == [b"%d" % number for number in range(already + 1)]
    process = psutil.Process(broker.pid)
    assert process.num_fds() < HANDLES_MAX
    assert process.memory_info().rss < RSS_BYTES_MAX
