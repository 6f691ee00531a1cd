"""Mutants of the move of a log to another log directory (KIP-113)."""

from __future__ import annotations

from typing import Any

from yak.replication.partition import Partition
from yak.sim.disk import SimDisk, SimFile
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.log_directory import FolderRemoval
from yak.storage.log_move import MoveSeal


def _write_on_during_the_handover(swaps: Swaps) -> None:
    swaps.put(Partition, "is_handed_over", property(lambda _self: False, lambda _self, _value: None))


def _rename_without_sync(swaps: Swaps) -> None:
    real = FolderRemoval.run

    def run(self: Any, disk: Any) -> Any:
        return None if self.is_kept else real(self, disk)

    swaps.put(FolderRemoval, "run", run)


def _seal_what_is_not_durable(swaps: Swaps) -> None:
    real = MoveSeal.run

    def run(self: MoveSeal, disk: Any) -> None:
        inner = Swaps()
        inner.put(SimFile, "sync", lambda _self: None)
        inner.put(SimDisk, "sync_directory", lambda _self, _path: None)
        try:
            real(self, disk)
        finally:
            inner.take_back()

    swaps.put(MoveSeal, "run", run)


_FAULTS = ("power", "kill")
MUTANTS = (
    Mutant(
        "handed-over-log-written",
        "a log that is handed over to another directory takes no appends",
        _write_on_during_the_handover,
        60,
        1,
        _FAULTS,
    ),
    Mutant(
        "move-not-synced",
        "the old folder's rename is on the device before the copy gets its name",
        _rename_without_sync,
        300,
        1,
        _FAULTS,
    ),
    Mutant(
        "copy-sealed-unsynced",
        "a copy is on the device before it is sealed",
        _seal_what_is_not_durable,
        300,
        1,
        _FAULTS,
    ),
)
