"""The groups' view of topics, and the hash that shows when they changed."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Protocol

_HASH_BYTES = 8


class TopicsView(Protocol):
    """The topics of the cluster at one moment.

    `version` grows at least whenever a topic is created, deleted or gets more partitions. It is the same on every
    broker, since it is recorded and the next coordinator compares it. Other growth costs one comparison a group.
    """

    @property
    def version(self) -> int:
        """The version of this view."""

    def topic_id(self, name: str) -> uuid.UUID | None:
        """The id of the topic of this name."""

    def name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic of this id."""

    def num_partitions(self, topic_id: uuid.UUID) -> int:
        """The topic's number of partitions; 0 when it does not exist."""

    def names(self) -> Iterable[str]:
        """Every topic's name that is to be seen, internal ones too, in any order."""


def ids_of(names: Iterable[str], topics: TopicsView) -> frozenset[uuid.UUID]:
    """The ids of the existing topics among these."""
    found = (topics.topic_id(name) for name in names)
    return frozenset(topic_id for topic_id in found if topic_id is not None)


def metadata_hash(names: Iterable[str], topics: TopicsView) -> int:
    """A signed 64-bit hash of the ids and sizes of these topics; 0 when none of them exists.

    It takes the place of Kafka 4.1's own hash (KIP-1101), which is XXH3 over the same fields and the racks. A Kafka
    broker that reads these records computes another hash, and raises the epoch once.
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
