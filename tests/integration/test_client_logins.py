"""The Python clients log in by each mechanism that they have, with TLS and without, produce and consume.

franz-go and Java: `programs/test_franz_go_logins.py`, `programs/test_java_logins.py`. docs/security.md has the table.
"""

import asyncio
import re
import ssl
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import confluent_kafka
import kafka
import kafka.net.sasl.oauth
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.login_broker import OAUTHBEARER, PASSWORDS, PROTOCOLS, LoginBroker, access_token
from test_logins import ADMIN, PASSWORD

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30.0
MECHANISMS = (*PASSWORDS, OAUTHBEARER)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with LoginBroker(tmp_path_factory.mktemp("logins")) as started:
        yield started


class _KafkaPythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):
    def token(self) -> str:
        return access_token()


class _AiokafkaTokens(aiokafka.abc.AbstractTokenProvider):
    async def token(self) -> str:
        return access_token()


def librdkafka_trip(broker: LoginBroker, protocol: str, mechanism: str, topic: str) -> bytes:
    login: dict[str, Any] = {"sasl.username": ADMIN, "sasl.password": PASSWORD}
    if mechanism == OAUTHBEARER:
        login = {"oauth_cb": lambda _config: (access_token(), time.time() + 3600)}
    login |= {"bootstrap.servers": broker.addresses[protocol], "security.protocol": protocol}
    login |= {"sasl.mechanism": mechanism, "ssl.ca.location": str(broker.authority), "log_level": 0}
    producer = Producer(login)
    producer.produce(topic, b"hello")
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({**login, "group.id": "none"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    record = consumer.poll(SECONDS)
    consumer.close()
    assert record is not None
    return bytes(record.value())


def _python_login(broker: LoginBroker, protocol: str, mechanism: str) -> dict[str, Any]:
    login: dict[str, Any] = {"bootstrap_servers": broker.addresses[protocol], "security_protocol": protocol}
    login |= {"sasl_mechanism": mechanism, "ssl_context": ssl.create_default_context(cafile=broker.authority)}
    if mechanism != OAUTHBEARER:
        login |= {"sasl_plain_username": ADMIN, "sasl_plain_password": PASSWORD}
    return login


def kafka_python_trip(broker: LoginBroker, protocol: str, mechanism: str, topic: str) -> bytes:
    login = _python_login(broker, protocol, mechanism)
    if mechanism == OAUTHBEARER:
        login["sasl_oauth_token_provider"] = _KafkaPythonTokens()
    producer = kafka.KafkaProducer(**login)
    producer.send(topic, b"hello").get(SECONDS)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **login)
    value = bytes(next(iter(consumer)).value)
    consumer.close()
    return value


def aiokafka_trip(broker: LoginBroker, protocol: str, mechanism: str, topic: str) -> bytes:
    async def trip() -> bytes:
        login = _python_login(broker, protocol, mechanism)
        if mechanism == OAUTHBEARER:
            login["sasl_oauth_token_provider"] = _AiokafkaTokens()
        async with aiokafka.AIOKafkaProducer(**login) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **login) as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), SECONDS)).value)

    return asyncio.run(trip())


TRIPS = {"librdkafka": librdkafka_trip, "kafka-python": kafka_python_trip, "aiokafka": aiokafka_trip}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", TRIPS)
def test_client_logs_in_produces_and_consumes(broker: LoginBroker, client: str, mechanism: str, protocol: str) -> None:
    topic = f"{client}-{mechanism}-{protocol}-{uuid.uuid4()}"
    assert TRIPS[client](broker, protocol, mechanism, topic) == b"hello"


def test_table_of_the_docs_has_the_versions_that_log_in_here() -> None:
    sys.path.append(str(ROOT / "benchmarks"))
    from versus.kafka_jars import KAFKA_VERSION

    franz_go = re.search(r"franz-go v(\S+)", (ROOT / "tests/integration/programs/franz_go/go.mod").read_text())
    assert franz_go is not None
    for name, version in {
        f"librdkafka (`confluent-kafka` {confluent_kafka.__version__})": confluent_kafka.libversion()[0],
        "kafka-python": kafka.__version__,
        "aiokafka": aiokafka.__version__,
        "Kafka's Java clients": KAFKA_VERSION,
        "franz-go": franz_go[1],
    }.items():
        assert f"| {name} | {version} | works |" in (ROOT / "docs/security.md").read_text()
