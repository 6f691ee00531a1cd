"""Clients that begin a transaction hear at once that there are none; a retriable refusal would keep them waiting."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

PATIENCE_SECONDS = 20.0
"""More than a refusal takes, and less than the time after which the clients give up by themselves."""


def librdkafka(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(3 * PATIENCE_SECONDS)
    error = refused.value.args[0]
    assert (error.name(), error.fatal()) == ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", True)
    assert "this version of YAK does not support transactions" in error.str()


def aiokafka(bootstrap: str) -> None:
    async def begin() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(TransactionalIdAuthorizationFailed):
        asyncio.run(begin())


def kafka_python(bootstrap: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id="t", max_block_ms=int(3_000 * PATIENCE_SECONDS)
    )
    try:
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            producer.init_transactions()
    finally:
        producer.close(timeout=1)


@pytest.mark.parametrize("begin", [librdkafka, aiokafka, kafka_python])
def test_a_transactional_producer_is_refused_for_good(begin: Callable[[str], None], module_broker: Any) -> None:
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            begin(module_broker.bootstrap)
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "the client still asks for a coordinator"
    if ended[0] is not None:
        raise ended[0]
