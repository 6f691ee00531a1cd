"""Whether the other brokers have the listener that this broker uses between brokers (`inter.broker.listener.name`).

Kafka refuses requests to a broker without it (BrokerEndPointNotAvailableException). YAK tries the broker's own
inter-broker listener instead, which works when the security protocols agree, and says so in the log.
"""

from typing import Final

from yak.cluster.records import BrokerState
from yak.cluster.registration import Identity
from yak.core.context import Context
from yak.ids import NodeId

_HINT: Final = "give all brokers this listener, or set inter.broker.listener.name alike; yak doctor shows each broker's"


class BrokerListeners:
    """Logs each broker that lacks the listener, once for each reason, and again when it changes."""

    def __init__(self, context: Context, identity: Identity) -> None:
        self._context, self._identity = context, identity
        self._logged: dict[NodeId, str] = {}

    def check(self) -> None:
        """The brokers of the image changed."""
        listener, brokers = self._identity.inter_broker, self._context.image.brokers
        found = {
            node_id: why
            for node_id, info in brokers.items()
            if node_id != self._identity.node_id and info.state is BrokerState.ACTIVE and (why := info.lacks(listener))
        }
        for node_id, why in found.items():
            if self._logged.get(node_id) != why:
                self._context.notice(
                    "warning",
                    "inter-broker-listener-missing",
                    node_id=node_id,
                    listener=listener.name,
                    why=why,
                    hint=_HINT,
                )
        self._logged = found
