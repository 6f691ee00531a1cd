"""One partition as this broker holds it: its role and epochs, its log, its followers, and its high watermark.

The high watermark is the smallest log end offset over the maximal ISR, that is the committed one and every member of a
change under way (`yak.replication.isr`); it moves only while the committed ISR is as large as `min.insync.replicas` asks
(KIP-966), and never back within an epoch. Where every message must be flushed before it counts (`flush.messages=1`) the
leader's own end is that of what is on the device, and its followers fetch on only from what they flushed.

Who waits on a partition is kept by name in it, so a wake-up touches only those (`waiting_produces` in offset order,
`waiting_fetches` and the sessions in the order they came).
"""

from __future__ import annotations

import uuid
from collections import deque
from typing import Any

from yak.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, PartitionEpoch, ProducerId, TopicPartition
from yak.replication.isr import IsrProposal, Member
from yak.replication.replica import Replica
from yak.replication.traffic import Traffic
from yak.storage.log import Log


class Partition:
    """A replica on this broker. `log` is None while its log directory is offline."""

    __slots__ = (
        "_quorum",
        "appended_bytes",
        "asked_beyond_ms",
        "committed_bytes",
        "cut",
        "elr",
        "epoch_start_offset",
        "flush_running",
        "flush_wanted",
        "high_watermark",
        "is_alone",
        "is_leader",
        "is_watched",
        "isr",
        "isr_epochs",
        "leader_epoch",
        "leader_id",
        "leads_since_ms",
        "log",
        "node_id",
        "notified_bytes",
        "partition_epoch",
        "pending_appends",
        "pending_isr",
        "refused_sequences",
        "replica_sessions",
        "replica_states",
        "replicas",
        "reported",
        "sessions",
        "topic_id",
        "topic_partition",
        "traffic",
        "waiting_fetches",
        "waiting_flushes",
        "waiting_produces",
    )

    def __init__(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, log: Log | None, traffic: Traffic | None = None
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.traffic = traffic or Traffic()
        """Its topic's totals on this broker."""
        self.node_id: NodeId = -1
        self.leader_id: NodeId = -1
        self.leader_epoch: LeaderEpoch = -1
        self.partition_epoch: PartitionEpoch = -1
        self.isr: tuple[NodeId, ...] = ()
        self.isr_epochs: tuple[BrokerEpoch, ...] = ()
        self.elr: tuple[NodeId, ...] = ()
        """Former members that may be elected: while the store names any, it takes nothing for committed."""
        self.replicas: tuple[NodeId, ...] = ()
        self.is_leader = False
        self.is_alone = True
        """Whether the maximal ISR is this broker alone, so that what is appended is committed."""
        self.high_watermark: Offset = 0
        self.reported: tuple[Offset, dict[NodeId, Offset]] | None = None
        """The high watermark and log ends that the store was told last."""
        self.leads_since_ms = 0
        """When our present epoch as the leader began, or the last one."""
        self.asked_beyond_ms: int | None = None
        """When a consumer first asked for an offset behind our end since the store said last that we lead."""
        self.epoch_start_offset: Offset = 0
        """Where our present epoch as the leader began: a follower must be past it before it counts as in sync."""
        self.replica_states: dict[NodeId, Replica] = {}
        """The followers, while we lead."""
        self.pending_isr: IsrProposal | None = None
        """A change of the ISR that was sent and has no definite answer: its members count until it has one."""
        self.is_watched = False
        """Whether some follower was behind at the last look (`yak.broker.isr_changes`)."""
        self._quorum: tuple[tuple[Replica, BrokerEpoch], ...] = ()
        self.appended_bytes = 0
        """Bytes appended so far by this process."""
        self.committed_bytes = 0
        """How many of them are below the high watermark: exact where that is the log's end, else in proportion to offsets."""
        self.notified_bytes = 0
        """How many of these delayed fetches were notified of."""
        self.cut: Any = None
        """A cut of our log that is under way, up to its sync: nothing is fetched meanwhile (`yak.broker.cuts`)."""
        self.flush_running = False
        self.flush_wanted = False
        self.waiting_produces: deque[Any] | None = None
        self.waiting_flushes: deque[Any] | None = None
        self.waiting_fetches: dict[Any, Any] | None = None
        self.sessions: dict[Any, Any] | None = None
        self.replica_sessions: dict[Any, Any] | None = None
        """Fetch sessions of followers: told of what is appended, where those of clients are told of what is committed."""
        self.refused_sequences: dict[ProducerId, tuple[int, int, int]] = {}
        """Idempotent producers whose batch was refused for now: its epoch, sequence and when, in ms (`yak.broker.refused_batches`)."""
        self.pending_appends: deque[Any] | None = None
        """Batches that are being recompressed, and those that came after them, in order."""

    # -------------------------------------------------------------------------------------------------- the role

    def become(
        self,
        *,
        node_id: NodeId,
        leader_id: NodeId,
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        replicas: tuple[NodeId, ...],
        isr: tuple[NodeId, ...],
        isr_epochs: tuple[BrokerEpoch, ...] | None = None,
        elr: tuple[NodeId, ...] = (),
        now_ms: int = 0,
        may_lead: bool = True,
    ) -> bool:
        """Take the state that the metadata log gives; an older partition epoch changes nothing.

        `may_lead` is false for the state of an earlier boot, in which nobody leads any more. Returns whether leadership or
        the leader's epoch changed, so that followers and waiting requests must be told.
        """
        if partition_epoch < self.partition_epoch or leader_epoch < self.leader_epoch:
            return False
        is_leader = leader_id == node_id and may_lead
        changed = leader_epoch != self.leader_epoch or leader_id != self.leader_id or is_leader != self.is_leader
        if self.is_leader and not is_leader:
            self.refused_sequences.clear()
        self.node_id = node_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        proposed = None if self.pending_isr is None else dict(self.pending_isr.members)
        left = [each for each in self.isr if each not in isr and (proposed is None or each in proposed)]
        self.isr = isr
        self.elr = elr
        self.isr_epochs = isr_epochs if isr_epochs is not None else (0,) * len(isr)
        self.is_leader = is_leader
        if changed:
            if is_leader:
                self.leads_since_ms = now_ms
            self._begin_epoch()
        self._note_followers(now_ms, anew=changed)
        for each in left:
            # not our doing: it left by itself, and would again if it were let in before it fetches
            if each in self.replica_states:
                self.replica_states[each].has_left = True
        self.count_quorum()
        if is_leader and self.log is not None:
            self.advance_high_watermark()
        return changed

    def _begin_epoch(self) -> None:
        self.pending_isr = None
        self.is_watched = False
        log = self.log
        if log is None:
            return
        if self.is_leader:
            log.assign_epoch(self.leader_epoch)
            self.epoch_start_offset = log.log_end_offset
        else:
            # An epoch in which we led and wrote nothing is in nobody's log: the next leader could not tell where it ended.
            log.epochs.truncate_from_end(log.log_end_offset)

    def _note_followers(self, now_ms: int, *, anew: bool) -> None:
        if not self.is_leader:
            self.replica_states = {}
            return
        known = {} if anew else self.replica_states
        self.replica_states = {
            node_id: known.get(node_id) or Replica(node_id, now_ms)
            for node_id in self.replicas
            if node_id != self.node_id
        }

    @property
    def is_follower(self) -> bool:
        """Whether this replica may stand in for its leader towards readers.

        One that leads by the metadata, but in a boot of this broker that is over, is neither leader nor follower until another
        is elected: it may have lost what it led with.
        """
        return not self.is_leader and self.leader_id != self.node_id

    # -------------------------------------------------------------------------------------------- the in-sync set

    @property
    def isr_members(self) -> tuple[Member, ...]:
        """The committed ISR, each member with its broker epoch."""
        return tuple(zip(self.isr, self.isr_epochs, strict=True))

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, and no more than there are replicas (Kafka's Partition.effectiveMinIsr)."""
        assert self.log is not None
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR is too small to commit anything."""
        assert self.log is not None
        in_sync = len(self.isr)
        return (in_sync < self.log.config.min_insync_replicas and in_sync < len(self.replicas)) or bool(self.elr)

    def count_quorum(self) -> None:
        """Find whose log end offsets the high watermark waits for: the maximal ISR, but for ourselves."""
        pending = () if self.pending_isr is None else self.pending_isr.members
        states = self.replica_states
        quorum = []
        for node_id, broker_epoch in dict.fromkeys((*self.isr_members, *pending)):
            if node_id != self.node_id:
                # A member that is no replica any more never fetches: it holds the watermark until it has left.
                quorum.append((states.get(node_id) or Replica(node_id, 0), broker_epoch))
        self._quorum = tuple(quorum)
        self.is_alone = not quorum

    def propose(self, proposal: IsrProposal) -> None:
        """A change of the ISR goes to the store: from now on its members count too."""
        assert self.pending_isr is None
        self.pending_isr = proposal
        self.count_quorum()

    def settle(self, proposal: IsrProposal) -> None:
        """The change has a definite answer, and the committed state is at least as new as that."""
        if self.pending_isr is proposal:
            self.pending_isr = None
            self.count_quorum()

    # --------------------------------------------------------------------------------------------- high watermark

    def advance_high_watermark(self) -> bool:
        """As the leader: move the high watermark up to the smallest end over the maximal ISR; it never moves back.

        Where every message is flushed, only what is on the device counts. Returns whether it moved.
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
        uncommitted_bytes = self.appended_bytes - self.committed_bytes
        end, before = self.log_end_offset, self.high_watermark
        if high_watermark < end:
            uncommitted_bytes = uncommitted_bytes * (high_watermark - before) // (end - before)
        self.committed_bytes += uncommitted_bytes
        self.high_watermark = high_watermark

    def follow_high_watermark(self, leaders: Offset) -> bool:
        """As a follower: take the leader's high watermark as far as our own log goes. Returns whether ours moved."""
        log = self.log
        assert log is not None
        reached = min(leaders, log.log_end_offset)
        if reached <= self.high_watermark:
            return False
        self._commit(reached)
        return True

    def log_was_cut(self) -> bool:
        """The log was truncated to where it agrees with the leader's. Returns whether the watermark had to fall."""
        log = self.log
        assert log is not None
        if self.high_watermark <= log.log_end_offset:
            if self.high_watermark < log.log_start_offset:
                self.high_watermark = log.log_start_offset
            return False
        self.high_watermark = log.log_end_offset
        return True

    def log_end_offsets(self) -> dict[NodeId, Offset]:
        """As the leader: the end of each replica's log, as far as it is known."""
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
