"""Truncations of followers' logs; jobs do their syncs, those of one turn together.

1. A job writes the lowered recovery point, if the truncation goes below it.
2. A turn truncates the log.
3. A job syncs it.

Meanwhile the follower does not fetch the partition, and does not append the records of an earlier fetch. If the leader changes
before step 2, the truncation is dropped, and the new leader decides; after step 2 the sync is still awaited. Only a replica that
becomes leader and appends before step 3 syncs in the turn (`yak.storage.truncation`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from yak.broker.lost_directories import is_full, take_damaged
from yak.errors import LogDirectoryFailure
from yak.ids import LeaderEpoch, Offset
from yak.replication.partition import Partition
from yak.storage.flush import FlushPlan
from yak.storage.log import Log
from yak.storage.recovery import DamagedLog
from yak.storage.truncation import cut_plan, cut_synced, lower_recovery_point

if TYPE_CHECKING:
    from yak.broker.broker import Broker

TOGETHER_MAX: Final = 50
"""Truncations that one job syncs: of a thousand partitions, the first are fetched again before the last are synced."""
NO_ROOM_PAUSE_MS: Final = 1_000
"""Pause between two attempts of a truncation that found no room on the disk."""


@dataclass(slots=True, eq=False)
class Cut:
    """One partition's truncation. `lowest` returns the highest recovery point that it allows; `carry_out` truncates.

    Both raise LogDirectoryFailure, DamagedLog. `then` is called when the log may be appended to, if the leader is the same.
    """

    partition: Partition
    log: Log
    lowest: Callable[[], Offset]
    carry_out: Callable[[], None]
    then: Callable[[], None] | None = None
    leader_epoch: LeaderEpoch = field(init=False)

    def __post_init__(self) -> None:
        self.leader_epoch = self.partition.leader_epoch

    @property
    def is_wanted(self) -> bool:
        """Whether the leader and epoch that it is for are still current."""
        partition = self.partition
        return partition.log is self.log and not partition.is_leader and partition.leader_epoch == self.leader_epoch


class Cuts:
    """The truncations under way. One job at a time lowers a directory's recovery points, which are in one file."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._to_lower: dict[str, list[Cut]] = {}
        self._to_sync: dict[str, list[Cut]] = {}
        self._lowering: dict[str, None] = {}
        self._without_room: dict[Cut, bool] = {}
        """Truncations that found no room on the disk -> whether their lowered recovery points are still to be written."""
        self._retry_due_ms: int | None = None

    def next_due(self) -> int | None:
        """When `on_timer` is due, in ms."""
        return self._retry_due_ms

    def on_timer(self) -> None:
        """Repeat the truncations that found no room."""
        if self._retry_due_ms is None or self._retry_due_ms > self._broker.now_ms:
            return
        self._retry_due_ms = None
        cuts, self._without_room = self._without_room, {}
        for cut, must_lower in cuts.items():
            if not cut.is_wanted:
                self._end(cut)
            elif must_lower:
                self._to_lower.setdefault(cut.log.directory, []).append(cut)
            else:
                self._go_on(cut)

    def _repeat_later(self, cut: Cut, *, must_lower: bool) -> None:
        self._without_room[cut] = must_lower
        if self._retry_due_ms is None:
            self._retry_due_ms = self._broker.now_ms + NO_ROOM_PAUSE_MS

    def begin(self, cut: Cut) -> None:
        """Truncate now, or once the lowered recovery point is written."""
        assert cut.partition.cut is None
        cut.partition.cut = cut
        self._go_on(cut)

    def _go_on(self, cut: Cut) -> None:
        log = cut.log
        try:
            lowest = cut.lowest()
            if lowest < log.recovery_point:
                lower_recovery_point(log, lowest)
                self._to_lower.setdefault(log.directory, []).append(cut)
                return
            cut.carry_out()
        except LogDirectoryFailure as failure:
            if is_full(self._broker, failure):
                self._repeat_later(cut, must_lower=False)
                return
            self._broker.directory_failed(failure)
            self._end(cut)
            return
        except DamagedLog as damaged:
            take_damaged(self._broker, cut.partition, damaged)
            self._end(cut)
            return
        self._to_sync.setdefault(log.directory, []).append(cut)

    def start_wanted(self) -> None:
        """Start the jobs of this turn's truncations, at its end."""
        if not (self._to_lower or self._to_sync) or self._broker.maintenance.is_closing:
            return
        for directory in [each for each in self._to_lower if each not in self._lowering]:
            self._lower(directory, self._to_lower.pop(directory))
        to_sync, self._to_sync = self._to_sync, {}
        for cuts in to_sync.values():
            for first in range(0, len(cuts), TOGETHER_MAX):
                self._sync(cuts[first : first + TOGETHER_MAX])

    def _lower(self, directory: str, cuts: list[Cut]) -> None:
        def lowered(result: Any, error: BaseException | None) -> None:  # noqa: ARG001
            del self._lowering[directory]
            has_room = True
            if isinstance(error, LogDirectoryFailure):
                has_room = not is_full(self._broker, error)
                if has_room:
                    self._broker.directory_failed(error)
            elif error is not None:
                raise error
            for cut in cuts:
                if not cut.is_wanted:
                    self._end(cut)
                elif has_room:
                    self._go_on(cut)
                else:
                    self._repeat_later(cut, must_lower=True)

        self._lowering[directory] = None
        plan = self._broker.log_store.lowering_plan(directory, [cut.log for cut in cuts])
        self._broker.jobs.run("cut", plan, lowered)

    def _sync(self, cuts: list[Cut]) -> None:
        plans = [cut_plan(cut.log) for cut in cuts]

        def synced(result: Any, error: BaseException | None) -> None:
            if error is not None:
                raise error
            for cut, plan, failure in zip(cuts, plans, result, strict=True):
                if cut.partition.log is cut.log:
                    if failure is not None:
                        self._broker.directory_failed(failure)
                    else:
                        cut_synced(cut.log, plan)
                self._end(cut)

        self._broker.jobs.run("cut", lambda: [_run(plan) for plan in plans], synced)

    def _end(self, cut: Cut) -> None:
        partition, log = cut.partition, cut.partition.log
        partition.cut = None
        if log is None:
            return
        if log.unflushed_messages >= log.config.flush_messages:
            # the truncation voided the flush that was under way
            self._broker.flusher.want(partition)
        if cut.then is not None and cut.is_wanted:
            cut.then()
        else:
            self._broker.replication.changed(partition)


def _run(plan: FlushPlan) -> LogDirectoryFailure | None:
    """Return the failure for the step to handle: the log may be deleted by then."""
    try:
        plan.run()
    except LogDirectoryFailure as failure:
        return failure
    return None
