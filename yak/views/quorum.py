"""The metadata quorum: this broker's own node, and the description by the quorum's leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from yak.view.lag import lag_records

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.cluster.image import BrokerInfo
    from yak.ids import NodeId, Offset
    from yak.quorum.quorum import Quorum

ROLES: Final = ("leader", "follower", "observer", "candidate", "prospective", "unattached")
"""What a broker is in its epoch; an observer does not vote."""


def own_quorum_json(broker: Broker) -> dict[str, Any] | None:
    """What this broker's node knows of the quorum; None without a quorum."""
    if broker.quorum is None:
        return None
    quorum = broker.quorum.quorum
    return {
        "role": role_of(quorum),
        "leader_id": None if quorum.leader_id < 0 else quorum.leader_id,
        "epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "voters": list(quorum.voters.node_ids),
        "caught_up": _caught_up_voters(quorum),
    }


def _caught_up_voters(quorum: Quorum) -> int | None:
    """The number of voters that had all of the log within the fetch timeout; only the leader knows."""
    leader = quorum.leader
    if leader is None:
        return None
    since_ms, node_id = quorum.now_ms - quorum.config.fetch_timeout_ms, quorum.config.node_id
    return sum(
        voter.node_id == node_id or leader.state_of(voter).last_caught_up_ms >= since_ms
        for voter in quorum.voters.voters
    )


def role_of(quorum: Quorum) -> str:
    """The node's role in its epoch; `observer` if it does not vote."""
    return quorum.role.value if quorum.is_voter else "observer"


def described_quorum_json(described: Any, brokers: Mapping[NodeId, BrokerInfo]) -> dict[str, Any]:
    """An answer of DescribeQuorum: the leader's view of all nodes. Offsets and times that it does not know are null.

    The answer has the addresses of voters; those of observers are in their registrations, `brokers`.
    """
    partition = described.topics[0].partitions[0]
    addresses: dict[NodeId, Any] = {**brokers}
    addresses |= {node.node_id: node.listeners[0] for node in described.nodes if node.listeners}
    end = leader_log_end(partition)

    def node_json(replica: Any) -> dict[str, Any]:
        does_fetch = replica.replica_id != partition.leader_id
        return {
            **_node_json(
                replica.replica_id,
                replica.replica_directory_id,
                addresses.get(replica.replica_id),
                _known(replica.log_end_offset),
            ),
            "lag": lag_records(_known(replica.log_end_offset), end),
            "last_fetch_time_ms": _known(replica.last_fetch_timestamp) if does_fetch else None,
            "last_caught_up_time_ms": _known(replica.last_caught_up_timestamp),
        }

    return {
        "leader_id": partition.leader_id,
        "epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "voters": [node_json(replica) for replica in partition.current_voters],
        "observers": [node_json(replica) for replica in partition.observers],
    }


def leader_log_end(partition: Any) -> Offset:
    """The log end offset of the leader in a DescribeQuorum response, which lags count up to."""
    ends = {replica.replica_id: int(replica.log_end_offset) for replica in partition.current_voters}
    return ends.get(partition.leader_id, int(partition.high_watermark))


def undescribed_quorum_json(quorum: Quorum) -> dict[str, Any]:
    """The same from this node alone, while no leader answers: it knows the voters, and no other node's log."""
    ends = {quorum.config.node_id: quorum.log.end_offset}
    unknown = {"lag": None, "last_fetch_time_ms": None, "last_caught_up_time_ms": None}
    voters = [
        {**_node_json(voter.node_id, voter.directory_id, voter, ends.get(voter.node_id)), **unknown}
        for voter in quorum.voters.voters
    ]
    return {
        "leader_id": None if quorum.leader_id < 0 else quorum.leader_id,
        "epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "voters": voters,
        "observers": [],
    }


def _node_json(node_id: NodeId, directory_id: Any, address: Any, log_end_offset: Offset | None) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "directory_id": None if directory_id is None else str(directory_id),
        "host": None if address is None else address.host,
        "port": None if address is None else address.port,
        "log_end_offset": log_end_offset,
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number
