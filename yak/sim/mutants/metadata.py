"""Mutants of what the metadata have beside topics: snapshots, restores and moves have to keep it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from yak.cluster import image_log
from yak.cluster.restore import JUMP, plan_restore
from yak.metadata_store import migration, seeding
from yak.sim import store as sim_store
from yak.sim.mutants.mutant import Mutant, Swaps


def _write_no_quotas(swaps: Swaps) -> None:
    real = vars(image_log)["write_snapshot"]

    def write_snapshot(image: Any) -> Any:
        record = real(image)
        record.payload["quotas"] = []
        return record

    swaps.put(image_log, "write_snapshot", write_snapshot)


def _restore_no_acls(swaps: Swaps) -> None:
    real = vars(seeding)["_write_configs"]
    swaps.put(seeding, "_write_configs", lambda state, image: real(state, {**image, "acls": []}))


def _move_no_configs(swaps: Swaps) -> None:
    real = migration.state_of  # type: ignore[attr-defined]

    def state_of(rows: Any) -> Any:
        state = real(rows)
        state.configs.clear()
        return state

    swaps.put(migration, "state_of", state_of)


def _give_producer_ids_again(swaps: Swaps) -> None:
    def plan(*arguments: Any, **named: Any) -> Any:
        planned = plan_restore(*arguments, **named)
        image = planned.image
        return replace(planned, image=replace(image, next_producer_id=image.next_producer_id - JUMP - 3_000))

    swaps.put(sim_store, "plan_restore", plan)


def _write_snapshots_side_by_side(swaps: Swaps) -> None:
    real = vars(image_log.ImageLog)["compaction"]

    def compaction(self: Any, image: Any) -> Any:
        self.is_compacting = False
        return real(self, image)

    swaps.put(image_log.ImageLog, "compaction", compaction)


_RESTORES = ("lost history", "kill")
MUTANTS = (
    Mutant(
        "snapshot-without-quotas",
        "a snapshot of the metadata has the quotas",
        _write_no_quotas,
        100,
        3,
        ("kill", "stop"),
    ),
    Mutant(
        "snapshots-side-by-side",
        "a broker writes one snapshot of the metadata at a time",
        _write_snapshots_side_by_side,
        100,
    ),
    Mutant("restore-without-acls", "a restored store has the ACLs", _restore_no_acls, 150, 3, _RESTORES),
    Mutant("move-without-configs", "a moved store has the configs", _move_no_configs, 30, metadata="both"),
    Mutant(
        "producer-ids-given-again", "a restore gives no producer id again", _give_producer_ids_again, 60, 3, _RESTORES
    ),
)
