"""Mutants of the move of the metadata between Redis and the quorum."""

from __future__ import annotations

from typing import Any

from yak.quorum.migration import Migration
from yak.sim.mutants.mutant import Mutant, Swaps


def _open_redis_at_its_import(swaps: Swaps) -> None:
    real = vars(Migration)["_call"]

    def call(self: Any, store: Any, script: str, migration_id: int, done: Any, more: Any = None) -> None:
        real(self, store, script, migration_id, done, more and {**more, "state": "LIVE"})

    swaps.put(Migration, "_call", call)


def _close_redis_before_the_commit(swaps: Swaps) -> None:
    real = vars(Migration)["_on_exported"]

    def on_exported(self: Any, migration_id: int, outcome: Any) -> None:
        real(self, migration_id, outcome)
        if outcome.code == "OK":
            self._call(self._choice.call_redis, "close_exported", migration_id, lambda _outcome: None)

    swaps.put(Migration, "_on_exported", on_exported)


def _close_before_redis_has_it(swaps: Swaps) -> None:
    def when_exported(self: Any, migration_id: int) -> None:
        self._call(self._quorum.propose, "close_exported", migration_id, self._on_closed)

    swaps.put(Migration, "_when_exported", when_exported)


MUTANTS = (
    Mutant(
        "redis-open-at-import",
        "Redis is opened only after the quorum has closed its metadata",
        _open_redis_at_its_import,
        20,
        metadata="both",
    ),
    Mutant(
        "redis-closed-before-commit",
        "Redis closes its metadata when the quorum has committed them",
        _close_redis_before_the_commit,
        20,
        metadata="both",
    ),
    Mutant(
        "closed-before-import",
        "the quorum closes its metadata when Redis has them",
        _close_before_redis_has_it,
        20,
        metadata="both",
    ),
)
