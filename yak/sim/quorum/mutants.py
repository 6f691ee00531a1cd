"""Mutants of the quorum: each removes one rule, and the checks must notice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from yak.quorum.election_state import DurableElection, ElectionState, StateWrite
from yak.quorum.follower_fetches import FollowerFetches
from yak.quorum.leader_state import LeaderState
from yak.quorum.quorum import Quorum, Role
from yak.quorum.raft_log import RaftLog
from yak.quorum.snapshots import SnapshotBuild
from yak.quorum.voter_changes import VoterChanges
from yak.quorum.voters import Voter
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.sim.quorum.run import run_quorum
from yak.sim.quorum.spec import QuorumSpec
from yak.sim.seed_report import SeedReport


@dataclass(frozen=True, slots=True)
class QuorumMutant(Mutant):
    """A rule of the quorum. One of the first `seeds` seeds of `yak sim quorum` must detect that it is gone."""

    brokers: int = 0

    def run(self, seed: int) -> SeedReport:
        """Run one seed without the rule."""
        with self.on():
            return run_quorum(QuorumSpec(seed, 0, self.faults, self.name))

    def run_sound(self, seed: int) -> SeedReport:
        """Run the same seed with the rule."""
        return run_quorum(QuorumSpec(seed, 0, self.faults))


# ----------------------------------------------------------------------------------------------------------- votes


def _vote_twice(swaps: Swaps) -> None:
    real = Quorum._may_grant  # noqa: SLF001

    def may_grant(self: Any, asked: Any) -> bool:
        state = self._election.state
        self._election.state = replace(state, voted_id=-1)
        try:
            return real(self, asked)
        finally:
            self._election.state = state

    swaps.put(Quorum, "_may_grant", may_grant)


def _answer_before_the_vote_is_durable(swaps: Swaps) -> None:
    swaps.put(DurableElection, "when_durable", lambda _self, action: action())


def _write_the_vote_unsynced(swaps: Swaps) -> None:
    swaps.put(StateWrite, "run", lambda self, disk: disk.write_file_lazily(self.path, self.state.encode()))


def _forget_the_vote(swaps: Swaps) -> None:
    real = ElectionState.read

    def read(disk: Any, path: str) -> ElectionState:
        return ElectionState(real(disk, path).leader_epoch)

    swaps.put(ElectionState, "read", staticmethod(read))


def _compare_lengths_only(swaps: Swaps) -> None:
    real = Quorum._may_grant  # noqa: SLF001

    def may_grant(self: Any, asked: Any) -> bool:
        return real(self, replace(asked, last_offset_epoch=asked.last_offset_epoch.__class__(self.log.last_epoch)))

    swaps.put(Quorum, "_may_grant", may_grant)


def _vote_for_a_lost_disk(swaps: Swaps) -> None:
    real = Quorum._handle_vote  # noqa: SLF001

    def handle_vote(self: Any, request: Any, respond: Any) -> None:
        topic = request.topics[0]
        asked = replace(topic.partitions[0], voter_directory_id=None)
        real(self, replace(request, topics=(replace(topic, partitions=(asked,)),)), respond)

    swaps.put(Quorum, "_handle_vote", handle_vote)


# ----------------------------------------------------------------------------------------------------- pre-votes


def _skip_the_pre_vote(swaps: Swaps) -> None:
    real = Quorum._ask_for_votes  # noqa: SLF001

    def ask(self: Any, *, pre_vote: bool) -> None:
        if pre_vote:
            self._become_candidate()
        else:
            real(self, pre_vote=False)

    swaps.put(Quorum, "_ask_for_votes", ask)


def _grant_pre_votes_while_following(swaps: Swaps) -> None:
    real = Quorum._may_grant  # noqa: SLF001

    def may_grant(self: Any, asked: Any) -> bool:
        if not asked.pre_vote or self.role is not Role.FOLLOWER:
            return real(self, asked)
        self.role = Role.UNATTACHED
        try:
            return real(self, asked)
        finally:
            self.role = Role.FOLLOWER

    swaps.put(Quorum, "_may_grant", may_grant)


# ------------------------------------------------------------------------------------------------------- commits


def _commit_by_counting_replicas(swaps: Swaps) -> None:
    def advance_leader(self: Any) -> None:
        leader = self.leader
        if leader is None:
            return
        committed = leader.committed(self.voters, self.config.node_id, self.log.flushed_offset)
        if committed > self.high_watermark:
            self._advance(committed)
            if self.leader is leader:
                leader.wake()
        self.serve_reads()

    swaps.put(Quorum, "advance_leader", advance_leader)


def _count_own_unflushed_end(swaps: Swaps) -> None:
    def append(self: Any, batch: bytes) -> None:
        real_append(self, batch)
        self.advance_leader()

    def advance_leader(self: Any) -> None:
        flushed, self.log.flushed_offset = self.log.flushed_offset, self.log.end_offset
        try:
            real_advance(self)
        finally:
            self.log.flushed_offset = flushed

    real_append, real_advance = Quorum._append, Quorum.advance_leader  # noqa: SLF001
    swaps.put(Quorum, "_append", append)
    swaps.put(Quorum, "advance_leader", advance_leader)


def _fetch_before_the_flush(swaps: Swaps) -> None:
    real = Quorum._fetch  # noqa: SLF001
    is_flushed = RaftLog.is_flushed

    def fetch(self: Any) -> None:
        RaftLog.is_flushed = property(lambda _log: True)  # type: ignore[assignment,method-assign]
        try:
            real(self)
        finally:
            RaftLog.is_flushed = is_flushed  # type: ignore[method-assign]

    swaps.put(Quorum, "_fetch", fetch)


def _apply_before_the_commit(swaps: Swaps) -> None:
    real = Quorum._advance  # noqa: SLF001

    def advance(self: Any, high_watermark: int) -> None:
        real(self, self.log.end_offset if self.role is Role.FOLLOWER else high_watermark)

    swaps.put(Quorum, "_advance", advance)


# --------------------------------------------------------------------------------------------------------- reads


def _read_without_a_round(swaps: Swaps) -> None:
    swaps.put(LeaderState, "confirmed_round", lambda self, _voters, _node_id: self.round)


def _confirm_reads_by_any_fetch(swaps: Swaps) -> None:
    """A fetch that arrives after an answer counts as sent after it."""
    real = FollowerFetches.fetch
    real_answer = FollowerFetches._answer_follower  # noqa: SLF001
    answered: dict[tuple[int, int], int] = {}

    def fetch(self: Any, request: Any, respond: Any) -> None:
        leader = self._quorum.leader
        if leader is not None:
            follower = leader.follower(request.replica_id, request.topics[0].partitions[0].replica_directory_id)
            request = request._replace(session_id=answered.get((id(leader), id(follower)), 0))
        real(self, request, respond)

    def answer_follower(self: Any, follower: Any, respond: Any, more: Any) -> None:
        leader = self._quorum.leader
        if leader is not None:
            answered[id(leader), id(follower)] = leader.round
        real_answer(self, follower, respond, more)

    swaps.put(FollowerFetches, "fetch", fetch)
    swaps.put(FollowerFetches, "_answer_follower", answer_follower)


def _serve_before_the_epochs_first_record(swaps: Swaps) -> None:
    real = Quorum._become_leader  # noqa: SLF001

    def become_leader(self: Any) -> None:
        real(self)
        if self.leader is not None and self.machine.state.cluster:
            self.leader.is_ready = True

    swaps.put(Quorum, "_become_leader", become_leader)


# --------------------------------------------------------------------------------------------- logs and snapshots


def _look_for_no_divergence(swaps: Swaps) -> None:
    swaps.put(FollowerFetches, "_divergence", lambda _self, _offset, _epoch: None)


def _leave_truncations_unsynced(swaps: Swaps) -> None:
    real = RaftLog.truncate_to

    def truncate_to(self: Any, offset: int) -> None:
        real(self, offset)
        self._log.unsynced_truncation = None

    swaps.put(RaftLog, "truncate_to", truncate_to)


def _leave_the_tail_out_of_snapshots(swaps: Swaps) -> None:
    real = SnapshotBuild.run

    def run(self: SnapshotBuild, disk: Any) -> Any:
        return real(replace(self, batches=self.batches[:-1]), disk)

    swaps.put(SnapshotBuild, "run", run)


def _install_without_truncating(swaps: Swaps) -> None:
    def start_at_snapshot(self: Any, plan: Any, now_ms: int) -> None:  # noqa: ARG001
        self.snapshot_id, self.snapshot = plan.snapshot_id, plan.data

    swaps.put(RaftLog, "start_at_snapshot", start_at_snapshot)


# -------------------------------------------------------------------------------------------------------- voters


def _ignore_directory_ids(swaps: Swaps) -> None:
    swaps.put(Voter, "is_same", lambda self, node_id, _directory_id: self.node_id == node_id)


def _change_voters_at_once(swaps: Swaps) -> None:
    refusal, change = VoterChanges._refusal, VoterChanges._change  # noqa: SLF001

    def may_always(self: Any, cluster_id: Any) -> Any:
        self._uncommitted = None
        return refusal(self, cluster_id)

    def change_always(self: Any, voters: Any, respond: Any) -> None:
        self._uncommitted = None
        change(self, voters, respond)

    swaps.put(VoterChanges, "_refusal", may_always)
    swaps.put(VoterChanges, "_change", change_always)


def _use_committed_voters(swaps: Swaps) -> None:
    swaps.put(Quorum, "voters", property(lambda self: self._voter_sets[0][1]))


MUTANTS: tuple[QuorumMutant, ...] = (
    QuorumMutant("quorum-vote-twice", "a voter votes once in an epoch", _vote_twice, 40),
    QuorumMutant(
        "quorum-vote-before-sync", "a vote is durable before its answer", _answer_before_the_vote_is_durable, 5
    ),
    QuorumMutant("quorum-vote-unsynced", "a vote survives a power loss", _write_the_vote_unsynced, 5),
    QuorumMutant(
        "quorum-vote-forgotten", "a vote survives a restart", _forget_the_vote, 300, faults=("split-vote", "kill")
    ),
    QuorumMutant("quorum-vote-by-length", "a vote compares the epochs of the logs' ends", _compare_lengths_only, 300),
    QuorumMutant(
        "quorum-vote-for-lost-disk",
        "a vote is that of a directory, not of a node",
        _vote_for_a_lost_disk,
        300,
        faults=("lose-disk", "isolate"),
    ),
    QuorumMutant("quorum-no-pre-vote", "a pre-vote comes before a new epoch", _skip_the_pre_vote, 40),
    QuorumMutant("quorum-pre-vote-of-followers", "a follower grants no pre-vote", _grant_pre_votes_while_following, 40),
    QuorumMutant(
        "quorum-commit-by-counting",
        "an older epoch's record is committed with one of the leader's",
        _commit_by_counting_replicas,
        100,
    ),
    QuorumMutant(
        "quorum-leader-counts-unflushed", "the leader counts its durable records", _count_own_unflushed_end, 20
    ),
    QuorumMutant("quorum-ack-before-flush", "a fetch acknowledges durable records", _fetch_before_the_flush, 20),
    QuorumMutant("quorum-apply-early", "a follower applies what is committed", _apply_before_the_commit, 20),
    QuorumMutant(
        "quorum-read-without-round",
        "a majority confirms each read",
        _read_without_a_round,
        100,
        faults=("pause", "isolate"),
    ),
    QuorumMutant(
        "quorum-read-by-any-fetch",
        "a fetch confirms reads by the answer that its sender had got",
        _confirm_reads_by_any_fetch,
        150,
        faults=("pause",),
    ),
    QuorumMutant(
        "quorum-serve-early",
        "a leader serves after its epoch's first record is committed",
        _serve_before_the_epochs_first_record,
        100,
    ),
    QuorumMutant("quorum-no-divergence", "a leader looks for diverging logs", _look_for_no_divergence, 100),
    QuorumMutant(
        "quorum-truncation-unsynced",
        "a truncation is durable before an append",
        _leave_truncations_unsynced,
        40,
        faults=("isolate", "power", "power-all"),
    ),
    QuorumMutant(
        "quorum-snapshot-without-tail",
        "a snapshot has all commands before its end",
        _leave_the_tail_out_of_snapshots,
        20,
    ),
    QuorumMutant(
        "quorum-snapshot-keeps-log", "an installed snapshot replaces the log", _install_without_truncating, 50
    ),
    QuorumMutant(
        "quorum-directory-ignored",
        "a voter is a node and a directory",
        _ignore_directory_ids,
        300,
        faults=("lose-disk", "isolate"),
    ),
    QuorumMutant("quorum-voters-at-once", "one change of voters at a time", _change_voters_at_once, 50),
    QuorumMutant("quorum-voters-when-committed", "new voters count from their record on", _use_committed_voters, 20),
)
BY_NAME: dict[str, QuorumMutant] = {mutant.name: mutant for mutant in MUTANTS}
