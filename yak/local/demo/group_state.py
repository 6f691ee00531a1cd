"""What the cluster says of the demo's group: which broker coordinates it, and what is committed."""

from collections.abc import Iterable, Sequence

from yak.client.connection import IMPATIENT, base_config
from yak.client.errors import from_exception, kafka_exceptions
from yak.client.replication import PartitionReplicas
from yak.groups.placement import OFFSETS_TOPIC, partition_of
from yak.ids import Offset


def offsets_partition(partitions: Iterable[PartitionReplicas], group_id: str) -> PartitionReplicas | None:
    """The partition of `__consumer_offsets` that has a group: its leader is the group's coordinator.

    None before the topic is there, which is made when a group is first asked for.
    """
    found = {each.partition: each for each in partitions if each.topic == OFFSETS_TOPIC}
    return found.get(partition_of(group_id, len(found))) if found else None


def committed_offsets(
    bootstrap: str, group_id: str, topic: str, partitions: Sequence[int], *, timeout_seconds: float
) -> dict[int, Offset]:
    """What the coordinator has of these partitions; one without a commit is left out. Raises YakError."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    wanted = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, each) for each in partitions])
    try:
        admin = AdminClient({**base_config(bootstrap), **IMPATIENT})
        asked = admin.list_consumer_group_offsets([wanted], request_timeout=timeout_seconds)
        found = asked[group_id].result(timeout_seconds + 1.0).topic_partitions
    except kafka_exceptions() as error:
        raise from_exception(error, f"what {group_id} committed was not told") from None
    return {int(each.partition): int(each.offset) for each in found if each.error is None and each.offset >= 0}
