"""The image as consumer groups see it: topics by name and by id, and their partition counts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from yak.cluster.image import Image


class ImageTopics:
    """A `TopicsView` of one image; `sees` says which names a client may see: what its regular expressions match."""

    __slots__ = ("_image", "_sees")

    def __init__(self, image: Image, sees: Callable[[str], bool] | None = None) -> None:
        self._image, self._sees = image, sees

    @property
    def version(self) -> int:
        """The image's offset in the metadata log, the same on every broker."""
        return self._image.offset

    def topic_id(self, name: str) -> uuid.UUID | None:
        """The id of the topic of this name."""
        topic = self._image.topics.get(name)
        return None if topic is None else topic.topic_id

    def name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic of this id."""
        return self._image.topic_names.get(topic_id)

    def num_partitions(self, topic_id: uuid.UUID) -> int:
        """The topic's partition count; 0 for an unknown topic."""
        topic = self._image.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def names(self) -> Iterable[str]:
        """Every topic's name that is to be seen."""
        return filter(self._sees, self._image.topics)
