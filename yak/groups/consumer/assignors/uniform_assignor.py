"""`uniform`: everybody gets as much as everybody else, with as few moves as that takes (KIP-848; UniformAssignor.java).

Balance comes first, then staying. Three steps:

1. each member keeps what it has of the topics that it means;
2. what nobody has is dealt out, each partition to the subscriber that has least, scarce topics first;
3. while some member has two more than another that it can give to, one partition moves; if it can give only to a third that
   gives to that other, along this chain.

With one subscription for all, the third step ends with all within one of each other. With different ones it ends where no
chain of moves makes anything more even: the loads are then the most even that these subscriptions allow (an optimal
semi-matching: Harvey, Ladner, Lovász and Tamir 2006, whose cost-reducing paths these chains are). Kafka's assignor stops
earlier there. Racks are not looked at, as in Kafka 4.
"""

from __future__ import annotations

import heapq
import uuid

from yak.groups.consumer.assignors.spec import AssignmentSpec
from yak.groups.consumer.partitions import Partitions, TopicIdPartition


def assign_uniformly(spec: AssignmentSpec) -> dict[str, Partitions]:
    """Every partition of every topic that has a subscriber, to one of its subscribers."""
    dealing = _Dealing(spec)
    dealing.keep()
    dealing.deal()
    dealing.even_out()
    return {
        subscriber.member_id: frozenset(dealing.partitions_of(place))
        for place, subscriber in enumerate(spec.subscribers)
    }


class _Dealing:
    """An assignment in the making. Members are numbers, their places in the spec.

    `piles[member][topic]` is a member's partitions of a topic, what it had before first: the last is given away first, so
    what is moved is rather what was moved already.
    """

    def __init__(self, spec: AssignmentSpec) -> None:
        self.spec = spec
        self.topics = sorted(spec.num_partitions)
        self.subscribers: dict[uuid.UUID, list[int]] = {topic_id: [] for topic_id in self.topics}
        for place, subscriber in enumerate(spec.subscribers):
            for topic_id in sorted(subscriber.topic_ids):
                self.subscribers[topic_id].append(place)
        self.loads = [0] * len(spec.subscribers)
        self.piles: list[dict[uuid.UUID, list[int]]] = [{} for _ in spec.subscribers]
        self.taken: set[TopicIdPartition] = set()

    def keep(self) -> None:
        """Step 1. Of two that have the same partition, which no sound target has, the first keeps it."""
        for place, subscriber in enumerate(self.spec.subscribers):
            for topic_id, partition in sorted(subscriber.target):
                exists = partition < self.spec.num_partitions.get(topic_id, 0)
                if topic_id in subscriber.topic_ids and exists and (topic_id, partition) not in self.taken:
                    self._give(place, topic_id, partition)
                    self.taken.add((topic_id, partition))

    def deal(self) -> None:
        """Step 2."""
        for topic_id in sorted(self.topics, key=lambda one: (len(self.subscribers[one]), one)):
            least = [(self.loads[place], place) for place in self.subscribers[topic_id]]
            if not least:
                continue
            heapq.heapify(least)
            for partition in range(self.spec.num_partitions[topic_id]):
                if (topic_id, partition) not in self.taken:
                    load, place = least[0]
                    self._give(place, topic_id, partition)
                    heapq.heapreplace(least, (load + 1, place))

    def even_out(self) -> None:
        """Step 3, from the fullest member down.

        Where no chain leads on from a member, none will later: all that can be reached from it are at most one below it, so
        none of them takes from elsewhere, and they need not be looked at again.
        """
        fullest = [(-load, place) for place, load in enumerate(self.loads)]
        heapq.heapify(fullest)
        settled: set[int] = set()
        while fullest:
            load, place = heapq.heappop(fullest)
            if place in settled or -load != self.loads[place]:
                continue
            came_from, receiver = self._reach(place)
            if receiver is None:
                settled |= came_from.keys()
                continue
            heapq.heappush(fullest, (-self.loads[receiver] - 1, receiver))
            while receiver != place:
                giver, topic_id = came_from[receiver]
                self._give(receiver, topic_id, self._take(giver, topic_id))
                receiver = giver
            heapq.heappush(fullest, (-self.loads[place], place))

    def partitions_of(self, place: int) -> list[TopicIdPartition]:
        """What a member has."""
        return [(topic_id, partition) for topic_id, pile in self.piles[place].items() for partition in pile]

    def _reach(self, start: int) -> tuple[dict[int, tuple[int, uuid.UUID]], int | None]:
        """Who can be given to from `start`, in the fewest steps, with the giver and the topic; and the emptiest of the
        nearest who have at least two less."""
        came_from: dict[int, tuple[int, uuid.UUID]] = {start: (start, uuid.UUID(int=0))}
        seen_topics: set[uuid.UUID] = set()
        ring = [start]
        while ring:
            following: list[int] = []
            for giver in ring:
                for topic_id in self.piles[giver]:
                    if topic_id in seen_topics:
                        continue
                    seen_topics.add(topic_id)
                    for place in self.subscribers[topic_id]:
                        if place not in came_from:
                            came_from[place] = (giver, topic_id)
                            following.append(place)
            emptiest = min(following, key=lambda one: (self.loads[one], one), default=start)
            if self.loads[emptiest] <= self.loads[start] - 2:
                return came_from, emptiest
            ring = following
        return came_from, None

    def _give(self, place: int, topic_id: uuid.UUID, partition: int) -> None:
        self.piles[place].setdefault(topic_id, []).append(partition)
        self.loads[place] += 1

    def _take(self, place: int, topic_id: uuid.UUID) -> int:
        pile = self.piles[place][topic_id]
        partition = pile.pop()
        if not pile:
            del self.piles[place][topic_id]
        self.loads[place] -= 1
        return partition
