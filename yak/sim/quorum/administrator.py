"""The operator, who adds and removes voters, and replaces voters whose disks are lost."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from yak.errors import ErrorCode
from yak.ids import NodeId
from yak.quorum.transport import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, Address
from yak.quorum.voters import LISTENER, Voter
from yak.sim.quorum.network import Requests
from yak.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from yak.sim.network import Network
    from yak.sim.quorum.node import QuorumNode

_VOTERS_MAX: Final = 5


class Administrator:
    """Sends one change at a time, and again until it has an answer."""

    party = "operator"
    incarnation = 0

    def __init__(
        self, network: Network, timeout_ms: int, rng: SeededRandom, nodes: dict[NodeId, QuorumNode], cluster_id: str
    ) -> None:
        self._world, self._rng, self._nodes = network.world, rng, nodes
        self.requests = Requests(network, self, timeout_ms)
        self._cluster_id = cluster_id
        self.lost: Voter | None = None
        """A voter whose disk is gone: it is removed before anything else changes."""
        self.is_changing = False
        """Whether a change is under way, or may still take effect."""
        self.is_over = False
        self.counts = {"voters added": 0, "voters removed": 0, "changes refused": 0}

    def deliver(self, incarnation: int, action: Callable[[], None], source: object = None) -> None:  # noqa: ARG002
        """The operator never ends."""
        action()

    # ---------------------------------------------------------------------------------------------------- changes

    def change_something(self) -> None:
        leader = self._leader()
        if leader is None or leader.quorum is None or self.is_changing or self.lost is not None or self.is_over:
            return
        voters = leader.quorum.voters
        if any(voter.port != self._nodes[voter.node_id].port for voter in voters.voters):
            # a voter that has moved comes first: the others do not reach it before its report
            return
        others = [node for node in self._nodes.values() if voters.get(node.node_id) is None]
        may_remove = len(voters.voters) > (2 if self._rng.chance(80) else 1)
        if others and len(voters.voters) < _VOTERS_MAX and (self._rng.chance(60) or not may_remove):
            self.add(self._rng.choice(others))
        elif may_remove:
            self.remove(self._rng.choice(voters.voters))

    def may_do_without(self, node: QuorumNode) -> bool:
        """Whether the leader knows two other voters."""
        leader = self._leader()
        if leader is None or leader.quorum is None:
            return False
        return len([voter for voter in leader.quorum.voters.voters if voter.node_id != node.node_id]) >= 2

    def replace(self, lost: Voter) -> None:
        """Remove a voter whose disk is lost, then add the node with its new disk."""
        self.lost = lost
        self.remove(lost)

    def add(self, node: QuorumNode) -> None:
        self.is_changing = True
        fields = {
            "cluster_id": self._cluster_id,
            "timeout": self._rng.choice((200, 1_000, 3_000)),
            "voter_id": node.node_id,
            "voter_directory_id": node.directory_id,
            "listeners": [{"name": LISTENER, "host": node.host, "port": node.port}],
        }
        self._send(ADD_RAFT_VOTER, fields, 4, self._added)

    def remove(self, voter: Voter) -> None:
        self.is_changing = True
        fields = {
            "cluster_id": self._cluster_id,
            "voter_id": voter.node_id,
            "voter_directory_id": voter.directory_id or uuid.UUID(int=0),
        }
        tries = 4 if self.lost is None else 1_000
        self._send(REMOVE_RAFT_VOTER, fields, tries, self._removed)

    def _added(self) -> None:
        self.counts["voters added"] += 1
        self.is_changing = False

    def _removed(self) -> None:
        self.counts["voters removed"] += 1
        self.is_changing = False
        lost, self.lost = self.lost, None
        if lost is not None:
            self.add(self._nodes[lost.node_id])

    def _leader(self) -> QuorumNode | None:
        leads = [node for node in self._nodes.values() if node.quorum is not None and node.quorum.leader is not None]
        return self._rng.choice(leads) if leads else None

    def _send(self, api_key: int, fields: dict[str, Any], tries: int, done: Callable[[], None]) -> None:
        if tries == 0 or self.is_over:
            self.is_changing = False
            return
        leader = self._leader()

        def again() -> None:
            self._world.after(self._rng.between(50_000, 300_000), lambda: self._send(api_key, fields, tries - 1, done))

        def answered(response: Any | None) -> None:
            if response is None:
                again()
            elif response.error_code in (ErrorCode.none, ErrorCode.duplicate_voter, ErrorCode.voter_not_found):
                done()
            else:
                self.counts["changes refused"] += 1
                again()

        if leader is None:
            again()
            return
        address = Address(leader.node_id, leader.host, leader.port)
        self.requests.send(address, api_key, 0, fields, answered)
