"""What an assignor is told."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it: the topics it means (that exist), and the target that it has now."""

    member_id: str
    topic_ids: frozenset[uuid.UUID]
    instance_id: str | None = None
    target: Partitions = NO_PARTITIONS


@dataclass(frozen=True, slots=True)
class AssignmentSpec:
    """All subscribers in the order in which assignors take them, and the size of each topic that any of them means."""

    subscribers: tuple[Subscriber, ...]
    num_partitions: Mapping[uuid.UUID, int]


def in_order(subscribers: Iterable[Subscriber]) -> tuple[Subscriber, ...]:
    """Static members by instance id, then the others by member id (RangeAssignor.java).

    An instance id outlives the process, so a static member keeps its place whatever comes and goes after it.
    """
    return tuple(
        sorted(subscribers, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id, one.member_id))
    )
