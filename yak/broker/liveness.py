"""Which brokers clients may be sent to: those that serve, also while they hand over what they lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.cluster.image import BrokerInfo, Delta, Image
from yak.cluster.records import BrokerState
from yak.ids import NodeId

if TYPE_CHECKING:
    from yak.broker.broker import Broker

LISTED_MS = 5_000
"""For so long after its end a broker is listed. A client that lost its connection to one asks within some hundred ms; one that
has to wait between its connects asks within a second or two."""


def is_serving(info: BrokerInfo | None) -> bool:
    """Whether a broker serves: ACTIVE, or STOPPING until others took over (Kafka lists both as alive)."""
    return info is not None and info.state in (BrokerState.ACTIVE, BrokerState.STOPPING)


def is_librdkafka(client_software: str) -> bool:
    """Whether a client is librdkafka or a binding to it: they name it, or themselves, which is either a name with
    `rdkafka` or one of Confluent's (`confluent-kafka-python 2.16.1-rdkafka-2.16.0`)."""
    return "rdkafka" in client_software or client_software.startswith("confluent-kafka")


def serving_brokers(image: Image) -> list[BrokerInfo]:
    """All that serve, by node id."""
    return [info for _node_id, info in sorted(image.brokers.items()) if is_serving(info)]


class Departed:
    """Brokers that served until a moment ago: they are listed still for clients that may have to change their leaders.

    Since 2.10 librdkafka ends what it has for a broker that Metadata lists no more, in another thread than the one that
    takes the new leaders from the same answer. Where the first comes last, the partition is left with nobody, and new
    leaders are only looked for at the next round, up to a second later (rd_kafka_metadata_decommission_unavailable_brokers;
    rd_kafka_broker_fail, which forgets the leader of what is just being moved away). So first they are told of the new
    leaders, and of the end of the broker some time after. Other clients see live brokers only, as Kafka lists them: Java's
    client begins again with its bootstrap servers when none of the brokers it knows answers (KIP-899, KIP-1102).
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._serving: dict[NodeId, None] = {}
        self._since_ms: dict[NodeId, int] = {}

    def image_changed(self, delta: Delta) -> None:
        """Note who serves, and who ceased to."""
        if not delta.brokers_changed:
            return
        before = self._serving
        self._serving = {info.node_id: None for info in serving_brokers(self._broker.image)}
        for node_id in before:
            if node_id not in self._serving:
                self._since_ms[node_id] = self._broker.now_ms

    def listed(self, client_software: str) -> list[BrokerInfo]:
        """All that serve, by node id, and for a client on librdkafka those that did a moment ago.

        `client_software` is the name and version that the client gave in ApiVersions (KIP-511).
        """
        image = self._broker.image
        if not self._since_ms or not is_librdkafka(client_software):
            return serving_brokers(image)
        after_ms = self._broker.now_ms - LISTED_MS
        self._since_ms = {node_id: at_ms for node_id, at_ms in self._since_ms.items() if at_ms > after_ms}
        return [
            info for node_id, info in sorted(image.brokers.items()) if is_serving(info) or node_id in self._since_ms
        ]
