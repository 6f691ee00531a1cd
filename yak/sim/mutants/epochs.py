"""Mutants of leader epochs: leadership, follower fetches, truncation."""

from __future__ import annotations

from typing import Any

from yak.broker.fetches import FollowerFetch
from yak.partitions.local_replicas import LocalReplicas
from yak.replication.fetch_sessions import FollowerSessions
from yak.replication.partition import Partition
from yak.replication.replica_fetcher import ReplicaFetcher
from yak.replication.truncation import Truncation, Truncations
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.log import Log


def _cut_to_the_watermark(swaps: Swaps) -> None:
    """In a new epoch truncate to the own high watermark, without asking for the divergence (before KIP-101)."""
    real = ReplicaFetcher.follow

    def follow(self: ReplicaFetcher, partition: Partition) -> None:
        log = partition.log
        if log is not None and partition.truncation is None and log.log_end_offset > partition.high_watermark:
            # Through the product's jobs: a truncation in the step would be found for its sync, not for its offset.
            self._truncations._begin(Truncation(partition, log, partition.high_watermark))  # noqa: SLF001
        real(self, partition)

    swaps.put(ReplicaFetcher, "follow", follow)


def _look_for_no_divergence(swaps: Swaps) -> None:
    """Treat every follower as an old version, which sends no last fetched epoch."""
    real = FollowerSessions.take_progress

    def take_progress(self: Any, session: Any, partition: Any, item: Any) -> Any:
        item.last_fetched_epoch = -1
        return real(self, session, partition, item)

    swaps.put(FollowerSessions, "take_progress", take_progress)


def _count_any_fetch(swaps: Swaps) -> None:
    real = FollowerFetch._readable  # noqa: SLF001

    def readable(self: Any, item: Any) -> Any:
        if item.partition is not None and item.partition.is_leader:
            item.current_leader_epoch = item.partition.leader_epoch
            item.last_fetched_epoch = -1
            item.fetch_offset = min(item.fetch_offset, item.partition.log_end_offset)
        return real(self, item)

    swaps.put(FollowerFetch, "_readable", readable)


def _write_in_the_last_epoch(swaps: Swaps) -> None:
    """A new leader appends in the epoch of its last record, as if the previous leader still led."""
    append = Log.append

    def append_stale(self: Log, header: Any, batch: Any, leader_epoch: int, now_ms: int) -> Any:
        return append(self, header, batch, self.epochs.latest if self.epochs.latest >= 0 else leader_epoch, now_ms)

    swaps.put(Log, "append", append_stale)
    swaps.put(Log, "assign_epoch", lambda _self, _epoch: None)


def _join_anywhere(swaps: Swaps) -> None:
    real = Partition._begin_epoch  # noqa: SLF001

    def begin(self: Partition) -> None:
        real(self)
        self.epoch_start_offset = 0

    swaps.put(Partition, "_begin_epoch", begin)


def _lead_in_an_old_boot(swaps: Swaps) -> None:
    become, open_all = Partition.become, LocalReplicas.open_all
    is_start = False

    def open_as_told(self: LocalReplicas) -> None:
        nonlocal is_start
        is_start = True
        open_all(self)
        is_start = False

    def become_leader(self: Partition, **named: Any) -> bool:
        return become(self, **named | {"may_lead": named["may_lead"] or not is_start})

    swaps.put(LocalReplicas, "open_all", open_as_told)
    swaps.put(Partition, "become", become_leader)


def _keep_what_was_committed(swaps: Swaps) -> None:
    """Never cut below the own high watermark, even if an unclean election gave up what stands there."""
    real = Truncations._begin  # noqa: SLF001

    def begin(self: Truncations, truncation: Truncation) -> None:
        if not truncation.is_of_copies and not truncation.is_full_resync:
            committed = min(truncation.partition.high_watermark, truncation.log.log_end_offset)
            truncation.offset = max(truncation.offset, committed)
        real(self, truncation)

    swaps.put(Truncations, "_begin", begin)


MUTANTS = (
    Mutant("truncate-to-hw", "a log is cut by epochs, not at the watermark (KIP-101)", _cut_to_the_watermark, 40),
    Mutant(
        "divergence-not-looked-for",
        "a leader tells where the logs part (KIP-320)",
        _look_for_no_divergence,
        100,
        faults=("pause", "cut brokers", "kill"),
    ),
    Mutant("fetch-of-any-epoch-counts", "a fetch of another epoch proves nothing", _count_any_fetch, 150),
    Mutant("stale-epoch-append", "what a leader appends carries its own epoch (KIP-101)", _write_in_the_last_epoch, 60),
    Mutant(
        "join-before-epoch-start",
        "the ISR is joined past the epoch's start (KIP-320)",
        _join_anywhere,
        200,
        faults=("pause", "kill"),
    ),
    Mutant(
        "committed-survives-unclean-election",
        "after an unclean election all replicas are what the leader has",
        _keep_what_was_committed,
        400,
    ),
    Mutant("lead-in-old-boot", "nobody leads in an epoch of an earlier boot (KIP-903)", _lead_in_an_old_boot, 40),
)
