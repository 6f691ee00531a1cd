"""Messages as confluent-kafka gives them, without a broker."""

from functools import partial
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError


def kafka_message(topic: str, partition: int, offset: int, *, error: int | None = None, **more: Any) -> Any:
    """A message whose methods give these values; or an event, where `error` is its code."""
    given = {
        "topic": topic, "partition": partition, "offset": offset, "timestamp": (1, 1000), "leader_epoch": 0,
        "key": None, "value": None, "headers": None, "error": None if error is None else KafkaError(error),
    } | more  # fmt: skip
    return SimpleNamespace(**{name: partial(given.get, name) for name in given})
