"""Mutants of replication: commits, leader epochs, the ISR, registrations, and what a broker does with a bug."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from yak.broker.apis import list_offsets
from yak.broker.broker import Broker
from yak.broker.fetches import ConsumerFetch, FollowerFetch
from yak.cluster import restore
from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.cluster.failure_detector import FailureDetector
from yak.cluster.image import Image, PartitionInfo
from yak.cluster.pause_detection import PauseDetector
from yak.cluster.payload import IsrMember
from yak.cluster.snapshot import write_snapshot
from yak.core import jobs
from yak.core.events import StoreLost
from yak.errors import ErrorCode, FailStop, LogDirectoryFailure
from yak.ids import NodeId
from yak.metadata_store import brokers, checks, controller, isr, scripts
from yak.partitions.leader_appends import LeaderAppends
from yak.partitions.local_replicas import LocalReplicas
from yak.ports.disk import Disk
from yak.protocol.peer_proof import ClusterSecret
from yak.quorum.migration import Migration
from yak.replication.fetch_sessions import FollowerSessions
from yak.replication.isr import IsrProposal
from yak.replication.partition import Partition
from yak.replication.replica_fetcher import ReplicaFetcher
from yak.replication.truncation import Truncation, TruncationKind, Truncations
from yak.sim.checks import strong_isr
from yak.sim.mutants.mutant import Patches, SwitchOn, around, mutant, replacement, rewritten
from yak.storage.flush import FlushPlan
from yak.storage.log import Log
from yak.storage.log_store import LogStore

_BUGS = ("bug", "kill")
_OLDER_DISKS = ("older disk", "kill")


@mutant("hw-from-own-log", "the high watermark waits for the followers", seeds=5)
@mutant("hw-from-own-log-unflushed", "the high watermark waits for the device", seeds=50, brokers=1)
@around(Partition, "advance_high_watermark")
def _watermark_of_own_log(_real: Any, self: Partition) -> bool:
    assert self.log is not None
    end = self.log.log_end_offset
    if end <= self.high_watermark:
        return False
    self.high_watermark = end
    return True


@mutant("hw-of-committed-isr", "members of an ISR change under way count (4.6)", seeds=300)
def _committed_isr_only(swaps: Patches) -> None:
    rewritten(Partition, "count_quorum", ", *pending", ",")(swaps)
    # the check of the quorum would detect it at once; the other checks have to
    swaps.put(strong_isr, "_waits_for", lambda *_: True)


mutant("hw-below-min-isr", "a too small ISR commits nothing (KIP-966)", seeds=30)(
    replacement(Partition, "is_under_min_isr", False)
)


@mutant("ack-before-replication", "an acks=all produce waits for the high watermark", seeds=5)
@mutant("ack-before-flush", "with flush.messages=1 an answer waits for the device", seeds=50, brokers=1)
@around(LeaderAppends, "append_to_leader_log")
def _ack_at_once(real: Any, *arguments: Any, **named: Any) -> Any:
    appended = real(*arguments, **named)
    appended.wants_isr = appended.wants_flush = False
    return appended


@mutant("fetch-above-hw", "a fetch ends at the high watermark", seeds=20)
@mutant("fetch-above-hw-alone", "a fetch ends at what is on the device", seeds=20, brokers=1)
@around(Log, "read")
def _read_to_the_end(real: Any, self: Log, offset: int, max_bytes: int, up_to: int, **named: Any) -> Any:
    return real(self, offset, max_bytes, max(up_to, self.log_end_offset), **named)


mutant("follower-hw-unbounded", "a follower's watermark ends with its own log", seeds=20)(
    rewritten(Partition, "follow_high_watermark", "min(leaders, log.log_end_offset)", "leaders")
)


@mutant("sync-tried-again", "a failed fsync is never tried again", seeds=50, brokers=1, faults=("disk", "power"))
@around(FlushPlan, "run")
def _sync_again(real: Any, self: FlushPlan, disk: Disk) -> Any:
    try:
        return real(self, disk)
    except LogDirectoryFailure:
        return real(self, disk)


@mutant(
    "ack-of-failed-flush",
    "a failed flush fails the produce requests that wait for it",
    seeds=50,
    brokers=1,
    faults=("disk",),
)
@around(Partition, "fail_waiters")
def _ack_a_failed_flush(real: Any, self: Partition, **_code: ErrorCode) -> None:
    real(self, ErrorCode.none)


@mutant("ack-of-repeat", "a repeated batch waits for its first copy", seeds=50, brokers=1, faults=("break",))
@around(LeaderAppends, "append_to_leader_log")
def _ack_a_repeat_at_once(real: Any, self: LeaderAppends, partition: Any, *arguments: Any, **named: Any) -> Any:
    end = partition.log.log_end_offset
    appended = real(self, partition, *arguments, **named)
    if partition.log is not None and partition.log.log_end_offset == end:
        appended.wants_isr = appended.wants_flush = False
    return appended


@mutant(
    "produce-left-waiting",
    "a waiting produce fails when another broker leads",
    seeds=100,
    faults=("lost calls", "pause"),
)
@around(Partition, "fail_waiters")
def _say_nothing_to_waiting_produces(real: Any, self: Partition, error_code: ErrorCode) -> None:
    if error_code is not ErrorCode.not_leader_or_follower:
        real(self, error_code)


@mutant("sync-inside-the-step", "a step waits for no device: jobs sync logs", seeds=2, brokers=1)
@around(Log, "flush_plan")
def _sync_in_step(real: Any, self: Log, *, include_active: bool = True) -> Any:
    plan = real(self, include_active=include_active)
    with suppress(LogDirectoryFailure):
        plan.run(self.disk)
    return plan


mutant("listed-end-above-hw", "a listed end is the high watermark", seeds=40)(
    replacement(list_offsets, "_end", lambda _call, partition: partition.log_end_offset)
)


@mutant("follower-read-above-hw", "a follower serves up to its high watermark (KIP-392)", seeds=100)
@around(ConsumerFetch, "_end_offset")
def _followers_serve_all(real: Any, self: ConsumerFetch, partition: Partition) -> int:
    return partition.log_end_offset if partition.is_follower else real(self, partition)


@mutant("truncate-to-hw", "a log is cut by epochs, not at the watermark (KIP-101)", seeds=40)
@around(ReplicaFetcher, "follow")
def _cut_to_the_watermark(real: Any, self: ReplicaFetcher, partition: Partition) -> None:
    """In a new epoch truncate to the own high watermark, without asking for the divergence (before KIP-101)."""
    log = partition.log
    if log is not None and partition.truncation is None and log.log_end_offset > partition.high_watermark:
        # Through the product's jobs: a truncation in the step would be found for its sync, not for its offset.
        self._truncations._begin(Truncation(partition, log, partition.high_watermark))  # noqa: SLF001
    real(self, partition)


mutant(
    "divergence-not-looked-for",
    "a leader reports the diverging epoch (KIP-320)",
    seeds=100,
    faults=("pause", "cut brokers", "kill"),
)(rewritten(FollowerSessions, "take_progress", "if diverging is not None:", "if False:"))


@mutant("fetch-of-any-epoch-counts", "a fetch of another epoch proves nothing", seeds=150)
@around(FollowerFetch, "_readable")
def _count_any_fetch(real: Any, self: Any, item: Any) -> Any:
    if item.partition is not None and item.partition.is_leader:
        item.current_leader_epoch = item.partition.leader_epoch
        item.last_fetched_epoch = -1
        item.fetch_offset = min(item.fetch_offset, item.partition.log_end_offset)
    return real(self, item)


@mutant("stale-epoch-append", "what a leader appends carries its own epoch (KIP-101)", seeds=60)
def _write_in_the_last_epoch(swaps: Patches) -> None:
    """A new leader appends in the epoch of its last record, as if the previous leader still led."""
    append = Log.append

    def append_stale(self: Log, header: Any, batch: Any, leader_epoch: int, now_ms: int) -> Any:
        return append(self, header, batch, self.epochs.latest if self.epochs.latest >= 0 else leader_epoch, now_ms)

    swaps.put(Log, "append", append_stale)
    swaps.put(Log, "assign_epoch", lambda _self, _epoch: None)


@mutant(
    "join-before-epoch-start", "the ISR is joined past the epoch's start (KIP-320)", seeds=200, faults=("pause", "kill")
)
@around(Partition, "_begin_epoch")
def _join_anywhere(real: Any, self: Partition) -> None:
    real(self)
    self.epoch_start_offset = 0


@mutant("lead-in-old-boot", "no replica leads in an epoch of an earlier boot (KIP-903)", seeds=40)
def _lead_in_an_old_boot(swaps: Patches) -> None:
    become, open_all = Partition.become, LocalReplicas.open_all
    is_start = False

    def open_at_start(self: LocalReplicas) -> None:
        nonlocal is_start
        is_start = True
        open_all(self)
        is_start = False

    def become_leader(self: Partition, node_id: NodeId, info: PartitionInfo, *, now_ms: int, may_lead: bool) -> bool:
        return become(self, node_id, info, now_ms=now_ms, may_lead=may_lead or not is_start)

    swaps.put(LocalReplicas, "open_all", open_at_start)
    swaps.put(Partition, "become", become_leader)


@mutant(
    "committed-survives-unclean-election", "after an unclean election all replicas are what the leader has", seeds=400
)
@around(Truncations, "_begin")
def _keep_what_was_committed(real: Any, self: Truncations, truncation: Truncation) -> None:
    """Never cut below the own high watermark, even if an unclean election gave up what stands there."""
    if truncation.kind is TruncationKind.DIVERGED:
        committed = min(truncation.partition.high_watermark, truncation.log.log_end_offset)
        truncation.offset = max(truncation.offset, committed)
    real(self, truncation)


@mutant(
    "isr-change-forgotten",
    "a change whose answer got lost still counts (4.6)",
    seeds=60,
    faults=("lost calls", "pause"),
)
@around(Broker, "step")
def _forget_with_the_answer(real: Any, self: Broker, event: Any, now_ms: int) -> Any:
    if type(event) is StoreLost:
        for partition in self.partitions.values():
            if partition.pending_isr is not None:
                partition.settle(partition.pending_isr)
    return real(self, event, now_ms)


def _believe(partition: Partition, members: tuple[IsrMember, ...]) -> None:
    partition.isr, partition.isr_members = tuple(member.node_id for member in members), members
    if len(members) >= partition.effective_min_isr:
        partition.elr = ()
    partition.count_quorum()


@mutant("isr-shrunk-before-the-store-agreed", "a shrink counts after the store's OK", seeds=100)
@around(Partition, "propose")
def _shrink_at_once(real: Any, self: Partition, proposal: IsrProposal) -> None:
    real(self, proposal)
    _believe(self, tuple(member for member in self.isr_members if member in proposal.members))


@mutant(
    "isr-grown-before-the-store-agreed",
    "a growth counts after the store's OK",
    seeds=100,
    faults=("kill", "lost calls"),
)
@around(Partition, "propose")
def _grow_at_once(real: Any, self: Partition, proposal: IsrProposal) -> None:
    real(self, proposal)
    _believe(self, tuple(dict.fromkeys((*self.isr_members, *proposal.members))))
    if self.is_leader and self.log is not None:
        self.advance_high_watermark()


@mutant("broker-epoch-ignored-on-return", "an ISR has boots, not brokers (KIP-903)", seeds=60)
def _any_boot_is_a_member(swaps: Patches) -> None:
    rewritten(checks, "is_current", ' and broker["broker_epoch"] == member.broker_epoch', "")(swaps)
    for module in (isr, controller):
        swaps.put(module, "is_current", checks.is_current)


mutant("power-loss-not-told", "a boot that lost its tail leaves ISR and ELR", seeds=60, faults=("power",))(
    replacement(LogStore, "_check_reboot", lambda *_arguments: None)
)
mutant("wiped-disk-believed", "a boot on another disk leaves ISR and ELR", seeds=60, faults=("wipe", "kill"))(
    replacement(brokers, "_lost_something", lambda *_arguments: False)
)
mutant(
    "older-disk-believed", "a boot whose disk lacks reported metadata leaves ISR and ELR", seeds=20, faults=_OLDER_DISKS
)(rewritten(brokers, "_lost_something", "or lacks_metadata", ""))


def _register_with(old: str, new: str) -> SwitchOn:
    """Replace text in the script that registers a broker."""

    def switch_on(swaps: Patches) -> None:
        rewritten(brokers, "register", old, new)(swaps)
        swaps.put(scripts, "_SCRIPTS", {**vars(scripts)["_SCRIPTS"], "register": brokers.register})

    return switch_on


mutant(
    "report-forgotten-at-registration",
    "what a broker reported as on its disk counts until its next boot reports",
    seeds=20,
    faults=_OLDER_DISKS,
)(_register_with('old["persisted"] if old is not None else 0', "0"))
mutant(
    "unregistered-broker-returns-as-member",
    "an unregistered broker that returns leaves ISR and ELR",
    seeds=20,
    faults=("unregister", "kill"),
)(_register_with("or returns or", "or"))


@mutant("session-expired-by-an-outage", "no broker is fenced by an outage", seeds=60, faults=("outage",))
def _hold_an_outage_against_all(swaps: Patches) -> None:
    swaps.put(FailureDetector, "reset", lambda _self: None)
    swaps.put(PauseDetector, "paused_ms", lambda _self, _now_ms: 0)


@mutant(
    "restored-from-the-oldest-image",
    "a restore needs all images, and takes the newest",
    seeds=60,
    faults=("lost history", "cut store", "slow way", "pause", "kill"),
)
def _restore_from_the_oldest_image(swaps: Patches) -> None:
    """Restore from the image that lacks most, as soon as one broker has offered."""
    swaps.put(restore, "_position", lambda offer: (-offer.image.offset, offer.node_id))
    swaps.put(restore, "_missing_brokers", lambda _offers, _before: {})
    swaps.put(restore, "_other_histories", lambda _offers: {})


@mutant(
    "store-believed-after-a-wipe",
    "an emptied store freezes the metadata (4.8)",
    seeds=60,
    brokers=1,
    faults=("lost history",),
)
def _believe_an_empty_store(swaps: Patches) -> None:
    """Create the cluster again in the empty store, and accept its metadata."""
    verified, apply = BrokerLifecycle._on_verified, Image.apply_all  # noqa: SLF001

    def on_verified(self: Any, outcome: Any, now_ms: int) -> None:
        if outcome.code == "NO_CLUSTER":
            self._session.image, self._session.cluster_id, self.admitted = Image(), "", (0, "")
        verified(self, outcome, now_ms)

    def apply_all(self: Image, records: Any) -> Any:
        records = list(records)
        if records and records[0].offset == 1 and self.offset:
            empty, _delta = apply(Image(), records)
            records = [write_snapshot(empty)]
        return apply(self, records)

    swaps.put(BrokerLifecycle, "_on_verified", on_verified)
    swaps.put(Image, "apply_all", apply_all)


mutant(
    "redis-open-at-import", "Redis is opened only after the quorum has closed its metadata", seeds=20, metadata="both"
)(rewritten(Migration, "_when_exported", '"state": "IMPORTED"', '"state": "LIVE"'))


@mutant(
    "redis-closed-before-commit",
    "Redis closes its metadata when the quorum has committed them",
    seeds=20,
    metadata="both",
)
@around(Migration, "_on_exported")
def _close_redis_before_the_commit(real: Any, self: Any, migration_id: int, outcome: Any) -> None:
    real(self, migration_id, outcome)
    if outcome.code == "OK":
        self._call(self._choice.call_redis, "close_exported", migration_id, lambda _outcome: None)


@mutant("closed-before-import", "the quorum closes its metadata when Redis has them", seeds=20, metadata="both")
@around(Migration, "_when_exported")
def _close_before_redis_has_it(_real: Any, self: Any, migration_id: int) -> None:
    self._call(self._quorum.propose, "close_exported", migration_id, self._on_closed)


mutant("unproven-fetch-counts", "a replica fetch needs a proven connection", seeds=30)(
    rewritten(
        FollowerSessions,
        "_check_sender",
        "connection.proven\n",
        "connection.proven or self._context.image.brokers.get(request.replica_id)\n",
    )
)


mutant("any-proof-believed", "a broker proves that it holds the cluster's secret", seeds=30)(
    replacement(ClusterSecret, "is_caller", lambda _self, _proof, _exchange: True)
)


@mutant(
    "half-changed-state-used",
    "a bug in the middle of a change of replicated state stops the broker",
    seeds=20,
    faults=_BUGS,
)
@mutant(
    "half-changed-state-used-alone",
    "a bug in the middle of a change of replicated state stops the broker",
    seeds=20,
    brokers=1,
    faults=_BUGS,
)
@around(Broker, "step")
def _survive_bug(real: Any, self: Any, event: Any, now_ms: int) -> Any:
    try:
        return real(self, event, now_ms)
    except FailStop:
        self._failure = None
        effects: list[Any] = self._effects
        self._effects = []
        return effects


mutant(
    "broken-job-taken-for-a-failed-one", "a bug in a job that changes state stops the broker", seeds=30, faults=_BUGS
)(replacement(jobs, "_CHANGE_STATE", ()))
