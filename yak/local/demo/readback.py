"""Reads topics from the log start to the end as of the start of the call."""

import time
from collections.abc import Callable, Hashable
from typing import Any

from yak.errors import NothingInTime, YakError
from yak.local.demo.ledger import Stored


def read_back(
    bootstrap: str, topics: tuple[str, ...], content_of: Callable[[str, bytes], Hashable], *, timeout_seconds: float
) -> dict[str, list[Stored]]:
    """Every record of each topic, in offset order within a partition.

    Raises NothingInTime when the end is not reached in the given time, YakError for a broker's error.
    """
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "yak-demo-reads-without-group",
            "client.id": "yak-demo-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
            "log_level": 0,
        }
    )
    try:
        ends = _ends(consumer, topics, timeout_seconds)
        return _read_to(consumer, ends, topics, content_of, timeout_seconds)
    finally:
        consumer.close()


def _ends(consumer: Any, topics: tuple[str, ...], timeout_seconds: float) -> dict[tuple[str, int], tuple[int, int]]:
    from confluent_kafka import TopicPartition

    metadata = consumer.list_topics(timeout=timeout_seconds).topics
    ends: dict[tuple[str, int], tuple[int, int]] = {}
    for topic in topics:
        if topic not in metadata:
            continue
        for partition in metadata[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_seconds)
            ends[topic, partition] = (low, high)
    return ends


def _read_to(
    consumer: Any,
    ends: dict[tuple[str, int], tuple[int, int]],
    topics: tuple[str, ...],
    content_of: Callable[[str, bytes], Hashable],
    timeout_seconds: float,
) -> dict[str, list[Stored]]:
    from confluent_kafka import TopicPartition

    found: dict[str, list[Stored]] = {topic: [] for topic in topics}
    left = {place for place, (low, high) in ends.items() if high > low}
    consumer.assign([TopicPartition(topic, partition, ends[topic, partition][0]) for topic, partition in sorted(left)])
    deadline = time.monotonic() + timeout_seconds
    while left:
        if time.monotonic() > deadline:
            raise NothingInTime(
                "demo-read-back",
                f"the end of {len(left)} partitions was not reached in {timeout_seconds:.0f} s",
                why=", ".join(f"{topic}-{partition}" for topic, partition in sorted(left)),
            )
        for message in consumer.consume(num_messages=1_000, timeout=0.1):
            if message.error() is not None:
                raise YakError("demo-read-back", "reading back failed", why=str(message.error().str()))
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            found[topic].append(
                Stored(message.key() or b"", content_of(topic, message.value() or b""), partition, offset)
            )
            if offset + 1 >= ends[topic, partition][1]:
                left.discard((topic, partition))
    return found
