"""Which brokers clients may be sent to: those that serve, also while they hand over what they lead."""

from yak.cluster.image import BrokerInfo, Image
from yak.cluster.records import BrokerState


def is_serving(info: BrokerInfo | None) -> bool:
    """Whether a broker serves: ACTIVE, or STOPPING until others took over (Kafka lists both as alive)."""
    return info is not None and info.state in (BrokerState.ACTIVE, BrokerState.STOPPING)


def serving_brokers(image: Image) -> list[BrokerInfo]:
    """All that serve, by node id."""
    return [info for _node_id, info in sorted(image.brokers.items()) if is_serving(info)]
