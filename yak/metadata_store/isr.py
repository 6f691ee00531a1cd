"""Scripts of the metadata store: the ISR changes as a leader proposes, or a replica that has no usable log leaves it;
leaders report high watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_isr, parse_nodes
from yak.metadata_store.checks import (
    ItemResult,
    RefusedCall,
    Value,
    append_changes,
    change_each,
    change_of,
    check_broker,
    check_size,
    has_all_data,
    has_node,
    is_current,
    min_isr,
    minimum_for_elr,
    next_elr,
)
from yak.metadata_store.reassignments import complete

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def alter_isr(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """The leader changes ISRs, each by compare and set; a reassignment with all targets in the ISR is completed."""
    check_broker(state, a)
    check_size(a)
    results, changes = [], []
    for item in a["partitions"]:
        partition = state.partitions.get((item["topic_id"], item["partition"]))
        if partition is None:
            results.append({"code": "NO_TOPIC"})
            continue
        more: dict[str, Any] = {"code": "OK"}
        try:
            if not _is_repeat(a, item, partition):
                _alter_isr(state, a, item, partition)
                changes.append(change_of(item["topic_id"], partition))
        except RefusedCall as refusal:
            more = {"code": refusal.code} | refusal.value
        results.append(change_of(item["topic_id"], partition) | more)
    append_changes(state, changes, now_ms)
    return {"results": results}


def _is_repeat(a: Mapping[str, Any], item: Mapping[str, Any], partition: dict[str, Any]) -> bool:
    """Whether this call was done before; refuses a caller that does not lead, or has another partition epoch."""
    if partition["partition_epoch"] == item["partition_epoch"] + 1 and partition["nonce"] == item["nonce"] != "":
        return True
    if partition["leader"] != a["node_id"] or partition["leader_epoch"] != item["leader_epoch"]:
        raise RefusedCall("FENCED_LEADER_EPOCH")
    if partition["partition_epoch"] != item["partition_epoch"]:
        raise RefusedCall("INVALID_UPDATE_VERSION")
    return False


def _alter_isr(state: StoreState, a: Mapping[str, Any], item: dict[str, Any], partition: dict[str, Any]) -> None:
    isr = parse_isr(item["isr"])
    replicas = parse_nodes(partition["replicas"])
    if not has_node(isr, a["node_id"]):
        raise RefusedCall("INELIGIBLE_REPLICA", message="the leader is not in the new ISR")
    if len({member.node_id for member in isr}) != len(isr):
        raise RefusedCall("INELIGIBLE_REPLICA", message="a replica is in the new ISR twice")
    inside = parse_isr(partition["isr"])
    for member in isr:
        # a stopping broker may stay in the ISR until it is gone, but not join it (KIP-841)
        states = ("ACTIVE", "STOPPING") if member in inside else ("ACTIVE",)
        if member.node_id not in replicas or not is_current(state, member, *states):
            raise RefusedCall("INELIGIBLE_REPLICA", message=f"replica {member.node_id}@{member.broker_epoch}")
    minimum = min(item["min_isr"], min_isr(state, item["topic_id"], partition["leader"], replicas))
    elr = next_elr(state, partition, isr, minimum)
    partition |= {"isr": format_isr(isr), "elr": elr, "nonce": item["nonce"]}
    partition["partition_epoch"] += 1
    complete(state, partition)


def leave_isr(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Remove a broker whose log directory failed, or (`lost`) whose log is gone and no longer counts.

    The last member of the ISR stays, unless an eligible follower that it names (`yields_to`) may lead in its place.
    """
    check_broker(state, a)
    return change_each(state, a, now_ms, partial(_leave, state, a["node_id"]))


def _leave(state: StoreState, node_id: int, item: Mapping[str, Any], partition: dict[str, Any]) -> ItemResult:
    isr, elr = parse_isr(partition["isr"]), parse_isr(partition["elr"])
    is_member = has_node(isr, node_id)
    if not is_member and not item["lost"]:
        return "OK", None
    if not is_member and not has_node(elr, node_id):
        _void_changes_under_way(partition)
        return "OK", change_of(item["topic_id"], partition)
    rest = _without(isr, node_id)
    if _is_last(state, node_id, (isr, elr), is_lost=item["lost"]):
        has_yielded = is_member and not item["lost"] and _yield_to(state, item, partition, elr)
        return ("OK", change_of(item["topic_id"], partition)) if has_yielded else ("LAST_MEMBER", None)
    eligible = partition["elr"]
    if is_member:
        eligible = next_elr(state, partition, rest, minimum_for_elr(state, item, partition))
    if item["lost"]:
        eligible = format_isr(_without(parse_isr(eligible), node_id))
    partition |= {"isr": format_isr(rest), "elr": eligible}
    _void_changes_under_way(partition)
    if partition["leader"] == node_id:
        partition["leader"] = -1
        partition["leader_epoch"] += 1
    return "OK", change_of(item["topic_id"], partition)


def _yield_to(
    state: StoreState, item: Mapping[str, Any], partition: dict[str, Any], elr: tuple[IsrMember, ...]
) -> bool:
    """Elect the eligible leader that the last member of the ISR names, whose log is offline; False if it may not lead.

    The last member becomes eligible itself: its log may be back after a restart. That another broker is ACTIVE does not
    say that its log is online, so the caller names one that fetches from it.
    """
    for successor in parse_isr(item.get("yields_to", "")):
        is_eligible = any(each.node_id == successor.node_id and has_all_data(state, each) for each in elr)
        if not is_eligible or not is_current(state, successor, "ACTIVE"):
            return False
        partition["leader"] = successor.node_id
        minimum = min_isr(state, item["topic_id"], successor.node_id, parse_nodes(partition["replicas"]))
        partition["elr"] = next_elr(state, partition, (successor,), minimum)
        partition["isr"] = format_isr((successor,))
        partition["leader_epoch"] += 1
        _void_changes_under_way(partition)
        return True
    return False


def _void_changes_under_way(partition: dict[str, Any]) -> None:
    """Raise the partition epoch: otherwise a leader could still add it to the ISR by offsets of the lost log."""
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
    may_elr_lead = any(has_all_data(state, each) for each in _without(elr, node_id))
    if not rest:
        return not (is_lost and may_elr_lead)
    mine = next(each for each in (*isr, *elr) if each.node_id == node_id)
    return has_all_data(state, mine) and not may_elr_lead and not any(has_all_data(state, each) for each in rest)


def _without(members: tuple[IsrMember, ...], node_id: int) -> tuple[IsrMember, ...]:
    return tuple(member for member in members if member.node_id != node_id)


def report_hw(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Store high watermarks, which never fall, and the replicas' log ends; reports of older epochs are ignored."""
    check_broker(state, a)
    for topic_id, number, leader_epoch, high_watermark, log_end_offsets in a["partitions"]:
        where = (topic_id, number)
        if topic_id not in state.topics:
            continue
        epoch, held = state.high_watermarks.get(where, (0, 0))
        if leader_epoch >= epoch and high_watermark >= held:
            state.high_watermarks[where] = (leader_epoch, high_watermark)
        if leader_epoch >= state.log_end_offsets.get(where, (0, {}))[0]:
            state.log_end_offsets[where] = (leader_epoch, dict(log_end_offsets))
    return {}
