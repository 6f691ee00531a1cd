"""Mutants of the detection of damaged bytes."""

from __future__ import annotations

from typing import Any

from yak.coordination.loader import CoordinatorLoader
from yak.errors import ProtocolViolation
from yak.protocol.record_batch import read_header
from yak.replication import damaged_replicas
from yak.replication.partition import Partition
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage import fetched_batch
from yak.storage import log as storage_log
from yak.storage.recovery import Recovery


def _believe(data: Any, position: int = 0, _size: int | None = None) -> int:
    return read_header(data, position).crc


def _follower_believes(swaps: Swaps) -> None:
    swaps.put(fetched_batch, "compute_crc", _believe)


def _coordinator_believes(swaps: Swaps) -> None:
    real = CoordinatorLoader._on_read  # noqa: SLF001

    def on_read(self: CoordinatorLoader, result: Any, error: Any) -> None:
        real(self, None if result is None else result._replace(damage=None), error)

    swaps.put(CoordinatorLoader, "_on_read", on_read)


def _cut_what_is_damaged(swaps: Swaps) -> None:
    real = Recovery.__init__

    def init(self: Recovery, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **(named | {"keeps_written": False}))

    swaps.put(Recovery, "__init__", init)


def _follower_takes_any_offset(swaps: Swaps) -> None:
    check, may_follow = fetched_batch.check_fetched_batch, Partition.may_follow

    def checked(view: Any, position: int, header: Any, _expected: int, *rest: Any, may_have_gaps: bool) -> None:
        check(view, position, header, header.base_offset, *rest, may_have_gaps=may_have_gaps)

    def follows(*arguments: Any) -> bool:
        try:
            return may_follow(*arguments)
        except ProtocolViolation:
            return True

    swaps.put(storage_log, "check_fetched_batch", checked)
    swaps.put(Partition, "may_follow", follows)


def _resign_never(swaps: Swaps) -> None:
    swaps.put(damaged_replicas, "may_leave", lambda _partition: False)


def _fetch_on_while_resigning(swaps: Swaps) -> None:
    swaps.put(Partition, "may_be_named", property(lambda self: self.truncation is None))


_FAULTS = ("rot", "misread", "kill")
_MISDIRECTED = ("misdirected", "rot", "kill")
MUTANTS = (
    Mutant("follower-checks-no-crc", "a follower copies no damaged batch", _follower_believes, 60, 3, _FAULTS),
    Mutant(
        "coordinator-checks-no-crc",
        "a coordinator believes no damaged batch",
        _coordinator_believes,
        60,
        3,
        ("rot", "stop"),
    ),
    Mutant(
        "damage-cut-after-a-kill", "what no kill can tear is damage, and not cut", _cut_what_is_damaged, 60, 3, _FAULTS
    ),
    Mutant(
        "damaged-leader-stays",
        "a replica that is known to be damaged leaves the ISR",
        _resign_never,
        60,
        3,
        ("rot",),
    ),
    Mutant(
        "resigning-replica-fetches",
        "a replica that resigns fetches no more",
        _fetch_on_while_resigning,
        300,
        3,
        ("rot", "lost calls"),
    ),
    Mutant(
        "follower-takes-any-offset",
        "a follower copies only what comes next",
        _follower_takes_any_offset,
        300,
        3,
        _MISDIRECTED,
    ),
)
