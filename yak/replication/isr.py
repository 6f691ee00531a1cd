"""When a replica leaves the ISR, and when it joins: what the leader proposes to the store, and what a replica requests.

The leader computes the ISR from its followers' fetches (`Replica`, `wanted_isr`). A follower joins when its log reaches
both the high watermark and the start of the current leader epoch: with only the first it could lack records that an
earlier leader committed (the model of KIP-320). It stays while it was caught up within `replica.lag.time.max.ms` and
its broker is alive under the epoch with which it joined (KIP-841, KIP-903).

Leaders send proposals in batches. A proposal counts (for the maximal ISR) from when it is sent until it has a definite
answer and the image includes that answer. Without a definite answer the same proposal, with the same nonce, is sent again
(Kafka's Partition.handleAlterPartitionError): the first one may yet be executed. A new leader epoch ends it.

A replica whose log is offline, lost or damaged leaves by itself (`IsrExits`). The store answers both kinds of requests
(`alter_isr` and `leave_isr` in `yak.metadata_store.isr`), and refuses what it knows to be out of date.

There is no periodic scan of all partitions for lagging followers: a partition is watched from its leader's first moment in an
epoch, or from the append that left a follower behind, until all followers have caught up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.cluster.changes import BeginChange
from yak.cluster.outputs import OnChanged
from yak.cluster.payload import IsrMember, format_isr
from yak.cluster.records import BrokerState
from yak.core.context import Context
from yak.errors import PeerError
from yak.ids import BrokerEpoch, NodeId, Offset, PartitionEpoch, TopicPartition
from yak.ports.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.replication.partition import Partition

BATCH_MAX = 100
"""Proposals that one turn makes and one call carries: about 1 ms of work for this broker, and for the store."""
RETRY_MS = 200
EXITS_MAX, EXIT_RETRY_MS = 200, 500
"""The ISRs that one call leaves, and the pause before it is repeated."""
YIELD_CHECK_MS = 2_000
"""How often a leader whose log is offline, and which is the last one in sync, checks for a follower that may lead."""
UNKNOWN_OFFSET = -1
_CHECKS_PER_LAG = 2
_WATCHED_MAX = 200
"""Watched partitions that one step checks: about 1 ms."""
EpochOf: TypeAlias = Callable[[NodeId], BrokerEpoch]
"""The epoch under which a broker is ACTIVE; -1 for one that is not."""


@dataclass(slots=True, eq=False)
class Replica:
    """The leader's view of one follower in one leader epoch (Kafka's Replica.scala). `log_end_offset` is -1 until it fetches.

    All of it comes from the follower's own fetches in this epoch: a fetch offset says that the follower's log holds all
    records before it (KIP-101, KIP-320).
    """

    node_id: NodeId
    last_caught_up_ms: int
    """A follower counts as caught up when its leader is elected, so that it has time to fetch."""
    broker_epoch: BrokerEpoch = -1
    has_left: bool = False
    """Whether the follower left the ISR by itself since its last fetch: its earlier offsets no longer count."""
    furthest_offset: Offset = UNKNOWN_OFFSET
    """The highest log end accepted under this broker epoch."""
    is_regressed: bool = False
    """Whether the last fetch named a lower log end than an earlier one under this broker epoch."""
    log_end_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    last_fetch_end_offset: Offset = UNKNOWN_OFFSET
    last_fetch_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.last_fetch_ms = self.last_caught_up_ms

    def fetched(
        self,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        now_ms: int,
    ) -> bool:
        """Record a fetch; False when it is of an older broker epoch, or its fetch offset is below an earlier one.

        Within a broker epoch neither end of the log moves back: acknowledged records stay, and deleted records are
        gone. A lower offset comes from a fetch that arrived late, or from a log that lost acknowledged records. It is
        not taken, and `log_end_offset` becomes unknown until the follower is back at the earlier end.

        A follower is caught up when it fetches from the leader's log end. It counts as caught up at its previous fetch
        when it now has all that the leader had then, so a follower slightly behind a busy leader stays in the ISR.
        """
        if broker_epoch < self.broker_epoch:
            return False
        if broker_epoch > self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.last_fetch_end_offset = UNKNOWN_OFFSET
            self.furthest_offset = self.log_start_offset = UNKNOWN_OFFSET
        elif self.has_left:
            # It began a full resync, or left the ISR by itself: its earlier offsets no longer count.
            self.furthest_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.is_regressed = fetch_offset < self.furthest_offset
        if self.is_regressed:
            self.log_end_offset = UNKNOWN_OFFSET
            return False
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_end_offset != UNKNOWN_OFFSET and fetch_offset >= self.last_fetch_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.has_left = False
        self.log_end_offset = self.furthest_offset = fetch_offset
        self.log_start_offset = max(self.log_start_offset, log_start_offset)
        self.last_fetch_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms
        return True

    def is_caught_up(self, leader_end_offset: Offset, now_ms: int, lag_max_ms: int) -> bool:
        """Whether the follower may stay in the ISR: at the leader's log end now, or within the last `lag_max_ms`."""
        return self.log_end_offset >= leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms

    def __repr__(self) -> str:
        return f"Replica({self.node_id}@{self.broker_epoch}, {self.log_end_offset})"


