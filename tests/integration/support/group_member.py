"""One consumer of a group, in a process of its own: says what happens to it, a line of JSON each.

`python group_member.py KIND BOOTSTRAP GROUP TOPIC,TOPIC '{"strategy": "range", ...}'`. It commits, explicitly, after
every batch. A line on stdin lets it leave in order; it ends when the process that started it has ended.
"""

import asyncio
import faulthandler
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

POLL_SECONDS = 0.05
JOIN_SECONDS = 10.0
"""kafka-python (3.0.12) joins again if its join ended between two polls (`join_group_async`). The leader's second JoinGroup
is a rebalance of the group, from Apache Kafka too."""
HEARTBEAT_MS = 300

leaving = threading.Event()


def say(what: str, **fields: Any) -> None:
    """One line. `at` is the machine's monotonic clock, the same for all members."""
    print(json.dumps({"at": time.monotonic(), "what": what, **fields}), flush=True)


def listen() -> None:
    """Wait for the word to leave, or for the end of stdin."""
    sys.stdin.readline()
    leaving.set()


def confluent(bootstrap: str, group: str, topics: list[str], asked: dict[str, Any]) -> None:
    """librdkafka."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    def named(partitions: Iterable[Any]) -> list[list[Any]]:
        return sorted([each.topic, each.partition] for each in partitions)

    def failed(error: Any) -> None:
        if error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID):
            say("fatal", error=error.name(), words=error.str())
            os._exit(1)

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": asked["session_ms"],
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": asked["strategy"],
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "fetch.wait.max.ms": 50,
        "error_cb": failed,
        "log_level": 0,
    }
    if asked.get("instance"):
        settings["group.instance.id"] = asked["instance"]
    if asked.get("protocol") == "consumer":
        # KIP-848: the broker decides about these
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
            del settings[name]
        settings["group.protocol"] = "consumer"
    consumer = Consumer({**settings, **asked.get("settings", {})})

    def revoked(_consumer: Any, partitions: Any) -> None:
        say("revoked", partitions=named(partitions))
        time.sleep(asked.get("slow_revoke_seconds", 0))

    consumer.subscribe(
        topics,
        on_assign=lambda _, partitions: say("assigned", partitions=named(partitions)),
        on_revoke=revoked,
        on_lost=lambda _, partitions: say("revoked", partitions=named(partitions), lost=True),
    )
    while not leaving.is_set():
        messages = []
        for each in consumer.consume(200, POLL_SECONDS):
            if each.error() is None:
                messages.append(each)
            else:
                failed(each.error())
        if not messages:
            continue
        say("records", of=[[each.topic(), each.partition(), each.offset()] for each in messages])
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as error:
            say("refused", error=error.args[0].name())
            continue
        refused = [each for each in done if each.error is not None]
        if refused:
            say("refused", error=refused[0].error.name())
        say("committed", of=[[each.topic, each.partition, each.offset] for each in done if each.error is None])
    consumer.close()
    say("left")


def settings_of(bootstrap: str, group: str, asked: dict[str, Any], library: str) -> dict[str, Any]:
    """What kafka-python and aiokafka have under the same names."""
    ranges = importlib.import_module(f"{library}.coordinator.assignors.range").RangePartitionAssignor
    turns = importlib.import_module(f"{library}.coordinator.assignors.roundrobin").RoundRobinPartitionAssignor
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_instance_id": asked.get("instance"),
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": asked["session_ms"],
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "partition_assignment_strategy": [{"range": ranges, "roundrobin": turns}[asked["strategy"]]],
        "fetch_max_wait_ms": 50,
    }


def listener_of(base: type) -> Any:
    """Says what is assigned and revoked."""

    class Listener(base):  # type: ignore[misc,valid-type]
        def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked", partitions=sorted([each.topic, each.partition] for each in revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", partitions=sorted([each.topic, each.partition] for each in assigned))

    return Listener()


def kafka_python(bootstrap: str, group: str, topics: list[str], asked: dict[str, Any]) -> None:
    """kafka-python."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(**settings_of(bootstrap, group, asked, "kafka"))
    consumer.subscribe(topics, listener=listener_of(ConsumerRebalanceListener))
    while not leaving.is_set():
        found = consumer.poll(timeout_ms=int(1000 * (POLL_SECONDS if consumer.assignment() else JOIN_SECONDS)))
        if not found:
            continue
        say("records", of=[[there.topic, there.partition, each.offset] for there in found for each in found[there]])
        ends = {there: records[-1].offset + 1 for there, records in found.items()}
        try:
            consumer.commit()
        except KafkaError as error:
            say("refused", error=type(error).__name__)
            continue
        say("committed", of=[[there.topic, there.partition, end] for there, end in ends.items()])
    consumer.close()
    say("left")


def aiokafka(bootstrap: str, group: str, topics: list[str], asked: dict[str, Any]) -> None:
    """aiokafka."""
    asyncio.run(_aiokafka(bootstrap, group, topics, asked))


async def _aiokafka(bootstrap: str, group: str, topics: list[str], asked: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(**settings_of(bootstrap, group, asked, "aiokafka"))
    consumer.subscribe(topics, listener=listener_of(ConsumerRebalanceListener))
    await consumer.start()
    while not leaving.is_set():
        found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        if not found:
            continue
        say("records", of=[[there.topic, there.partition, each.offset] for there in found for each in found[there]])
        ends = {there: records[-1].offset + 1 for there, records in found.items()}
        try:
            await consumer.commit(ends)
        except KafkaError as error:
            say("refused", error=type(error).__name__)
            continue
        say("committed", of=[[there.topic, there.partition, end] for there, end in ends.items()])
    await consumer.stop()
    say("left")


KINDS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}


if __name__ == "__main__":
    faulthandler.enable()
    threading.Thread(target=listen, daemon=True).start()
    kind, bootstrap, group, topics, asked = sys.argv[1:]
    KINDS[kind](bootstrap, group, topics.split(","), json.loads(asked))
