"""Scripts of the metadata store: the move of the whole content from one store to another (`yak.quorum.migration`).

    LIVE -export-> EXPORTED -close-> MOVED        in the store that had the metadata
    (anything) -import-> IMPORTED -open-> LIVE    in the other one

A migration id only grows, so a call of an earlier move, or of a leader that was replaced, is refused. Each call can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from yak.metadata_store.checks import Refused, Value
from yak.metadata_store.content import rows_of, state_of
from yak.metadata_store.state import StoreState

if TYPE_CHECKING:
    from collections.abc import Collection

_KEPT: Final = ("cluster_id", "incarnation", "incarnation_id", "state", "migration_id", "mo", "h")
CODES: Final = {"EXPORTED": "MIGRATING", "IMPORTED": "MIGRATING", "MOVED": "MOVED"}
"""Why a store in this state serves no other script; a store in another state that is not LIVE waits for a restore."""


def refusal_of(held: str) -> str:
    """The code of the refusal of a store in a state that is not LIVE."""
    return CODES.get(held, "SEEDING")


def _check(state: StoreState, a: Mapping[str, Any], allowed: Collection[str]) -> None:
    """Refuse another cluster, an old migration id, and a store in another state than these."""
    cluster = state.cluster
    if not cluster:
        raise Refused("NO_CLUSTER")
    if a["cluster_id"] != cluster["cluster_id"]:
        raise Refused("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
    if a["migration_id"] < cluster.get("migration_id", 0):
        raise Refused("STALE_MIGRATION", migration_id=cluster["migration_id"])
    if cluster["state"] not in allowed:
        raise Refused("CLUSTER_IN_USE" if cluster["state"] == "LIVE" else refusal_of(cluster["state"]))


def _check_same(state: StoreState, a: Mapping[str, Any]) -> None:
    """Refuse another migration than the one that brought the store into its state."""
    if a["migration_id"] != state.cluster.get("migration_id", 0):
        raise Refused("BAD_REQUEST", message="the store takes part in no migration of this id")


def export_metadata(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Freeze the store, and return its content."""
    _check(state, a, ("LIVE", "EXPORTED"))
    state.cluster |= {"state": "EXPORTED", "migration_id": a["migration_id"]}
    return {"content": rows_of(state)}


def import_metadata(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Replace what the store holds by the content of the other store; `state` is IMPORTED, or LIVE to open it at once."""
    if state.cluster:
        is_done = state.cluster.get("migration_id") == a["migration_id"] and state.cluster["state"] in (
            "IMPORTED",
            "LIVE",
        )
        _check(state, a, ("MOVED", "EXPORTED", "IMPORTED", *(("LIVE",) if is_done else ())))
        if is_done:
            return {}
    imported = state_of(a["content"])
    imported.cluster |= {"state": a["state"], "migration_id": a["migration_id"]}
    for broker in imported.brokers.values():
        # of the other store's clock
        broker["fast_fenced_ms"] = 0
    for each in fields(StoreState):
        setattr(state, each.name, getattr(imported, each.name))
    return {}


def open_imported(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Open an imported content: from now on it is used."""
    _check(state, a, ("IMPORTED", "LIVE"))
    _check_same(state, a)
    state.cluster["state"] = "LIVE"
    return {}


def close_exported(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Delete an exported content, which the other store has."""
    _check(state, a, ("EXPORTED", "MOVED"))
    _check_same(state, a)
    cluster = {name: state.cluster[name] for name in _KEPT} | {"state": "MOVED"}
    emptied = StoreState(cluster=cluster)
    for each in fields(StoreState):
        setattr(state, each.name, getattr(emptied, each.name))
    return {}


def cancel_export(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Go on with an exported content: the other store did not take it."""
    _check(state, a, ("EXPORTED", "LIVE"))
    _check_same(state, a)
    state.cluster["state"] = "LIVE"
    return {}
