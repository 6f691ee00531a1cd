"""How a node of the quorum reaches the others, and the part of the broker that uses it, as Protocols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from yak.ids import BrokerEpoch, NodeId
from yak.protocol.versions import FETCH

VOTE: Final = 52
BEGIN_QUORUM_EPOCH: Final = 53
END_QUORUM_EPOCH: Final = 54
DESCRIBE_QUORUM: Final = 55
ENVELOPE: Final = 58
FETCH_SNAPSHOT: Final = 59
ADD_RAFT_VOTER: Final = 80
REMOVE_RAFT_VOTER: Final = 81
UPDATE_RAFT_VOTER: Final = 82
VERSIONS_SENT: Final = {
    FETCH: 18,
    VOTE: 2,
    BEGIN_QUORUM_EPOCH: 1,
    END_QUORUM_EPOCH: 1,
    FETCH_SNAPSHOT: 1,
    UPDATE_RAFT_VOTER: 0,
    ENVELOPE: 0,
    DESCRIBE_QUORUM: 2,
    ADD_RAFT_VOTER: 1,
    REMOVE_RAFT_VOTER: 0,
}


@dataclass(slots=True, frozen=True)
class Address:
    """Where a node listens."""

    node_id: NodeId
    host: str
    port: int
    broker_epoch: BrokerEpoch = 0
    """Any incarnation may answer (`yak.core.peers`): it may have no registration yet."""


class Transport(Protocol):
    """Sends requests to other nodes of the quorum."""

    def send(self, address: Address, api_key: int, fields: dict[str, Any], done: Callable[[Any | None], None]) -> None:
        """Send a request; `done` gets kio's response object, or None when the connection fails first.

        Requests of one API to one node are answered in order; `done` is never called before `send` returns.
        """

    def forget(self, address: Address, api_key: int) -> None:
        """Close the connection for that API: `done` of the request under way is not called."""


class Listener(Protocol):
    """The part of the broker that uses the quorum as its metadata store."""

    def on_leader(self) -> None:
        """The leader, its epoch, or its readiness changed."""

    def on_applied(self) -> None:
        """Commands were applied."""
