"""The brokers of a cluster, including those that are down, with selected read-only configs of each.

Metadata lists only live brokers. DescribeCluster v2 (key 60, KIP-1073) adds the others that are registered as fenced
ones; a live broker's config lists those with a controlled shutdown. A broker that has replicas and is in neither list
was unregistered. All live brokers describe their own configs in parallel (DescribeConfigs, key 32); a broker that
does not answer is listed as such.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from yak.client.metadata import Broker, ClusterMetadata
from yak.client.raw_connection import BROKER_RESOURCE, RawConnection, describe_configs
from yak.client.reach import of_each
from yak.ids import NodeId
from yak.view.broker_state import SeenState

ROLE: Final = "yak.broker.role"
STOPPED: Final = "yak.stopped.brokers"
ANSWER_SECONDS: Final = 3.0
_DESCRIBE_CLUSTER: Final = 60
_ADVERTISED: Final = "advertised.listeners"


@dataclass(frozen=True, slots=True)
class Member:
    """One broker. `configs` has the requested configs that it has; empty for a broker that is not ACTIVE."""

    node_id: NodeId
    address: str | None
    rack: str | None
    state: SeenState
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def role(self) -> str | None:
        """Leader or follower; None for brokers other than YAK's."""
        return self.configs.get(ROLE) or None


def read_members(
    metadata: ClusterMetadata, *, answered: str, timeout_s: float, names: Sequence[str] = (ROLE,)
) -> tuple[Member, ...]:
    """All brokers by id. Never raises.

    `answered` is the address to ask for brokers that are down.
    """
    patience = min(ANSWER_SECONDS, timeout_s)
    addresses = [answered, *(broker.address for broker in metadata.brokers.values())]
    partitions = (each for topic in metadata.topics.values() for each in topic.partitions)
    holders = {node for each in partitions for node in each.replicas}
    known = list_members(metadata.brokers, holders, addresses, timeout_s=patience)
    up = [node for node, member in known.items() if member.state is SeenState.ACTIVE]
    for node, configs in of_each(up, lambda node: own_configs(metadata.brokers[node], names, patience)).items():
        member = known[node]
        known[node] = replace(member, state=member.state.seen(answers=configs is not None), configs=configs or {})
    return tuple(known.values())


def list_members(
    live: Mapping[NodeId, Broker], holders: Iterable[NodeId], addresses: Iterable[str], *, timeout_s: float
) -> dict[NodeId, Member]:
    """The live brokers, the fenced and stopped ones, and `holders` of replicas that are neither; without their configs.

    The fenced brokers come from the first of `addresses` that answers. Never raises.
    """
    found = {node: Member(node, broker.address, None, SeenState.ACTIVE) for node, broker in live.items()}
    unique = dict.fromkeys(addresses)
    answers = ((address, each) for address in unique if (each := _described(address, timeout_s)) is not None)
    address, described = next(answers, ("", None))
    fenced = [broker.node_id for broker, _, is_fenced in described or () if is_fenced and broker.node_id not in live]
    # first the broker that just answered: another one may be stuck
    brokers = sorted(live.values(), key=lambda broker: broker.address != address)
    stopped = _stopped(brokers, timeout_s) if fenced else ()
    for broker, rack, _ in described or ():
        node = broker.node_id
        if node in live or node in fenced:
            down = SeenState.CLOSED if node in stopped else SeenState.FENCED
            found[node] = Member(node, broker.address, rack, SeenState.ACTIVE if node in live else down)
    for node in holders:
        found.setdefault(
            node,
            Member(node, None, None, SeenState.DOWN if described is None else SeenState.CLOSED),
        )
    return dict(sorted(found.items()))


def _described(address: str, timeout_s: float) -> list[tuple[Broker, str | None, bool]] | None:
    """Broker, rack and whether it is fenced (False from old brokers); None when the address does not answer."""
    plain = {"include_cluster_authorized_operations": False}
    for version, fields in ((2, plain | {"include_fenced_brokers": True}), (0, plain)):
        try:
            with RawConnection(address, timeout_s=timeout_s) as connection:
                answer = connection.call((_DESCRIBE_CLUSTER, version), fields)
        except OSError:  # brokers close the connection on an unsupported version
            continue
        return [
            (Broker(int(each.broker_id), each.host, int(each.port)), each.rack, getattr(each, "is_fenced", False))
            for each in answer.brokers
        ]
    return None


def _stopped(live: Iterable[Broker], timeout_s: float) -> list[NodeId]:
    """The brokers that were stopped in order, from the first live broker that answers."""
    answers = (own_configs(broker, (STOPPED,), timeout_s) for broker in live)
    stopped = next((each for each in answers if each is not None), {}).get(STOPPED, "")
    return [int(node) for node in stopped.split(",") if node]


def _configs_of(
    address: str, nodes: Iterable[NodeId], names: Sequence[str], timeout_s: float
) -> dict[NodeId, dict[str, str]]:
    """What the broker at `address` says of these brokers' configs. Raises OSError."""
    with RawConnection(address, timeout_s=timeout_s) as connection:
        found = describe_configs(connection, BROKER_RESOURCE, list(map(str, nodes)), names)
    return {int(node): configs for node, configs in found.items()}


def own_configs(broker: Broker, names: Sequence[str], timeout_s: float) -> dict[str, str] | None:
    """The broker's own values of these configs; None when it does not answer."""
    try:
        return _configs_of(broker.address, [broker.node_id], names, timeout_s).get(broker.node_id, {})
    except OSError:
        return None


def listener_name(address: str, advertised: Mapping[int, str], *, timeout_s: float) -> str:
    """The name of the listener at `address`, whose Metadata response has the `advertised` addresses; empty if not known.

    A broker answers for its own configs only, so the request names each broker: the one at `address` answers, and the entry
    of `advertised.listeners` with its address names the listener.
    """
    try:
        found = _configs_of(address, advertised, (_ADVERTISED,), timeout_s)
    except OSError:
        return ""
    for node_id, configs in found.items():
        for entry in configs.get(_ADVERTISED, "").split(","):
            name, _, where = entry.strip().partition("://")
            if where == advertised.get(node_id):
                return name
    return ""
