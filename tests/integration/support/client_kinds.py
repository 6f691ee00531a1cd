"""Three unmodified Kafka clients behind one face, so that one test asks the same of each and any can read any.

Each method does the thing the client's own way and gives plain values. Offsets are ints, timestamps ms since the epoch.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_SECONDS = 30.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent, and what must come back byte for byte."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_700_000_000_000


Messages = Sequence[Message]


@dataclass(frozen=True, slots=True)
class Described:
    """What a client knows of the cluster."""

    cluster_id: str
    controller_id: int
    brokers: dict[int, str] = field(default_factory=dict)


class ClientKind(Protocol):
    """One client library, pointed at one address."""

    name: str
    codecs: tuple[str, ...]

    def create_topic(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None: ...
    def delete_topic(self, topic: str) -> None: ...
    def topics(self) -> dict[str, int]: ...
    def create_partitions(self, topic: str, total: int) -> None: ...
    def delete_records(self, topic: str, partition: int, before: int) -> int: ...
    def configs_of(self, topic: str) -> dict[str, str | None]: ...
    def alter_config(self, topic: str, name: str, value: str) -> None: ...
    def describe_cluster(self) -> Described: ...
    def produce(
        self, topic: str, messages: Messages, *, partition: int = 0, codec: str = "none", idempotent: bool = True
    ) -> list[int]: ...
    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[tuple[int, Message]]: ...
    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None: ...
    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]: ...


class Confluent:
    """confluent-kafka: librdkafka from Python."""

    name = "confluent-kafka"
    codecs = ALL_CODECS

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._common = {"bootstrap.servers": bootstrap, "log_level": 3}
        self._admin = AdminClient(dict(self._common))

    def create_topic(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        from confluent_kafka.admin import NewTopic

        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=configs or {})
        self._admin.create_topics([new])[topic].result(PATIENCE_SECONDS)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)

    def topics(self) -> dict[str, int]:
        found = self._admin.list_topics(timeout=PATIENCE_SECONDS).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def create_partitions(self, topic: str, total: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE_SECONDS)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        from confluent_kafka import TopicPartition

        wanted = TopicPartition(topic, partition, before)
        return int(self._admin.delete_records([wanted])[wanted].result(PATIENCE_SECONDS).low_watermark)

    def configs_of(self, topic: str) -> dict[str, str | None]:
        from confluent_kafka.admin import ConfigResource

        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self._admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)
        return {name: entry.value for name, entry in entries.items()}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(PATIENCE_SECONDS)

    def describe_cluster(self) -> Described:
        found = self._admin.describe_cluster().result(PATIENCE_SECONDS)
        brokers = {node.id: f"{node.host}:{node.port}" for node in found.nodes}
        return Described(found.cluster_id, found.controller.id, brokers)

    def produce(
        self, topic: str, messages: Messages, *, partition: int = 0, codec: str = "none", idempotent: bool = True
    ) -> list[int]:
        from confluent_kafka import Producer

        settings = {**self._common, "compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 20}
        producer = Producer(settings)
        offsets: list[int] = []
        failed: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            failed.append(error) if error else offsets.append(message.offset())

        for each in messages:
            producer.produce(
                topic,
                value=each.value,
                key=each.key,
                headers=list(each.headers),
                partition=partition,
                timestamp=each.timestamp_ms,
                on_delivery=delivered,
            )
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert failed == []
        return offsets

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[tuple[int, Message]]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            found: list[tuple[int, Message]] = []
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(found) < count and time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                assert message.error() is None, message.error()
                headers = tuple((name, value) for name, value in message.headers() or ())
                what = Message(message.value(), message.key(), headers, message.timestamp()[1])
                found.append((message.offset(), what))
            return found
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        from confluent_kafka import OFFSET_END, TopicPartition

        consumer = self._consumer()
        try:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], PATIENCE_SECONDS)
            return None if found.offset == OFFSET_END else int(found.offset)
        finally:
            consumer.close()

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_SECONDS)
            return low, high
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        return Consumer({**self._common, "group.id": "only-assigns", "enable.auto.commit": False})


# what aiokafka has in common with kafka-python


def _producing(codec: str, idempotent: bool) -> dict[str, Any]:
    """The settings of a producer."""
    compression = None if codec == "none" else codec
    return {"compression_type": compression, "enable_idempotence": idempotent, "acks": "all", "linger_ms": 20}


def _fields(message: Message) -> dict[str, Any]:
    """What `send` is given of a message."""
    headers = list(message.headers)
    return {"value": message.value, "key": message.key, "headers": headers, "timestamp_ms": message.timestamp_ms}


def _offset_and_message(record: Any) -> tuple[int, Message]:
    """A record that a consumer gave."""
    headers = tuple((name, value) for name, value in record.headers)
    return record.offset, Message(record.value, record.key, headers, record.timestamp)


class KafkaPython:
    """kafka-python: pure Python, its own protocol code."""

    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        from kafka import codec

        has = {"gzip": codec.has_gzip, "snappy": codec.has_snappy, "lz4": codec.has_lz4, "zstd": codec.has_zstd}
        self.codecs = ("none", *(name for name, is_there in has.items() if is_there()))
        self._bootstrap = bootstrap

    def _with_admin(self, work: Callable[[Any], _T]) -> _T:
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            return work(admin)
        finally:
            admin.close()

    def create_topic(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        from kafka.admin import NewTopic

        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, topic_configs=configs or {})
        self._with_admin(lambda admin: admin.create_topics([new]))

    def delete_topic(self, topic: str) -> None:
        self._with_admin(lambda admin: admin.delete_topics([topic]))

    def topics(self) -> dict[str, int]:
        found = self._with_admin(lambda admin: admin.describe_topics())
        return {each["name"]: len(each["partitions"]) for each in found}

    def create_partitions(self, topic: str, total: int) -> None:
        from kafka.admin import NewPartitions

        self._with_admin(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        from kafka import TopicPartition

        wanted = TopicPartition(topic, partition)
        found = self._with_admin(lambda admin: admin.delete_records({wanted: before}))
        return int(found[wanted]["low_watermark"])

    def configs_of(self, topic: str) -> dict[str, str | None]:
        from kafka.admin import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self._with_admin(lambda admin: admin.describe_configs([resource], config_filter="all"))
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        from kafka.admin import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        self._with_admin(lambda admin: admin.alter_configs([resource]))

    def describe_cluster(self) -> Described:
        found = self._with_admin(lambda admin: admin.describe_cluster())
        brokers = {int(each["broker_id"]): f"{each['host']}:{each['port']}" for each in found["brokers"]}
        return Described(found["cluster_id"], found["controller_id"], brokers)

    def produce(
        self, topic: str, messages: Messages, *, partition: int = 0, codec: str = "none", idempotent: bool = True
    ) -> list[int]:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self._bootstrap, **_producing(codec, idempotent))
        try:
            sent = [producer.send(topic, partition=partition, **_fields(each)) for each in messages]
            producer.flush(PATIENCE_SECONDS)
            return [each.get(PATIENCE_SECONDS).offset for each in sent]
        finally:
            producer.close(5)

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[tuple[int, Message]]:
        from kafka import TopicPartition

        consumer = self._consumer()
        try:
            there = TopicPartition(topic, partition)
            consumer.assign([there])
            consumer.seek(there, offset)
            found: list[tuple[int, Message]] = []
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(found) < count and time.monotonic() < deadline:
                found += map(_offset_and_message, consumer.poll(timeout_ms=1000).get(there, ()))
            return found
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        from kafka import TopicPartition

        consumer = self._consumer()
        try:
            there = TopicPartition(topic, partition)
            found = consumer.offsets_for_times({there: timestamp_ms})[there]
            return None if found is None or found.offset < 0 else int(found.offset)
        finally:
            consumer.close()

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        from kafka import TopicPartition

        consumer = self._consumer()
        try:
            there = TopicPartition(topic, partition)
            return consumer.beginning_offsets([there])[there], consumer.end_offsets([there])[there]
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        from kafka import KafkaConsumer

        return KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None, auto_offset_reset="earliest")


class Aiokafka:
    """aiokafka: asyncio, older versions of the protocol."""

    name = "aiokafka"
    codecs = ALL_CODECS

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _with_admin(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        from aiokafka.admin import AIOKafkaAdminClient

        async def run() -> _T:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        return asyncio.run(run())

    def create_topic(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        from aiokafka.admin import NewTopic

        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, topic_configs=configs or {})
        answer = self._with_admin(lambda admin: admin.create_topics([new]))
        assert [each[1] for each in answer.topic_errors] == [0], answer

    def delete_topic(self, topic: str) -> None:
        answer = self._with_admin(lambda admin: admin.delete_topics([topic]))
        assert [each[1] for each in answer.topic_error_codes] == [0], answer

    def topics(self) -> dict[str, int]:
        found = self._with_admin(lambda admin: admin.describe_topics())
        return {each["topic"]: len(each["partitions"]) for each in found}

    def create_partitions(self, topic: str, total: int) -> None:
        from aiokafka.admin import NewPartitions

        answer = self._with_admin(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))
        assert [each[1] for each in answer.topic_errors] == [0], answer

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        from aiokafka import TopicPartition
        from aiokafka.admin import RecordsToDelete

        wanted = TopicPartition(topic, partition)
        found = self._with_admin(lambda admin: admin.delete_records({wanted: RecordsToDelete(before_offset=before)}))
        return int(found[wanted])

    def configs_of(self, topic: str) -> dict[str, str | None]:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._with_admin(lambda admin: admin.describe_configs([resource]))
        (found,) = answer.resources
        assert found[0] == 0, found
        return {entry[0]: entry[1] for entry in found[4]}

    def alter_config(self, topic: str, name: str, value: str) -> None:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        (answer,) = self._with_admin(lambda admin: admin.alter_configs([resource]))
        assert [each[0] for each in answer.resources] == [0], answer

    def describe_cluster(self) -> Described:
        found = self._with_admin(lambda admin: admin.describe_cluster())
        brokers = {each["node_id"]: f"{each['host']}:{each['port']}" for each in found["brokers"]}
        return Described(found["cluster_id"], found["controller_id"], brokers)

    def produce(
        self, topic: str, messages: Messages, *, partition: int = 0, codec: str = "none", idempotent: bool = True
    ) -> list[int]:
        from aiokafka import AIOKafkaProducer

        async def run() -> list[int]:
            producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, **_producing(codec, idempotent))
            await producer.start()
            try:
                sent = [await producer.send(topic, partition=partition, **_fields(each)) for each in messages]
                return [(await each).offset for each in sent]
            finally:
                await producer.stop()

        return asyncio.run(run())

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[tuple[int, Message]]:
        from aiokafka import TopicPartition

        there = TopicPartition(topic, partition)

        async def work(consumer: Any) -> list[tuple[int, Message]]:
            consumer.assign([there])
            consumer.seek(there, offset)
            found: list[tuple[int, Message]] = []
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(found) < count and time.monotonic() < deadline:
                found += map(_offset_and_message, (await consumer.getmany(there, timeout_ms=1000)).get(there, ()))
            return found

        return self._with_consumer(work)

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        from aiokafka import TopicPartition

        there = TopicPartition(topic, partition)

        async def work(consumer: Any) -> int | None:
            found = (await consumer.offsets_for_times({there: timestamp_ms}))[there]
            return None if found is None or found.offset < 0 else int(found.offset)

        return self._with_consumer(work)

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        from aiokafka import TopicPartition

        there = TopicPartition(topic, partition)

        async def work(consumer: Any) -> tuple[int, int]:
            low = await consumer.beginning_offsets([there])
            high = await consumer.end_offsets([there])
            return low[there], high[there]

        return self._with_consumer(work)

    def _with_consumer(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        from aiokafka import AIOKafkaConsumer

        async def run() -> _T:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap, group_id=None, auto_offset_reset="earliest", enable_auto_commit=False
            )
            await consumer.start()
            try:
                return await work(consumer)
            finally:
                await consumer.stop()

        return asyncio.run(run())


CLIENT_KINDS: dict[str, Callable[[str], ClientKind]] = {each.name: each for each in (Confluent, KafkaPython, Aiokafka)}
