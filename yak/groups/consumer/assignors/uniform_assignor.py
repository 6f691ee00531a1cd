"""`uniform`: an even assignment with as few moves as possible (KIP-848; UniformAssignor.java).

Balance comes before stickiness. Three steps:

1. Each member keeps its partitions of the topics that it subscribes to.
2. Each unassigned partition goes to the subscriber with the fewest partitions; topics with few subscribers come first.
3. While one member has two partitions more than another, one partition moves, either directly or along a chain of
   members that can pass one on.

With one subscription for all, the third step ends with all members within one of each other. With different
subscriptions it ends where no chain of moves makes the loads more even. The loads are then as even as these
subscriptions allow: an optimal semi-matching (Harvey, Ladner, Lovász and Tamir 2006, whose cost-reducing paths these
chains are). Kafka's assignor stops earlier there. Racks are ignored, as in Kafka 4.
"""

from __future__ import annotations

import heapq

from yak.groups.consumer.assignors.spec import AssignmentSpec, topics_alike
from yak.groups.consumer.partitions import Partitions, TopicIdPartition, by_topic


def assign_uniformly(spec: AssignmentSpec) -> dict[str, Partitions]:
    """Assign every partition of every subscribed topic to one of its subscribers."""
    dealing = _UniformAssignment(spec)
    dealing.keep()
    dealing.give_back()
    dealing.deal()
    dealing.even_out()
    return {
        subscriber.member_id: frozenset(dealing.partitions_of(place))
        for place, subscriber in enumerate(spec.subscribers)
    }


class _UniformAssignment:
    """An assignment under construction. Members and topics are indexes in the spec, since ids are slow to compare.

    Topics with the same subscribers are a kind. `piles[member][kind]` has a member's partitions of these topics, those of
    its old target first. A pile loses partitions from its end, so moved ones move again first.
    """

    def __init__(self, spec: AssignmentSpec) -> None:
        self.spec = spec
        self.topic_ids = sorted(spec.num_partitions)
        self.numbers = {topic_id: number for number, topic_id in enumerate(self.topic_ids)}
        alike = topics_alike(spec)
        self.subscribers = [subscribers for subscribers, _topic_ids in alike]
        self.kinds = [0] * len(self.topic_ids)
        for kind, (_subscribers, topic_ids) in enumerate(alike):
            for topic_id in topic_ids:
                self.kinds[self.numbers[topic_id]] = kind
        self.free = [bytearray(b"\x01" * spec.num_partitions[topic_id]) for topic_id in self.topic_ids]
        self.loads = [0] * len(spec.subscribers)
        self.piles: list[dict[int, list[tuple[int, int]]]] = [{} for _ in spec.subscribers]

    def keep(self) -> None:
        """Step 1. If two targets share a partition, which is invalid, the first member keeps it."""
        for place, subscriber in enumerate(self.spec.subscribers):
            for topic_id, partitions in by_topic(subscriber.target):
                topic = self.numbers[topic_id] if topic_id in subscriber.topic_ids else -1
                for partition in partitions if topic >= 0 else ():
                    if partition < len(self.free[topic]) and self.free[topic][partition]:
                        self._give(place, topic, partition)
                        self.free[topic][partition] = 0

    def give_back(self) -> None:
        """Free what a member has above its share, where all topics have the same subscribers: nothing is left for step 3.

        That moves a partition at a time, at a cost that grows with the members.
        """
        if len(self.subscribers) != 1:
            return
        (subscribers,) = self.subscribers
        share, larger = divmod(sum(map(len, self.free)), len(subscribers))
        for place in reversed(subscribers):
            is_larger = self.loads[place] > share and larger > 0
            larger -= is_larger
            while self.loads[place] > share + is_larger:
                topic, partition = self._take(place, 0)
                self.free[topic][partition] = 1

    def deal(self) -> None:
        """Step 2."""
        subscribers = [self.subscribers[kind] for kind in self.kinds]
        for topic in sorted(range(len(self.topic_ids)), key=lambda one: (len(subscribers[one]), one)):
            if not subscribers[topic] or not any(self.free[topic]):
                continue
            least = [(self.loads[place], place) for place in subscribers[topic]]
            heapq.heapify(least)
            for partition, is_free in enumerate(self.free[topic]):
                if is_free:
                    load, place = least[0]
                    self._give(place, topic, partition)
                    heapq.heapreplace(least, (load + 1, place))

    def even_out(self) -> None:
        """Step 3, starting with the member with the most partitions.

        Members reached from a member without a chain are settled. All of them have at most one partition less than it,
        so none of them takes from elsewhere, and they need no second pass.
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
                giver, kind = came_from[receiver]
                self._give(receiver, *self._take(giver, kind))
                receiver = giver
            heapq.heappush(fullest, (-self.loads[place], place))

    def partitions_of(self, place: int) -> list[TopicIdPartition]:
        """The partitions of a member."""
        return [(self.topic_ids[topic], partition) for pile in self.piles[place].values() for topic, partition in pile]

    def _reach(self, start: int) -> tuple[dict[int, tuple[int, int]], int | None]:
        """Search receivers from `start`, by the number of moves.

        Returns each reached member with its giver and kind of topic. The second value is the member with the fewest partitions
        among the nearest that have at least two less, or None.
        """
        came_from = {start: (start, -1)}
        seen: set[int] = set()
        ring = [start]
        while ring:
            following: list[int] = []
            for giver in ring:
                for kind in self.piles[giver]:
                    if kind in seen:
                        continue
                    seen.add(kind)
                    for place in self.subscribers[kind]:
                        if place not in came_from:
                            came_from[place] = (giver, kind)
                            following.append(place)
            emptiest = min(following, key=lambda one: (self.loads[one], one), default=start)
            if self.loads[emptiest] <= self.loads[start] - 2:
                return came_from, emptiest
            ring = following
        return came_from, None

    def _give(self, place: int, topic: int, partition: int) -> None:
        self.piles[place].setdefault(self.kinds[topic], []).append((topic, partition))
        self.loads[place] += 1

    def _take(self, place: int, kind: int) -> tuple[int, int]:
        pile = self.piles[place][kind]
        taken = pile.pop()
        if not pile:
            del self.piles[place][kind]
        self.loads[place] -= 1
        return taken