@dataclass(slots=True, eq=False)
class IsrProposal:
    """A change of one partition's ISR sent to the store: compare-and-set by `partition_epoch`, with a `nonce`."""

    members: tuple[IsrMember, ...]
    partition_epoch: PartitionEpoch
    min_isr: int
    nonce: str
    expands: bool = False
    shrinks: bool = False
    """The effect on the committed ISR; both may be true."""


def wanted_isr(
    partition: Partition, epoch_of: EpochOf, own_epoch: BrokerEpoch, now_ms: int, lag_max_ms: int
) -> tuple[IsrMember, ...] | None:
    """The ISR that this leader would propose, in the order of the replicas; None when it is the committed one.

    Also None when nothing may be proposed: it is not the leader, a change is under way, or the ISR has another epoch of
    this broker than its registration (the controller elects then).
    """
    log = partition.log
    if not partition.is_leader or log is None or partition.pending_isr is not None or len(partition.replicas) == 1:
        return None
    committed = dict(partition.isr_members)
    if committed.get(partition.node_id) != own_epoch:
        return None
    end = log.log_end_offset
    joins_at = max(partition.high_watermark, partition.epoch_start_offset)
    wanted: list[IsrMember] = []
    for node_id in partition.replicas:
        if node_id == partition.node_id:
            wanted.append(IsrMember(node_id, own_epoch))
            continue
        epoch, replica = epoch_of(node_id), partition.replica_states[node_id]
        if epoch < 0:
            continue
        is_member = committed.get(node_id) == epoch
        joins = not replica.has_left and replica.broker_epoch == epoch and replica.log_end_offset >= joins_at
        if not is_member and not joins:
            continue
        # Joining followers need it too: otherwise one that stopped fetching would leave and rejoin for ever.
        if replica.is_caught_up(end, now_ms, lag_max_ms):
            wanted.append(IsrMember(node_id, epoch))
    return None if dict(wanted) == committed else tuple(wanted)


def left_by_themselves(partition: Partition, isr: tuple[NodeId, ...], partition_epoch: PartitionEpoch) -> list[NodeId]:
    """The followers that left the ISR on their own request, or may have, when it becomes `isr` in this epoch.

    A follower outside the ISR that lost its log leaves too: this raises the partition epoch, and changes no member.
    """
    proposal = partition.pending_isr
    proposed = None if proposal is None else {node_id for node_id, _epoch in proposal.members}
    left = [each for each in partition.isr if each not in isr and (proposed is None or each in proposed)]
    is_own = proposal is not None and proposal.partition_epoch == partition_epoch - 1 and proposed == set(isr)
    if partition_epoch > partition.partition_epoch and not is_own:
        left += [each for each in partition.replica_states if each not in isr and each not in partition.isr]
    return left


def may_join(partition: Partition, node_id: NodeId) -> bool:
    """Whether a follower outside the ISR has caught up enough to join it; cheap enough for each of its fetches."""
    replica = partition.replica_states[node_id]
    if (node_id, replica.broker_epoch) in partition.isr_members:
        return False
    return replica.log_end_offset >= max(partition.high_watermark, partition.epoch_start_offset)


def may_leave(partition: Partition) -> bool:
    """Whether the image has another replica in the ISR or the ELR, which may lead; the store decides."""
    return bool({*partition.isr, *partition.elr} - {partition.node_id})


