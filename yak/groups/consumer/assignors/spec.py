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
