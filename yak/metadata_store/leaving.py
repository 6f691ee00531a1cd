"""A script of the metadata store: a broker leaves the ISR of partitions whose logs it cannot serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_isr, parse_nodes
from yak.metadata_store.checks import (
    Value,
    append_changes,
    change_of,
    check_broker,
    check_size,
    has_node,
    kept_all,
    min_isr,
    next_elr,
)

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def leave_isr(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Remove a broker whose log directory failed, or (`lost`) whose log is gone and no longer counts."""
    check_broker(state, a)
    check_size(a)
    codes, changes = [], []
    for item in a["partitions"]:
        partition = state.partitions.get((item["topic_id"], item["partition"]))
        if partition is None:
            codes.append("NO_TOPIC")
            continue
        code, has_changed = _leave(state, a["node_id"], item, partition)
        codes.append(code)
        if has_changed:
            changes.append(change_of(item["topic_id"], partition))
    append_changes(state, changes, now_ms)
    return {"codes": codes}


def _leave(state: StoreState, node_id: int, item: Mapping[str, Any], partition: dict[str, Any]) -> tuple[str, bool]:
    isr, elr = parse_isr(partition["isr"]), parse_isr(partition["elr"])
    is_member = has_node(isr, node_id)
    if not is_member and not has_node(elr, node_id):
        if item["lost"]:
            _void_changes_under_way(partition)
        return "OK", item["lost"]
    if not is_member and not item["lost"]:
        return "OK", False
    rest = _without(isr, node_id)
    if _is_last(state, node_id, (isr, elr), is_lost=item["lost"]):
        return "LAST_MEMBER", False
    kept = partition["elr"]
    if is_member:
        replicas = parse_nodes(partition["replicas"])
        kept = next_elr(state, partition, rest, min_isr(state, item["topic_id"], partition["leader"], replicas))
    if item["lost"]:
        kept = format_isr(_without(parse_isr(kept), node_id))
    partition |= {"isr": format_isr(rest), "elr": kept}
    _void_changes_under_way(partition)
    if partition["leader"] == node_id:
        partition["leader"] = -1
        partition["leader_epoch"] += 1
    return "OK", True


def _void_changes_under_way(partition: dict[str, Any]) -> None:
    """Raise the partition epoch: otherwise a leader that judged by the lost log could still bring it into the ISR."""
    partition["nonce"] = ""
    partition["partition_epoch"] += 1


def _is_last(
    state: StoreState, node_id: int, members: tuple[tuple[IsrMember, ...], tuple[IsrMember, ...]], *, is_lost: bool
) -> bool:
    """Whether no other replica could lead.

    An ISR or ELR member that may have lost data does not replace the last one that has everything.
    """
    isr, elr = members
    rest = _without(isr, node_id)
    may_elr_lead = any(kept_all(state, each) for each in _without(elr, node_id))
    if not rest:
        return not (is_lost and may_elr_lead)
    mine = next(each for each in (*isr, *elr) if each.node_id == node_id)
    return kept_all(state, mine) and not may_elr_lead and not any(kept_all(state, each) for each in rest)


def _without(members: tuple[IsrMember, ...], node_id: int) -> tuple[IsrMember, ...]:
    return tuple(member for member in members if member.node_id != node_id)
