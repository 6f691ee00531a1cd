"""Mutants of the quorum: each removes one rule, and the checks must notice."""

from __future__ import annotations

from functools import partial
from typing import Any

from yak.metadata_store import brokers
from yak.quorum.election_state import DurableElection, ElectionState, StateWrite
from yak.quorum.follower_fetches import FollowerFetches
from yak.quorum.leader_state import LeaderState
from yak.quorum.quorum import Quorum, Role
from yak.quorum.raft_log import RaftLog
from yak.quorum.snapshots import SnapshotBuild
from yak.quorum.state_machine import VolatileState
from yak.quorum.voter_changes import VoterChanges
from yak.quorum.voters import Voter
from yak.sim.mutants.mutant import Patches, around, mutant, replacement, rewritten

quorum_mutant = partial(mutant, brokers=0)


# ----------------------------------------------------------------------------------------------------------- votes


quorum_mutant("quorum-vote-twice", "a voter votes once in an epoch", seeds=40)(
    rewritten(Quorum, "_may_grant", "election.voted_id == _NO_NODE or is_same", "True")
)


quorum_mutant("quorum-vote-before-sync", "a vote is durable before its answer", seeds=5)(
    replacement(DurableElection, "when_durable", lambda _self, action: action())
)
quorum_mutant("quorum-vote-unsynced", "a vote survives a power loss", seeds=5)(
    replacement(StateWrite, "run", lambda self, disk: disk.write_file_lazily(self.path, self.state.encode()))
)


@quorum_mutant("quorum-vote-forgotten", "a vote survives a restart", seeds=300, faults=("split-vote", "kill"))
def _forget_the_vote(swaps: Patches) -> None:
    real = ElectionState.read

    def read(disk: Any, path: str) -> ElectionState:
        return ElectionState(real(disk, path).leader_epoch)

    swaps.put(ElectionState, "read", staticmethod(read))


quorum_mutant("quorum-vote-by-length", "a vote compares the epochs of the logs' ends", seeds=300)(
    rewritten(
        Quorum,
        "_may_grant",
        "requested.last_offset_epoch, requested.last_offset",
        "self.log.last_epoch, requested.last_offset",
    )
)


quorum_mutant(
    "quorum-vote-for-lost-disk",
    "a vote is that of a directory, not of a node",
    seeds=300,
    faults=("lose-disk", "isolate"),
)(rewritten(Quorum, "_handle_vote", "if is_for_other:", "if False:"))


# ----------------------------------------------------------------------------------------------------- pre-votes


@quorum_mutant("quorum-no-pre-vote", "a pre-vote comes before a new epoch", seeds=40)
@around(Quorum, "_ask_for_votes")
def _skip_the_pre_vote(real: Any, self: Any) -> None:
    if self.role is Role.PROSPECTIVE:
        self._become_candidate()
    else:
        real(self)


quorum_mutant("quorum-pre-vote-of-followers", "a follower grants no pre-vote", seeds=40)(
    rewritten(
        Quorum,
        "_may_grant",
        "self.role is not Role.FOLLOWER or not self._has_fetched or self._fetch_losses > 0",
        "True",
    )
)


# ------------------------------------------------------------------------------------------------------- commits


quorum_mutant("quorum-commit-by-counting", "an older epoch's record is committed with one of the leader's", seeds=100)(
    rewritten(Quorum, "advance_leader", "max(self.high_watermark, leader.epoch_start)", "self.high_watermark")
)


quorum_mutant("quorum-leader-counts-unflushed", "the leader counts its durable records", seeds=20)(
    rewritten(Quorum, "advance_leader", "self.log.flushed_offset", "self.log.end_offset")
)


quorum_mutant("quorum-ack-before-flush", "a fetch acknowledges durable records", seeds=20)(
    rewritten(Quorum, "_fetch", " or not self.log.is_flushed", "")
)


@quorum_mutant("quorum-apply-early", "a follower applies what is committed", seeds=20)
@around(Quorum, "_advance")
def _apply_before_the_commit(real: Any, self: Any, high_watermark: int) -> None:
    real(self, self.log.end_offset if self.role is Role.FOLLOWER else high_watermark)


