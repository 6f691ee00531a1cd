"""The groups' view of topics, and the hash that shows when they changed."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator

from yak.cluster.image import Image

_HASH_BYTES = 8


class TopicsView:
    """The topics of one image, by name and by id.

    `version`, the image's offset in the metadata log, is the same on every broker, since it is recorded and the next
    coordinator compares it. `sees` says which names a client may see: what its regular expressions match.
    """

    __slots__ = ("_image", "_sees", "version")

    def __init__(self, image: Image, sees: Callable[[str], bool] | None = None) -> None:
        self._image, self._sees, self.version = image, sees, image.offset

    def topic_id(self, name: str) -> uuid.UUID | None:
        """The id of the topic of this name."""
        topic = self._image.topics.get(name)
        return None if topic is None else topic.topic_id

    def name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic of this id."""
        return self._image.topic_names.get(topic_id)

    def num_partitions(self, topic_id: uuid.UUID) -> int:
        """The topic's number of partitions; 0 when it does not exist."""
        topic = self._image.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def names(self) -> Iterable[str]:
        """Every topic's name that is to be seen, internal ones too, in any order."""
        return filter(self._sees, self._image.topics)


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
