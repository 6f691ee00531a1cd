"""What a group needs to know of topics, and the hash by which it notices that they changed."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Protocol

from yak.groups.consumer.partitions import Partitions, flattened

_HASH_BYTES = 8


class TopicsView(Protocol):
    """The topics of the cluster at one moment.

    `version` grows at least whenever a topic is created, deleted or gets more partitions, on every broker alike (it is
    recorded, and compared by the next coordinator); growing for other reasons costs a comparison a group.
    """

    @property
    def version(self) -> int:
        """Which moment this is."""

    def topic_id(self, name: str) -> uuid.UUID | None:
        """The id of the topic of this name."""

    def name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic of this id."""

    def num_partitions(self, topic_id: uuid.UUID) -> int:
        """How many partitions it has, 0 when there is no such topic."""

    def names(self) -> Iterable[str]:
        """Every topic's name, internal ones too, in any order."""


def ids_of(names: Iterable[str], topics: TopicsView) -> frozenset[uuid.UUID]:
    """The ids of those topics that exist."""
    found = (topics.topic_id(name) for name in names)
    return frozenset(topic_id for topic_id in found if topic_id is not None)


def all_partitions(topic_ids: Iterable[uuid.UUID], topics: TopicsView) -> Partitions:
    """Every partition of these topics."""
    return flattened((topic_id, range(topics.num_partitions(topic_id))) for topic_id in topic_ids)


def metadata_hash(names: Iterable[str], topics: TopicsView) -> int:
    """A signed 64-bit number that changes with the ids and sizes of these topics; 0 when none of them exists.

    It stands where Kafka 4.1 puts its own (KIP-1101), which is XXH3 over the same and the racks: a Kafka that read our
    records would find another number, count one more epoch, and go on.
    """
    described = sorted(_described(names, topics))
    if not described:
        return 0
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    for name, topic_id, num_partitions in described:
        digest.update(topic_id.bytes + num_partitions.to_bytes(4) + len(name).to_bytes(4) + name.encode())
    return int.from_bytes(digest.digest(), signed=True)


def _described(names: Iterable[str], topics: TopicsView) -> Iterator[tuple[str, uuid.UUID, int]]:
    for name in names:
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            yield name, topic_id, topics.num_partitions(topic_id)