# --------------------------------------------------------------------------------------------------------- reads


quorum_mutant("quorum-read-without-round", "a majority confirms each read", seeds=100, faults=("pause", "isolate"))(
    replacement(LeaderState, "confirmed_round", lambda self, _voters, _node_id: self.round)
)


@quorum_mutant(
    "quorum-read-by-any-fetch",
    "a fetch confirms reads by the answer that its sender had got",
    seeds=150,
    faults=("pause",),
)
def _confirm_reads_by_any_fetch(swaps: Patches) -> None:
    """A fetch that arrives after an answer counts as sent after it."""
    answered = "self.__dict__.setdefault('answered', {})"
    known = f"{answered}.get(id(follower), 0)"
    rewritten(FollowerFetches, "fetch", "round(request.session_id", f"round({known}")(swaps)
    answer = "    self._quorum.respond("
    note = f"    {answered}[id(follower)] = getattr(self._quorum.leader, 'round', 0)\n"
    rewritten(FollowerFetches, "_answer_follower", answer, note + answer)(swaps)


@quorum_mutant("quorum-serve-early", "a leader serves after its epoch's first record is committed", seeds=100)
@around(Quorum, "_become_leader")
def _serve_before_the_epochs_first_record(real: Any, self: Any) -> None:
    real(self)
    if self.leader is not None and self.machine.state.cluster:
        self.leader.is_ready = True


# --------------------------------------------------------------------------------------------- logs and snapshots


quorum_mutant("quorum-no-divergence", "a leader detects diverging logs", seeds=100)(
    replacement(FollowerFetches, "_divergence", lambda _self, _offset, _epoch: None)
)


@quorum_mutant(
    "quorum-truncation-unsynced",
    "a truncation is durable before an append",
    seeds=40,
    faults=("isolate", "power", "power-all"),
)
@around(RaftLog, "truncate_to")
def _leave_truncations_unsynced(real: Any, self: Any, offset: int, now_ms: int) -> None:
    real(self, offset, now_ms)
    self._log.unsynced_truncation = None


quorum_mutant("quorum-snapshot-without-tail", "a snapshot has all commands before its end", seeds=20)(
    rewritten(SnapshotBuild, "run", "in self.batches:", "in self.batches[:-1]:")
)


@quorum_mutant("quorum-snapshot-keeps-log", "an installed snapshot replaces the log", seeds=50)
@around(RaftLog, "start_at_snapshot")
def _install_without_truncating(_real: Any, self: Any, plan: Any, now_ms: int) -> None:  # noqa: ARG001
    self.snapshot_id, self.snapshot = plan.snapshot_id, plan.data


quorum_mutant("quorum-older-disk-believed", "a disk that lacks metadata that it had reported lost something", seeds=60)(
    rewritten(brokers, "_lost_something", "or lacks_metadata", "")
)
quorum_mutant(
    "quorum-reports-forgotten",
    "what a broker reported as on its disk counts until the next incarnation reports",
    seeds=100,
)(rewritten(VolatileState, "install", "= persisted\n", "= persisted if is_current else 0\n"))


# -------------------------------------------------------------------------------------------------------- voters


quorum_mutant(
    "quorum-directory-ignored", "a voter is a node and a directory", seeds=300, faults=("lose-disk", "isolate")
)(replacement(Voter, "is_same", lambda self, node_id, _directory_id: self.node_id == node_id))


@quorum_mutant("quorum-voters-at-once", "one change of voters at a time", seeds=50)
def _change_voters_at_once(swaps: Patches) -> None:
    rewritten(VoterChanges, "_refusal", "self._uncommitted is not None or ", "")(swaps)
    rewritten(VoterChanges, "_change", "if self._uncommitted is not None:", "if False:")(swaps)


quorum_mutant("quorum-voters-when-committed", "new voters count from their record on", seeds=20)(
    replacement(Quorum, "voters", property(lambda self: self._voter_sets[0][1]))
)
