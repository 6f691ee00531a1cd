"""MirrorMaker 2 between two clusters of YAK, and between YAK and Apache Kafka: records, configs and a group's offsets arrive."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from versus.brokers import KafkaBroker, running

from tests.clusters import running_cluster
from yak.local.cluster import UpSettings
from yak.testing.cluster import Cluster

pytestmark = [pytest.mark.jvm, pytest.mark.thorough, pytest.mark.timeout(400)]
SETTINGS = """\
clusters=A,B
A.bootstrap.servers={source}
B.bootstrap.servers={target}
A->B.enabled=true
A->B.topics=orders
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
refresh.topics.interval.seconds=2
sync.topic.configs.interval.seconds=2
sync.topic.acls.interval.seconds=2
emit.checkpoints.interval.seconds=1
sync.group.offsets.enabled=true
sync.group.offsets.interval.seconds=1
"""
RECORDS = 600


@pytest.fixture
def second_yak(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of one broker."""
    with running_cluster(tmp_path / "second", UpSettings(port=0, brokers=1, leaders=1, no_http=True)) as cluster:
        yield cluster.status().bootstrap


@pytest.fixture
def kafka(libs: Path, tmp_path: Path) -> Iterator[str]:
    """The address of Apache Kafka, one node."""
    with running(KafkaBroker(libs, tmp_path / "kafka")) as broker:
        yield broker.bootstrap


def fill(bootstrap: str) -> None:
    """Write a compacted topic, and let a group read and commit all of it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 3, 1, config={"cleanup.policy": "compact"})])["orders"].result(20)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, key=b"k%d" % number)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    read = 0
    while read < RECORDS:
        read += sum(record.error() is None for record in consumer.consume(RECORDS, 5))
    consumer.commit(asynchronous=False)
    consumer.close()


def committed(bootstrap: str, topic: str) -> dict[int, int]:
    """The offsets that the group has committed, by partition."""
    # AdminClient.list_consumer_group_offsets ends the process when the coordinator moves or is new: librdkafka's
    # rd_kafka_handle_OffsetFetch uses the consumer group that an AdminClient does not have.
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in range(3)], timeout=20)
        return {each.partition: each.offset for each in found if each.offset >= 0}
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_COORDINATOR:
            raise
        return {}  # Kafka's coordinator has not loaded the new __consumer_offsets
    finally:
        consumer.close()


def values(bootstrap: str, topic: str) -> list[list[bytes]]:
    """The values of each of a topic's three partitions, in order."""
    found: list[list[bytes]] = [[], [], []]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])
        while sum(map(len, found)) < RECORDS:
            records = consumer.consume(RECORDS, 20)
            assert records, [len(each) for each in found]
            for record in records:
                assert not record.error(), record.error()
                found[record.partition()].append(record.value())
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("clusters", ["yak to yak", "yak to kafka", "kafka to yak"])
def test_mirror_maker_copies_records_configs_and_a_groups_offsets(
    clusters: str,
    yak_cluster: Cluster,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    java: list[str],
    wait_until: Callable[..., None],
) -> None:
    other = request.getfixturevalue("second_yak" if clusters == "yak to yak" else "kafka")
    source, target = yak_cluster.bootstrap, other
    if clusters == "kafka to yak":
        source, target = target, source
    fill(source)

    log = tmp_path / "mirror.log"
    settings = tmp_path / "mm2.properties"
    settings.write_text(SETTINGS.format(source=source, target=target))
    with log.open("ab") as file:
        command = [*java, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
        mirror = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        wanted = committed(source, "orders")
        assert len(wanted) == 3
        wait_until(
            lambda: committed(target, "A.orders") == wanted, 240, lambda: log.read_text(errors="replace")[-3000:]
        )
    finally:
        mirror.kill()
        mirror.wait()
    assert values(target, "A.orders") == values(source, "orders")
    resource = ConfigResource(ResourceType.TOPIC, "A.orders")
    admin = AdminClient({"bootstrap.servers": target})
    configs = admin.describe_configs([resource])[resource].result(20)
    assert configs["cleanup.policy"].value == "compact"
    assert "ERROR" not in log.read_text(errors="replace")
