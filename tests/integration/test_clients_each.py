"""What each unmodified client library can do alone: topics, configs, records of every codec, offsets, seeking by time."""

import time

import pytest
from support.client_kinds import ALL_CODECS, CLIENT_KINDS, ClientKind, Message

FOREVER = {"retention.ms": "-1"}
T0 = 1_700_000_000_000
MESSAGES = (
    Message(b"plain", b"key", timestamp_ms=T0),
    Message(b"no key", timestamp_ms=T0 + 10),
    Message(None, b"null value", timestamp_ms=T0 + 20),
    Message(b"", b"", timestamp_ms=T0 + 30),
    Message(b"headers", b"h", (("a", b"1"), ("a", b"2"), ("empty", b""), ("bytes", bytes(range(256)))), T0 + 40),
    Message(bytes(range(256)) * 40, bytes(range(256)), timestamp_ms=T0 + 50),
    Message("snowman \N{SNOWMAN}".encode(), "schlüssel".encode(), (("näme", b"x"),), T0 + 60),
)


@pytest.fixture(params=sorted(CLIENT_KINDS))
def client(request, module_broker) -> ClientKind:
    return CLIENT_KINDS[request.param](module_broker.bootstrap)


def test_a_topic_is_made_found_widened_and_deleted(client, unique_topic):
    client.create_topic(unique_topic, partitions=3, configs=FOREVER)
    assert client.topics()[unique_topic] == 3
    client.create_partitions(unique_topic, 5)
    assert client.topics()[unique_topic] == 5
    assert client.produce(unique_topic, [Message(b"in the new one")], partition=4) == [0]
    client.delete_topic(unique_topic)
    assert unique_topic not in client.topics()


def test_a_topic_made_again_under_its_old_name_is_empty(client, unique_topic):
    client.create_topic(unique_topic)
    client.produce(unique_topic, [Message(b"old", timestamp_ms=now_ms())])
    client.delete_topic(unique_topic)
    client.create_topic(unique_topic)
    assert client.watermarks(unique_topic) == (0, 0)
    assert client.produce(unique_topic, [Message(b"new", timestamp_ms=now_ms())]) == [0]


def test_configs_are_described_and_altered(client, unique_topic):
    client.create_topic(unique_topic, configs={"retention.ms": "123456789", "segment.bytes": "2097152"})
    before = client.configs_of(unique_topic)
    assert before["retention.ms"] == "123456789"
    assert before["segment.bytes"] == "2097152"
    assert before["cleanup.policy"] == "delete"
    client.alter_config(unique_topic, "retention.ms", "-1")
    assert client.configs_of(unique_topic)["retention.ms"] == "-1"


def test_the_cluster_is_described(client, module_broker):
    cluster = client.describe_cluster()
    assert len(cluster.cluster_id) == 22
    assert cluster.controller_id == 1
    assert cluster.brokers == {1: module_broker.bootstrap}


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("codec", ALL_CODECS)
def test_records_come_back_byte_for_byte(client, unique_topic, codec, idempotent):
    if codec not in client.codecs:
        pytest.skip(f"{client.name} has no {codec} here: its library for it is not installed")
    client.create_topic(unique_topic, configs=FOREVER)
    offsets = client.produce(unique_topic, MESSAGES, codec=codec, idempotent=idempotent)
    assert offsets == list(range(len(MESSAGES)))
    assert client.consume(unique_topic, len(MESSAGES)) == list(enumerate(MESSAGES))


def test_reading_starts_at_any_offset(client, unique_topic):
    client.create_topic(unique_topic, configs=FOREVER)
    client.produce(unique_topic, MESSAGES)
    assert client.consume(unique_topic, 3, offset=4) == list(enumerate(MESSAGES))[4:]


def test_offsets_are_found_by_time(client, unique_topic):
    client.create_topic(unique_topic, configs=FOREVER)
    client.produce(unique_topic, MESSAGES)
    assert client.offset_for_time(unique_topic, 0) == 0
    assert client.offset_for_time(unique_topic, T0 + 20) == 2
    assert client.offset_for_time(unique_topic, T0 + 21) == 3
    assert client.offset_for_time(unique_topic, T0 + 60) == 6
    assert client.offset_for_time(unique_topic, T0 + 61) is None
    found = client.offset_for_time(unique_topic, T0 + 35)
    assert found == 4
    assert client.consume(unique_topic, 3, offset=found) == list(enumerate(MESSAGES))[4:]


def test_offsets_are_found_by_time_inside_a_compressed_batch(client, unique_topic):
    client.create_topic(unique_topic, configs=FOREVER)
    client.produce(unique_topic, MESSAGES, codec="gzip")
    assert client.offset_for_time(unique_topic, T0 + 35) == 4


def test_deleted_records_are_not_readable_and_the_rest_stays(client, unique_topic):
    client.create_topic(unique_topic, configs=FOREVER)
    client.produce(unique_topic, MESSAGES)
    assert client.delete_records(unique_topic, 0, 3) == 3
    assert client.watermarks(unique_topic) == (3, len(MESSAGES))
    assert client.consume(unique_topic, 4, offset=3) == list(enumerate(MESSAGES))[3:]


def test_a_megabyte_goes_through(client, unique_topic):
    client.create_topic(unique_topic, configs=FOREVER)
    big = Message(bytes(range(256)) * 3900, b"big", timestamp_ms=T0)
    client.produce(unique_topic, [big])
    assert client.consume(unique_topic, 1) == [(0, big)]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
