"""The client library of a transactional client: librdkafka, or one that a caller of `ChaosRun` brings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Library:
    """Makes one client's producers and consumers, by a config of librdkafka, with the methods of confluent_kafka's.

    `kill` ends them where they run in a process of their own. A call under way then fails with a fatal error.
    """

    producer: Callable[[dict[str, Any]], Any]
    consumer: Callable[[dict[str, Any]], Any]
    kill: Callable[[], None]


def librdkafka() -> Library:
    """librdkafka in this process, which no caller can kill."""
    import confluent_kafka

    return Library(confluent_kafka.Producer, confluent_kafka.Consumer, lambda: None)
