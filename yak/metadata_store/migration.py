"""Scripts of the metadata store: the move of a cluster's metadata to another store, or from it.

    the source:  LIVE -> EXPORTED (frozen) -> MOVED (only the cluster's ids are left); cancelled: -> LIVE
    the target:  empty or MOVED -> IMPORTED (frozen) -> LIVE

The leader of the quorum calls them. They check no history: each names its migration by an id that only grows, and the call
of an older migration is refused. A repeated call changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from yak.metadata_store.checks import RefusedCall, Value
from yak.metadata_store.content import rows_of, state_of
from yak.metadata_store.state import StoreState

FROZEN: Final = {"EXPORTED": "MIGRATING", "IMPORTED": "MIGRATING", "MOVED": "MOVED"}
"""States of a cluster in which the store refuses all other scripts, and the refusal's code."""
_LEFT: Final = ("cluster_id", "incarnation", "incarnation_id", "state", "migration_id", "mo", "h")
"""The fields of the cluster that a store keeps when the other store has the metadata."""


def check_not_frozen(state: StoreState) -> None:
    """Refuses a call while the metadata are moved, and when the other store has them."""
    code = FROZEN.get(state.cluster["state"])
    if code is not None:
        raise RefusedCall(code)


def _check(state: StoreState, a: Mapping[str, Any]) -> None:
    """Refuses another cluster, and an older migration than the store's newest."""
    cluster = state.cluster
    if not cluster:
        raise RefusedCall("NO_CLUSTER")
    if a.get("cluster_id") and a["cluster_id"] != cluster["cluster_id"]:
        raise RefusedCall("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
    newest = cluster.get("migration_id", 0)
    if a["migration_id"] < newest:
        raise RefusedCall("STALE_MIGRATION", migration_id=newest)


def export_metadata(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Freeze the store, and return its content, with the log from `log_from` on (`yak.metadata_store.content.rows_of`)."""
    _check(state, a)
    cluster = state.cluster
    if cluster["state"] not in ("LIVE", "EXPORTED"):
        raise RefusedCall(FROZEN.get(cluster["state"], "SEEDING"))
    cluster |= {"state": "EXPORTED", "migration_id": a["migration_id"]}
    return {"content": rows_of(state, a.get("log_from", 0))}


def import_metadata(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Replace the content of the store by rows of the other store, frozen (`IMPORTED`) or open (`LIVE`)."""
    if a["state"] not in ("IMPORTED", "LIVE"):
        raise RefusedCall("BAD_REQUEST", message="state")
    cluster = state.cluster
    if cluster:
        _check(state, a)
        if cluster["state"] == "SEEDING":
            raise RefusedCall("SEEDING")
        is_same = cluster.get("migration_id", 0) == a["migration_id"]
        if is_same and cluster["state"] in ("IMPORTED", "LIVE"):
            return {}
        if cluster["state"] == "LIVE":
            raise RefusedCall("CLUSTER_IN_USE")
    try:
        content = state_of(a["content"])
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedCall("BAD_REQUEST", message=f"the content cannot be read: {error}") from None
    if content.cluster.get("cluster_id") != a["cluster_id"]:
        raise RefusedCall("BAD_REQUEST", message="the content is of another cluster")
    offsets = [record.offset for record in content.log]
    end = content.cluster["mo"]
    if not offsets or offsets != list(range(end - len(offsets) + 1, end + 1)):
        raise RefusedCall("BAD_REQUEST", message="the content's log is incomplete")
    for broker in content.brokers.values():
        # a time of the other store's clock
        broker["fast_fenced_ms"] = 0
    content.cluster |= {"state": a["state"], "migration_id": a["migration_id"]}
    _replace(state, content)
    return {}


def _replace(state: StoreState, content: StoreState) -> None:
    for each in fields(StoreState):
        setattr(state, each.name, getattr(content, each.name))


def open_imported(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Let the store serve what was imported."""
    _end(state, a, "IMPORTED", "LIVE")
    return {}


def cancel_export(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Let the store serve again: its content was not opened elsewhere."""
    _end(state, a, "EXPORTED", "LIVE")
    return {}


def close_exported(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Delete the content that the other store serves now."""
    _end(state, a, "EXPORTED", "MOVED")
    _replace(state, StoreState(cluster={name: state.cluster[name] for name in _LEFT}))
    return {}


def _end(state: StoreState, a: Mapping[str, Any], before: str, after: str) -> None:
    """Change the state of the cluster from `before` to `after`; refuses unless one of both is of this migration."""
    _check(state, a)
    cluster = state.cluster
    newest = cluster.get("migration_id", 0)
    if newest != a["migration_id"] or cluster["state"] not in (before, after):
        if cluster["state"] == "MOVED":
            raise RefusedCall("MOVED")
        raise RefusedCall("BAD_REQUEST", message=f"the store is {cluster['state']} in migration {newest}")
    cluster["state"] = after
