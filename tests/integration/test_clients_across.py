"""What one client writes every other reads, and consumers are served with a group and without."""

import struct
import time

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from support.client_kinds import ALL_CODECS, CLIENT_KINDS, Message

FOREVER = {"retention.ms": "-1"}
MESSAGES = (
    Message(b"value", b"key", (("h", b"1"), ("h", b"2"))),
    Message(None, b"null value"),
    Message(b"no key"),
    Message(bytes(range(256)) * 20, bytes(range(256)), (("bin", bytes(range(256))),)),
)


@pytest.mark.parametrize("codec", ALL_CODECS)
@pytest.mark.parametrize("writer_name", sorted(CLIENT_KINDS))
def test_records_written_by_one_client_are_read_by_every_other_client(module_broker, unique_topic, writer_name, codec):
    clients = {name: make(module_broker.bootstrap) for name, make in CLIENT_KINDS.items()}
    writer = clients[writer_name]
    if codec not in writer.codecs:
        pytest.skip(f"{writer.name} has no {codec} here: its library for it is not installed")
    writer.create_topic(unique_topic, configs=FOREVER)
    writer.produce(unique_topic, MESSAGES, codec=codec)
    readers = [client for client in clients.values() if codec in client.codecs]
    assert len(readers) >= 2
    for reader in readers:
        assert reader.consume(unique_topic, len(MESSAGES)) == list(enumerate(MESSAGES)), reader.name


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_topic_with_a_codec_of_its_own_is_recompressed_for_every_reader(module_broker, unique_topic, codec):
    clients = {name: make(module_broker.bootstrap) for name, make in CLIENT_KINDS.items()}
    writer = clients["confluent-kafka"]
    writer.create_topic(unique_topic, configs={**FOREVER, "compression.type": codec})
    writer.produce(unique_topic, MESSAGES)
    for reader in clients.values():
        if codec in reader.codecs:
            assert reader.consume(unique_topic, len(MESSAGES)) == list(enumerate(MESSAGES)), reader.name
    folders = [path for path in module_broker.data_dir.iterdir() if path.name == f"{unique_topic}-0"]
    (log,) = folders[0].glob("*.log")
    attributes = struct.unpack_from(">h", log.read_bytes(), 21)[0]
    assert attributes & 7 == ALL_CODECS.index(codec)


def test_a_consumer_with_a_group_that_only_assigns_sees_no_error(module_broker, unique_topic):
    CLIENT_KINDS["confluent-kafka"](module_broker.bootstrap).create_topic(unique_topic, configs=FOREVER)
    errors: list[KafkaError] = []
    consumer = Consumer(
        {
            "bootstrap.servers": module_broker.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "error_cb": errors.append,
        }
    )
    try:
        consumer.assign([TopicPartition(unique_topic, 0, 0)])
        producer = Producer({"bootstrap.servers": module_broker.bootstrap})
        producer.produce(unique_topic, b"x", partition=0)
        producer.flush(10)
        found = []
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None, message.error()
                found.append(message.value())
                deadline = time.monotonic() + 3  # in which an error or a second record would come
        assert found == [b"x"]
        assert errors == []
    finally:
        consumer.close()


def test_the_log_has_no_bug_lines(module_broker):
    log = module_broker.log()
    assert "Traceback" not in log
    assert " ERROR " not in log
