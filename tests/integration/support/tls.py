"""Certificates for brokers and clients of a test, and librdkafka's settings for them."""

import contextlib
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from yak.security.certificates import create_certificates

PATIENCE_S = 20.0


class Certificates:
    """An authority in a folder with broker.pem and alice.pem."""

    def __init__(
        self,
        folder: Path,
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        days: int = 90,
        days_ago: int = 0,
    ) -> None:
        self.folder = folder
        made = datetime.now(UTC) - timedelta(days=days_ago)
        create_certificates(str(folder), list(hosts), days, ["alice"], force=False, now=made)

    def renew(self, *, hosts: tuple[str, ...] = ("localhost", "127.0.0.1")) -> None:
        """Replace broker.pem, by the same authority."""
        create_certificates(str(self.folder), list(hosts), 90, [], force=True, now=datetime.now(UTC))

    def configs(self, **more: object) -> dict[str, object]:
        """Of a broker, for `BrokerHarness.start`."""
        files = {"ssl_keystore_location": self.folder / "broker.pem", "ssl_truststore_location": self.folder / "ca.pem"}
        return {"listeners": "SSL://127.0.0.1:0", **files, **more}

    def client(self, bootstrap: str, *, certificate: Path | None = None, **more: object) -> dict[str, Any]:
        """librdkafka's settings."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            **({} if certificate is None else {"ssl.certificate.location": str(certificate)}),
            **({} if certificate is None else {"ssl.key.location": str(certificate)}),
            **{name.replace("_", "."): value for name, value in more.items()},
        }


def produce(config: dict[str, Any], topic: str, values: list[bytes]) -> None:
    """Produce and wait for every acknowledgement. Raises KafkaException for the first record without one."""
    failures: list[Any] = []
    producer = Producer({**config, "message.timeout.ms": int(PATIENCE_S * 1000), "message.max.bytes": 20_000_000})
    for value in values:
        while True:
            try:
                producer.produce(
                    topic, value, on_delivery=lambda error, _record: failures.append(error) if error else None
                )
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(PATIENCE_S)
    if failures:
        raise KafkaException(failures[0])
    assert not left


def consume(config: dict[str, Any], topic: str, count: int) -> list[bytes]:
    """The first `count` values of a topic."""
    settings = {
        **config,
        "group.id": str(uuid.uuid4()),
        "auto.offset.reset": "earliest",
        "fetch.message.max.bytes": 20_000_000,
    }
    consumer = Consumer(settings)
    found: list[bytes] = []
    with contextlib.closing(consumer):
        consumer.subscribe([topic])
        while len(found) < count:
            records = consumer.consume(count - len(found), PATIENCE_S)
            assert records, f"{len(found)} of {count} records came"
            for record in records:
                assert not record.error(), record.error()
                found.append(record.value())
    return found


def failure(config: dict[str, Any]) -> str:
    """Why a client cannot connect, in librdkafka's words."""
    reasons: list[str] = []
    producer = Producer({**config, "error_cb": lambda error: reasons.append(error.str()), "log_level": 0})
    deadline = time.monotonic() + PATIENCE_S
    while not reasons:
        assert time.monotonic() < deadline, "it did not fail"
        producer.poll(0.1)
    with contextlib.suppress(KafkaException):
        producer.list_topics(timeout=0.5)
        raise AssertionError("it is connected")
    return "; ".join(reasons)
