"""What the leader of the quorum knows of the others in its epoch (Kafka's LeaderState.java)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from yak.ids import LeaderEpoch, MetadataOffset, NodeId, Offset
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.quorum.state_machine import VolatileState
from yak.quorum.voters import Voter, VoterSet

ROUND_MASK: Final = 0x7FFFFFFF
"""The bits of a read round that a fetch and its answer carry in `session_id`, which a fetch of the quorum has no use for."""
OBSERVER_SESSION_MS: Final = 300_000
"""An observer that has not fetched for so long is not described any more (LeaderState's OBSERVER_SESSION_TIMEOUT_MS)."""
OnOutcome: TypeAlias = Callable[[StoreOutcome | None], None]
"""Called with the outcome of a request; None when this node resigned first, and the request may or may not take effect."""
Respond: TypeAlias = Callable[[dict[str, Any]], None]
"""Sends the fields of a response, once."""


@dataclass(slots=True)
class Follower:
    """One replica that fetches: a voter or an observer."""

    directory_id: uuid.UUID | None
    end_offset: Offset = -1
    """Everything below it is durable there; -1 until it fetched in this epoch."""
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    sent_high_watermark: Offset = -1
    """The high watermark in the last answer."""
    acknowledged_round: int = 0
    """The newest read round in which it still followed this leader: a fetch returned the round of the answer before it."""
    delayed_fetch: Callable[[], None] | None = None

    def acknowledge_round(self, returned: int, newest: int) -> None:
        """A fetch returned the lower bits of a read round, or 0 without an answer before it; `newest` is the leader's.

        That a fetch arrives after the leader's answer proves nothing: it may have been sent before, on another connection,
        and wait for a leader that was paused. Meanwhile its sender may have elected another leader.
        """
        if returned:
            self.acknowledged_round = max(self.acknowledged_round, newest - ((newest - returned) & ROUND_MASK))


_UNKNOWN: Final = Follower(None)
"""The state of a voter that has not fetched in this epoch."""


@dataclass(slots=True)
class Read:
    """A request that needs no command. It is executed once a majority has confirmed that this node still leads."""

    round: int
    high_watermark: Offset
    """Commands below it must be applied first."""
    request: StoreRequest
    done: OnOutcome


@dataclass(slots=True)
class LeaderState:
    """One term of the leader."""

    epoch: LeaderEpoch
    epoch_start: Offset
    """The offset of the epoch's first record: nothing of an earlier epoch is committed before this one is (Raft 5.4.2)."""
    began_ms: int
    facts: VolatileState = field(default_factory=VolatileState)
    followers: dict[NodeId, Follower] = field(default_factory=dict)
    pending: dict[Offset, OnOutcome] = field(default_factory=dict)
    """Offset of an uncommitted command -> what to call with its outcome."""
    early: list[tuple[StoreRequest, OnOutcome]] = field(default_factory=list)
    """Requests that came before this leader was ready."""
    reads: list[Read] = field(default_factory=list)
    carried: dict[NodeId, MetadataOffset] = field(default_factory=dict)
    """The metadata that brokers have on their disks, by the newest command of this leader."""
    ahead_ms: int = 0
    """How far the times of its commands are ahead of its clock: they continue from those of earlier leaders, and advance."""
    round: int = 0
    has_bootstrapped: bool = False
    """Whether this leader appended the command that creates the cluster."""
    is_ready: bool = False
    """Whether the epoch's first record is committed and applied: only then requests are served."""

    def next_round(self) -> int:
        """Begin a read round. No round has only zeros in the bits that a fetch carries."""
        self.round += 1 if (self.round + 1) & ROUND_MASK else 2
        return self.round

    def follower(self, node_id: NodeId, directory_id: uuid.UUID | None) -> Follower:
        """The state of a replica; a replica with another directory id begins again."""
        found = self.followers.get(node_id)
        if found is None or found.directory_id != directory_id:
            found = self.followers[node_id] = Follower(directory_id)
        return found

    def committed(self, voters: VoterSet, node_id: NodeId, own_end: Offset) -> Offset:
        """The largest offset that a majority of the voters has durably, this node with `own_end` among them."""
        ends = [own_end if voter.node_id == node_id else self.end_of(voter) for voter in voters.voters]
        return sorted(ends, reverse=True)[voters.majority - 1]

    def state_of(self, voter: Voter) -> Follower:
        """The state of a voter. A replica with its node id and another directory is not it (KIP-853)."""
        follower = self.followers.get(voter.node_id)
        is_same = follower is not None and voter.is_same(voter.node_id, follower.directory_id)
        return follower if follower is not None and is_same else _UNKNOWN

    def end_of(self, voter: Voter) -> Offset:
        """The log end of a voter, as far as this leader knows; -1 until it fetched in this epoch."""
        return self.state_of(voter).end_offset

    def has_caught_up(self, voter: Voter, target: Offset, since_ms: int) -> bool:
        """Whether a replica has everything below `target`, and has fetched since then, which shows that it runs."""
        state = self.state_of(voter)
        return state.end_offset >= target and state.last_fetch_ms >= since_ms

    def confirmed_round(self, voters: VoterSet, node_id: NodeId) -> int:
        """The newest read round in which a majority of the voters followed this leader."""
        rounds = [
            self.round if voter.node_id == node_id else self.state_of(voter).acknowledged_round
            for voter in voters.voters
        ]
        return sorted(rounds, reverse=True)[voters.majority - 1]

    def has_majority_since(self, voters: VoterSet, node_id: NodeId, since_ms: int) -> bool:
        """Whether a majority of the voters fetched since then, this node among them."""
        fetched = sum(
            voter.node_id == node_id or self.state_of(voter).last_fetch_ms >= since_ms for voter in voters.voters
        )
        return fetched >= voters.majority

    def observers(self, voters: VoterSet, now_ms: int) -> list[tuple[NodeId, Follower]]:
        """The replicas that do not vote, without those that have not fetched for `OBSERVER_SESSION_MS`."""
        return [
            (node_id, follower)
            for node_id, follower in self.followers.items()
            if not voters.has(node_id, follower.directory_id) and now_ms - follower.last_fetch_ms < OBSERVER_SESSION_MS
        ]

    def take_confirmed(self, confirmed_round: int, applied: Offset) -> list[Read]:
        """Remove and return the reads that may be executed now, in order."""
        ready = [read for read in self.reads if read.round <= confirmed_round and read.high_watermark <= applied]
        self.reads = [read for read in self.reads if read not in ready]
        return ready

    def wake(self, node_ids: Iterable[NodeId] | None = None) -> None:
        """Answer the delayed fetches of these replicas, or of all."""
        for node_id in list(self.followers) if node_ids is None else node_ids:
            follower = self.followers.get(node_id)
            if follower is not None and follower.delayed_fetch is not None:
                answer, follower.delayed_fetch = follower.delayed_fetch, None
                answer()
