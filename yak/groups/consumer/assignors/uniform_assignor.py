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
    """An assignment in the making. Members and topics are numbers, their places in the spec: ids are slow to compare.

    `piles[member][topic]` is a member's partitions of a topic, what it had before first: the last is given away first, so
    what is moved is rather what was moved already.
    """

    def __init__(self, spec: AssignmentSpec) -> None:
        self.spec = spec
        self.topic_ids = sorted(spec.num_partitions)
        self.numbers = {topic_id: number for number, topic_id in enumerate(self.topic_ids)}
        self.subscribers: list[list[int]] = [[] for _ in self.topic_ids]
        self.free = [bytearray(b"\x01" * spec.num_partitions[topic_id]) for topic_id in self.topic_ids]
        self.loads = [0] * len(spec.subscribers)
        self.piles: list[dict[int, list[int]]] = [{} for _ in spec.subscribers]
        for place, subscriber in enumerate(spec.subscribers):
            for topic_id in subscriber.topic_ids:
                self.subscribers[self.numbers[topic_id]].append(place)

    def keep(self) -> None:
        """Step 1. Of two that have the same partition, which no sound target has, the first keeps it."""
        for place, subscriber in enumerate(self.spec.subscribers):
            meant = {topic_id: self.numbers[topic_id] for topic_id in subscriber.topic_ids}
            held = ((meant.get(topic_id, -1), partition) for topic_id, partition in subscriber.target)
            for topic, partition in sorted(held):
                if topic >= 0 and partition < len(self.free[topic]) and self.free[topic][partition]:
                    self._give(place, topic, partition)
                    self.free[topic][partition] = 0

    def deal(self) -> None:
        """Step 2."""
        for topic in sorted(range(len(self.topic_ids)), key=lambda one: (len(self.subscribers[one]), one)):
            least = [(self.loads[place], place) for place in self.subscribers[topic]]
            if not least or not any(self.free[topic]):
                continue
            heapq.heapify(least)
            for partition, is_free in enumerate(self.free[topic]):
                if is_free:
                    load, place = least[0]
                    self._give(place, topic, partition)
                    heapq.heapreplace(least, (load + 1, place))

    def even_out(self) -> None:
        """Step 3, from the fullest member down.

        Where no chain leads on from a member, none will later: all that can be reached from it are at most one below it, so
        none of them takes from elsewhere, and they need not be looked at again.
        """
        if max(self.loads, default=0) - min(self.loads, default=0) <= 1:
            return
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
                giver, topic = came_from[receiver]
                self._give(receiver, topic, self._take(giver, topic))
                receiver = giver
            heapq.heappush(fullest, (-self.loads[place], place))

    def partitions_of(self, place: int) -> list[TopicIdPartition]:
        """What a member has."""
        return [(self.topic_ids[topic], partition) for topic, pile in self.piles[place].items() for partition in pile]

    def _reach(self, start: int) -> tuple[dict[int, tuple[int, int]], int | None]:
        """Who can be given to from `start`, in the fewest steps, with the giver and the topic; and the emptiest of the
        nearest who have at least two less."""
        came_from = {start: (start, -1)}
        seen_topics: set[int] = set()
        ring = [start]
        while ring:
            following: list[int] = []
            for giver in ring:
                for topic in self.piles[giver]:
                    if topic in seen_topics:
                        continue
                    seen_topics.add(topic)
                    for place in self.subscribers[topic]:
                        if place not in came_from:
                            came_from[place] = (giver, topic)
                            following.append(place)
            emptiest = min(following, key=lambda one: (self.loads[one], one), default=start)
            if self.loads[emptiest] <= self.loads[start] - 2:
                return came_from, emptiest
            ring = following
        return came_from, None

    def _give(self, place: int, topic: int, partition: int) -> None:
        self.piles[place].setdefault(topic, []).append(partition)
        self.loads[place] += 1

    def _take(self, place: int, topic: int) -> int:
        pile = self.piles[place][topic]
        partition = pile.pop()
        if not pile:
            del self.piles[place][topic]
        self.loads[place] -= 1
        return partition
