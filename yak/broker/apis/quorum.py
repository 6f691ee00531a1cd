"""The APIs of the metadata quorum (KIP-595, 630, 853, 996), for clusters with `--metadata raft`.

Vote (key 52, v2), BeginQuorumEpoch (53, v1), EndQuorumEpoch (54, v1), FetchSnapshot (59, v1) and UpdateRaftVoter (82, v0) go
between the quorum's nodes. Envelope (58, v0) takes a broker's call of the metadata store to the quorum's leader
(KIP-590), and a client's commands about fault rules to any broker (`yak.broker.fault_injection`). AddRaftVoter (80,
v0-1) and RemoveRaftVoter (81, v0) come from clients, and are forwarded to the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yak.acls.bindings import Operation
from yak.broker.api_table import Api
from yak.broker.call import Call, Now, Outcome
from yak.broker.quorum_node import NO_LEADER, between_nodes, forward_to_leader, node_for_brokers, serve_in_quorum
from yak.errors import ErrorCode, PeerError
from yak.faults import COMMAND
from yak.quorum.transport import (
    ADD_RAFT_VOTER,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    ENVELOPE,
    FETCH_SNAPSHOT,
    REMOVE_RAFT_VOTER,
    UPDATE_RAFT_VOTER,
    VOTE,
)

if TYPE_CHECKING:
    from yak.broker.broker import Broker

BETWEEN_BROKERS: Final = frozenset(
    {VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, ENVELOPE, FETCH_SNAPSHOT, UPDATE_RAFT_VOTER}
)
"""Kafka lists these for controllers only, so ApiVersions leaves them out."""
OF_A_QUORUM: Final = frozenset({ADD_RAFT_VOTER, REMOVE_RAFT_VOTER})
"""ApiVersions lists these in a cluster with a quorum."""


def envelope(broker: Broker, call: Call) -> Outcome:
    """A call of the metadata store: by another broker, or by HTTP of this broker, which may not be the leader.

    A client's is about the fault rules of this broker.
    """
    if call.request.request_data.startswith(COMMAND):
        return broker.faults.command(call)
    if call.connection.is_in_process and broker.quorum is not None:
        quorum = broker.quorum
        if quorum.quorum.leader is None:
            return forward_to_leader(broker, call, {"response_data": None, "error_code": NO_LEADER[0]})
        return serve_in_quorum(broker, call, lambda respond: quorum.quorum_store.serve(call.request, respond))
    node = node_for_brokers(broker, call)
    return serve_in_quorum(broker, call, lambda respond: node.quorum_store.serve(call.request, respond))


def change_voters(broker: Broker, call: Call) -> Outcome:
    """A client's change of the voters: the leader makes it, any other broker forwards it."""
    try:
        broker.authorization.check_cluster(call, Operation.ALTER)
    except PeerError as error:
        return Now({"error_code": error.error_code, "error_message": error.message})
    if broker.quorum is None:
        message = "the metadata of this cluster are in Redis; a quorum needs --metadata raft"
        return Now({"error_code": ErrorCode.unsupported_version, "error_message": message})
    quorum = broker.quorum.quorum
    if quorum.leader is not None:
        return serve_in_quorum(broker, call, lambda respond: quorum.handle(call.api_key, call.request, respond))
    failed = {"error_code": NO_LEADER[0], "error_message": NO_LEADER[1]}
    return forward_to_leader(broker, call, failed)


_ADDITION_ABSENT: Final = "acknowledgement before the commit", "a wait of more than 25 s"
APIS: tuple[Api, ...] = (
    Api(VOTE, "Vote", range(2, 3), between_nodes, ("versions before pre-votes",)),
    Api(BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", range(1, 2), between_nodes, ("versions without directory ids",)),
    Api(END_QUORUM_EPOCH, "EndQuorumEpoch", range(1, 2), between_nodes, ("versions without directory ids",)),
    Api(
        ENVELOPE,
        "Envelope",
        range(1),
        envelope,
        ("forwarding of client requests: it carries calls of the metadata store, and fault commands",),
    ),
    Api(FETCH_SNAPSHOT, "FetchSnapshot", range(1, 2), between_nodes, ("versions without directory ids",)),
    Api(ADD_RAFT_VOTER, "AddRaftVoter", range(2), change_voters, _ADDITION_ABSENT),
    Api(REMOVE_RAFT_VOTER, "RemoveRaftVoter", range(1), change_voters),
    Api(UPDATE_RAFT_VOTER, "UpdateRaftVoter", range(1), between_nodes),
)
