"""One partition on this broker: its role and epochs, its log, its followers, and its high watermark.

The high watermark is the smallest log end offset over the maximal ISR: the committed ISR plus every member of a change
under way (`yak.replication.isr`). It advances only while the committed ISR has `min.insync.replicas` members (KIP-966),
and never moves back within an epoch. With `flush.messages=1` the leader counts its own log only up to the recovery
point, and followers fetch only from their flushed end.

Each partition keeps its own delayed operations, so completing them touches no others: `waiting_produces` in offset
order, the sessions in order of arrival.
"""

from __future__ import annotations

import struct
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yak.cluster.payload import IsrMember
from yak.errors import ErrorCode, PeerError, ProtocolViolation
from yak.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicPartition
from yak.protocol.record_batch import HEADER_BYTES, Buffer, read_header
from yak.protocol.replica_fetch import FetchedPartition
from yak.replication.isr import IsrProposal, Replica, left_by_themselves
from yak.replication.log_append_info import WAITING_PRODUCES_MIN
from yak.replication.traffic import Traffic
from yak.storage.log import Log
from yak.storage.producer_state import DeferredSequences

if TYPE_CHECKING:
    from yak.cluster.image import PartitionInfo
    from yak.replication.fetch_sessions import ConsumerItem, ConsumerSession, FollowerItem, FollowerSession
    from yak.replication.log_append_info import PendingBatches, WaitingAppend
    from yak.replication.truncation import Truncation

_BASE_OFFSET: Final = struct.Struct(">q")


