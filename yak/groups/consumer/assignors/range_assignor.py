"""`range`: each member gets a range of every topic; topics of one size are split alike (RangeAssignor.java).

If `orders` and `payments` have the same number of partitions and the same subscribers, partition 3 of both goes to the
same member, as a join of two topics needs. The present assignment is ignored.
"""

from __future__ import annotations

from yak.groups.consumer.assignors.spec import AssignmentSpec, topics_alike
from yak.groups.consumer.partitions import Partitions, TopicIdPartition


def assign_ranges(spec: AssignmentSpec) -> dict[str, Partitions]:
    """Split each topic into one range per subscriber; with a remainder, the first ranges are longer by one."""
    assigned: list[set[TopicIdPartition]] = [set() for _ in spec.subscribers]
    for subscribers, topic_ids in topics_alike(spec):
        for topic_id in topic_ids if subscribers else ():
            quota, longer = divmod(spec.num_partitions[topic_id], len(subscribers))
            start = 0
            # members behind the last partition get none
            for rank, index in enumerate(subscribers[: spec.num_partitions[topic_id]]):
                end = start + quota + (rank < longer)
                assigned[index].update((topic_id, partition) for partition in range(start, end))
                start = end
    return {
        subscriber.member_id: frozenset(partitions)
        for subscriber, partitions in zip(spec.subscribers, assigned, strict=True)
    }
