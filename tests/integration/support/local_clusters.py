"""What the tests of `yak up` do with a cluster: start it in the background, and write to it."""

from typing import Any

from confluent_kafka import Producer


def up(yak: Any, *arguments: str) -> dict[str, Any]:
    """`yak up -d`; the status that it reports."""
    ran = yak.run("up", "-d", "--port", "0", "-o", "json", *arguments)
    assert ran.code == 0, ran.err
    return dict(ran.json)


def write(bootstrap: str, topic: str, *values: str, partitions: int = 1) -> None:
    """Messages with acks=all, to the partitions in turn; a retrying client sees no error."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 30000})
    failed: list[object] = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failed == []
