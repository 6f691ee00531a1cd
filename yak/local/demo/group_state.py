"""The cluster's view of the demo's group: its coordinator, and its committed offsets."""

import time
from collections.abc import Sequence
from typing import Final

from yak.client.connection import base_config
from yak.client.errors import from_exception, kafka_exceptions
from yak.client.raw_connection import RawConnection
from yak.errors import NothingInTime
from yak.ids import NodeId, Offset
from yak.protocol.lean_imports import import_kio

_ANSWER_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.02


def coordinator_of(bootstrap: str, group_id: str, *, timeout_seconds: float) -> NodeId:
    """The broker that coordinates a group (FindCoordinator, key 10). Raises NothingInTime.

    Brokers that do not answer are skipped. The first request ever creates the topic of committed offsets.
    """
    import_kio()
    from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
    from kio.static.primitive import i8

    request = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(group_id,))
    deadline = time.monotonic() + timeout_seconds
    why = "no broker answered"
    while True:
        for address in bootstrap.split(","):
            try:
                with RawConnection(address, timeout_s=_ANSWER_SECONDS) as connection:
                    (found,) = connection.call(request).coordinators
            except OSError:
                continue
            if not int(found.error_code):
                return int(found.node_id)
            why = str(found.error_message or found.error_code.name)
        if time.monotonic() > deadline:
            raise NothingInTime("demo-group", f"the group {group_id} has no coordinator", why=why)
        time.sleep(_AGAIN_SECONDS)


def committed_offsets(
    bootstrap: str, group_id: str, topic: str, partitions: Sequence[int], *, timeout_seconds: float
) -> dict[int, Offset]:
    """The committed offsets of these partitions; partitions without a commit are left out. Raises YakError."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    wanted = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, each) for each in partitions])
    admin = AdminClient(base_config(bootstrap))  # a variable: without a reference the request is cancelled
    try:
        asked = admin.list_consumer_group_offsets([wanted], request_timeout=timeout_seconds)
        found = asked[group_id].result(timeout_seconds + 1.0).topic_partitions
    except kafka_exceptions() as error:
        raise from_exception(error, f"what {group_id} committed was not told") from None
    return {int(each.partition): int(each.offset) for each in found if each.error is None and each.offset >= 0}
