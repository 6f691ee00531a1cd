"""Mutants of commits, of acknowledgements, and of what a fetch returns."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from yak.broker.apis import list_offsets
from yak.broker.fetches import ConsumerFetch
from yak.errors import ErrorCode, LogDirectoryFailure
from yak.partitions.leader_appends import LeaderAppends
from yak.ports.disk import Disk
from yak.replication.partition import Partition
from yak.sim.checks import strong_isr
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.flush import FlushPlan
from yak.storage.log import Log
from yak.storage.segment import Segment


def _watermark_of_own_log(swaps: Swaps) -> None:
    def advance(self: Partition) -> bool:
        assert self.log is not None
        end = self.log.log_end_offset
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    swaps.put(Partition, "advance_high_watermark", advance)


def _committed_isr_only(swaps: Swaps) -> None:
    real = Partition.count_quorum

    def count(self: Partition) -> None:
        pending, self.pending_isr = self.pending_isr, None
        real(self)
        self.pending_isr = pending

    swaps.put(Partition, "count_quorum", count)
    # the check of the quorum would detect it at once; the other checks have to
    swaps.put(strong_isr, "_waits_for", lambda *_: True)


def _moves_below_min_isr(swaps: Swaps) -> None:
    swaps.put(Partition, "is_under_min_isr", False)


def _ack_at_once(swaps: Swaps) -> None:
    real = LeaderAppends.append_to_leader_log

    def append(*arguments: Any, **named: Any) -> Any:
        appended = real(*arguments, **named)
        appended.must_wait = False
        return appended

    swaps.put(LeaderAppends, "append_to_leader_log", append)


def _read_to_the_end(swaps: Swaps) -> None:
    real = Log.read

    def read(self: Log, offset: int, max_bytes: int, up_to: int, *, at_least_one: bool) -> Any:
        return real(self, offset, max_bytes, max(up_to, self.log_end_offset), at_least_one=at_least_one)

    swaps.put(Log, "read", read)


def _follow_blindly(swaps: Swaps) -> None:
    def follow(self: Partition, leaders: int) -> bool:
        moved, self.high_watermark = leaders > self.high_watermark, max(leaders, self.high_watermark)
        return moved

    swaps.put(Partition, "follow_high_watermark", follow)


def _sync_again(swaps: Swaps) -> None:
    real = FlushPlan.run

    def run_twice(self: FlushPlan, disk: Disk) -> tuple[Segment, ...]:
        try:
            return real(self, disk)
        except LogDirectoryFailure:
            return real(self, disk)

    swaps.put(FlushPlan, "run", run_twice)


def _ack_a_failed_flush(swaps: Swaps) -> None:
    real = Partition.fail_waiters
    swaps.put(Partition, "fail_waiters", lambda self, **_code: real(self, ErrorCode.none))


def _ack_a_repeat_at_once(swaps: Swaps) -> None:
    real = LeaderAppends.append_to_leader_log

    def append(self: LeaderAppends, partition: Any, *arguments: Any, **named: Any) -> Any:
        end = partition.log.log_end_offset
        appended = real(self, partition, *arguments, **named)
        if partition.log is not None and partition.log.log_end_offset == end:
            appended.must_wait = False
        return appended

    swaps.put(LeaderAppends, "append_to_leader_log", append)


def _say_nothing_to_waiting_produces(swaps: Swaps) -> None:
    real = Partition.fail_waiters

    def fail(self: Partition, error_code: ErrorCode) -> None:
        if error_code is not ErrorCode.not_leader_or_follower:
            real(self, error_code)

    swaps.put(Partition, "fail_waiters", fail)


def _sync_in_step(swaps: Swaps) -> None:
    real = Log.flush_plan

    def flush_plan(self: Log, *, include_active: bool = True) -> FlushPlan:
        plan = real(self, include_active=include_active)
        with suppress(LogDirectoryFailure):
            plan.run(self.disk)
        return plan

    swaps.put(Log, "flush_plan", flush_plan)


def _list_the_end_of_the_log(swaps: Swaps) -> None:
    swaps.put(list_offsets, "_end", lambda _call, partition: partition.log_end_offset)


def _followers_serve_all(swaps: Swaps) -> None:
    real = vars(ConsumerFetch)["_end_offset"]

    def end_offset(self: ConsumerFetch, partition: Partition) -> int:
        return partition.log_end_offset if partition.is_follower else real(self, partition)

    swaps.put(ConsumerFetch, "_end_offset", end_offset)


MUTANTS = (
    Mutant(
        "sync-inside-the-step",
        "a step waits for no device: jobs sync logs",
        _sync_in_step,
        seeds=2,
        brokers=1,
    ),
    Mutant("hw-from-own-log", "the high watermark waits for the followers", _watermark_of_own_log, 5),
    Mutant("hw-from-own-log-unflushed", "the high watermark waits for the device", _watermark_of_own_log, 50, 1),
    Mutant("hw-of-committed-isr", "members of an ISR change under way count (4.6)", _committed_isr_only, 300),
    Mutant("hw-below-min-isr", "a too small ISR commits nothing (KIP-966)", _moves_below_min_isr, 30),
    Mutant("ack-before-replication", "an acks=all produce waits for the high watermark", _ack_at_once, 5),
    Mutant("ack-before-flush", "with flush.messages=1 an answer waits for the device", _ack_at_once, 50, 1),
    Mutant("fetch-above-hw", "a fetch ends at the high watermark", _read_to_the_end, 20),
    Mutant("fetch-above-hw-alone", "a fetch ends at what is on the device", _read_to_the_end, 20, 1),
    Mutant("follower-hw-unbounded", "a follower's watermark ends with its own log", _follow_blindly, 20),
    Mutant("sync-tried-again", "a failed fsync is never tried again", _sync_again, 50, 1, ("disk",)),
    Mutant("ack-of-failed-flush", "who waited for a failed flush is told so", _ack_a_failed_flush, 50, 1, ("disk",)),
    Mutant("ack-of-repeat", "a repeated batch waits for its first copy", _ack_a_repeat_at_once, 400, 1),
    Mutant(
        "produce-left-waiting",
        "a produce that waits is told that another leads",
        _say_nothing_to_waiting_produces,
        100,
        faults=("lost calls", "pause"),
    ),
    Mutant("listed-end-above-hw", "a listed end is the high watermark", _list_the_end_of_the_log, 40),
    Mutant("follower-read-above-hw", "a follower serves up to its high watermark (KIP-392)", _followers_serve_all, 100),
)
