"""MirrorMaker 2 between two clusters of YAK: records, configs and a group's offsets arrive."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from yak.local.cluster import LocalCluster, UpSettings
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


def committed(bootstrap: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("billing")])["billing"].result(20)
    return {(each.topic, each.partition): each.offset for each in found.topic_partitions}


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)[1] for number in range(3)]
    finally:
        consumer.close()


def test_mirror_maker_copies_records_configs_and_a_groups_offsets(
    yak_cluster: Cluster, tmp_path: Path, java: list[str], wait_until: Callable[..., None]
) -> None:
    source = yak_cluster.bootstrap
    yak_cluster.create_topic("orders", partitions=3, configs={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": source})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, key=b"k%d" % number)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": source, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    read = 0
    while read < RECORDS:
        read += len(consumer.consume(RECORDS, 5))
    consumer.commit(asynchronous=False)
    consumer.close()

    target = LocalCluster(str(tmp_path / "target"))
    log = tmp_path / "mirror.log"
    try:
        target.up(UpSettings(port=0, brokers=1, leaders=1, no_http=True))
        bootstrap = target.status().bootstrap
        settings = tmp_path / "mm2.properties"
        settings.write_text(SETTINGS.format(source=source, target=bootstrap))
        with log.open("ab") as file:
            command = [*java, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
            mirror = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            wanted = {("A." + topic, number): offset for (topic, number), offset in committed(source).items()}
            wait_until(lambda: committed(bootstrap) == wanted, 240, lambda: log.read_text(errors="replace")[-3000:])
        finally:
            mirror.kill()
            mirror.wait()
        assert end_offsets(bootstrap, "A.orders") == end_offsets(source, "orders")
        resource = ConfigResource(ResourceType.TOPIC, "A.orders")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        configs = admin.describe_configs([resource])[resource].result(20)
        assert configs["cleanup.policy"].value == "compact"
        assert "ERROR" not in log.read_text(errors="replace")
    finally:
        target.discard()
