"""The bound on replicas of one broker: each costs files, memory and time, and a client may request any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import cast

from yak.cluster.image import Delta, Image, PartitionInfo
from yak.cluster.payload import parse_nodes
from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.ids import NodeId
from yak.ports.metadata_store import StoreRequest


class ReplicaBound:
    """Replicas of each broker: those of the image, and those of requests sent since."""

    def __init__(self, context: Context) -> None:
        self._context = context
        topics = context.image.topics.values()
        self._replicas = _replicas_of(chain.from_iterable(topic.partitions for topic in topics))
        self._sent: Counter[NodeId] = Counter()
        self._pending: tuple[object, Counter[NodeId]] = None, Counter()
        """The incomplete topics of an image, and their replicas."""

    def image_changed(self, before: Image, delta: Delta) -> None:
        """Count what changed: a request that creates a topic must not visit the partitions of all others."""
        topics = self._context.image.topics
        for name in dict.fromkeys((*delta.topics_changed, *(name for name, _topic_id in delta.topics_removed))):
            old, new = before.topics.get(name), topics.get(name)
            if old is None or new is None or old.topic_id != new.topic_id:
                self._replicas.subtract(_replicas_of(() if old is None else old.partitions))
                self._replicas.update(_replicas_of(() if new is None else new.partitions))
                continue
            held = len(old.partitions)
            numbers = {*delta.partitions_changed.get(name, ()), *range(held, len(new.partitions))}
            self._replicas.subtract(_replicas_of(old.partitions[number] for number in numbers if number < held))
            self._replicas.update(_replicas_of(new.partitions[number] for number in numbers))
        self._sent.clear()

    def check(self, requests: Sequence[StoreRequest]) -> None:
        """Raise PeerError (POLICY_VIOLATION) when a broker would exceed `yak.max.broker.partitions` replicas."""
        pending, replicas_max = self._context.image.pending, self._context.config.yak_max_broker_partitions
        if self._pending[0] is not pending:
            partitions = chain.from_iterable(topic.partitions.values() for topic in pending.values())
            self._pending = pending, _replicas_of(partitions)
        for node_id, new in sorted(_new_replicas(requests).items()):
            held = self._replicas[node_id] + self._pending[1][node_id] + self._sent[node_id]
            if held + new > replicas_max:
                message = (
                    f"Broker {node_id} has {held} replicas and would get {new} more; yak.max.broker.partitions allows "
                    f"{replicas_max}. Ask for fewer partitions, delete topics, or add brokers."
                )
                raise PeerError(ErrorCode.policy_violation, message)

    def count(self, requests: Sequence[StoreRequest]) -> None:
        """Count the replicas of requests that were sent, until the image shows them."""
        self._sent.update(_new_replicas(requests))


def _replicas_of(partitions: Iterable[PartitionInfo]) -> Counter[NodeId]:
    return Counter(chain.from_iterable(info.replicas for info in partitions))


def _new_replicas(requests: Sequence[StoreRequest]) -> Counter[NodeId]:
    """Counted by replica list first: the partitions of a topic share few different lists."""
    new: Counter[NodeId] = Counter()
    for request in requests:
        partitions = cast("list[dict[str, str]]", request.arguments["partitions"])
        for replicas, times in Counter(partition["replicas"] for partition in partitions).items():
            for node_id in parse_nodes(replicas):
                new[node_id] += times
    return new
