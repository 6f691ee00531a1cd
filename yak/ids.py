"""Type aliases for numbers that must not be confused: offsets, epochs, ids; and names of topics.

They are aliases of `int`, not NewTypes: offsets and epochs are added and compared on the hot path, where a NewType
needs a call for every sum. They only document signatures.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

Offset: TypeAlias = int
"""Logical position of a record in a partition, from 0."""
FilePosition: TypeAlias = int
"""Byte position in one segment file."""
LeaderEpoch: TypeAlias = int
"""One leader's term in one partition; every batch and every fetch carries it."""
PartitionEpoch: TypeAlias = int
"""Compare-and-set version of a partition's state in the metadata store."""
BrokerEpoch: TypeAlias = int
"""One incarnation of one broker: the metadata offset of its registration."""
ControllerEpoch: TypeAlias = int
"""One controller's term."""
MetadataOffset: TypeAlias = int
"""Position of a record in the cluster's metadata log, from 1."""
NodeId: TypeAlias = int
ProducerId: TypeAlias = int
ConnectionId: TypeAlias = int
JobId: TypeAlias = int
PeerId: TypeAlias = int
"""A connection to another broker, numbered by the core."""
Nonce: TypeAlias = int


INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's topics for its own records (Topic.java)."""


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """The partitions of each topic, in the given order."""
    found: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found
