"""Scripts of the metadata store: leaders, ISRs, high watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_isr, parse_nodes
from yak.metadata_store.checks import (
    Refused,
    Value,
    append_changes,
    change_of,
    check_broker,
    check_controller,
    check_size,
    has_node,
    is_current,
    kept_all,
    min_isr,
    next_elr,
)
from yak.metadata_store.reassignments import complete

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def elect(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Elect leaders, each by compare and set; `codes` has each result."""
    check_controller(state, a)
    check_size(a)
    codes, changes = [], []
    for item in a["partitions"]:
        partition = state.partitions.get((item["topic_id"], item["partition"]))
        if partition is None:
            codes.append("NO_TOPIC")
            continue
        code, unclean = _elect(state, item, partition)
        codes.append(code)
        if code == "OK":
            changes.append(change_of(item["topic_id"], partition, unclean=unclean))
    append_changes(state, changes, now_ms)
    return {"codes": codes}


def _elect(state: StoreState, item: dict[str, Any], partition: dict[str, Any]) -> tuple[str, bool]:
    """The item's code, and whether the election was unclean."""
    if partition["partition_epoch"] != item["partition_epoch"]:
        return "INVALID_UPDATE_VERSION", False
    leader = item["leader"]
    members = list(parse_isr(partition["isr"]))
    live = [member for member in members if is_current(state, member, "ACTIVE", "STOPPING")]
    isr, elr, unclean = members, partition["elr"], False
    if leader == -1:
        if has_node(live, partition["leader"]):
            return "INELIGIBLE_REPLICA", False
    else:
        broker = state.brokers.get(leader)
        replicas = parse_nodes(partition["replicas"])
        if broker is None or broker["state"] != "ACTIVE" or leader not in replicas:
            return "INELIGIBLE_REPLICA", False
        clean = _clean_candidates(state, partition)
        unclean = not live and not clean and bool(item["unclean"])
        if has_node(live, leader):
            isr = live
        elif unclean or (not live and leader in clean):
            isr = [IsrMember(leader, broker["broker_epoch"])]
        else:
            return "INELIGIBLE_REPLICA", False
        minimum = min_isr(state, item["topic_id"], leader, replicas)
        elr = "" if unclean else next_elr(state, partition, isr, minimum)
    partition |= {"leader": leader, "isr": format_isr(tuple(isr)), "elr": elr, "nonce": ""}
    partition["leader_epoch"] += 1
    partition["partition_epoch"] += 1
    return "OK", unclean


def _clean_candidates(state: StoreState, partition: dict[str, Any]) -> list[int]:
    """Former members that are ACTIVE and lost nothing: if no member is alive, any of them may lead."""
    return [
        member.node_id
        for member in [*parse_isr(partition["isr"]), *parse_isr(partition["elr"])]
        if kept_all(state, member) and state.brokers[member.node_id]["state"] == "ACTIVE"
    ]


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
        except Refused as refusal:
            more = {"code": refusal.code} | refusal.value
        results.append(change_of(item["topic_id"], partition) | more)
    append_changes(state, changes, now_ms)
    return {"results": results}


def _is_repeat(a: Mapping[str, Any], item: Mapping[str, Any], partition: dict[str, Any]) -> bool:
    """Whether this call was done before; refuses a caller that does not lead, or has another partition epoch."""
    if partition["partition_epoch"] == item["partition_epoch"] + 1 and partition["nonce"] == item["nonce"] != "":
        return True
    if partition["leader"] != a["node_id"] or partition["leader_epoch"] != item["leader_epoch"]:
        raise Refused("FENCED_LEADER_EPOCH")
    if partition["partition_epoch"] != item["partition_epoch"]:
        raise Refused("INVALID_UPDATE_VERSION")
    return False


def _alter_isr(state: StoreState, a: Mapping[str, Any], item: dict[str, Any], partition: dict[str, Any]) -> None:
    isr = parse_isr(item["isr"])
    replicas = parse_nodes(partition["replicas"])
    if not has_node(isr, a["node_id"]):
        raise Refused("INELIGIBLE_REPLICA", message="the leader is not in the new ISR")
    if len({member.node_id for member in isr}) != len(isr):
        raise Refused("INELIGIBLE_REPLICA", message="a replica is in the new ISR twice")
    inside = parse_isr(partition["isr"])
    for member in isr:
        # a stopping broker may stay in the ISR until it is gone, but not join it (KIP-841)
        states = ("ACTIVE", "STOPPING") if member in inside else ("ACTIVE",)
        if member.node_id not in replicas or not is_current(state, member, *states):
            raise Refused("INELIGIBLE_REPLICA", message=f"replica {member.node_id}@{member.broker_epoch}")
    minimum = min(item["min_isr"], min_isr(state, item["topic_id"], partition["leader"], replicas))
    elr = next_elr(state, partition, isr, minimum)
    partition |= {"isr": format_isr(isr), "elr": elr, "nonce": item["nonce"]}
    partition["partition_epoch"] += 1
    complete(state, partition)


def barrier(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Raise the partition epoch, so that an older pending change must fail."""
    check_broker(state, a)
    partition = state.partitions.get((a["topic_id"], a["partition"]))
    if partition is None:
        raise Refused("NO_TOPIC")
    try:
        repeated = _is_repeat(a, a, partition)
    except Refused as refusal:
        raise Refused(refusal.code, **change_of(a["topic_id"], partition)) from None
    if not repeated:
        partition["partition_epoch"] += 1
        partition["nonce"] = a["nonce"]
        append_changes(state, [change_of(a["topic_id"], partition)], now_ms)
    return change_of(a["topic_id"], partition)


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
