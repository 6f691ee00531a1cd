"""Topics full of records, written as fast as librdkafka can."""

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from versus.loads import send

CHUNK = 10_000


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """One replica a partition; retention never."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})])[topic].result(30)


def fill(bootstrap: str, topic: str, partitions: int, records: int, size_bytes: int, **more: object) -> None:
    """`records` values of `size_bytes`, spread evenly; raises RuntimeError when some are not acknowledged."""
    config = {
        "bootstrap.servers": bootstrap,
        "linger.ms": 50,
        "batch.size": 1_000_000,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 512 * 1024,
    }
    producer = confluent_kafka.Producer(config | more)
    value = b"x" * size_bytes
    in_a_row = min(CHUNK, max(1, records // partitions))
    for chunk, first in enumerate(range(0, records, in_a_row)):
        partition = chunk % partitions
        for _ in range(min(in_a_row, records - first)):
            send(producer, topic, value, partition=partition)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{topic} was not filled")
