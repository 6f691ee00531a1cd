"""Scripts of the metadata store: leaders and high watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_isr, parse_nodes
from yak.metadata_store.checks import (
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
