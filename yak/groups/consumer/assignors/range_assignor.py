"""`range`: each member gets a range of every topic; topics of one size are split alike (RangeAssignor.java).

If `orders` and `payments` have the same number of partitions and the same subscribers, partition 3 of both goes to the
same member, as a join of two topics needs. The present assignment is ignored.
"""

from __future__ import annotations

import uuid

from yak.groups.consumer.assignors.spec import AssignmentSpec
from yak.groups.consumer.partitions import Partitions, TopicIdPartition


def assign_ranges(spec: AssignmentSpec) -> dict[str, Partitions]:
    """Split each topic into one range per subscriber; with a remainder, the first ranges are longer by one."""
    by_topic: dict[uuid.UUID, list[str]] = {topic_id: [] for topic_id in spec.num_partitions}
    for subscriber in spec.subscribers:
        for topic_id in subscriber.topic_ids:
            by_topic[topic_id].append(subscriber.member_id)
    assigned: dict[str, set[TopicIdPartition]] = {subscriber.member_id: set() for subscriber in spec.subscribers}
    for topic_id, member_ids in by_topic.items():
        if not member_ids:
            continue
        quota, longer = divmod(spec.num_partitions[topic_id], len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            end = start + quota + (place < longer)
            assigned[member_id].update((topic_id, partition) for partition in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}
