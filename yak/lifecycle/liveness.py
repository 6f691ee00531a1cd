"""Brokers that clients may connect to: those that serve, also during their controlled shutdown."""

from __future__ import annotations

from collections.abc import Mapping

from yak.cluster.image import BrokerInfo, Image
from yak.cluster.records import BrokerState
from yak.core.context import Context
from yak.ids import NodeId

LISTED_MS = 5_000
"""How long a fenced broker stays listed. A client that lost its connection sends Metadata within a few hundred ms; one
that backs off between connects, within a second or two.

It is not listed for longer, since librdkafka counts a broker that it lost as down until it connects to it again. When
it has lost each of them once, it drops all at the next loss, and starts from its bootstrap servers again."""


def is_serving(info: BrokerInfo | None) -> bool:
    """Whether a broker serves: ACTIVE, or STOPPING until others took over (Kafka lists both as alive)."""
    return info is not None and info.state in (BrokerState.ACTIVE, BrokerState.STOPPING)


def is_librdkafka(client_software: str) -> bool:
    """Whether a client is librdkafka or a binding to it. Its software name contains `rdkafka`, or is one of Confluent's
    (`confluent-kafka-python 2.16.1-rdkafka-2.16.0`)."""
    return "rdkafka" in client_software or client_software.startswith("confluent-kafka")


def serving_brokers(image: Image) -> list[BrokerInfo]:
    """All brokers that serve, by node id."""
    return [info for _node_id, info in sorted(image.brokers.items()) if is_serving(info)]


class RecentlyFenced:
    """Recently fenced brokers: Metadata still lists them for clients on librdkafka.

    Since 2.10 librdkafka drops its state for a broker that Metadata lists no more. It does so in another thread than
    the one that applies the new leaders of the same answer. If the drop comes last, the partition has no leader until
    the next refresh, up to a second later (rd_kafka_metadata_decommission_unavailable_brokers; rd_kafka_broker_fail,
    which forgets the leader of a partition that is being moved). So librdkafka gets the new leaders first, and the end
    of the broker later. For other clients Metadata lists live brokers only, as Kafka does: the Java client goes back to
    its bootstrap servers when none of its known brokers answers (KIP-899, KIP-1102).
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._brokers: Mapping[NodeId, BrokerInfo] = {}
        """The brokers of the newest image that was checked."""
        self._since_ms: dict[NodeId, int] = {}

    def image_changed(self) -> None:
        """Note which brokers stopped serving."""
        before, self._brokers = self._brokers, self._context.image.brokers
        if self._brokers is before:
            return
        for node_id, info in before.items():
            if is_serving(info) and not is_serving(self._brokers.get(node_id)):
                self._since_ms[node_id] = self._context.clock.now_ms

    def listed(self, client_software: str, *, live_only: bool) -> list[BrokerInfo]:
        """All brokers that serve, by node id; for a client on librdkafka also the recently fenced ones.

        `client_software` is the client's name and version from ApiVersions (KIP-511). With `live_only` it gets the fenced
        ones only while no broker serves, as for a moment after a restore of the metadata: a client on librdkafka 2.16 that
        got an answer without brokers dropped all it knew, and never connected again.
        """
        # a request may come before `image_changed`: between the slices in which a large image is put in force
        self.image_changed()
        image = self._context.image
        serving = serving_brokers(image)
        if not self._since_ms or not is_librdkafka(client_software):
            return serving
        if serving:
            after_ms = self._context.clock.now_ms - LISTED_MS
            self._since_ms = {node_id: at_ms for node_id, at_ms in self._since_ms.items() if at_ms > after_ms}
            if live_only:
                return serving
        return [
            info for node_id, info in sorted(image.brokers.items()) if is_serving(info) or node_id in self._since_ms
        ]