@dataclass(slots=True, eq=False, repr=False)
class Partition:
    """The replica on this broker. `log` is None while its log directory is offline."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    log: Log | None
    traffic: Traffic = field(default_factory=Traffic)
    """The topic's totals on this broker."""
    node_id: NodeId = -1
    leader_id: NodeId = -1
    leader_epoch: LeaderEpoch = -1
    partition_epoch: PartitionEpoch = -1
    isr: tuple[NodeId, ...] = ()
    isr_members: tuple[IsrMember, ...] = ()
    """The committed ISR, each member with its broker epoch."""
    elr: tuple[NodeId, ...] = ()
    """The eligible leader replicas (KIP-966): while there are any, the high watermark does not advance."""
    replicas: tuple[NodeId, ...] = ()
    is_leader: bool = False
    is_alone: bool = True
    """Whether the maximal ISR is this broker alone, so that every append is committed."""
    high_watermark: Offset = 0
    reported: tuple[Offset, dict[NodeId, Offset]] | None = None
    """The high watermark and log ends that were reported last to the store."""
    leads_since_ms: int = 0
    """When this broker's current or last epoch as the leader began."""
    store_check_ms: int | None = None
    """When a consumer first fetched beyond the log end since the store last confirmed this leadership."""
    epoch_start_offset: Offset = 0
    """The log end when the current leader epoch began: a follower must reach it to join the ISR."""
    replica_states: dict[NodeId, Replica] = field(default_factory=dict)
    """The followers, while this broker is the leader."""
    pending_isr: IsrProposal | None = None
    """A proposed change of the ISR without a definite answer: its members count until there is one."""
    is_watched: bool = False
    """Whether some follower was behind at the last check (`yak.replication.isr.IsrChanges`)."""
    _quorum: tuple[tuple[Replica, BrokerEpoch], ...] = ()
    appended_bytes: int = 0
    """Bytes appended so far by this process."""
    committed_bytes: int = 0
    """Appended bytes below the high watermark: exact where that is the log end, else in proportion to offsets."""
    notified_bytes: int = 0
    """Committed bytes of which delayed fetches were notified."""
    answered_gap: tuple[Offset, Offset] | None = None
    """Where this follower's log ended, and where the leader's last answer with a gap behind it began; of this session."""
    truncation: Truncation | None = None
    """A truncation under way, up to its sync: nothing is fetched meanwhile (`yak.replication.truncation`)."""
    is_handed_over: bool = False
    """Whether the log is about to continue in another log directory: nothing is written (`yak.partitions.log_moves`)."""
    is_resigning: bool = False
    """Whether this replica leaves the ISR because its log is damaged: without a definite answer, nothing is fetched."""
    flush_running: bool = False
    flush_wanted: bool = False
    waiting_produces: deque[WaitingAppend] | None = None
    waiting_produces_max: int = WAITING_PRODUCES_MIN
    """When there are more, those that timed out are removed."""
    waiting_flushes: deque[WaitingAppend] | None = None
    sessions: dict[ConsumerSession, ConsumerItem] = field(default_factory=dict)
    """Fetch sessions of consumers, and their waiting fetches without a session: notified of commits."""
    replica_sessions: dict[FollowerSession, FollowerItem] = field(default_factory=dict)
    """Fetch sessions of followers: notified of appends."""
    deferred_sequences: DeferredSequences = field(default_factory=DeferredSequences)
    pending_appends: PendingBatches | None = None
    """The batches that wait for a job, and the batches behind them (`yak.partitions.leader_appends`)."""

    # -------------------------------------------------------------------------------------------------- the role

    def become(self, node_id: NodeId, info: PartitionInfo, *, now_ms: int = 0, may_lead: bool = True) -> bool:
        """Apply the state from the metadata log on the broker `node_id`; an older partition epoch changes nothing.

        `may_lead` is false for the state of an earlier broker epoch, in which no replica leads any more. Returns
        whether leadership or the leader epoch changed, so that followers and delayed operations must be notified.
        """
        if info.partition_epoch < self.partition_epoch or info.leader_epoch < self.leader_epoch:
            return False
        is_leader = info.leader == node_id and may_lead
        changed = info.leader_epoch != self.leader_epoch or info.leader != self.leader_id or is_leader != self.is_leader
        if self.is_leader and not is_leader:
            self.deferred_sequences.clear()
        left = left_by_themselves(self, info.isr, info.partition_epoch)
        self.node_id, self.leader_id, self.is_leader = node_id, info.leader, is_leader
        self.leader_epoch, self.partition_epoch = info.leader_epoch, info.partition_epoch
        self.replicas, self.isr, self.isr_members, self.elr = info.replicas, info.isr, info.isr_members, info.elr
        if changed:
            if is_leader:
                self.leads_since_ms = now_ms
            self._begin_epoch()
        self._note_followers(now_ms, resets=changed)
        for each in left:
            # It would leave again if it rejoined before it fetches.
            if each in self.replica_states:
                self.replica_states[each].has_left = True
        self.count_quorum()
        if is_leader and self.log is not None:
            self.advance_high_watermark()
        return changed

    def _begin_epoch(self) -> None:
        self.pending_isr = None
        self.is_watched = False
        if self.log is not None:
            self._begin_epoch_of(self.log)

    def begin_again(self, log: Log, high_watermark: Offset = 0) -> None:
        """Another log replaces one that was offline or lost, perhaps since before this leader epoch."""
        self.log, self.high_watermark = log, max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        self._begin_epoch_of(log)

    def _begin_epoch_of(self, log: Log) -> None:
        if self.is_leader:
            log.assign_epoch(self.leader_epoch)
            self.epoch_start_offset = log.log_end_offset
        else:
            # No other log has an epoch without appends: the next leader would not know where it ended.
            log.epochs.truncate_from_end(log.log_end_offset)

    def _note_followers(self, now_ms: int, *, resets: bool) -> None:
        if not self.is_leader:
            self.replica_states = {}
            return
        known = {} if resets else self.replica_states
        self.replica_states = {
            node_id: known.get(node_id) or Replica(node_id, now_ms)
            for node_id in self.replicas
            if node_id != self.node_id
        }

    @property
    def is_follower(self) -> bool:
        """Whether this replica may serve readers in place of its leader.

        A replica that leads by the metadata, but under an earlier broker epoch, is neither leader nor follower until an
        election: it may have lost records that it had as the leader.
        """
        return not self.is_leader and self.leader_id != self.node_id

    def check_leader_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Raise PeerError when a reader knows another leader epoch (KIP-320)."""
        if leader_epoch != self.leader_epoch:
            is_old = leader_epoch < self.leader_epoch
            raise PeerError(ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch)

    # -------------------------------------------------------------------------------------------- the in-sync set

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, at most the number of replicas (Kafka's Partition.effectiveMinIsr)."""
        assert self.log is not None
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR is below `effective_min_isr` or the ELR is not empty: nothing is committed then."""
        assert self.log is not None
        in_sync = len(self.isr)
        return (in_sync < self.log.config.min_insync_replicas and in_sync < len(self.replicas)) or bool(self.elr)

    def count_quorum(self) -> None:
        """Compute the quorum of the high watermark: the maximal ISR without this broker."""
        pending = () if self.pending_isr is None else self.pending_isr.members
        states = self.replica_states
        quorum = []
        for node_id, broker_epoch in dict.fromkeys((*self.isr_members, *pending)):
            if node_id != self.node_id:
                # A member that is no longer a replica never fetches: it blocks the high watermark until it leaves.
                quorum.append((states.get(node_id) or Replica(node_id, 0), broker_epoch))
        self._quorum = tuple(quorum)
        self.is_alone = not quorum

    def waits_for(self, node_id: NodeId) -> bool:
        """Whether the high watermark waits for this follower: it is in the maximal ISR."""
        return any(replica.node_id == node_id for replica, _broker_epoch in self._quorum)

    def propose(self, proposal: IsrProposal) -> None:
        """Record a proposed ISR change: from now on its members count too."""
        assert self.pending_isr is None
        self.pending_isr = proposal
        self.count_quorum()

    def settle(self, proposal: IsrProposal) -> None:
        """Drop a proposed ISR change: it has a definite answer, and the committed state is at least as new."""
        if self.pending_isr is proposal:
            self.pending_isr = None
            self.count_quorum()

    # --------------------------------------------------------------------------------------------- high watermark

    def advance_high_watermark(self) -> bool:
        """Advance the leader's high watermark to the smallest log end over the maximal ISR; returns whether it moved.

        It never moves back. With `flush.messages=1` only flushed records count.
        """
        log = self.log
        assert log is not None, "an offline partition commits nothing"
        config = log.config
        end = log.log_end_offset
        if config.flush_messages == 1 and log.recovery_point < end:
            end = log.recovery_point
        high_watermark = self.high_watermark
        for replica, broker_epoch in self._quorum:
            replica_end = replica.log_end_offset
            if replica.broker_epoch != broker_epoch or replica_end <= high_watermark:
                return False
            if replica_end < end:
                end = replica_end
        if end <= high_watermark or self.is_under_min_isr:
            return False
        self._commit(end)
        return True

    def _commit(self, high_watermark: Offset) -> None:
        log, before = self.log, self.high_watermark
        assert log is not None
        end = log.log_end_offset
        if high_watermark == end:
            self.committed_bytes = self.appended_bytes
        else:
            uncommitted_bytes = self.appended_bytes - self.committed_bytes
            self.committed_bytes += uncommitted_bytes * (high_watermark - before) // (end - before)
        self.high_watermark = high_watermark
        if log.producers.has_transactions:
            log.producers.committed(high_watermark)

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which every record is committed and every transaction decided (UnifiedLog.lastStableOffset)."""
        log, high_watermark = self.log, self.high_watermark
        if log is None or not log.producers.has_transactions:
            return high_watermark
        first_unstable = log.producers.first_unstable_offset(high_watermark)
        if first_unstable is None or first_unstable >= high_watermark:
            return high_watermark
        return max(first_unstable, log.log_start_offset)

    def follow_high_watermark(self, leaders: Offset) -> bool:
        """Advance a follower's high watermark to the leader's, at most to its own log end; returns whether it moved."""
        log = self.log
        assert log is not None
        reached = min(leaders, log.log_end_offset)
        if reached <= self.high_watermark:
            return False
        self._commit(reached)
        return True

    # -------------------------------------------------------------------------------------------------- waiters

    def mark_sessions(self) -> None:
        """Name the partition in the next answers of its consumers' fetch sessions.

        A session whose connection is closed costs no later append: it subscribes again when another connection resumes it.
        """
        closed = []
        for session, item in self.sessions.items():
            if session.connection.is_open:
                session.mark_dirty(item)
            else:
                closed.append(session)
        for session in closed:
            del self.sessions[session]

    def complete_waiters(self) -> None:
        """Complete produces and fetches after the high watermark, the recovery point or the log start moved."""
        queue = self.waiting_produces
        if queue:
            while queue and queue[0][0].end_offset <= self.high_watermark:
                info, produce, answer = queue.popleft()
                if info.may_acknowledge():
                    produce.resolve()
                else:
                    info.wait_with(produce, answer)
        queue = self.waiting_flushes
        if queue and self.log is not None:
            while queue and queue[0][0].end_offset <= self.log.recovery_point:
                queue.popleft()[1].resolve()
        grown_bytes = self.committed_bytes - self.notified_bytes
        self.notified_bytes = self.committed_bytes
        if self.sessions:
            for session, item in list(self.sessions.items()):
                if session.delayed_fetch is not None:
                    session.delayed_fetch.note_growth(self, item, grown_bytes)

    def fail_waiters(self, error_code: ErrorCode) -> None:
        """Complete produces with the error, and fetches with what they can read."""
        if self.pending_appends is not None:
            self.pending_appends.fail(error_code)
        for queue in (self.waiting_produces, self.waiting_flushes):
            while queue:
                _info, produce, answer = queue.popleft()
                answer.error_code = error_code
                answer.base_offset = -1
                produce.resolve()
        for session, item in list(self.sessions.items()):
            session.mark_dirty(item)
            if session.delayed_fetch is not None:
                session.delayed_fetch.complete()

    # -------------------------------------------------------------------------------------------- a follower's log

    @property
    def may_be_named(self) -> bool:
        """Whether a fetch of this follower may name the partition, which acknowledges its whole log."""
        return self.truncation is None and not self.is_resigning and not self.is_handed_over

    def may_follow(self, records: Buffer, fetch_offset: Offset) -> bool:
        """Whether these records, fetched when the log ended at `fetch_offset`, follow its end.

        They may begin behind a gap that compaction left. In a log without gaps the first such answer of a session is
        refused, and its repetition is accepted: the topic was compacted before this replica copied it, and a leader
        whose own log has no gaps finds the damage when it reads there again (`FollowerItem.is_repeated`). Raises
        ProtocolViolation when the log still ends at `fetch_offset`, and they neither follow nor begin inside of it.
        """
        log = self.log
        assert log is not None
        (base_offset,) = _BASE_OFFSET.unpack_from(records)
        if base_offset == log.log_end_offset:
            return True
        if fetch_offset != log.log_end_offset:
            return False
        if base_offset > log.log_end_offset:
            gap = log.log_end_offset, base_offset
            if gap == self.answered_gap:
                log.note_gap()
            self.answered_gap = gap
            if log.may_have_gaps:
                return True
        if not self.begins_inside(records):
            raise ProtocolViolation(f"the leader sent offset {base_offset}, the log ends at {log.log_end_offset}")
        return False

    def begins_inside(self, records: Buffer) -> bool:
        """Whether these records begin with the batch that contains the start of this empty log.

        DeleteRecords may move the leader's log start into a batch, and batches are sent whole (Kafka's
        UnexpectedAppendOffsetException in Partition.doAppendRecordsToFollowerOrFutureReplica).
        """
        start = self.log_end_offset
        if self.log_start_offset != start:
            return False
        header = read_header(records)
        return 0 <= header.base_offset < start <= header.last_offset

    def append_as_follower(self, fetched: FetchedPartition, now_ms: int) -> tuple[bool, bool]:
        """Append the leader's records; returns whether the log start moved, and whether the high watermark did.

        Raises LogDirectoryFailure, and ProtocolViolation for broken batches.
        """
        log = self.log
        assert log is not None
        if len(fetched.records) >= HEADER_BYTES:
            self.appended_bytes += len(fetched.records)
            log.append_as_follower(fetched.records, now_ms, self.leader_epoch)
        log_start = min(fetched.log_start_offset, log.log_end_offset)
        start_moved = log.log_start_offset < log_start
        if start_moved:
            log.advance_log_start(log_start)
        return start_moved, self.follow_high_watermark(fetched.high_watermark)

    def log_was_truncated(self) -> bool:
        """Adjust the high watermark after a truncation; returns whether it had to fall."""
        log = self.log
        assert log is not None
        if self.high_watermark <= log.log_end_offset:
            if self.high_watermark < log.log_start_offset:
                self.high_watermark = log.log_start_offset
            return False
        self.high_watermark = log.log_end_offset
        return True

    def log_end_offsets(self) -> dict[NodeId, Offset]:
        """The log end offset of each replica, as far as the leader knows it."""
        ends = {
            node_id: state.log_end_offset for node_id, state in self.replica_states.items() if state.log_end_offset >= 0
        }
        return {self.node_id: self.log_end_offset} | ends

    @property
    def log_start_offset(self) -> Offset:
        """First offset that can be read; -1 while the log directory is offline."""
        return -1 if self.log is None else self.log.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """Offset of the next record; -1 while the log directory is offline."""
        return -1 if self.log is None else self.log.log_end_offset
