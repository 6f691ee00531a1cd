"""The input of an assignor."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


def subscribers_by_topic(spec: AssignmentSpec) -> dict[uuid.UUID, list[int]]:
    """The subscribers of each topic, as indexes in the spec, in order. Topics are in the spec's order.

    Members with the same topics are taken together: 500 members of 1,500 topics would need 750,000 hashes of ids.
    """
    alike: dict[frozenset[uuid.UUID], list[int]] = {}
    for index, subscriber in enumerate(spec.subscribers):
        alike.setdefault(subscriber.topic_ids, []).append(index)
    by_topic: dict[uuid.UUID, list[int]] = {topic_id: [] for topic_id in spec.num_partitions}
    for topic_ids, subscribers in alike.items():
        for topic_id in topic_ids:
            by_topic[topic_id] += subscribers
    if len(alike) > 1:
        for subscribers in by_topic.values():
            subscribers.sort()
    return by_topic