class IsrChanges:
    """The proposals of all partitions that this broker leads, and the partitions that are watched for lagging followers."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        lifecycle: BrokerLifecycle,
        begin_change: BeginChange,
        advanced: Callable[[Partition], None],
    ) -> None:
        self._context, self._partitions = context, partitions
        self._lifecycle, self._begin_change = lifecycle, begin_change
        self._advanced = advanced
        """Called with each partition whose high watermark advanced."""
        self.shrinks = self.expands = self.refused = 0
        """Proposals by the store's answer and by their effect; one may both shrink and expand an ISR."""
        self._nonce = 0
        self._lag_max_ms = context.config.replica_lag_time_max_ms
        self._wanted: dict[Partition, None] = {}
        self._unsent: list[tuple[Partition, IsrProposal]] = []
        """Proposals without a definite answer, or not sent because the store was away."""
        self._answers: deque[tuple[list[tuple[Partition, IsrProposal]], list[dict[str, Any]]]] = deque()
        """Batches with the store's answers, behind one that was applied in this step or the one before."""
        self._watched: dict[Partition, None] = {}
        self._round: dict[Partition, None] = {}
        """The watched partitions that this round has still to check."""
        self._later: dict[Partition, None] = {}

    # ----------------------------------------------------------------------------------------------------- choosing

    def check(self, partition: Partition) -> None:
        """Check at the end of the turn whether the ISR should change."""
        self._wanted[partition] = None

    def epoch_began(self, partition: Partition) -> None:
        """Watch a partition that this broker leads in a new epoch: a follower that never fetches in it has to leave.

        Without an append behind it, no other event would show that this follower holds up the high watermark.
        """
        if partition.is_leader and partition.log is not None and len(partition.replicas) > 1:
            self.watch(partition)

    def watch(self, partition: Partition) -> None:
        """Watch a partition after an append: followers that were caught up have `replica.lag.time.max.ms` from now."""
        partition.is_watched = True
        now_ms = self._context.clock.now_ms
        for replica in partition.replica_states.values():
            if replica.log_end_offset >= replica.last_fetch_end_offset >= 0:
                replica.last_caught_up_ms = now_ms
        self._watched[partition] = None
        self._watch_soon()

    def _watch_soon(self) -> None:
        self._context.within((self, "watch"), self._lag_max_ms // _CHECKS_PER_LAG, self._check_watched)

    def brokers_changed(self) -> None:
        """Brokers registered, left or restarted: check the ISR of every replicated partition that this broker leads."""
        for partition in self._partitions.values():
            if partition.is_leader and len(partition.replicas) > 1:
                self._wanted[partition] = None

    def _retry(self) -> None:
        """Send unanswered proposals again, one batch a turn."""
        batch, waiting, self._unsent = self._unsent[:BATCH_MAX], self._unsent[BATCH_MAX:], []
        self._send([(partition, proposal) for partition, proposal in batch if partition.pending_isr is proposal])
        if waiting:
            self._wake_for_retry(RETRY_MS if self._unsent else 1)
            self._unsent += waiting
        later, self._later = self._later, {}
        self._wanted |= later

    def _check_watched(self) -> None:
        """Check the watched partitions for lagging followers, some in each step."""
        if not self._round:
            self._round, self._watched = self._watched, {}
        for partition in list(islice(self._round, _WATCHED_MAX)):
            del self._round[partition]
            log = partition.log
            if (
                not partition.is_leader
                or log is None
                or self._partitions.get(partition.topic_partition) is not partition
                or all(state.log_end_offset >= log.log_end_offset for state in partition.replica_states.values())
            ):
                partition.is_watched = False
            else:
                self._watched[partition] = None
                self._wanted[partition] = None
        if self._round:
            self._context.within((self, "watch"), 1, self._check_watched)
        elif self._watched:
            self._watch_soon()

    # --------------------------------------------------------------------------------------------------- sending

    def run(self) -> None:
        """Propose the ISR changes of one batch of partitions, at the end of a turn."""
        if not self._wanted:
            return
        now_ms, lifecycle = self._context.clock.now_ms, self._lifecycle
        if lifecycle.refusal() is not None:
            # what should change is computed when the store is back, and not again and again until then
            self._wake_for_retry()
            return
        wanted = list(islice(self._wanted, BATCH_MAX))
        for partition in wanted:
            del self._wanted[partition]
        if self._wanted:
            # the turn of a due timer calls this method at its end
            self._context.within((self, "rest"), 1, lambda: None)
        own_epoch = lifecycle.broker_epoch
        proposals = []
        for partition in wanted:
            if self._partitions.get(partition.topic_partition) is not partition:
                continue
            if self._context.faults and self._context.faults.freezes(*partition.topic_partition):
                continue
            members = wanted_isr(partition, self._epoch_of, own_epoch, now_ms, self._lag_max_ms)
            if members is not None:
                proposals.append((partition, self._propose(partition, members, own_epoch)))
        self._send(proposals)

    def _propose(self, partition: Partition, members: tuple[IsrMember, ...], own_epoch: BrokerEpoch) -> IsrProposal:
        self._nonce += 1
        nonce = f"{partition.node_id}.{own_epoch}.{self._nonce}"
        proposal = IsrProposal(members, partition.partition_epoch, partition.effective_min_isr, nonce)
        committed = dict(partition.isr_members)
        proposal.expands = any(committed.get(node_id) != epoch for node_id, epoch in members)
        proposal.shrinks = any(node_id not in dict(members) for node_id in committed)
        partition.propose(proposal)
        return proposal

    def _epoch_of(self, node_id: NodeId) -> BrokerEpoch:
        broker = self._context.image.brokers.get(node_id)
        return broker.broker_epoch if broker is not None and broker.state is BrokerState.ACTIVE else -1

    def _wake_for_retry(self, pause_ms: int = RETRY_MS) -> None:
        self._context.within((self, "retry"), pause_ms, self._retry)

    def _send(self, batch: list[tuple[Partition, IsrProposal]]) -> None:
        if not batch:
            return
        request = StoreRequest("alter_isr", {"partitions": [_arguments(*item) for item in batch]})
        try:
            self._begin_change((request,), partial(self._answered, batch))
        except PeerError:
            self._unsent += batch
            self._wake_for_retry()

    def _answered(
        self, batch: list[tuple[Partition, IsrProposal]], error: PeerError | None, values: tuple[dict[str, Any], ...]
    ) -> None:
        """Take the store's answer, which the image includes; after an error the outcome is unknown, so retry.

        One image may include several large batches: each has a step of its own.
        """
        if error is not None:
            self._unsent += batch
            self._wake_for_retry()
            return
        self._answers.append((batch, values[0]["results"]))
        if (self, "answers") not in self._context.timers:
            self._apply_next()

    def _apply_next(self) -> None:
        if not self._answers:
            return
        context, (batch, results) = self._context, self._answers.popleft()
        if self._answers or len(batch) > BATCH_MAX // 4:
            context.timers.end_round()
            context.after((self, "answers"), 1, self._apply_next)
        self._apply(batch, results)

    def _apply(self, batch: list[tuple[Partition, IsrProposal]], results: list[dict[str, Any]]) -> None:
        for (partition, proposal), result in zip(batch, results, strict=True):
            if partition.pending_isr is not proposal:
                continue
            partition.settle(proposal)
            self._report(partition, proposal, str(result["code"]))
            if partition.is_leader and partition.log is not None and partition.advance_high_watermark():
                self._advanced(partition)
            if result["code"] == "INELIGIBLE_REPLICA":
                # the store knows of a change of that broker which this image does not have yet
                self._later[partition] = None
                self._wake_for_retry()
            else:
                self.check(partition)

    def _report(self, partition: Partition, proposal: IsrProposal, code: str) -> None:
        nodes = ",".join(str(node_id) for node_id, _epoch in proposal.members)
        fields: dict[str, object] = {"partition": str(partition.topic_partition), "isr": nodes}
        if code == "OK":
            self.shrinks += proposal.shrinks
            self.expands += proposal.expands
            self._context.notice("info", "isr-changed", **fields, partition_epoch=partition.partition_epoch)
        else:
            self.refused += 1
            self._context.notice("info", "isr-change-refused", **fields, code=code)


def _arguments(partition: Partition, proposal: IsrProposal) -> dict[str, object]:
    return {
        "topic_id": str(partition.topic_id),
        "partition": partition.topic_partition.partition,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": proposal.partition_epoch,
        "isr": format_isr(proposal.members),
        "min_isr": proposal.min_isr,
        "nonce": proposal.nonce,
    }


class IsrExits:
    """The ISRs that this broker leaves by itself, because the log of its replica is offline, lost or damaged.

    A replica whose log is offline leaves the ISR, so that others lead and commit; its records may be back after a
    restart. A replica whose records are lost leaves the ELR too (`is_lost`), which would count it with records that it
    does not have. The store keeps the last replica that could lead: its log may be back sooner than an eligible leader.
    When a member of the ELR fetches from it, that one has a log, and leads in its place.
    """

    def __init__(
        self,
        context: Context,
        begin_change: BeginChange,
        create_again: Callable[[list[Partition]], None],
        serve_short: Callable[[Partition], bool],
    ) -> None:
        self._context, self._begin_change, self._create_again = context, begin_change, create_again
        """`create_again` gets the partitions whose lost logs count no longer."""
        self._serve_short = serve_short
        """Serves the log of the last replica in sync as far as it goes; returns whether there is one."""
        self._to_leave: dict[Partition, bool] = {}
        """Partition -> whether its records are lost."""
        self._last: dict[Partition, bool] = {}
        """Those that the store keeps in the ISR as the last one in sync -> whether their records are lost."""

    def was_last(self, partition: Partition) -> bool:
        """Whether the store refused the last request, since no other replica was in sync."""
        return partition in self._last

    def forget(self, partition: Partition) -> None:
        """Forget a partition that left this broker."""
        self._last.pop(partition, None)

    def leave(self, partition: Partition, *, is_lost: bool) -> None:
        """Leave the ISR of a partition whose log is offline."""
        self._last.pop(partition, None)
        if len(partition.replicas) > 1:
            self._to_leave[partition] = is_lost or self._to_leave.get(partition, False)
            self._context.after(self, 0, self.send)

    def send(self) -> None:
        """Leave the ISRs in the store. At a start this comes before any controller can unfence and elect this broker."""
        self._context.timers.disarm(self)
        waiting = [item for item in self._to_leave.items() if item[0].log is None]
        self._to_leave.clear()
        for start in range(0, len(waiting), EXITS_MAX):
            batch = waiting[start : start + EXITS_MAX]
            try:
                self.request(batch, partial(self._answered, batch), when_joined=True)
            except PeerError:
                self._again(batch)

    def request(self, batch: Sequence[tuple[Partition, bool]], then: OnChanged, *, when_joined: bool = False) -> None:
        """Request the store's `leave_isr`. Raises PeerError when the store is down."""
        items = [
            {
                "topic_id": str(partition.topic_id),
                "partition": partition.topic_partition.partition,
                "lost": is_lost,
                "yields_to": "" if is_lost else _successor(partition),
                "keeps_elr_without_leader": True,
            }
            for partition, is_lost in batch
        ]
        self._begin_change((StoreRequest("leave_isr", {"partitions": items}),), then, when_joined=when_joined)

    def _again(self, batch: Sequence[tuple[Partition, bool]]) -> None:
        self._to_leave.update(batch)
        self._context.after(self, EXIT_RETRY_MS, self.send)

    def _watch_last(self) -> None:
        """Check soon whether another replica may lead in place of the last one in sync."""
        if not all(self._last.values()):
            self._context.within((self, "yield"), YIELD_CHECK_MS, self._yield_last)

    def _yield_last(self) -> None:
        for partition, is_lost in self._last.items():
            if not is_lost and partition.log is None and _successor(partition):
                self._to_leave.setdefault(partition, False)
        if self._to_leave:
            self.send()
        self._watch_last()

    def _answered(
        self, batch: list[tuple[Partition, bool]], error: PeerError | None, values: tuple[dict[str, Any], ...]
    ) -> None:
        if error is not None:
            self._again(batch)
            return
        gone = []
        for (partition, is_lost), code in zip(batch, values[0]["codes"], strict=True):
            if code == "LAST_MEMBER":
                if partition in self._last or (partition.log is None and self._serve_short(partition)):
                    continue
                if partition.log is None:
                    self._last[partition] = is_lost
                self._context.notice(
                    "error",
                    "last-replica-offline",
                    partition=str(partition.topic_partition),
                    what="no other replica is in the ISR: the partition stays offline until this log or an eligible replica is back",
                )
            elif code == "OK":
                self._last.pop(partition, None)
                if is_lost:
                    gone.append(partition)
        self._watch_last()
        if gone:
            self._create_again(gone)


def _successor(partition: Partition) -> str:
    """The member of the ELR that may lead in place of this leader, whose log is offline; empty for none.

    It fetches from this leader, so its log is online.
    """
    sessions = sorted(partition.replica_sessions, key=lambda each: each.node_id)
    found = [(each.node_id, each.broker_epoch) for each in sessions if each.node_id in partition.elr]
    return format_isr(found[:1])
