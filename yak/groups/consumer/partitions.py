"""Sets of partitions, by topic id."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TypeAlias

TopicIdPartition: TypeAlias = tuple[uuid.UUID, int]
Partitions: TypeAlias = frozenset[TopicIdPartition]
"""Partitions of any topics, unordered: sort them before their order matters."""

NO_PARTITIONS: Partitions = frozenset()
AssignmentEpochs: TypeAlias = Mapping[TopicIdPartition, int]
"""The member epoch in which a member got each of its partitions (KIP-1251)."""


def by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[uuid.UUID, list[int]]]:
    """Each topic with its partitions, both in ascending order, as requests and records list them."""
    found: dict[int, tuple[uuid.UUID, list[int]]] = {}
    for topic_id, partition in partitions:
        number = topic_id.int  # a UUID computes its hash in Python, as slowly as it compares
        if number not in found:
            found[number] = topic_id, []
        found[number][1].append(partition)
    for _topic_id, numbers in found.values():
        numbers.sort()
    return [found[number] for number in sorted(found)]


def flattened(topics: Iterable[tuple[uuid.UUID, Iterable[int]]]) -> Partitions:
    """One set of partitions from lists by topic."""
    return frozenset((topic_id, partition) for topic_id, partitions in topics for partition in partitions)
