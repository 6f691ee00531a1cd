"""The script of the registry of external brokers (ADR 0015). With Redis, the registry's own script does the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.metadata_store.checks import Value

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def external_broker(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Replace the entry of `external_id`, if the registry is still as the caller read it; without `external_id`, read it only."""
    entries = state.external_brokers
    is_written = "external_id" in a and (
        len(entries) == a["count"]
        and entries.get(a["external_id"], "") == a["old"]
        and entries.get(a["forgotten"], "") == a["forgotten_entry"]
    )
    if is_written:
        entries.pop(a["forgotten"], None)
        entries[a["external_id"]] = f'{a["new"][:-1]},"changed_ms":{now_ms}}}'
    return {"now_ms": now_ms, "is_written": is_written, "entries": entries}
