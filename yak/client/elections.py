"""Preferred leader election: ElectLeaders (key 43, KIP-460).

Sent as a raw request, since confluent-kafka 2.16's method fails on its own arguments.
"""

from collections.abc import Sequence

from yak.client.metadata import ClusterMetadata
from yak.client.raw_connection import RawConnection
from yak.errors import Unreachable, YakError
from yak.ids import TopicPartition

ELECTION_NOT_NEEDED = 84
WAIT_MS = 5_000


def elect_preferred_leaders(
    metadata: ClusterMetadata, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, str | None]:
    """Elect preferred leaders through the controller; None or the reason of the failure, by partition.

    Raises Unreachable when the controller does not answer, YakError (`not-elected`) when it refuses the whole request.
    """
    from datetime import timedelta

    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
    from kio.schema.types import TopicName
    from kio.static.primitive import i8, i32, i32Timedelta

    by_topic: dict[str, list[i32]] = {}
    for each in partitions:
        by_topic.setdefault(each.topic, []).append(i32(each.partition))
    request = ElectLeadersRequest(
        election_type=i8(0),
        topic_partitions=tuple(
            TopicPartitions(topic=TopicName(topic), partitions=tuple(numbers)) for topic, numbers in by_topic.items()
        ),
        timeout=i32Timedelta.parse(timedelta(milliseconds=WAIT_MS)),
    )
    controller = metadata.brokers.get(metadata.controller_id)
    if controller is None:
        raise Unreachable("no-controller", "the cluster has no controller now", try_=("yak brokers list",))
    try:
        with RawConnection(controller.address, timeout_s=timeout_s) as connection:
            answer = connection.call(request)
    except OSError as error:
        raise Unreachable("unreachable", f"{controller.address} did not elect leaders", why=str(error)) from None
    if answer.error_code:
        raise YakError("not-elected", "no leader was elected", why=answer.error_code.name)
    found: dict[TopicPartition, str | None] = {}
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            is_leading = int(result.error_code) in (0, ELECTION_NOT_NEEDED)
            why = None if is_leading else result.error_message or result.error_code.name
            found[TopicPartition(topic.topic, result.partition_id)] = why
    return found
