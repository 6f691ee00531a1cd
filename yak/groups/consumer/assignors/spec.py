"""The input of an assignor."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it: its subscribed topics that exist, and its present target."""

    member_id: str
    topic_ids: frozenset[uuid.UUID]
    instance_id: str | None = None
    target: Partitions = NO_PARTITIONS


@dataclass(frozen=True, slots=True)
class AssignmentSpec:
    """All subscribers in assignment order, and the number of partitions of each subscribed topic."""

    subscribers: tuple[Subscriber, ...]
    num_partitions: Mapping[uuid.UUID, int]


def in_order(subscribers: Iterable[Subscriber]) -> tuple[Subscriber, ...]:
    """Static members by instance id, then the others by member id (RangeAssignor.java).

    An instance id outlives the process, so a static member keeps its place while dynamic members join and leave.
    """
    return tuple(
        sorted(subscribers, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id, one.member_id))
    )


def topics_alike(spec: AssignmentSpec) -> list[tuple[list[int], list[uuid.UUID]]]:
    """The topics with the same subscribers: these, as indexes in the spec, in order, and the topics, in the spec's order.

    Members with the same topics are taken together: 500 members of 1,500 topics would need 750,000 hashes of ids.
    """
    alike: dict[frozenset[uuid.UUID], list[int]] = {}
    for index, subscriber in enumerate(spec.subscribers):
        alike.setdefault(subscriber.topic_ids, []).append(index)
    subscriptions: dict[uuid.UUID, list[int]] = {topic_id: [] for topic_id in spec.num_partitions}
    for number, topic_ids in enumerate(alike):
        for topic_id in topic_ids:
            subscriptions[topic_id].append(number)
    topics: dict[tuple[int, ...], list[uuid.UUID]] = {}
    for topic_id, numbers in subscriptions.items():
        topics.setdefault(tuple(numbers), []).append(topic_id)
    members = list(alike.values())
    return [(sorted(chain(*(members[number] for number in numbers))), named) for numbers, named in topics.items()]
