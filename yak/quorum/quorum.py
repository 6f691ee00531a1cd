"""One node of the metadata quorum: elections, replication and commits, by KRaft's rules (Kafka's KafkaRaftClient.java).

    UNATTACHED    knows the epoch and no leader; waits for one, or for its election timeout
    FOLLOWER      fetches from the leader; a node that is no voter (an observer) is never more
    PROSPECTIVE   requests pre-votes: would the voters elect it (KIP-996)? Its epoch stays
    CANDIDATE     voted for itself in a new epoch, and requests votes
    LEADER        appends commands, and commits what a majority of the voters has durably

A message that announces a new epoch or vote leaves after that state is durable; a fetch offset is one that is durable.
A node that loses its leader's connection twice in a row requests votes at once: that is how a killed leader is replaced
in less than a tenth of a second. The pre-vote keeps a node that alone lost the leader from disturbing the others.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, Final

from yak.core.context import Context
from yak.errors import ErrorCode, FailStop, LogDirectoryFailure, ProtocolViolation
from yak.fail_stop import changes_state
from yak.ids import LeaderEpoch, NodeId, Offset
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.ports.random_source import RandomSource
from yak.protocol.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from yak.protocol.versions import FETCH
from yak.quorum.config import QuorumConfig
from yak.quorum.control_records import ControlType, leader_change, read_control, voters_change
from yak.quorum.counters import QuorumCounters
from yak.quorum.election_state import DurableElection, ElectionState, disk_lost, may_repeat
from yak.quorum.follower_fetches import WAIT_MS_MAX, FollowerFetches
from yak.quorum.leader_state import LeaderState, OnOutcome, Read, Respond
from yak.quorum.raft_log import Entry, RaftLog, SnapshotId
from yak.quorum.snapshots import PIECE_BYTES, Snapshots
from yak.quorum.state_machine import (
    NOT_IN_A_QUORUM,
    StateMachine,
    command_batch,
    facts_of_new_leader,
    read_snapshot,
    value_of,
)
from yak.quorum.transport import (
    ADD_RAFT_VOTER,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH_SNAPSHOT,
    REMOVE_RAFT_VOTER,
    UPDATE_RAFT_VOTER,
    VOTE,
    Address,
    Listener,
    Transport,
)
from yak.quorum.voter_changes import VoterChanges
from yak.quorum.voters import LISTENER, Voter, VoterSet

_LOSSES_MAX: Final = 2
_RETRY_MS: Final = 20
_ELECTION_JITTER_MS: Final = 30
_PRE_VOTE_PAUSE_MS: Final = 240
_APPLIED_BYTES_PER_STEP: Final = 8192
_BEGIN_AGAIN_MS: Final = 500
_NO_NODE: Final = -1
_ANSWERED_BY_TOPICS: Final = (VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH_SNAPSHOT)


class Role(StrEnum):
    """What a node does in its epoch."""

    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Quorum:
    """One node. Every input is a method; its outputs are sends, responses, jobs and timers."""

    def __init__(
        self,
        context: Context,
        config: QuorumConfig,
        log: RaftLog,
        election: ElectionState,
        state_path: str,
        transport: Transport,
        rng: RandomSource,
        listener: Listener,
    ) -> None:
        """Raises ProtocolViolation for a damaged snapshot."""
        self._context, self.config, self.log = context, config, log
        self._transport, self._rng, self._listener = transport, rng, listener
        if election.leader_epoch < log.last_epoch:
            # the file is gone: it must not vote again in an epoch of its log
            election = ElectionState(log.last_epoch, config.node_id, config.directory_id)
        self._election = DurableElection(context, state_path, election)
        self.counters = QuorumCounters()
        self.role = Role.UNATTACHED
        self.leader_id: NodeId = _NO_NODE
        self._leader_address: Address | None = None
        self.machine = StateMachine()
        voters = config.voters
        if log.snapshot:
            restored, voters = read_snapshot(log.snapshot)
            self.machine.restore(restored)
        self.high_watermark = self.applied_offset = log.snapshot_id.end_offset
        self.snapshots = Snapshots(context, self, self._fetch_again_in)
        self.voter_changes = VoterChanges(context, self)
        self._fetches = FollowerFetches(context, self)
        self._voter_sets: list[tuple[Offset, VoterSet]] = [(0, voters)]
        """The voters by the offset of their record, committed or not: the newest count (KIP-853)."""
        for entry in log.entries(self.high_watermark, log.end_offset):
            self._note_voters(entry)
        self.leader: LeaderState | None = None
        self._votes: dict[NodeId, bool] = {}
        self._election_losses = 0
        self._flushing = self._is_stopped = self._is_fetching = False
        self._fetch_losses = 0
        self._refusal: tuple[str, dict[str, Any]] | None = None
        """The last refusal that was logged; None after a fetch that was good."""
        self._read_round = 0
        """The leader's read round in the last answer; 0 before the first one of this leader."""
        self._has_fetched = False
        """Whether a fetch from the present leader succeeded."""
        self._next_bootstrap = 0

    # ------------------------------------------------------------------------------------------------- views

    @property
    def epoch(self) -> LeaderEpoch:
        """The newest epoch that this node knows."""
        return self._election.state.leader_epoch

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self._voter_sets[-1][1]

    @property
    def is_voter(self) -> bool:
        """Whether this node, with this directory, votes."""
        return self.voters.has(self.config.node_id, self.config.directory_id)

    @property
    def _may_stand(self) -> bool:
        """Whether it votes, or did until a change that it may have to commit as leader (Ongaro's dissertation, 4.2.2)."""
        if self.config.node_id in self.voters.node_ids:
            return self.is_voter  # with another directory, it would count itself as the voter of the disk that is lost
        return any(each.has(self.config.node_id, self.config.directory_id) for _offset, each in self._voter_sets)

    @property
    def committed_voters(self) -> VoterSet:
        """The voters of the newest committed record."""
        return self._voter_sets[0][1]

    @property
    def is_ready_leader(self) -> bool:
        """Whether this node leads and serves requests."""
        return self.leader is not None and self.leader.is_ready

    @property
    def leader_address(self) -> Address | None:
        """Where the leader listens, if this node follows one and has heard from it."""
        return self._leader_address if self.role is Role.FOLLOWER and self._has_fetched else None

    @property
    def now_ms(self) -> int:
        """The time of this step."""
        return self._context.clock.now_ms

    def start(self) -> None:
        """Begin: the only voter elects itself at once, others soon find the leader by a pre-vote."""
        self._become_unattached(self.epoch)
        if self.voters.node_ids == (self.config.node_id,):
            self._begin_election()
        elif self._may_stand:
            self._elect_in(self._rng.below(_ELECTION_JITTER_MS))

    def stop(self) -> None:
        """Resign in order, and do no more."""
        if self.leader is not None:
            self._resign(self.leader)
        self._is_stopped = True
        self._disarm()

    def _resign(self, leader: LeaderState) -> None:
        """Name the best followers as candidates (EndQuorumEpoch): they need not wait until this leader is missed."""
        voters = [voter for voter in self.voters.voters if voter.node_id != self.config.node_id]
        ends = {voter.node_id: leader.end_of(voter) for voter in voters}
        voters.sort(key=lambda voter: -ends[voter.node_id])
        preferred = [{"candidate_id": each.node_id, "candidate_directory_id": each.directory_id} for each in voters]
        partition = {"leader_id": self.config.node_id, "leader_epoch": self.epoch, "preferred_candidates": preferred}
        for voter in voters:
            self.send(_address(voter), END_QUORUM_EPOCH, self._about(partition), lambda _response: None)
        self._become_unattached(self.epoch)

    # ----------------------------------------------------------------------------------- what must be durable first

    def send(self, address: Address, api_key: int, fields: dict[str, Any], done: Callable[[Any | None], None]) -> None:
        """Send a request once what it says of this node is durable."""
        self._election.when_durable(partial(self._transport.send, address, api_key, fields, done))

    def flush(self) -> None:
        """Make the log durable; appends meanwhile are part of the next flush."""
        if self._flushing or self.log.is_flushed:
            return
        self._flushing = True
        plan = self.log.flush_plan()

        def done(missing: Any, error: BaseException | None) -> None:
            self._flushing = False
            if error is not None:
                self._context.emit(disk_lost(self.log.folder, error))
                return
            self.log.flushed(plan, missing)
            if self.leader is not None:
                self.advance_leader()
            self.flush()
            if self.log.is_flushed:
                self._fetch()

        self._context.jobs.run("quorum", plan, done)

    # ------------------------------------------------------------------------------------------------- transitions

    def _leave_role(self) -> None:
        """Drop what belongs to the present role."""
        if self.leader is not None:
            leader, self.leader = self.leader, None
            self._context.notice("warning", "quorum-leader-resigned", epoch=leader.epoch)
            for done in leader.pending.values():
                done(None)
            for read in leader.reads:
                read.done(None)
            for _request, done in leader.early:
                done(None)
            self.voter_changes.resign()
            self.counters.resigned()
            leader.wake()
        self._votes = {}
        self.snapshots.forget_download()
        self._has_fetched = False
        self._read_round = self._fetch_losses = 0
        self._disarm()
        if self._is_fetching and self._leader_address is not None:
            self._transport.forget(self._leader_address, FETCH)
            self._is_fetching = False

    def _disarm(self) -> None:
        """Disarm the timers of the present role."""
        for timer in ("election", "fetch", "leader", "begin"):
            self._context.timers.disarm((self, timer))

    def _become_unattached(self, epoch: LeaderEpoch) -> None:
        self._leave_role()
        self._note_epoch(epoch)
        self.role, self.leader_id, self._leader_address = Role.UNATTACHED, _NO_NODE, None
        if self._is_stopped:
            return
        if self._may_stand:
            self._elect_after_timeout()
        else:
            self._find_leader()
        self._listener.on_leader()

    def _become_follower(self, epoch: LeaderEpoch, address: Address) -> None:
        if self.role is Role.FOLLOWER and self.epoch == epoch and self.leader_id == address.node_id:
            return
        self._leave_role()
        self._note_epoch(epoch)
        self.role, self.leader_id, self._leader_address = Role.FOLLOWER, address.node_id, address
        self._context.notice("info", "quorum-leader-followed", leader=address.node_id, epoch=epoch)
        self.leader_answered()
        self._fetch()
        self._listener.on_leader()

    def _note_epoch(self, epoch: LeaderEpoch) -> None:
        assert epoch >= self.epoch
        if epoch > self.epoch:
            self._election.set(ElectionState(epoch))

    def _elect_in(self, delay_ms: int) -> None:
        self._context.after((self, "election"), delay_ms, self._begin_election)

    def _elect_after_timeout(self) -> None:
        self._elect_in(self.config.election_timeout_ms + self._rng.below(self.config.election_timeout_ms))

    def _begin_election(self) -> None:
        """Request pre-votes: would the voters elect this node (KIP-996)?"""
        if not self._may_stand or self._is_stopped:
            return
        if not self.log.is_flushed:
            # a leader appends at once, and behind a truncation that would need a sync in the step
            self.flush()
            self._elect_in(_RETRY_MS)
            return
        self._leave_role()
        self.role, self.leader_id, self._leader_address = Role.PROSPECTIVE, _NO_NODE, None
        self._votes = {self.config.node_id: True}
        self.counters.elections += 1
        if not self._election_losses:  # said once, while it is repeated several times a second
            self._context.notice("info", "quorum-election-started", epoch=self.epoch)
        self._elect_after_timeout()
        self._listener.on_leader()
        if not self._count_votes():
            self._ask_for_votes()

    def _become_candidate(self) -> None:
        self._leave_role()
        epoch = self.epoch + 1
        self._election.set(ElectionState(epoch, self.config.node_id, self.config.directory_id))
        self.role, self.leader_id = Role.CANDIDATE, _NO_NODE
        self._elect_after_timeout()

        def voted() -> None:
            if self.role is Role.CANDIDATE and self.epoch == epoch:
                self._votes[self.config.node_id] = True
                self._count_votes()

        self._election.when_durable(voted)
        self._ask_for_votes()

    def _ask_for_votes(self) -> None:
        role, epoch, voters = self.role, self.epoch, self.voters.voters
        if role is Role.PROSPECTIVE:
            # their votes do not count, but they name the leader: all that the log names may have been replaced since
            voters += tuple(each for each in self.config.voters.voters if each.node_id not in self.voters.node_ids)
        for voter in (each for each in voters if each.node_id != self.config.node_id):
            partition = {
                "replica_epoch": epoch,
                "replica_id": self.config.node_id,
                "replica_directory_id": self.config.directory_id,
                "voter_directory_id": voter.directory_id,
                "last_offset_epoch": self.log.last_epoch,
                "last_offset": self.log.end_offset,
                "pre_vote": role is Role.PROSPECTIVE,
            }
            fields = {**self._about(partition), "voter_id": voter.node_id}
            self.send(_address(voter), VOTE, fields, partial(self._on_vote, role, epoch, voter.node_id))

    def _on_vote(self, role: Role, epoch: LeaderEpoch, voter_id: NodeId, response: Any | None) -> None:
        is_granted = False
        if response is not None and response.topics:
            result = response.topics[0].partitions[0]
            is_granted = result.error_code == ErrorCode.none and bool(result.vote_granted)
            # a voter that grants may still name the leader that both have lost
            if not is_granted and self._learn(result.leader_epoch, result.leader_id, response.node_endpoints):
                return
        if self.role is role and self.epoch == epoch:
            self._votes[voter_id] = is_granted
            self._count_votes()

    def _count_votes(self) -> bool:
        """Go on once a majority has granted, and back once it cannot any more; returns whether it did."""
        voters = self.voters
        granted = sum(self._votes.get(node_id, False) for node_id in voters.node_ids)
        refused = sum(not self._votes.get(node_id, True) for node_id in voters.node_ids)
        if granted >= voters.majority:
            self._election_losses = 0
            if self.role is Role.PROSPECTIVE:
                self._become_candidate()
            elif self.role is Role.CANDIDATE:
                self._become_leader()
            return True
        if refused > len(voters.voters) - voters.majority:
            self._election_losses = min(self._election_losses + 1, 6)
            # a pre-vote disturbs no leader, so it is repeated soon
            limit_ms = _PRE_VOTE_PAUSE_MS if self.role is Role.PROSPECTIVE else self.config.election_timeout_ms
            longest_ms = min(_ELECTION_JITTER_MS << self._election_losses, limit_ms)
            self._elect_in(_RETRY_MS + self._rng.below(longest_ms))
            return True
        return False

    def _become_leader(self) -> None:
        granted = [node_id for node_id, is_granted in self._votes.items() if is_granted]
        self._leave_role()
        node_id = self.config.node_id
        self.role, self.leader_id, self._leader_address = Role.LEADER, node_id, None
        self.leader = LeaderState(self.epoch, self.log.end_offset, self.now_ms)
        self._context.notice("info", "quorum-leader-elected", leader=node_id, epoch=self.epoch, granted=sorted(granted))
        self._append(leader_change(node_id, self.voters, granted, self._context.clock.wall_ms))
        if self.leader is None:
            return
        self._begin_epoch()
        self._check_quorum()
        self.advance_leader()
        self._listener.on_leader()

    def _begin_epoch(self) -> None:
        """Announce the leader to the voters that have not fetched in this epoch, until each has."""
        leader = self.leader
        if leader is None:
            return
        silent = [
            voter for voter in self.voters.voters if voter.node_id != self.config.node_id and leader.end_of(voter) < 0
        ]
        for voter in silent:
            leads = {"leader_id": self.config.node_id, "leader_epoch": leader.epoch}
            partition = {"voter_directory_id": voter.directory_id, **leads}
            endpoint = {"name": LISTENER, "host": self.config.host, "port": self.config.port}
            fields = {**self._about(partition), "voter_id": voter.node_id, "leader_endpoints": [endpoint]}
            self.send(_address(voter), BEGIN_QUORUM_EPOCH, fields, self._on_epoch_begun)
        if silent:
            self._context.after((self, "begin"), _BEGIN_AGAIN_MS, self._begin_epoch)

    def _on_epoch_begun(self, response: Any | None) -> None:
        if response is not None and response.topics:
            result = response.topics[0].partitions[0]
            self._learn(result.leader_epoch, result.leader_id, response.node_endpoints)

    def _check_quorum(self) -> None:
        """Resign when no majority of the voters has fetched for too long: another leader may have been elected."""
        leader = self.leader
        if leader is None:
            return
        longest_ms = self.config.fetch_timeout_ms * 3 // 2
        since_ms = self.now_ms - longest_ms
        if leader.began_ms < since_ms and not leader.has_majority_since(self.voters, self.config.node_id, since_ms):
            self._become_unattached(self.epoch)
            return
        self._context.after((self, "leader"), longest_ms // 3, self._check_quorum)
        if leader.is_ready and leader.facts.persisted != leader.carried:
            # reports that no command has carried would be lost with this leader: a next one must recognize an older disk
            verify = StoreRequest("verify", {"node_id": self.config.node_id})
            self._append_command(leader, verify, lambda _outcome: None)

    def _learn(self, epoch: LeaderEpoch, leader_id: NodeId, endpoints: Any) -> bool:
        """Follow a newer epoch, or the leader of this one; returns whether this node's role changed."""
        if epoch < self.epoch or self._is_stopped:
            return False
        address = self._find(leader_id, endpoints)
        is_other = leader_id not in (_NO_NODE, self.config.node_id)
        if is_other and address is not None and (epoch > self.epoch or self.role not in (Role.LEADER, Role.FOLLOWER)):
            self._become_follower(epoch, address)
            return True
        if epoch > self.epoch:
            self._become_unattached(epoch)
            return True
        return False

    def _find(self, node_id: NodeId, endpoints: Any) -> Address | None:
        for endpoint in endpoints:
            if endpoint.node_id == node_id:
                return Address(node_id, endpoint.host, endpoint.port)
        voter = self.voters.get(node_id)
        return None if voter is None else _address(voter)

    # ------------------------------------------------------------------------------------------- following the leader

    def _find_leader(self) -> None:
        """An observer without a leader fetches from one voter after the other."""
        # the configured ones as well: all that the log names may have been replaced since
        known = dict.fromkeys((*self.voters.voters, *self.config.voters.voters))
        candidates = [voter for voter in known if voter.node_id != self.config.node_id]
        if self.role is not Role.UNATTACHED or not candidates or self._is_stopped:
            return
        if not self.log.is_flushed:
            # the fetch acknowledges the log to a leader, for which this node may be a voter already
            self.flush()
            self._context.after((self, "election"), _RETRY_MS, self._find_leader)
            return
        voter = candidates[self._next_bootstrap % len(candidates)]
        self._next_bootstrap += 1
        self._context.after((self, "election"), self.config.fetch_timeout_ms, self._find_leader)
        fields = self._fetch_fields() | {"max_wait": 0}
        self.send(_address(voter), FETCH, fields, partial(self._on_leader_response, voter))

    def _on_leader_response(self, voter: Voter, response: Any | None) -> None:
        if self.role is not Role.UNATTACHED:
            return
        if response is not None and response.responses:
            result = response.responses[0].partitions[0]
            leader = result.current_leader
            if result.error_code == ErrorCode.none:
                epoch = leader.leader_epoch if leader.leader_epoch >= 0 else self.epoch
                self._become_follower(max(epoch, self.epoch), _address(voter))
                return
            if self._learn(leader.leader_epoch, leader.leader_id, response.node_endpoints):
                return
        self._context.after((self, "election"), _RETRY_MS + self._rng.below(5 * _RETRY_MS), self._find_leader)

    def leader_answered(self) -> None:
        """The leader is alive: begin to wait again."""
        self._context.after((self, "fetch"), self.config.fetch_timeout_ms + self._rng.below(200), self._leader_is_gone)

    def _leader_is_gone(self) -> None:
        """The leader is silent, or its process is dead: elect another one."""
        if self.role is not Role.FOLLOWER:
            return
        self._context.notice("warning", "quorum-leader-lost", leader=self.leader_id, epoch=self.epoch)
        if self._may_stand:
            self._begin_election()
        else:
            self._become_unattached(self.epoch)

    def _fetch_fields(self) -> dict[str, Any]:
        partition = {
            "partition": 0,
            "current_leader_epoch": self.epoch,
            "fetch_offset": self.log.end_offset,
            "last_fetched_epoch": self.log.last_epoch,
            "log_start_offset": self.log.start_offset,
            "partition_max_bytes": PIECE_BYTES,
            "replica_directory_id": self.config.directory_id,
            # the leader answers at once while this node does not know that everything is committed
            "high_watermark": self.high_watermark,
        }
        return {
            "cluster_id": self.config.cluster_id,
            "replica_state": {"replica_id": self.config.node_id, "replica_epoch": -1},
            "max_wait": WAIT_MS_MAX,
            "min_bytes": 0,
            "max_bytes": PIECE_BYTES,
            # confirms to the leader that this node followed it when it got that round
            "session_id": self._read_round,
            "session_epoch": -1,
            "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }

    def _fetch(self) -> None:
        """Fetch from the leader, unless a fetch is under way, or something that it would acknowledge is not durable."""
        address = self._leader_address
        is_busy = self._is_fetching or self.snapshots.is_downloading or not self.log.is_flushed
        if self.role is not Role.FOLLOWER or address is None or is_busy or self._is_stopped:
            return
        self._is_fetching = True
        done = partial(self._on_fetched, self.epoch, address, self.log.end_offset)
        self.send(address, FETCH, self._fetch_fields(), done)

    def _fetch_again_in(self, pause_ms: int) -> None:
        self._context.after((self, "retry"), pause_ms, self._fetch)

    def _on_fetched(self, epoch: LeaderEpoch, address: Address, offset: Offset, response: Any | None) -> None:
        if self.role is not Role.FOLLOWER or self.epoch != epoch or self._leader_address is not address:
            return
        self._is_fetching = False
        if response is None:
            self._fetch_losses += 1
            if self._fetch_losses >= _LOSSES_MAX:
                # not at the same time as the other voters
                delay_ms = self._rng.below(_ELECTION_JITTER_MS)
                self._context.within((self, "fetch"), delay_ms, self._leader_is_gone)
            self._fetch_again_in(_RETRY_MS // 2)
            return
        result = response.responses[0].partitions[0] if response.responses else None
        if result is None or result.error_code != ErrorCode.none:
            self._fetch_refused(address, response, result)
            return
        self._fetch_losses, self._read_round = 0, response.session_id
        self.leader_answered()
        # a snapshot of the leader before may have replaced the log since the fetch
        if offset == self.log.end_offset and not self._take_fetched(address, result):
            self._fetch_again_in(5 * _RETRY_MS)
            return
        if not self.snapshots.is_downloading:  # its installation may be refused again
            self._refusal = None
        if not self._has_fetched:
            self._has_fetched = True
            self._listener.on_leader()
        self.voter_changes.report_to(address)
        self.flush()
        self._fetch()

    def _fetch_refused(self, address: Address, response: Any, result: Any | None) -> None:
        """Follow the leader that the answer names; if it names none that is new, fetch again."""
        leader = None if result is None else result.current_leader
        if leader is not None and self._learn(leader.leader_epoch, leader.leader_id, response.node_endpoints):
            return
        code = response.error_code if result is None else result.error_code
        self.say_refused("quorum-fetch-refused", leader=address.node_id, code=code.name)
        self._fetch_again_in(5 * _RETRY_MS)

    def say_refused(self, event: str, **fields: Any) -> None:
        """Log a warning, unless it is the last one again."""
        if self._refusal != (event, fields):  # a full disk refuses the same records ten times a second
            self._refusal = event, fields
            self._context.notice("warning", event, **fields)

    def _take_fetched(self, address: Address, result: Any) -> bool:
        """Append what the leader sent, or truncate, or begin to fetch its snapshot; False for records that are no use."""
        if result.snapshot_id.end_offset >= 0:
            self.snapshots.download(address, SnapshotId(result.snapshot_id.end_offset, result.snapshot_id.epoch))
            return True
        diverging = result.diverging_epoch
        if diverging.epoch >= 0 or diverging.end_offset >= 0:
            _epoch, own_end = self.log.end_offset_for_epoch(diverging.epoch)
            self._truncate(min(own_end, diverging.end_offset))  # beyond either end no entry can match
            return True
        records, before, is_good = bytes(result.records or b""), self.log.end_offset, True
        if records:
            try:
                self.log.append_fetched(records, self.epoch, self._context.clock.wall_ms)
            except (ProtocolViolation, LogDirectoryFailure) as error:
                is_good = False
                if isinstance(error, ProtocolViolation) or may_repeat(self._context, self.log.folder, error):
                    self.say_refused("quorum-records-refused", leader=address.node_id, reason=str(error))
            for entry in self.log.entries(before, self.log.end_offset):
                self._note_voters(entry)
        self._advance(min(result.high_watermark, self.log.end_offset))
        return is_good

    def _truncate(self, offset: Offset) -> None:
        if offset < self.high_watermark:
            raise FailStop(f"the quorum's leader {self.leader_id} lacks committed record {self.high_watermark - 1}")
        self._context.notice("info", "quorum-log-truncated", offset=offset, end_offset=self.log.end_offset)
        try:
            self.log.truncate_to(offset, self.now_ms)
        except LogDirectoryFailure as failure:
            self._context.emit(disk_lost(self.log.folder, failure))
            return
        self._voter_sets = [pair for pair in self._voter_sets if pair[0] < offset or pair[0] == 0]

    # ------------------------------------------------------------------------------------------- commits

    def _note_voters(self, entry: Entry) -> None:
        """Use new voters as soon as their record is in the log, committed or not (KIP-853)."""
        if entry.is_control:
            for kind, value in read_control(entry.batch):
                if kind == ControlType.KRAFT_VOTERS:
                    self._voter_sets.append((entry.base_offset, VoterSet.decode(value)))

    def advance_leader(self) -> None:
        """Commit what a majority has. The epoch's first record must be among it (Raft's figure 8)."""
        leader = self.leader
        if leader is None:
            return
        committed = leader.committed(self.voters, self.config.node_id, self.log.flushed_offset)
        if committed > max(self.high_watermark, leader.epoch_start):
            self._advance(committed)
            if self.leader is leader:
                leader.wake(
                    node_id
                    for node_id, follower in list(leader.followers.items())
                    if follower.sent_high_watermark < self.high_watermark
                )
        self.serve_reads()

    def installed(self, restored: StateMachine, voters: VoterSet) -> None:
        """A snapshot of the leader has replaced the log."""
        self.machine.restore(restored)
        self._voter_sets = [(0, voters)]
        self.high_watermark = self.applied_offset = self.log.snapshot_id.end_offset
        self._listener.on_applied()

    def _advance(self, high_watermark: Offset) -> None:
        self.high_watermark = max(self.high_watermark, high_watermark)
        self._apply()

    def _apply(self) -> None:
        """Apply committed batches, a bounded number in one step."""
        if self.applied_offset >= self.high_watermark:
            return
        for entry in self.log.first_entries(self.applied_offset, self.high_watermark, _APPLIED_BYTES_PER_STEP):
            self.applied_offset = entry.next_offset
            self.snapshots.applied(len(entry.batch))
            if entry.is_control:
                self._applied_control(entry)
                continue
            outcome = self.machine.apply(value_of(entry.batch))
            if self.leader is not None:
                self.leader.facts.follow(self.machine.state)
            done = None if self.leader is None else self.leader.pending.pop(entry.base_offset, None)
            if done is not None:
                self.counters.committed(entry.base_offset, self.now_ms)
                done(outcome)
        self._become_ready()
        if self.applied_offset < self.high_watermark:
            self._context.after((self, "apply"), 0, self._apply)
        else:
            self.serve_reads()
        self._listener.on_applied()
        self.snapshots.build_if_due()

    def _become_ready(self) -> None:
        """Serve requests once everything of earlier epochs is applied. The first leader of all creates the cluster."""
        leader = self.leader
        if leader is None or leader.is_ready or self.applied_offset <= leader.epoch_start:
            return
        if self.machine.state.cluster or not self.config.creates_cluster:
            leader.is_ready, leader.ahead_ms = True, max(0, self.machine.time_ms - self.now_ms)
            leader.facts = facts_of_new_leader(self.machine.state, leader.epoch)
            self.voter_changes.report_to_self()
            self._listener.on_leader()
            early, leader.early = leader.early, []
            for request, done in early:
                self.propose(request, done)
        elif not leader.has_bootstrapped:
            leader.has_bootstrapped = True
            ids: dict[str, object] = {
                "new_cluster_id": self.config.cluster_id,
                "new_incarnation_id": str(self._rng.uuid4()),
            }
            self._append(command_batch(StoreRequest("bootstrap", ids), leader.facts, self.now_ms))

    def _applied_control(self, entry: Entry) -> None:
        """A committed change of the voters: earlier ones can never come back."""
        newest = [pair for pair in self._voter_sets if pair[0] <= entry.base_offset]
        self._voter_sets = [newest[-1], *self._voter_sets[len(newest) :]]
        if self.leader is None:
            return
        self.voter_changes.committed(entry.base_offset)
        if self.leader is not None and len(self._voter_sets) == 1 and not self.is_voter:
            # removed: the others elect a leader among themselves (KIP-853)
            self._resign(self.leader)

    # ------------------------------------------------------------------------------------------- requests of brokers

    @changes_state
    def propose(self, request: StoreRequest, done: OnOutcome) -> None:
        """Execute a store request as the leader; `done` gets the outcome after its command is committed and applied."""
        leader = self.leader
        if leader is None:
            done(None)
        elif not leader.is_ready:
            leader.early.append((request, done))
        elif request.script.startswith(NOT_IN_A_QUORUM):
            message = "the metadata are in a quorum of brokers, which restores nothing from one broker's copy"
            done(StoreOutcome("BAD_REQUEST", value={"message": message}))
        elif self.machine.needs_command(request):
            self._append_command(leader, request, done)
        else:
            leader.reads.append(Read(leader.next_round(), self.high_watermark, request, done))
            leader.wake(self.voters.node_ids)
            self.serve_reads()

    def _append_command(self, leader: LeaderState, request: StoreRequest, done: OnOutcome) -> None:
        if request.script == "heartbeat":
            done = partial(self._on_heartbeat_applied, leader, request, done)
        time_ms, leader.carried = self.now_ms + leader.ahead_ms, leader.facts.persisted
        leader.pending[self.log.end_offset] = done
        self.counters.appended(self.log.end_offset, self.now_ms)
        self._append(command_batch(request, leader.facts, time_ms))

    def _on_heartbeat_applied(
        self, leader: LeaderState, request: StoreRequest, done: OnOutcome, outcome: StoreOutcome | None
    ) -> None:
        """Count a heartbeat that was a command among the leader's soft facts as well: the command carried older ones."""
        if outcome is not None and outcome.code == "OK" and self.leader is leader:
            outcome = self.machine.execute_on_leader(request, leader.facts, self.now_ms)
        done(outcome)

    def _append(self, batch: bytes) -> None:
        """Append a batch as the leader. A leader that cannot, for want of room, lets another one lead."""
        try:
            self.log.append(batch, self.epoch, self._context.clock.wall_ms)
        except LogDirectoryFailure as failure:
            if may_repeat(self._context, self.log.folder, failure):
                self._context.notice("error", "quorum-append-failed", reason=str(failure))
            assert self.leader is not None
            self._resign(self.leader)
            return
        self.flush()
        if self.leader is not None:
            self.leader.wake()

    def append_voters(self, voters: VoterSet) -> None:
        """Append the record of new voters, which are in force at once."""
        offset = self.log.end_offset
        self._append(voters_change(voters, self._context.clock.wall_ms))
        if self.leader is not None:
            self._voter_sets.append((offset, voters))
            self._begin_epoch()

    def serve_reads(self) -> None:
        """Execute the reads that a majority has confirmed."""
        leader = self.leader
        if leader is None or not leader.reads or not leader.is_ready:
            return
        confirmed = leader.confirmed_round(self.voters, self.config.node_id)
        for read in leader.take_confirmed(confirmed, self.applied_offset):
            if self.leader is not leader:
                # an append failed, and this node resigned
                read.done(None)
            elif self.machine.needs_command(read.request):
                # a command that was applied meanwhile has made it one
                self._append_command(leader, read.request, read.done)
            else:
                read.done(self.machine.execute_on_leader(read.request, leader.facts, self.now_ms))

    # ------------------------------------------------------------------------------------------- requests of the quorum

    @changes_state
    def handle(self, api_key: int, request: Any, respond: Respond) -> None:
        """Answer a request of another node, or of a client (DescribeQuorum and the changes of the voters)."""
        handlers: dict[int, Callable[[Any, Respond], None]] = {
            FETCH: self._fetches.fetch,
            VOTE: self._handle_vote,
            BEGIN_QUORUM_EPOCH: self._handle_begin,
            END_QUORUM_EPOCH: self._handle_end,
            FETCH_SNAPSHOT: self._fetches.fetch_snapshot,
            ADD_RAFT_VOTER: self.voter_changes.add,
            REMOVE_RAFT_VOTER: self.voter_changes.remove,
            UPDATE_RAFT_VOTER: self.voter_changes.update,
        }
        if api_key in _ANSWERED_BY_TOPICS and self.is_foreign(request.cluster_id):
            respond({"error_code": ErrorCode.inconsistent_cluster_id, "topics": []})
        else:
            handlers[api_key](request, respond)

    def respond(self, respond: Respond, fields: dict[str, Any]) -> None:
        """Answer once what the answer says of this node is durable."""
        self._election.when_durable(partial(respond, fields))

    def is_foreign(self, cluster_id: str | None) -> bool:
        """Whether a request names another cluster."""
        return cluster_id not in (None, "", self.config.cluster_id)

    def _answer(self, code: ErrorCode, **more: Any) -> dict[str, Any]:
        """The answer to Vote, BeginQuorumEpoch or EndQuorumEpoch."""
        partition = {
            "partition_index": 0,
            "error_code": code,
            "leader_id": self.leader_id,
            "leader_epoch": self.epoch,
            **more,
        }
        return {
            "error_code": ErrorCode.none,
            "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
            "node_endpoints": self.leader_endpoints(),
        }

    def leader_endpoints(self) -> list[dict[str, Any]]:
        """Where the leader listens, for an answer that redirects."""
        if self.role is Role.LEADER:
            return [{"node_id": self.config.node_id, "host": self.config.host, "port": self.config.port}]
        address = self._leader_address
        return [] if address is None else [{"node_id": address.node_id, "host": address.host, "port": address.port}]

    def _handle_vote(self, request: Any, respond: Respond) -> None:
        requested = request.topics[0].partitions[0]
        is_for_other = request.voter_id not in (_NO_NODE, self.config.node_id)
        is_for_other |= requested.voter_directory_id not in (None, self.config.directory_id)
        if is_for_other:
            # the candidate means a disk that this node has no more: its promises are forgotten
            self.respond(respond, self._answer(ErrorCode.invalid_voter_key, vote_granted=False))
            return
        if requested.replica_epoch > self.epoch:
            self._become_unattached(requested.replica_epoch)
        granted = requested.replica_epoch == self.epoch and self._may_grant(requested)
        if granted and not requested.pre_vote and self._election.state.voted_id == _NO_NODE:
            self._become_unattached(self.epoch)
            self._election.set(ElectionState(self.epoch, requested.replica_id, requested.replica_directory_id))
        code = ErrorCode.none if requested.replica_epoch == self.epoch else ErrorCode.fenced_leader_epoch
        self.respond(respond, self._answer(code, vote_granted=granted))

    def _may_grant(self, requested: Any) -> bool:
        own_end = self.log.last_epoch, self.log.end_offset
        is_up_to_date = (requested.last_offset_epoch, requested.last_offset) >= own_end
        if not is_up_to_date or self.role is Role.LEADER or self._is_stopped:
            return False
        if requested.pre_vote:
            # a follower that reaches its leader needs no election (KIP-996)
            return self.role is not Role.FOLLOWER or not self._has_fetched or self._fetch_losses > 0
        if self.role is Role.FOLLOWER:
            return False
        election = self._election.state
        candidate = requested.replica_id, requested.replica_directory_id
        is_same = (election.voted_id, election.voted_directory_id) == candidate
        return election.voted_id == _NO_NODE or is_same

    def _handle_begin(self, request: Any, respond: Respond) -> None:
        begun = request.topics[0].partitions[0]
        if begun.leader_epoch < self.epoch:
            self.respond(respond, self._answer(ErrorCode.fenced_leader_epoch))
            return
        address = self._find(begun.leader_id, ())
        if request.leader_endpoints:
            endpoint = request.leader_endpoints[0]
            address = Address(begun.leader_id, endpoint.host, endpoint.port)
        if address is not None and not self._is_stopped:
            assert self.role is not Role.LEADER or begun.leader_epoch > self.epoch, "two leaders in one epoch"
            self._become_follower(begun.leader_epoch, address)
        self.respond(respond, self._answer(ErrorCode.none))

    def _handle_end(self, request: Any, respond: Respond) -> None:
        ended = request.topics[0].partitions[0]
        if ended.leader_epoch < self.epoch:
            self.respond(respond, self._answer(ErrorCode.fenced_leader_epoch))
            return
        if ended.leader_epoch > self.epoch or self.leader_id == ended.leader_id:
            self._become_unattached(ended.leader_epoch)
            preferred = [candidate.candidate_id for candidate in ended.preferred_candidates]
            if self.is_voter and self.config.node_id in preferred:
                rank = preferred.index(self.config.node_id)
                self._elect_in(rank * 4 * _ELECTION_JITTER_MS)
        self.respond(respond, self._answer(ErrorCode.none))

    def _about(self, partition: dict[str, Any]) -> dict[str, Any]:
        topics = [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0, **partition}]}]
        return {"cluster_id": self.config.cluster_id, "topics": topics}


def _address(voter: Voter) -> Address:
    return Address(voter.node_id, voter.host, voter.port)
