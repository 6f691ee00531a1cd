"""A record with a header name that is not UTF-8, from librdkafka's mock broker: no record behind it is lost."""

import time

import pytest
from confluent_kafka import Producer

import yak
from yak.client.raw_connection import RawConnection
from yak.protocol.record_writer import build_batch
from yak.protocol.versions import PRODUCE

TOPIC = "names"
BEFORE = 300
"""Records before the strange one: the interpreter calls the binding in another way once it has done so often."""
VALUES = [*(b"%d" % number for number in range(BEFORE)), b"strange", b"last"]
HEADERS = {BEFORE: [(b"\xff\xfe", b"a"), (b"known", None), (b"caf\xe9", None)]}


@pytest.fixture(scope="module")
def servers():
    """The mock broker with the records."""
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    broker = next(iter(cluster.list_topics(TOPIC, timeout=10).brokers.values()))
    address = f"{broker.host}:{broker.port}"
    batch = build_batch([(None, value) for value in VALUES], int(time.time() * 1000), headers=HEADERS)
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
    fields = {"transactional_id": None, "acks": -1, "timeout": 5_000, "topic_data": [data]}
    with RawConnection(address, timeout_s=5.0) as connection:
        connection.call((PRODUCE, 9), fields)
    yield address
    del cluster


def test_consumer_after_a_header_name_that_is_no_utf8_returns_the_following_records(servers):
    partition = yak.TopicPartition(TOPIC, 0)
    with yak.Consumer(servers, values=yak.BYTES) as consumer:
        consumer.assign({partition: "earliest"})
        messages = []
        while len(messages) < len(VALUES):
            messages += consumer.poll(10.0)
        assert [message.value for message in messages] == VALUES
        assert messages[-2].headers == [("\ufffd", b"a"), ("known", None), ("\ufffd", None)]
        assert messages[-1].headers == []
        assert consumer.position(partition) == len(VALUES)
