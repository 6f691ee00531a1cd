"""Unmodified clients with a broker that answers as an older Kafka: produce, consume, groups, and what is refused."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from support.raw import Closed, RawClient

from yak.broker.apis import TABLE
from yak.broker.apis.quorum import BETWEEN_BROKERS, OF_A_QUORUM
from yak.config.kafka_releases import max_versions

RELEASES = ("2.0", "3.5")
VALUES = [b"one", b"two", b"three"]
PATIENCE_S = 30.0


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    return request.param


@pytest.fixture(scope="module")
def old_broker(borrowed_broker, release):
    with borrowed_broker() as harness:
        yield harness.start(yak_as_kafka=release, num_partitions=1, group_initial_rebalance_delay_ms=0)


def with_kafka_python(bootstrap, topic):
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for value in VALUES:
        producer.send(topic, value).get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest")
    found = [next(consumer).value for _ in VALUES]
    consumer.commit()
    consumer.close()
    again = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=topic, consumer_timeout_ms=500)
    left = [record.value for record in again]
    again.close()
    return found, left


def with_librdkafka(bootstrap, topic, **more):
    failed = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **more})
    for value in VALUES:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest", **more}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    found = [message.value() for message in consumer.consume(len(VALUES), PATIENCE_S)]
    consumer.commit(asynchronous=False)
    consumer.close()
    again = Consumer(settings)
    again.subscribe([topic])
    left = [message.value() for message in again.consume(1, 3)]
    again.close()
    return found, left


async def with_aiokafka(bootstrap, topic):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for value in VALUES:
            await producer.send_and_wait(topic, value)
    settings = {"bootstrap_servers": bootstrap, "group_id": topic, "enable_auto_commit": False}
    async with AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
        found = [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in VALUES]
        await consumer.commit()
    async with AIOKafkaConsumer(topic, **settings) as again:
        left = await again.getmany(timeout_ms=500)
    return found, [record.value for records in left.values() for record in records]


CLIENTS = {
    "kafka-python": with_kafka_python,
    "librdkafka": with_librdkafka,
    "librdkafka with a fallback": lambda bootstrap, topic: with_librdkafka(
        bootstrap, topic, **{"broker.version.fallback": "0.11.0"}
    ),
    "aiokafka": lambda bootstrap, topic: asyncio.run(with_aiokafka(bootstrap, topic)),
}


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_produce_consume_and_group_commits(old_broker, unique_topic, client):
    found, left = CLIENTS[client](old_broker.bootstrap, unique_topic)
    assert found == VALUES
    assert left == []


def test_raw_api_versions_equals_the_table(old_broker, release):
    limits = max_versions(release)
    wanted = {
        key: min(api.VERSIONS.stop - 1, limits[key])
        for key, api in TABLE.items()
        if key in limits and limits[key] >= api.VERSIONS.start and key not in BETWEEN_BROKERS | OF_A_QUORUM
    }
    with RawClient(old_broker.port) as client:
        answer = client.ask(18, 0)
    assert {int(each.api_key): int(each.max_version) for each in answer.api_keys} == wanted


def test_version_above_the_release_closes_the_connection_and_the_broker_continues(old_broker, release):
    fields = {"topics": [], "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    highest = max_versions(release)[3]
    with RawClient(old_broker.port) as client:
        assert client.ask(
            3, highest, **(fields if highest >= 8 else {"topics": [], "allow_auto_topic_creation": False})
        )
    with RawClient(old_broker.port) as client, pytest.raises(Closed):
        client.ask(3, 13, **fields)
    with RawClient(old_broker.port) as client:
        assert client.ask(18, 0)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["serve", "--port", "0"], "yak.as.kafka=1.1 cannot be used."),
        (["up", "-d"], "--as-kafka 1.1 is no Kafka release"),
    ],
)
def test_an_unknown_release_is_refused_before_a_broker_starts(yak, command, message):
    run = yak.run(*command, "--as-kafka", "1.1")
    assert run.code == 2
    assert run.err.startswith(f"error[bad-config]: {message}")
    assert "2.0" in run.err
    assert "Traceback" not in run.err


def test_up_keeps_the_release_over_a_restart_and_yaks_commands_work(yak):
    assert yak.run("up", "-d", "--as-kafka", "2.0", "--port", "0", "--seed-topic", "orders").code == 0
    address = yak.run("up", "--status", "-o", "json").json["brokers"][0]["address"]
    for _ in range(2):
        with RawClient(int(address.rpartition(":")[2])) as client:
            highest = {int(each.api_key): int(each.max_version) for each in client.ask(18, 0).api_keys}
        assert highest[3] == max_versions("2.0")[3]
        assert yak.run("topics", "describe", "orders").code == 0
        assert yak.run("isr", "orders").code == 0
        assert yak.run("node", "restart", "1").code == 0
    assert yak.run("down").code == 0
