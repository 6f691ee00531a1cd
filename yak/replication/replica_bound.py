"""The bound on replicas of one broker: each costs files, memory and time, and a client may request any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import cast

from yak.cluster.image import Image
from yak.cluster.payload import parse_nodes
from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.ids import NodeId
from yak.ports.metadata_store import StoreRequest


class ReplicaBound:
    """Replicas of each broker: those of the image, and those of requests sent since."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._image: Image | None = None
        self._replicas: Counter[NodeId] = Counter()

    def check(self, requests: Sequence[StoreRequest]) -> None:
        """Raise PeerError (POLICY_VIOLATION) when a broker would exceed `yak.max.broker.partitions` replicas."""
        image, replicas_max = self._context.image, self._context.config.yak_max_broker_partitions
        if image is not self._image:
            self._image, self._replicas = image, _replicas_of(image)
        for node_id, new in sorted(_new_replicas(requests).items()):
            held = self._replicas[node_id]
            if held + new > replicas_max:
                message = (
                    f"Broker {node_id} has {held} replicas and would get {new} more; yak.max.broker.partitions allows "
                    f"{replicas_max}. Ask for fewer partitions, delete topics, or add brokers."
                )
                raise PeerError(ErrorCode.policy_violation, message)

    def count(self, requests: Sequence[StoreRequest]) -> None:
        """Count the replicas of requests that were sent, until the image shows them."""
        self._replicas.update(_new_replicas(requests))


def _replicas_of(image: Image) -> Counter[NodeId]:
    made = chain.from_iterable(topic.partitions for topic in image.topics.values())
    pending = chain.from_iterable(topic.partitions.values() for topic in image.pending.values())
    return Counter(chain.from_iterable(info.replicas for info in chain(made, pending)))


def _new_replicas(requests: Sequence[StoreRequest]) -> Counter[NodeId]:
    """Counted by replica list first: the partitions of a topic share few different lists."""
    new: Counter[NodeId] = Counter()
    for request in requests:
        partitions = cast("list[dict[str, str]]", request.arguments["partitions"])
        for replicas, times in Counter(partition["replicas"] for partition in partitions).items():
            for node_id in parse_nodes(replicas):
                new[node_id] += times
    return new
